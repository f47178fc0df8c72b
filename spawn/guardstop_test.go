package spawn_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// A guard that is asked to says when the program stops, each time, and what of it
// stops besides doesn't count; nor does more than anybody reads do harm.
func TestGuardStops(t *testing.T) {
	eachGuard(t, func(t *testing.T, g spawn.Guard) {
		g.Stops = true
		p, in := guardedShell(t, g, "(sh -c 'kill -STOP $$' &); kill -STOP $$; kill -STOP $$; echo on; exec sleep 300")
		for range 2 {
			if !p.Guarded.Stopped() {
				t.Fatal("no stop")
			}
			if err := syscall.Kill(p.Guarded.Pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := in.ReadString('\n'); line != "on\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		for range 1000 {
			_ = syscall.Kill(p.Guarded.Pid, syscall.SIGSTOP)
			_ = syscall.Kill(p.Guarded.Pid, syscall.SIGCONT)
		}
		p.Guarded.End()
		for p.Guarded.Stopped() {
		}
		wait(t, p)
		if e, ok := p.Guarded.Ending(); !ok || e.Status.Signal() != syscall.SIGKILL {
			t.Errorf("%v, %v; want it killed", e.Status, ok)
		}
	})
}

// A guard in the caller's session lets the program be in the caller's group, and
// keeps open what it is to hold.
func TestGuardInSession(t *testing.T) {
	var held [2]int
	if err := unix.Pipe2(held[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held[0])
	p := self()
	p.Path, p.Argv = "/bin/sleep", []string{"sleep", "300"}
	p.Group = unix.Getpgrp()
	p.Guard = &spawn.Guard{InSession: true, Hold: []int{held[1]}}
	proc, err := spawn.Start(p)
	_ = unix.Close(held[1])
	if err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]int{proc.Guarded.Pid: unix.Getpgrp(), proc.Pid: proc.Pid} {
		if got, err := unix.Getpgid(pid); got != want || err != nil {
			t.Errorf("process %d is in the group %d, %v; want %d", pid, got, err, want)
		}
		if got, err := unix.Getsid(pid); err != nil || got != ownSession(t) {
			t.Errorf("process %d is in the session %d, %v", pid, got, err)
		}
	}
	poll := []unix.PollFd{{Fd: int32(held[0]), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); n != 0 || err != nil {
		t.Errorf("nobody holds the pipe: %d, %v", n, err)
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", held[0]))
	if err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d/fd", proc.Guarded.Pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, n := range names {
		if to, _ := os.Readlink(dir + "/" + n.Name()); to == pipe {
			t.Error("the program holds the pipe, too")
		}
	}
	proc.Guarded.End()
	wait(t, proc)
	if n, err := unix.Poll(poll, 0); n != 1 || err != nil || poll[0].Revents&unix.POLLHUP == 0 {
		t.Errorf("somebody holds the pipe: %d, %v", n, err)
	}
	_, _ = proc.Guarded.Ending()
}

func ownSession(t *testing.T) int {
	t.Helper()
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	return sid
}
