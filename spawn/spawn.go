// Package spawn starts a program in a child that confines itself between
// clone and exec, or confines and replaces the calling process.
//
// A [Plan] lists what is to be done, in terms of the kernel: descriptors, a
// session, resource limits, capabilities, a Landlock ruleset, seccomp filters.
// One routine carries it out, by raw system calls only, either in a child that
// shares the parent's memory until it execs ([Start]), or in the calling
// thread ([Exec]). With Start no thread of the calling process ever enters the
// child's Landlock domain, gives up a capability or sets no_new_privs: a
// confined child can't reach its host through a thread that it shares a domain
// with.
//
// The package knows nothing about policies; it does what the plan says, in a
// fixed order, and reports the first step that failed.
//
// Limitations: Linux on amd64 and arm64 only. While the child is between clone
// and exec the thread that started it waits (as with [os.StartProcess]), and a
// stop of the world waits for it too; a plan should be quick to carry out.
package spawn

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Plan says how to start a program. Everything it names, descriptors above
// all, stays the caller's and must stay valid until Start or Exec returns; it
// isn't changed, and may be used again and by several goroutines at once.
type Plan struct {
	// Path is the file to execute. It isn't looked up in PATH.
	Path string
	// Argv holds the arguments, the name of the program first.
	Argv []string
	// Env holds NAME=VALUE entries.
	Env []string
	// Dir is the working directory. Zero is the caller's own.
	Dir string

	// Files are the descriptors that the program starts with: Files[i] is its
	// descriptor i, -1 leaves i closed. Descriptors 0 to 2 that aren't listed
	// are closed. All others are closed by the exec, except for Inherit.
	Files []int
	// Inherit are descriptors that the program gets under their own number,
	// which must be len(Files) or more.
	Inherit []int

	// NewSession makes the program the leader of a new session.
	NewSession bool
	// NewGroup makes the program the leader of a new process group. It can't
	// go with NewSession, which does that too.
	NewGroup bool
	// Group, if not zero, is a process group of the caller's session that the
	// program joins. It can't go with NewSession or NewGroup.
	Group int
	// Foreground puts the new group into the foreground of the terminal that
	// is the caller's descriptor Terminal. It needs NewGroup.
	Foreground bool
	// ControllingTerminal makes the program's descriptor Terminal (an index
	// into Files) the controlling terminal. It needs NewSession.
	ControllingTerminal bool
	// Terminal is what Foreground or ControllingTerminal needs.
	Terminal int

	// KeepIgnored are signals that stay ignored if the caller ignores them.
	// All others get their default disposition, and none is blocked.
	KeepIgnored []syscall.Signal
	// Ignore are signals that the program starts with ignored.
	Ignore []syscall.Signal
	// Umask is the file mode creation mask; nil is the caller's.
	Umask *int
	// Rlimits are set in order. The soft limit on open files, which Go raises
	// for itself, is put back first.
	Rlimits []Rlimit
	// Nice is added to the niceness. The kernel keeps it between -20 and 19.
	Nice int
	// OOMScoreAdj, if not nil, is written to /proc/self/oom_score_adj.
	OOMScoreAdj *int
	// CgroupFD, if not zero, is an open folder of a version 2 control group
	// in which the child is made (Linux 5.7). Exec can't do that and refuses.
	CgroupFD int
	// JoinFDs are open files, each the cgroup.procs (or tasks) of a group that
	// the child puts itself into.
	JoinFDs []int

	// Namespaces are CLONE_NEW* flags of the namespaces that the child is made
	// in. In a new user namespace it has the caller's user and group, and no
	// other is mapped; it then has every capability there, unless Caps says
	// otherwise. Exec can't do that and refuses.
	Namespaces uintptr
	// Mounts are made in order. They need a mount namespace of its own, in
	// which nothing of what is mounted reaches the caller's, while what is
	// mounted there later does appear.
	Mounts []Mount

	// Caps, if not nil, is the set of capabilities to keep, a bit for each. It
	// must be a part of what the caller has. Inheritable and ambient sets are
	// cleared, and without NoNewPrivs the bounding set is reduced if the caller
	// may do that.
	Caps *uint64
	// NoNewPrivs sets no_new_privs, without which an unprivileged program can
	// use neither Landlock nor seccomp.
	NoNewPrivs bool
	// RulesetFD, if not zero, is a Landlock ruleset to enforce (Linux 5.13).
	RulesetFD int
	// Rules are added to RulesetFD when the mounts are made. The ruleset keeps
	// them, so it must be for this start alone.
	Rules []Rule
	// RestrictFlags are passed to landlock_restrict_self(2).
	RestrictFlags uint32
	// Filters are seccomp programs, installed in order, after everything else.
	Filters [][]unix.SockFilter
	// Witness, if not nil, is a seccomp program with a listener, installed
	// last: Process.Listener is where the calls come that it shows (Linux 5.0).
	// Where a filter of the caller's has one already the kernel says EBUSY.
	// Exec can't do that and refuses.
	Witness []unix.SockFilter

	// Guard, if not nil, puts a process between the caller and the program. Exec
	// can't do that and refuses.
	Guard *Guard
}

// Rlimit is a resource limit, in the units of setrlimit(2).
type Rlimit struct {
	Resource  int
	Cur, Max  uint64
	Unlimited bool // ignores Cur and Max
}

// Rule gives Landlock rights, LANDLOCK_ACCESS_FS_*, on a path.
type Rule struct {
	Path   string
	Rights uint64
}

// Process is a program that was started.
type Process struct {
	// Pid is its process id. It stays taken until the caller waits for it.
	Pid int
	// PidFD refers to the process. It is closed on exec; the caller closes it.
	// It is -1 where the kernel has none (before Linux 5.3).
	PidFD int
	// Listener is that of Plan.Witness, -1 without one. It is closed on exec;
	// the caller closes it.
	Listener int
	// Guarded is the program, where there is a guard: Pid is that one then, and
	// PidFD is -1.
	Guarded *Guarded
}

// Stage is a step of a plan.
type Stage uint8

// The stages, in the order in which they are carried out.
const (
	StagePlan Stage = iota + 1 // the plan itself is not usable
	StageClone
	// StageGuard: the guard was killed while it started the program. ECANCELED says
	// that the program wasn't executed; EPIPE, that it may have been, and is dead.
	StageGuard
	StageIDMap
	StageJoin
	StageSession
	StageForeground
	StageSignals
	StageNice
	StageOOMScoreAdj
	StageCgroup
	StageMount
	StageDir
	StageFiles
	StageTerminal
	StageRlimit
	StageCaps
	StageNoNewPrivs
	StageRule
	StageLandlock
	StageSeccomp
	StageWitness
	StageExec
)

var stageNames = [...]string{
	StagePlan:        "plan",
	StageClone:       "clone",
	StageGuard:       "guard",
	StageIDMap:       "user namespace",
	StageJoin:        "another's namespace",
	StageSession:     "session",
	StageForeground:  "foreground",
	StageSignals:     "signals",
	StageNice:        "niceness",
	StageOOMScoreAdj: "oom_score_adj",
	StageCgroup:      "cgroup",
	StageMount:       "mount",
	StageDir:         "chdir",
	StageFiles:       "descriptors",
	StageTerminal:    "controlling terminal",
	StageRlimit:      "rlimit",
	StageCaps:        "capabilities",
	StageNoNewPrivs:  "no_new_privs",
	StageRule:        "landlock rule",
	StageLandlock:    "landlock",
	StageSeccomp:     "seccomp",
	StageWitness:     "seccomp listener",
	StageExec:        "exec",
}

func (s Stage) String() string {
	if int(s) < len(stageNames) && stageNames[s] != "" {
		return stageNames[s]
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

// Error is the first step that failed. It matches its Errno with [errors.Is].
type Error struct {
	Stage Stage
	// Index tells which one, where the plan lists several: an index into
	// Files, Rlimits, JoinFDs, Mounts, Rules or Filters.
	Index int
	Errno syscall.Errno
	// Name is what the step was about: a path, or empty.
	Name string
}

func (e *Error) Error() string {
	if e.Name == "" {
		return e.Stage.String() + ": " + e.Errno.Error()
	}
	return e.Stage.String() + " " + e.Name + ": " + e.Errno.Error()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Start starts a program as the plan says and returns once it has been
// executed. The caller must wait for the process (with wait4, or with
// [os.FindProcess] and Wait) and close PidFD.
//
// Any failure up to and including the exec is an [*Error]; then nothing runs
// (unless a guard was killed: see [StageGuard]) and nothing is left to wait for. If
// the child is killed before the exec,
// Start succeeds and waiting tells.
//
// It may be called by many goroutines at once.
func Start(p *Plan) (*Process, error) {
	prog, err := compile(p)
	if err != nil {
		return nil, err
	}
	return prog.start()
}

// Exec confines the calling thread as the plan says and replaces the process
// by the program. It returns only on failure, with an [*Error]. By then the
// thread, the signal dispositions and descriptors may have changed for good:
// the caller can say what happened and exit, and must not go on.
//
// The caller must hold [runtime.LockOSThread] since before it began to prepare
// the plan: confinement belongs to a thread.
func Exec(p *Plan) error {
	if p.CgroupFD != 0 || p.Namespaces != 0 || len(p.Mounts) > 0 || p.Witness != nil || p.Guard != nil {
		return &Error{Stage: StagePlan, Errno: syscall.EINVAL, Name: "namespaces"}
	}
	prog, err := compile(p)
	if err != nil {
		return err
	}
	return prog.exec()
}
