package seccomp

import (
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// listener listens on a port of the loopback, in the test's process, and
// returns the port.
func listener(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c) // until the other side is gone
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func needPorts(t *testing.T) {
	t.Helper()
	if s := landlock.Probe(); s.ABI < 4 {
		testenv.Skip(t, "needs Landlock ABI 4 for TCP ports, this kernel has %d %s", s.ABI, s.Reason())
	}
}

// TestPlainTCP holds the filter together with Landlock's rights: what Landlock
// doesn't see fails, and what it lets pass goes on.
func TestPlainTCP(t *testing.T) {
	needPorts(t)
	open, shut := listener(t), listener(t)
	s := setup{
		Filter: ForNetwork(policy.Network{ConnectTCP: []uint16{1}}),
		Ports:  policy.Network{ConnectTCP: []uint16{uint16(number(open))}, BindTCP: []uint16{}},
	}
	denied := []syscall.Errno{syscall.EACCES}
	const fast = unix.MSG_FASTOPEN
	high := func(n int) string { return fmt.Sprintf("0x%x", 1<<32|n) }
	expect(t, s, []expectation{
		{do("connect", unix.AF_INET, 0, open), ok, 0},
		{do("connect", unix.AF_INET, 0, shut), denied, syscall.EACCES},
		{do("connect", unix.AF_INET, unix.IPPROTO_TCP, open), ok, 0},

		{do("connect", unix.AF_INET, unix.IPPROTO_MPTCP, shut), nil, syscall.EPROTONOSUPPORT},
		{do("socket", unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_MPTCP), nil, syscall.EPROTONOSUPPORT},
		{do("socket", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), nil, syscall.EPROTONOSUPPORT},
		{do("raw", unix.SYS_SOCKET, high(unix.AF_INET6), unix.SOCK_STREAM, high(unix.IPPROTO_MPTCP)), nil, syscall.EPROTONOSUPPORT},
		{do("socket", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SMC), nil, syscall.EPROTONOSUPPORT},
		{do("socket", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SMC), nil, syscall.EPROTONOSUPPORT},
		{do("socket", unix.AF_SMC, unix.SOCK_STREAM, 0), nil, syscall.EAFNOSUPPORT},
		{do("socket", unix.AF_SMC, unix.SOCK_STREAM, 1), nil, syscall.EAFNOSUPPORT},
		{do("raw", unix.SYS_SOCKET, high(unix.AF_SMC), unix.SOCK_STREAM, 0), nil, syscall.EAFNOSUPPORT},
		{do("ulp", "smc"), nil, syscall.ENOENT},
		{do("ulp", "tls"), nil, syscall.ENOENT},
		{do("io-uring"), ok, syscall.ENOSYS},

		{do("send", "sendto", fast, 0, shut), nil, syscall.EOPNOTSUPP},
		{do("send", "sendmsg", fast, 0, shut), nil, syscall.EOPNOTSUPP},
		{do("send", "sendmmsg", fast, 0, shut), nil, syscall.EOPNOTSUPP},
		{do("send", "sendto", high(fast|unix.MSG_NOSIGNAL), 0, shut), nil, syscall.EOPNOTSUPP},
		{do("send", "sendmsg", high(fast|unix.MSG_NOSIGNAL), 0, shut), nil, syscall.EOPNOTSUPP},
		{do("send", "sendmmsg", high(fast|unix.MSG_NOSIGNAL), 0, shut), nil, syscall.EOPNOTSUPP},
		// Flags in the message count for nothing, so nobody needs to see them.
		{do("send", "sendmsg", unix.MSG_NOSIGNAL, fast, shut), []syscall.Errno{syscall.EPIPE}, syscall.EPIPE},
		{do("send", "sendmmsg", unix.MSG_NOSIGNAL, fast, shut), []syscall.Errno{syscall.EPIPE}, syscall.EPIPE},
		{do("send", "sendto", unix.MSG_NOSIGNAL, 0, open), []syscall.Errno{syscall.EPIPE}, syscall.EPIPE},
		// Landlock sees the connect(2) that a deferred one begins with.
		{do("connect-deferred", open), ok, 0},
		{do("connect-deferred", shut), denied, syscall.EACCES},

		{do("nodelay"), ok, 0},
		{do("socket", unix.AF_INET, unix.SOCK_DGRAM, 0), ok, 0},
		{do("socket", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), ok, 0},
		{do("socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), ok, 0},
		{do("unix-echo", "/tmp"), nil, 0},
		{do("listen-bound"), denied, syscall.EACCES},
		{do("go-listen"), nil, syscall.EACCES}, // without a filter it gets past Landlock: Go listens by MPTCP
		// The gap that stays.
		{do("listen-unbound"), ok, 0},
	})
}

// TestGoListens: Go asks for MPTCP first, and takes TCP then.
func TestGoListens(t *testing.T) {
	expect(t, setup{Filter: Filter{PlainTCP: true}}, []expectation{{do("go-listen"), ok, 0}})
	expect(t, setup{Filter: Filter{NoNetwork: true}}, []expectation{{do("go-listen"), ok, syscall.EAFNOSUPPORT}})
}

func TestNoListen(t *testing.T) {
	needPorts(t)
	s := setup{Filter: Filter{NoListen: true}, Ports: policy.Network{BindTCP: []uint16{}}}
	expect(t, s, []expectation{
		{do("listen-unbound"), ok, syscall.EACCES},
		{do("unix-echo", "/tmp"), ok, syscall.EACCES},
		{do("io-uring"), ok, syscall.ENOSYS},
		{do("socketpair", unix.AF_UNIX, unix.SOCK_STREAM, 0), ok, 0},
	})
}

// TestGaps holds the names of gaps against those of package landlock.
func TestGaps(t *testing.T) {
	for field, gaps := range map[Filter][]landlock.Gap{
		{NoTerminalInjection: true, NoTruncate: true}: nil,
		{NoNetwork: true}:        {landlock.GapMPTCP, landlock.GapSMC, landlock.GapFastOpen, landlock.GapListen},
		{PlainTCP: true}:         {landlock.GapMPTCP, landlock.GapSMC, landlock.GapFastOpen},
		{NoListen: true}:         {landlock.GapListen},
		{NoNewFilesystems: true}: {landlock.GapOverlay},
		{NoSubvolumes: true}:     {landlock.GapBtrfs},
		{NoForeignLimits: true}:  {landlock.GapPrlimit},
	} {
		for _, g := range []landlock.Gap{
			landlock.GapMPTCP, landlock.GapSMC, landlock.GapFastOpen, landlock.GapListen, landlock.GapOverlay, landlock.GapBtrfs, landlock.GapPrlimit, "another",
		} {
			if got, want := field.Covers(string(g)), slices.Contains(gaps, g); got != want {
				t.Errorf("(%v).Covers(%q) = %v; want %v", field, g, got, want)
			}
			if field.NoNetwork {
				continue
			}
			if got, want := ForGaps(string(g)) == field, slices.Contains(gaps, g); got != want {
				t.Errorf("ForGaps(%q) = %v; want it to be %v: %v", g, ForGaps(string(g)), field, want)
			}
		}
	}
	if got, want := ForGaps("listen", "overlay", "another"), (Filter{NoListen: true, NoNewFilesystems: true}); got != want {
		t.Errorf("ForGaps() = %v; want %v", got, want)
	}
}

// TestGapsAreReal tries the ways past Landlock that a filter shuts, without
// one: what succeeds must be in Landlock's list of gaps, and what is in it must
// succeed unless the kernel has MPTCP or fast open off.
func TestGapsAreReal(t *testing.T) {
	needPorts(t)
	shut := listener(t)
	ports := policy.Network{ConnectTCP: []uint16{}, BindTCP: []uint16{}}
	gaps := landlock.Gaps(landlock.Probe(), ports)
	// EACCES: some kernels have fast open closed, and nothing tells which.
	off := []syscall.Errno{syscall.EPROTONOSUPPORT, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP, syscall.EACCES}
	for gap, o := range map[landlock.Gap]op{
		landlock.GapMPTCP:    do("connect", unix.AF_INET, unix.IPPROTO_MPTCP, shut),
		landlock.GapFastOpen: do("send", "sendto", unix.MSG_FASTOPEN, 0, shut),
		landlock.GapListen:   do("listen-unbound"),
	} {
		got := runOps(t, testenv.Ordinary(), setup{Ports: ports}, []op{o})[0]
		switch listed := slices.Contains(gaps, gap); {
		case !listed && got == 0:
			t.Errorf("%v past Landlock succeeded, and gap %q is not listed", o, gap)
		case listed && got != 0 && !slices.Contains(off, got):
			t.Errorf("%v past Landlock = %v; want 0 for the listed gap %q", o, got, gap)
		}
	}
}
