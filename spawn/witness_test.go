package spawn_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// showParent shows getppid(2) to a listener, which nothing calls before the exec, and
// lets all else pass.
var showParent = showing(unix.SYS_GETPPID)

func showing(nr uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
}

// The listener comes to the parent, and to nobody else: not to the program, and
// not twice to one chain of filters.
func TestWitness(t *testing.T) {
	before := descriptors(t)
	p := self()
	p.Path, p.Argv = "/bin/sh", []string{"sh", "-c", `exec ls /proc/self/fd`}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	// A low number that the listener's socket must make way for.
	p.Files = []int{pipe[0], pipe[1], 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}
	p.Witness, p.NoNewPrivs = showParent, true
	proc, err := spawn.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	if proc.Listener < 0 {
		t.Fatal("there is no listener")
	}
	if flags, err := unix.FcntlInt(uintptr(proc.Listener), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the listener's flags: %#x, %v; want it closed by an exec", flags, err)
	}
	// sh asks for its parent, and waits.
	poll := []unix.PollFd{{Fd: int32(proc.Listener), Events: unix.POLLIN}}
	for {
		if _, err = unix.Poll(poll, 10_000); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || poll[0].Revents&unix.POLLIN == 0 {
		t.Errorf("poll: %#x, %v; want a call", poll[0].Revents, err)
	}
	_ = unix.Close(proc.Listener) // it goes on with ENOSYS
	_ = unix.Close(pipe[1])
	wait(t, proc)
	_ = unix.Close(proc.PidFD)
	out := make([]byte, 64)
	n, err := unix.Read(pipe[0], out)
	if got := string(out[:max(n, 0)]); err != nil || got != "0\n1\n2\n3\n" { // 3 is ls's own
		t.Errorf("the program's descriptors: %q, %v", got, err)
	}
	_ = unix.Close(pipe[0])
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors open; want %d as before", after, before)
	}
}

// Exec has nobody to give the listener to.
func TestExecWitness(t *testing.T) {
	p := self()
	p.Witness = showParent
	var e *spawn.Error
	if err := spawn.Exec(p); !errors.As(err, &e) || e.Stage != spawn.StagePlan || e.Errno != syscall.EINVAL {
		t.Errorf("Exec: %v; want it refused", err)
	}
}
