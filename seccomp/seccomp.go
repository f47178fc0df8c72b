// Package seccomp compiles small system call filters: for what a command must
// not do and no file right or port right covers.
//
// A [Filter] says what is refused. [Filter.Compile] turns it into programs for
// seccomp(2), which a child installs between clone and exec; it is pure, and
// nothing here is ever installed in the calling process. [Probe] asks the
// kernel whether filters can be installed at all.
//
// Programs are assembled by golang.org/x/net/bpf. Of the libraries without cgo
// it is the one that can say what is needed here: a test of the low half of an
// argument, an errno for each rule, and rules of their own for 32-bit programs.
//
// A filter lists what is refused and lets everything else pass, so it costs
// next to nothing: from Linux 5.11 on the kernel remembers which calls pass
// whatever their arguments, and runs the program only for the few that are
// named in a rule. It can't be undone, is inherited by every descendant, and
// holds against a debugger inside too: the kernel looks at what a tracer has
// made of a call.
//
// Before Linux 5.16, installing a filter without
// SECCOMP_FILTER_FLAG_SPEC_ALLOW also slows a program down by mitigations for
// speculation that a filter of this kind has no use for.
//
// # Other doors
//
// A program has a door for each system call interface of the machine. 64-bit
// and 32-bit programs (i386 on amd64, arm on arm64) get the same rules by their
// own numbers. Arguments are compared in the width in which the kernel takes
// them, the low 32 bits. x32 calls fail with ENOSYS, as they do on a kernel
// without x32. So do calls of an architecture that isn't known here.
//
// On i386 most C libraries make sockets by socketcall(2), whose arguments lie
// in memory, where no filter can look. Wherever a rule is about sockets, all of
// socketcall(2) fails with ENOSYS: 32-bit programs that know nothing else have
// no sockets then, not even local ones. The same goes for io_uring, which
// carries out calls that a filter never sees: wherever a rule is about sockets
// or truncation, io_uring_setup(2) fails with ENOSYS, and programs fall back.
//
// # Limitations
//
// A filter sees numbers, not what pointers point to: neither paths nor
// addresses. Descriptors that are open already are not affected: a socket that
// is standard input, or that somebody outside passes on through a local socket,
// can be used; so can what pidfd_getfd(2) takes from a process that may be
// traced. Whoever starts a command has to shut its descriptors and to keep it
// from processes outside.
//
// Local (AF_UNIX) sockets work under every filter, since programs need them to
// speak to their own children. A service outside that listens on one, such as a
// name service, a proxy or a container engine, is another promise
// ([policy.PromisePathSockets], [policy.PromiseAbstractSockets]).
//
// [policy.PromisePathSockets]: https://pkg.go.dev/github.com/shofer-dev/shofer-sandbox/policy#PromisePathSockets
// [policy.PromiseAbstractSockets]: https://pkg.go.dev/github.com/shofer-dev/shofer-sandbox/policy#PromiseAbstractSockets
package seccomp

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Name is what [policy.Feature.By] says for promises that this package holds.
const Name = "seccomp"

// Filter says which system calls are refused. The zero value refuses none and
// compiles to no program. Fields can be combined at will.
type Filter struct {
	// NoNetwork refuses sockets of every address family but AF_UNIX, netlink
	// and packet sockets too, with EAFNOSUPPORT: programs take it as they take
	// a kernel without IPv6 or without audit, and go on, where EPERM would end
	// some. The loopback is shut as well, and the list of network interfaces
	// can't be read (getifaddrs(3) fails).
	NoNetwork bool
	// NoTerminalInjection refuses the ioctls TIOCSTI, with EIO, and TIOCLINUX,
	// with EPERM, as kernels do that have them switched off: by these a command
	// could type into the terminal that it shares with its caller.
	NoTerminalInjection bool
	// NoTruncate refuses the ways to empty a file that Landlock doesn't see
	// below ABI 3: truncate(2), and open(2) with O_TRUNC that doesn't open for
	// writing, with EACCES; and openat2(2), with ENOSYS. They are refused
	// inside the grants too. Opening for writing with O_TRUNC and ftruncate(2)
	// pass: they need a descriptor open for writing, which Landlock holds back.
	NoTruncate bool
	// PlainTCP refuses the sockets and flags that speak TCP unseen by
	// Landlock's rights for TCP ports: IPPROTO_MPTCP (EPROTONOSUPPORT, upon
	// which Go, whose listeners ask for it, falls back to TCP), AF_SMC
	// (EAFNOSUPPORT), IPPROTO_SMC (EPROTONOSUPPORT), the upper layers of TCP
	// (ENOENT, which takes kernel TLS along), and sending with MSG_FASTOPEN
	// (EOPNOTSUPP).
	PlainTCP bool
	// NoListen refuses listen(2) on every socket, local ones too, with EACCES.
	// It is for who may bind no port: listen(2) on a TCP socket that isn't
	// bound binds it, and a filter can't tell which socket is meant.
	NoListen bool

	// NoNewFilesystems refuses fsopen(2), fspick(2) and fsconfig(2), with
	// EPERM, as Landlock refuses the mount that would follow: making an overlay
	// removes what is in its working directory before anything is mounted.
	NoNewFilesystems bool
	// NoSubvolumes refuses, with EACCES, the ioctls that make and delete
	// subvolumes and snapshots of btrfs, and delete those of bcachefs, which
	// Landlock's rights for folders don't see. They are refused inside the
	// grants too.
	NoSubvolumes bool
	// NoForeignLimits refuses prlimit(2) that sets a limit of any process but
	// the caller, for which the process is 0, with EPERM: a limit on its cpu
	// time kills a process that no signal may reach. Limits can be read.
	NoForeignLimits bool
	// NoForeignGroups refuses clone3(2), with ENOSYS, upon which programs make
	// do with clone(2): by flags that lie in memory a child could begin in any
	// control group that its user may write to, and so outside its limits. A
	// descriptor that is open for reading is enough for that.
	NoForeignGroups bool
}

// ForNetwork returns the part of a filter that n needs: NoNetwork for a mode of
// none, PlainTCP beside lists of TCP ports (which Landlock holds), else none.
// It never sets NoListen.
func ForNetwork(n policy.Network) Filter {
	if n.Mode == policy.NetworkNone {
		return Filter{NoNetwork: true}
	}
	return Filter{PlainTCP: n.ConnectTCP != nil || n.BindTCP != nil}
}

// ForGaps returns the filter that shuts the given gaps, as far as one is known
// that does; see [Filter.Covers].
func ForGaps(gaps ...string) Filter {
	var f Filter
	for _, g := range gaps {
		switch g {
		case gapMPTCP, gapSMC, gapFastOpen:
			f.PlainTCP = true
		case gapListen:
			f.NoListen = true
		case gapOverlay:
			f.NoNewFilesystems = true
		case gapBtrfs:
			f.NoSubvolumes = true
		case gapPrlimit:
			f.NoForeignLimits = true
		}
	}
	return f
}

// With returns a filter that refuses what f or g refuses.
func (f Filter) With(g Filter) Filter {
	return Filter{
		NoNetwork:           f.NoNetwork || g.NoNetwork,
		NoTerminalInjection: f.NoTerminalInjection || g.NoTerminalInjection,
		NoTruncate:          f.NoTruncate || g.NoTruncate,
		PlainTCP:            f.PlainTCP || g.PlainTCP,
		NoListen:            f.NoListen || g.NoListen,
		NoNewFilesystems:    f.NoNewFilesystems || g.NoNewFilesystems,
		NoSubvolumes:        f.NoSubvolumes || g.NoSubvolumes,
		NoForeignLimits:     f.NoForeignLimits || g.NoForeignLimits,
		NoForeignGroups:     f.NoForeignGroups || g.NoForeignGroups,
	}
}

// String lists what f refuses, as "network, terminal-injection"; "nothing" for
// the zero value.
func (f Filter) String() string {
	var s []string
	for _, p := range [...]struct {
		on   bool
		name string
	}{
		{f.NoNetwork, "network"},
		{f.NoTerminalInjection, "terminal-injection"},
		{f.NoTruncate, "truncate"},
		{f.PlainTCP, "tcp-variants"},
		{f.NoListen, "listen"},
		{f.NoNewFilesystems, "new-filesystems"},
		{f.NoSubvolumes, "subvolumes"},
		{f.NoForeignLimits, "foreign-limits"},
		{f.NoForeignGroups, "foreign-groups"},
	} {
		if p.on {
			s = append(s, p.name)
		}
	}
	if s == nil {
		return "nothing"
	}
	return strings.Join(s, ", ")
}

// The gaps that package landlock names.
const (
	gapMPTCP    = "mptcp"
	gapSMC      = "smc"
	gapFastOpen = "tcp-fast-open"
	gapListen   = "listen"
	gapOverlay  = "overlay"
	gapBtrfs    = "btrfs"
	gapPrlimit  = "prlimit"
)

// Covers reports whether f shuts a gap that package landlock names (its Gap, as
// a string). A gap that isn't known here isn't covered.
func (f Filter) Covers(gap string) bool {
	switch gap {
	case gapMPTCP, gapSMC, gapFastOpen:
		return f.PlainTCP || f.NoNetwork
	case gapListen:
		return f.NoListen || f.NoNetwork
	case gapOverlay:
		return f.NoNewFilesystems
	case gapBtrfs:
		return f.NoSubvolumes
	case gapPrlimit:
		return f.NoForeignLimits
	}
	return false
}
