package spawn_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// noCloseRange starts a program that lists its descriptors, with others open, one of
// them above what may be opened by now.
func noCloseRange() int {
	if err := unix.CloseRange(1000, 1000, unix.CLOSE_RANGE_CLOEXEC); err != unix.ENOSYS {
		fmt.Fprintln(os.Stderr, "close_range:", err)
		return 1
	}
	for fd := 20; fd <= 100; fd++ { // more than are listed at once
		if err := unix.Dup3(0, fd, 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := unix.Dup3(0, 900, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 500, Max: 1000}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return succeed(&spawn.Plan{
		Path: "/bin/ls", Argv: []string{"ls", "/proc/self/fd"}, Files: []int{0, 1, 2}, Inherit: []int{71},
	})
}

// Where descriptors can't be marked all at once no other one gets through, either.
func TestStartNoCloseRange(t *testing.T) {
	out, ws := run(t, &spawn.Plan{
		Path: "/proc/self/exe", Argv: []string{"spawn.test"}, Env: append(os.Environ(), "SPAWN_HELPER=no-close-range"), NoNewPrivs: true,
		Filters: [][]unix.SockFilter{{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLOSE_RANGE, Jt: 0, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}},
	})
	if want := "0\n1\n2\n3\n71\n"; ws != 0 || string(out) != want { // 3 is that of the list
		t.Errorf("status %v, descriptors\n%s\nwant\n%s", ws, out, want)
	}
}
