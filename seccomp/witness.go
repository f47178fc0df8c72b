package seccomp

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Witness is a program that refuses nothing and shows a [Listener] the calls
// that may change something by its path, before the kernel carries them out: to
// open for writing, to make, remove, rename, link and truncate, to bind a
// socket. The caller waits until the listener lets it go on. Calls of interfaces
// that aren't known pass unseen.
//
// Opening is shown where its flags say that it may write or make something, and
// openat2(2), whose flags lie in memory, always. Reading costs nothing.
// io_uring_setup(2) is shown, since what is done through a ring isn't.
type Witness struct {
	// Metadata shows also what changes mode, owner, times and extended
	// attributes.
	Metadata bool
	// Connect shows connect(2) of every socket: which is meant lies in memory.
	Connect bool
}

// shown is what rules of a witness end in. It is no error of the kernel's.
const shown = syscall.Errno(1 << 12)

// writeBits are the flags of open(2) by which something may be written or made.
// The bit of O_TMPFILE is taken without O_DIRECTORY's, which is in it.
const writeBits = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY

// rules returns what is shown. They are made when they are asked for: most runs
// have no witness.
func (w Witness) rules() [][]rule {
	all := [][]rule{shownRules([]rule{
		{callOpen, shown, []condition{{arg: 1, mask: writeBits, not: true}}},
		{callOpenat, shown, []condition{{arg: 2, mask: writeBits, not: true}}},
	}, callOpenat2, callCreat, callTruncate, callTruncate64, callMkdir, callMkdirat, callMknod, callMknodat,
		callUnlink, callUnlinkat, callRmdir, callRename, callRenameat, callRenameat2, callLink, callLinkat,
		callSymlink, callSymlinkat, callBind, callIOUringSetup)}
	if w.Metadata {
		all = append(all, shownRules(nil, callChmod, callFchmod, callFchmodat, callFchmodat2,
			callChown, callChown32, callLchown, callLchown32, callFchown, callFchown32, callFchownat,
			callUtime, callUtimes, callFutimesat, callUtimensat, callUtimensatTime64,
			callSetxattr, callLsetxattr, callFsetxattr, callSetxattrat,
			callRemovexattr, callLremovexattr, callFremovexattr, callRemovexattrat, callFileSetattr))
	}
	if w.Connect {
		all = append(all, shownRules(nil, callConnect))
	}
	return all
}

// shownRules adds rules that show whole calls.
func shownRules(rules []rule, calls ...call) []rule {
	for _, c := range calls {
		rules = append(rules, rule{call: c, errno: shown})
	}
	return rules
}

// Compile returns the program for this machine, to be installed with
// SECCOMP_FILTER_FLAG_NEW_LISTENER. What another filter refuses isn't shown.
//
// On an architecture other than amd64 and arm64 it fails with an [*ArchError].
func (w Witness) Compile() ([]unix.SockFilter, error) {
	m, ok := machineFor(runtime.GOARCH)
	if !ok {
		return nil, &ArchError{runtime.GOARCH}
	}
	return compile(m, w.rules(), false)
}

// ProbeWitness reports whether calls can be shown to a witness that lets them
// go on: nil, or a [*SupportError]. It takes Linux 5.7; 5.5 and 5.6 can't be
// asked, and are taken to be older. Whether there is a witness already, which
// forbids another one, only the start tells.
func ProbeWitness() error {
	// The second flag is of 5.7, and does nothing here.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	if e == syscall.EFAULT {
		return nil
	}
	return &SupportError{e}
}
