package launch

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

func kernelOf(s landlock.Support) Kernel {
	k := Kernel{LandlockABI: s.ABI, Errata: s.Errata, Why: s.Reason()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		k.Release = unix.ByteSliceToString(u.Release[:])
	}
	return k
}

// signalName is the name of a signal such as "SIGKILL".
func signalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return "signal " + strconv.Itoa(int(s))
}

// errnoName is the name of an errno such as "ENOENT".
func errnoName(e syscall.Errno) string {
	if n := unix.ErrnoName(e); n != "" {
		return n
	}
	return "errno " + strconv.Itoa(int(e))
}

// pathOf finds the path that an error is about.
func pathOf(err error) policy.Path {
	var (
		path   *fs.PathError
		inside *InsideError
		rule   *landlock.RuleError
		pol    *policy.Error
	)
	switch {
	case errors.As(err, &inside):
		return policy.Path(inside.Path)
	case errors.As(err, &rule):
		return policy.Path(rule.Grant.Path)
	case errors.As(err, &pol) && pol.Err != nil && strings.HasPrefix(pol.Value, "/"): // it may be anything
		return policy.Path(pol.Value)
	case errors.As(err, &path):
		return policy.Path(path.Path)
	}
	return ""
}
