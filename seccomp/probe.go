package seccomp

import (
	"errors"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Probe reports whether the kernel lets this process, once it has set
// no_new_privs, install a filter: nil, or a [*SupportError]. It asks by one
// system call, for a filter at no address, which changes nothing. Nothing is
// remembered, since a filter that is installed later can take the call away.
func Probe() error {
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	if e == syscall.EFAULT {
		return nil
	}
	return &SupportError{e}
}

// SupportError says that no filter can be installed.
type SupportError struct {
	Errno syscall.Errno // of seccomp(2); 0 if it succeeded where it can't
}

// Error gives the reason.
func (e *SupportError) Error() string { return "seccomp: " + e.Reason() }

// Unwrap returns the errno; nil if there is none.
func (e *SupportError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Reason says in words why there are no filters.
func (e *SupportError) Reason() string {
	switch e.Errno {
	case syscall.ENOSYS:
		return "this kernel has no seccomp(2): it is older than Linux 3.17, was built without it, or is an emulation"
	case syscall.EINVAL:
		return "this kernel was built without seccomp filters"
	case syscall.EPERM, syscall.EACCES:
		return "installing a seccomp filter is blocked by a seccomp filter, as container runtimes install one"
	case 0:
		return "the answer to seccomp(2) makes no sense: it is an emulation"
	default:
		return "the kernel refused to say whether it has seccomp filters: " + e.Errno.Error()
	}
}

// Mend says what would help; empty when nothing is known to.
func (e *SupportError) Mend() string {
	switch e.Errno {
	case syscall.ENOSYS, syscall.EINVAL:
		return "use a kernel built with CONFIG_SECCOMP_FILTER=y"
	case syscall.EPERM, syscall.EACCES:
		return "allow seccomp(2) in the container's seccomp profile; newer container runtimes do by default"
	default:
		return ""
	}
}

// Features reports the promises that f alone holds: network, when NoNetwork is
// set. unsupported is what [Probe] returned; if it isn't nil the promise is
// [policy.Absent], for its reason. The other fields hold no promise by
// themselves; see [Filter.Covers] for what they add to those of Landlock.
func (f Filter) Features(unsupported error) []policy.Feature {
	if !f.NoNetwork {
		return nil
	}
	n := policy.Feature{Promise: policy.PromiseNetwork, State: policy.Enforced, By: Name}
	if unsupported != nil {
		n = policy.Feature{Promise: policy.PromiseNetwork, State: policy.Absent, Why: unsupported.Error(), Mend: "a network namespace"}
		var e *SupportError
		if errors.As(unsupported, &e) {
			n.Why = e.Reason()
			if m := e.Mend(); m != "" {
				n.Mend = m
			}
		}
	}
	return []policy.Feature{n}
}
