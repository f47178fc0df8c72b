package spawn_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// fullPipe returns a pipe that whoever writes to it waits for, until open is called.
func fullPipe(t *testing.T) (fd int, open func()) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) })
	page := make([]byte, 4096)
	for {
		if _, err := unix.Write(p[1], page); err != nil {
			break
		}
	}
	if err := unix.SetNonblock(p[1], false); err != nil {
		t.Fatal(err)
	}
	return p[1], func() {
		if _, err := unix.Read(p[0], page); err != nil {
			t.Error(err)
		}
	}
}

// theGuard waits for a guard that is a child of this process.
func theGuard(t *testing.T) int {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			b, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
			if err != nil {
				testenv.Skip(t, "needs the kernel's lists of children: %v", err)
			}
			for _, pid := range bytes.Fields(b) {
				if name, err := os.ReadFile("/proc/" + string(pid) + "/comm"); err == nil && string(name) == "shofer-guard\n" {
					n, err := strconv.Atoi(string(pid))
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
			}
		}
		if time.Now().After(end) {
			t.Fatal("there is no guard")
		}
	}
}

// inState waits until a process is in a state, as /proc names it.
func inState(t *testing.T, pid int, state string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stat, []byte(") "+state+" ")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d: %s; want state %s", pid, stat, state)
		}
	}
}

// A guard that is killed while it starts the program says so by its end: whether
// the program may have begun is told apart.
func TestGuardKilledEarly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begun bool
		want  syscall.Errno
	}{{"before the exec", false, syscall.ECANCELED}, {"after it", true, syscall.EPIPE}} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.CheckFDs(t)
			held, release := fullPipe(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			failed := make(chan error, 1)
			go func() {
				_, err := spawn.Start(&spawn.Plan{
					Path: "/bin/sh", Argv: []string{"sh", "-c", "echo $$; exec sleep 300"}, Env: []string{"PATH=/usr/bin:/bin"},
					Files: []int{-1, int(w.Fd()), 2}, NewSession: true, JoinFDs: []int{held}, Guard: &spawn.Guard{},
				})
				failed <- err
			}()
			guard := theGuard(t)
			inState(t, guard, "D") // it waits for the exec of its child, which waits for release
			if tt.begun {
				// It stops when it is about to go on, which is after the exec.
				if err := unix.Kill(guard, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				release()
				inState(t, guard, "T")
				out := make([]byte, 16)
				n, err := r.Read(out) // that it has begun
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Kill(guard, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(string(bytes.TrimSpace(out[:n])))
				if err != nil {
					t.Fatal(err)
				}
				mustBeGone(t, []int{pid})
			} else {
				if err := unix.Kill(guard, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				inState(t, guard, "Z")
				release()
			}
			var e *spawn.Error
			if err := <-failed; !errors.As(err, &e) || e.Stage != spawn.StageGuard || e.Errno != tt.want {
				t.Errorf("Start = %v; want %v at stage %v", err, tt.want, spawn.StageGuard)
			}
			_ = w.Close()
			rest := make([]byte, 1)
			if n, err := r.Read(rest); n != 0 || err == nil {
				t.Errorf("the program's output goes on: %q, %v", rest[:n], err)
			}
		})
	}
}
