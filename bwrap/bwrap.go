// Package bwrap turns a resolved policy into the arguments of bubblewrap, for
// machines where Landlock is missing or too old.
//
// [Find] looks for a bwrap that can be trusted, [Probe] also runs it and says
// what works. [Look] finds out what the paths of a policy are on this machine;
// from there on everything is pure: [Layout.Args] gives the options, in an order
// in which no mount hides a grant that lies beneath it. [StatusReader] reads
// what bwrap says about itself, [Features] reports which promises hold.
//
// # How it is run
//
// bwrap exits with 1 for everything, so it doesn't execute the command itself.
// It executes a program of ours by descriptor, which a hidden path can't take
// away ([Command]):
//
//	bwrap --args A -- /proc/self/fd/N …
//
// That program, the inner stage, is in the sandbox, and has its own work there:
//
//   - [Check] that the mounts show the files that were looked at;
//   - [Reopen] every descriptor that it hands on;
//   - confine itself further (Landlock where there is some, seccomp), execute
//     the command, and report its errno and its end.
//
// With [Options.Init] it is the first process in its pid namespace, and has to
// reap what is left to it; when it ends, everything ends. Without, that is a
// process of bwrap's own, which the command may trace and which is under no
// filter of ours.
//
// The inner stage ends when the starter has ended, or bwrap ([Options.Watched]): it
// holds one end of a socket of which only the starter has the other, which shuts it
// when bwrap has ended. The pipe that bwrap writes its status to is open for reading
// in bwrap, too: one that couldn't write would end between its clone(2) and the word
// that its child waits for, and the child then waits for ever, as it does where
// bwrap itself is killed there. Nothing runs in such a child. An inner stage that is
// stopped (by SIGSTOP, and only from outside) ends when it is continued.
//
// Without Watched the starter keeps the thread that started bwrap until bwrap has
// ended: the kernel takes the end of that thread for the death of the parent. And an
// inner stage that becomes the command by execve(2) does so on its first thread: on
// another one the kernel forgets that it is to end with bwrap.
//
// The starter starts bwrap with SIGCHLD at its default disposition,
// and with the signals of the terminal ignored, since bwrap itself would die of
// a Ctrl-C that its command may want to handle; the inner stage puts them back.
// It gives bwrap a pipe as standard error and hands the command's descriptors
// on under other numbers. And it bounds every wait for a bwrap that fails:
// version 0.8.0 can leave a child holding standard output.
//
// # What is different from other backends
//
// Everything outside the grants is on read-only mounts: changes fail with
// EROFS, and metadata can't be changed either. A read list leaves out what is
// not in it: ENOENT instead of EACCES. A bind mount is a border that rename(2)
// and link(2) don't cross (EXDEV): there is one around each grant that lies in
// no other.
//
// /dev holds the usual devices, terminals of its own, and what is granted, so
// devices that aren't granted can't even be read. The controlling terminal is
// /dev/tty, and /dev/console where [Options.Terminal] names it.
//
// /proc is always there, since the inner stage is executed through it, and
// read-only. In a pid namespace it shows the sandbox's own processes only.
//
// What the command leaves running ends with it.
//
// # Limitations
//
// A file system that is mounted outside after the start, in a place that is
// read-only in the sandbox, appears there with the write access that it has
// outside, where mounts are shared, as they are under systemd. So does one that
// is mounted because the command looks there (autofs). bwrap can't stop that. A
// starter can, by entering the sandbox's mount namespace before the inner stage
// starts the command, and making the mounts private; or the inner stage can,
// by a user and mount namespace of its own whose mounts are
// ([Options.OpenProc]).
//
// Before 0.12.0 somebody outside who swaps a folder for a symbolic link while
// bwrap starts can lead it to make an empty file or folder elsewhere
// (GHSA-pxhw-h44j-8pfx). Check finds out afterwards.
//
// The usual devices are granted, and so is their metadata: root can change the
// mode of the machine's /dev/null. (bwrap can make a mount read-only only so
// that devices in it don't work any more.) A starter that enters the sandbox can
// ([Layout.Devices]).
//
// A descriptor that was opened outside leads around the mounts: what is open
// for reading can be opened for writing through /proc/self/fd, and a folder can
// be written to. That is what Reopen is for.
//
// A mount point can't be protected that doesn't exist, and a mount over a file
// goes away when somebody outside renames another file over it.
//
// A network namespace doesn't shut AF_VSOCK, so [policy.PromiseNetwork] takes a
// seccomp filter besides.
//
// bwrap reads the list of all mounts for each mount that it makes: 300 grants
// in places of their own take it 0.3 seconds, 1,000 take 1.5, and it takes no
// more than 9,000 arguments ([TooManyError]). Grants within others cost
// nothing.
//
// bwrap 0.4.0 or newer. Before 0.5.0 a socket can't be hidden.
//
// [policy.PromiseNetwork]: https://pkg.go.dev/github.com/shofer-dev/shofer-sandbox/policy#PromiseNetwork
package bwrap

import "github.com/shofer-dev/shofer-sandbox/policy"

// Name is what [policy.Feature].By says for what this package holds.
const Name = "bwrap"

// Options are the facts about a run that aren't the policy's.
type Options struct {
	// Hide lists paths that look empty: a folder that has nothing in it, an
	// empty file. What is granted beneath one stays. A path that doesn't exist
	// is left alone, and is in [Layout.Skipped].
	Hide []string
	// PrivateTmp gives the command empty folders of its own in place of /tmp,
	// $TMPDIR and /dev/shm. What is granted beneath them stays.
	PrivateTmp bool
	// Init makes the inner stage the first process of the pid namespace. It
	// does nothing where there is none.
	Init bool
	// OpenProc leaves the files of processes in /proc writable, in a pid
	// namespace, so that the inner stage can map the ids of a user namespace
	// that it makes. It then makes /proc read-only itself.
	OpenProc bool
	// NewSession makes the inner stage the leader of a new session.
	NewSession bool
	// Watched says that the inner stage sees by itself that bwrap has ended, or who
	// started it, and ends. Otherwise bwrap is told to end the sandbox with the thread
	// that started it (--die-with-parent), which it does only once the inner stage
	// runs: where the thread ends before, the inner stage runs without bwrap, or a
	// child of bwrap's waits for ever.
	Watched bool
	// Dir is the folder that the inner stage starts in. Zero is "/".
	Dir string
	// Terminal is the device that is to be seen as /dev/console, so that
	// ttyname(3) finds the terminal of the command: its own name is a name
	// outside. Zero is none.
	Terminal string
}

// Layout is what a sandbox is to look like. [Look] makes it.
type Layout struct {
	// Entries are what differs from a read-only view of everything (or, with
	// ReadList, of nothing), in any order.
	Entries []Entry
	// Links are symbolic links that lead to entries. They are made where what
	// is around them isn't there.
	Links []Link
	// ReadList leaves out everything that no entry has.
	ReadList bool
	// Caps, if not nil, are the capabilities that the inner stage keeps. Nil
	// is for an ordinary user, who has none.
	Caps []string
	// KeepCaps keeps all capabilities, whatever Caps says.
	KeepCaps bool
	// NewUser, NewPid and NewNet ask for namespaces. An ordinary user's bwrap
	// makes the first by itself where it needs it.
	NewUser, NewPid, NewNet bool
	// Options are the caller's; Args doesn't look at Hide and PrivateTmp.
	Options Options
	// ModeOption says that bwrap knows --perms.
	ModeOption bool

	// Applied are the policy's grants that have an effect, Skipped those that
	// were left out, and paths that could not be hidden.
	Applied []policy.Grant
	Skipped []policy.Skip
}

// Entry is a path that is to be something else than what is around it.
type Entry struct {
	// Path is where it is in the sandbox: absolute, clean, without symbolic
	// links.
	Path string
	// Source is where it is outside. Zero is Path.
	Source string
	Kind   Kind
	// Dir says that it is a folder.
	Dir bool
	// Optional lets it be missing when bwrap looks.
	Optional bool
	// Mode is the mode of a Private folder, in octal, where bwrap can set it.
	// Zero is 1777.
	Mode string
	// Dev and Ino say which file it is, for [Check]. Zero isn't checked.
	Dev, Ino uint64
}

// Kind says what a path is to be.
type Kind uint8

// Of several entries for one path the last of these kinds counts. A device
// stays one if it is reopened.
const (
	// Shown can be read.
	Shown Kind = iota + 1
	// Private is an empty folder of the command's own.
	Private
	// Pinned can't be renamed or removed; otherwise it is like what is around.
	Pinned
	// Open can be written to.
	Open
	// Device can be written to, and devices in it work.
	Device
	// Reopened is Open even in what is frozen, if that is in something open.
	Reopened
	// Frozen can't be changed, although what is around it can.
	Frozen
	// Hidden looks empty.
	Hidden
)

// Link is a symbolic link.
type Link struct{ Path, Target string }
