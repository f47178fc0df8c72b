package spawn_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// scopedDomain returns a ruleset that keeps signals in, where the kernel has one.
func scopedDomain(t *testing.T) int {
	t.Helper()
	attr := struct{ fs, net, scoped uint64 }{scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	fd, err := landlockRuleset(&attr.fs, 24)
	if err != nil {
		testenv.Skip(t, "needs Landlock that keeps signals in: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// eachGuard runs f with a guard that finds its children, and one in a domain.
func eachGuard(t *testing.T, f func(t *testing.T, g spawn.Guard)) {
	t.Run("children", func(t *testing.T) { f(t, spawn.Guard{}) })
	t.Run("domain", func(t *testing.T) { f(t, spawn.Guard{DomainFD: scopedDomain(t)}) })
}

// shell starts a guarded shell whose output is read until it is closed.
func guardedShell(t *testing.T, g spawn.Guard, script string) (*spawn.Process, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	p, err := spawn.Start(&spawn.Plan{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Files: []int{-1, int(w.Fd()), 2}, NewSession: true, Guard: &g,
	})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(r)
}

// pids reads as many numbers as there are lines.
func readPids(t *testing.T, in *bufio.Reader, n int) (pids []int) {
	t.Helper()
	for range n {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func mustBeGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
			if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || bytes.Contains(state, []byte(") Z ")) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("process %d lives", pid)
				break
			}
		}
	}
}

// many leaves processes in ways that are hard to follow, and says their numbers.
const many = `
	here=$(mktemp -d)
	sleep 300 & echo $!
	setsid sh -c "echo \$\$; : >$here/1; exec sleep 300" &
	(setsid env -i sh -c "trap '' TERM HUP; (echo \$\$; : >$here/2; exec sleep 300) & sleep 300" &)
	while [ ! -e $here/1 ] || [ ! -e $here/2 ]; do sleep 0.01; done
	rm -r $here
	`

func TestGuardEnding(t *testing.T) {
	eachGuard(t, func(t *testing.T, g spawn.Guard) {
		for script, want := range map[string]syscall.WaitStatus{"exit 0": 0, "exit 3": 3 << 8, "kill -9 $$": 9, "kill -TERM $$": 15} {
			p, _ := guardedShell(t, g, script)
			ws := wait(t, p)
			e, ok := p.Guarded.Ending()
			code := want.ExitStatus()
			if want.Signaled() {
				code = 128 + int(want.Signal())
			}
			if !ok || e.Status != want || ws.ExitStatus() != code {
				t.Errorf("%s: status %v, %v, the guard's %v; want %v", script, e.Status, ok, ws, want)
			}
		}
	})
}

// What a program leaves ends soon after it; the guard doesn't wait longer.
func TestGuardLeftovers(t *testing.T) {
	eachGuard(t, func(t *testing.T, g spawn.Guard) {
		p, in := guardedShell(t, g, many+"exit 4")
		pids := readPids(t, in, 3)
		wait(t, p)
		mustBeGone(t, pids)
		if e, ok := p.Guarded.Ending(); !ok || e.Status.ExitStatus() != 4 {
			t.Errorf("%v, %v", e.Status, ok)
		}
	})
}

// With a while to go on, what ends by itself isn't killed.
func TestGuardLinger(t *testing.T) {
	eachGuard(t, func(t *testing.T, g spawn.Guard) {
		g.Linger = 20 * time.Second
		p, in := guardedShell(t, g, "(sleep 0.2; echo late) & exit 0")
		line, err := in.ReadString('\n')
		if line != "late\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		wait(t, p)
		if _, ok := p.Guarded.Ending(); !ok {
			t.Error("no ending")
		}
	})
}

func TestGuardEnd(t *testing.T) {
	eachGuard(t, func(t *testing.T, g spawn.Guard) {
		p, in := guardedShell(t, g, "trap '' TERM; echo $$;"+many+"sleep 300")
		pids := readPids(t, in, 4)
		if p.Guarded.Pid != pids[0] {
			t.Errorf("pid %d; want %d", p.Guarded.Pid, pids[0])
		}
		p.Guarded.End()
		wait(t, p)
		mustBeGone(t, pids)
		if e, ok := p.Guarded.Ending(); !ok || e.Status.Signal() != syscall.SIGKILL {
			t.Errorf("%v, %v; want it killed", e.Status, ok)
		}
	})
}

// guardedHost starts a guarded program and is killed.
func guardedHost() {
	g := spawn.Guard{}
	p, err := spawn.Start(&spawn.Plan{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "echo $$;" + many + "echo done; sleep 300"},
		Env: []string{"PATH=/usr/bin:/bin"}, Files: []int{-1, 1, 2}, NewSession: true, Guard: &g,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.Pid)
	time.Sleep(time.Hour)
}

// A host that is killed leaves nothing, and nobody holds its output.
func TestGuardHostKilled(t *testing.T) {
	host := exec.CommandContext(t.Context(), os.Args[0])
	host.Env = append(os.Environ(), "SPAWN_HELPER=guarded-host")
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	in, pids := bufio.NewReader(out), []int(nil)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "done\n" {
			break
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 5 {
		t.Errorf("%d processes; want 5", len(pids))
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadString('\n'); err == nil {
		t.Error("there is more output")
	}
	_ = host.Wait()
	mustBeGone(t, pids)
}

// A guard holds nothing open that the program has closed.
func TestGuardHoldsNothing(t *testing.T) {
	p, in := guardedShell(t, spawn.Guard{}, "echo first; exec >&-; sleep 300")
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); err == nil {
		t.Errorf("more output: %q", line)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err != nil || string(name) != "shofer-guard\n" {
		t.Errorf("the guard is called %q, %v", name, err)
	}
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid))
	if err != nil || len(names) > 4 {
		t.Errorf("the guard has %v, %v; want four descriptors", names, err)
	}
	p.Guarded.End()
	wait(t, p)
	_, _ = p.Guarded.Ending()
}

// What doesn't start leaves neither process nor descriptor.
func TestGuardErrors(t *testing.T) {
	before := descriptors(t)
	for range 5 {
		_, err := spawn.Start(&spawn.Plan{Path: "/nonexistent", Argv: []string{"x"}, Guard: &spawn.Guard{}})
		var e *spawn.Error
		if !errors.As(err, &e) || e.Stage != spawn.StageExec || e.Errno != syscall.ENOENT {
			t.Errorf("%v; want ENOENT of the exec", err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors; had %d", after, before)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("children are left: %v", err)
	}
}

func TestGuardConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for range 20 {
				p, in := guardedShell(t, spawn.Guard{}, fmt.Sprintf("sleep 300 & echo %d; exit %d", w, w))
				line, _ := in.ReadString('\n')
				ws := wait(t, p)
				e, ok := p.Guarded.Ending()
				if !ok || line != fmt.Sprintf("%d\n", w) || e.Status.ExitStatus() != w || ws.ExitStatus() != w {
					t.Errorf("%q, %v, %v, %v; want %d", line, e.Status, ok, ws, w)
				}
				_ = make([]byte, 1<<20) // keep the collector busy
			}
		})
	}
	wg.Wait()
}
