package landlock

import (
	"errors"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Support is what the running kernel says about Landlock. The zero value is a
// kernel without it.
type Support struct {
	// ABI is the version, 0 when Landlock can't be used.
	ABI int
	// Errata has bit n−1 set when the kernel has the fix for erratum n.
	Errata uint32
	// Err is the errno of the question, nil when ABI is not 0.
	Err error
}

// Probe asks the kernel by one system call, and by a second one for the errata.
// It never looks at securityfs, which says neither whether the calls work nor
// whether they are allowed here. Nothing is remembered: a seccomp filter that
// is installed later can take the calls away.
func Probe() Support {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return Support{Err: err}
	}
	s := Support{ABI: abi}
	// Kernels that can't be asked for errata say EINVAL.
	if errata, err := ll.LandlockGetErrata(); err == nil {
		s.Errata = uint32(errata)
	}
	return s
}

// Reason says in words why Landlock can't be used; empty when it can.
func (s Support) Reason() string {
	switch {
	case s.ABI > 0:
		return ""
	case s.Err == nil, errors.Is(s.Err, syscall.ENOSYS):
		return "this kernel has no Landlock: it is older than Linux 5.13, was built without it, or is gVisor"
	case errors.Is(s.Err, syscall.EOPNOTSUPP):
		return "this kernel has Landlock, but it was not switched on at boot"
	case errors.Is(s.Err, syscall.EPERM), errors.Is(s.Err, syscall.EACCES):
		return "Landlock is blocked by a seccomp filter, as container runtimes install one"
	default:
		return "the kernel refused to say what Landlock it has: " + s.Err.Error()
	}
}

// Mend says what would make Landlock usable; empty when it is.
func (s Support) Mend() string {
	switch {
	case s.ABI > 0:
		return ""
	case s.Err == nil, errors.Is(s.Err, syscall.ENOSYS):
		return "use Linux 6.2 or newer, built with CONFIG_SECURITY_LANDLOCK=y"
	case errors.Is(s.Err, syscall.EOPNOTSUPP):
		return "add landlock to the kernel's lsm= boot parameter (or to CONFIG_LSM)"
	case errors.Is(s.Err, syscall.EPERM), errors.Is(s.Err, syscall.EACCES):
		return "allow the three landlock_ system calls in the container's seccomp profile; newer container runtimes do by default"
	default:
		return ""
	}
}

// SupportError says that the kernel has no usable Landlock.
type SupportError struct {
	Support Support
}

// Error gives the reason.
func (e *SupportError) Error() string { return "landlock: " + e.Support.Reason() }

// Unwrap gives the errno; it may be nil.
func (e *SupportError) Unwrap() error { return e.Support.Err }
