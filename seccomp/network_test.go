package seccomp

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// expectation is an operation with how it ends with and without a filter.
type expectation struct {
	op      op
	without []syscall.Errno // any of these; nil means that it doesn't matter
	with    syscall.Errno
}

var ok = []syscall.Errno{0}

// expect carries the operations out as each user, without a filter and under s.
func expect(t *testing.T, s setup, es []expectation) {
	t.Helper()
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		expectAs(t, u, s, es)
	})
}

func expectAs(t *testing.T, u testenv.User, s setup, es []expectation) {
	t.Helper()
	ops := make([]op, len(es))
	for i := range es {
		ops[i] = es[i].op
	}
	plain := s
	plain.Filter = Filter{}
	without, with := runOps(t, u, plain, ops), runOps(t, u, s, ops)
	for i, e := range es {
		if e.without != nil && !slices.Contains(e.without, without[i]) {
			t.Errorf("%v without a filter: %v; want one of %v", e.op, without[i], e.without)
		}
		if with[i] != e.with {
			t.Errorf("%v under %v: %v; want %v", e.op, s.Filter, with[i], e.with)
		}
	}
}

func TestNoNetwork(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		es := []expectation{
			{do("socket", unix.AF_UNIX, unix.SOCK_STREAM, 0), ok, 0},
			{do("socketpair", unix.AF_UNIX, unix.SOCK_STREAM, 0), ok, 0},
			{do("socketpair", unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0), ok, 0},
			{do("unix-echo", u.Dir(t)), ok, 0},
			{do("io-uring"), ok, syscall.ENOSYS},
			{do("socket", unix.AF_INET, unix.SOCK_STREAM, 0), ok, syscall.EAFNOSUPPORT},
			{do("socket", unix.AF_INET6, unix.SOCK_DGRAM, 0), ok, syscall.EAFNOSUPPORT},
			{do("socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), ok, syscall.EAFNOSUPPORT},
			{do("socket", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), nil, syscall.EAFNOSUPPORT},
			// The kernel takes the low half, so that is what must be looked at.
			{do("raw", unix.SYS_SOCKET, fmt.Sprintf("0x%x", 1<<32|unix.AF_INET), unix.SOCK_STREAM, 0), ok, syscall.EAFNOSUPPORT},
			{do("raw", unix.SYS_SOCKET, fmt.Sprintf("0x%x", unix.AF_INET<<32|unix.AF_UNIX), unix.SOCK_STREAM, 0), ok, 0},
		}
		for family := range unix.AF_MAX + 10 {
			if family == unix.AF_UNIX {
				continue
			}
			es = append(es,
				expectation{do("socket", family, unix.SOCK_DGRAM, 0), nil, syscall.EAFNOSUPPORT},
				expectation{do("socketpair", family, unix.SOCK_DGRAM, 0), nil, syscall.EAFNOSUPPORT})
		}
		expectAs(t, u, setup{Filter: Filter{NoNetwork: true}}, es)
	})
}

func TestNoTerminalInjection(t *testing.T) {
	expect(t, setup{Filter: Filter{NoTerminalInjection: true}}, []expectation{
		{do("ioctl", unix.TIOCSTI, 'x'), []syscall.Errno{0, syscall.EIO}, syscall.EIO},
		{do("ioctl", fmt.Sprintf("0x%x", 1<<32|unix.TIOCSTI), 'x'), []syscall.Errno{0, syscall.EIO}, syscall.EIO},
		{do("ioctl", fmt.Sprintf("0x%x", uint64(0xffffffff)<<32|unix.TIOCSTI), 'x'), []syscall.Errno{0, syscall.EIO}, syscall.EIO},
		{do("ioctl", unix.TIOCLINUX, 0), nil, syscall.EPERM},
		{do("ioctl", fmt.Sprintf("0x%x", 1<<32|unix.TIOCLINUX), 0), nil, syscall.EPERM},
		{do("ioctl", unix.TIOCGWINSZ, 0), ok, 0},
		{do("ioctl", unix.TCGETS, 0), ok, 0},
		{do("ioctl", fmt.Sprintf("0x%x", unix.TIOCSTI<<32|unix.TCGETS), 0), ok, 0},
		{do("io-uring"), ok, 0},
		{do("socket", unix.AF_INET, unix.SOCK_STREAM, 0), ok, 0},
	})
}
