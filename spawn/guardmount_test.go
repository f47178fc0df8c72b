package spawn_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// strictDomain returns a ruleset that keeps signals in and forbids mounts.
func strictDomain(t *testing.T) int {
	t.Helper()
	attr := struct{ fs, net, scoped uint64 }{fs: unix.LANDLOCK_ACCESS_FS_REFER, scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	fd, err := landlockRuleset(&attr.fs, 24)
	if err != nil {
		testenv.Skip(t, "needs Landlock that keeps signals in: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// startPiped starts a program whose output comes from what is returned.
func startPiped(t *testing.T, p *spawn.Plan) (*spawn.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	p.Files = []int{-1, int(w.Fd()), int(w.Fd())}
	proc, err := spawn.Start(p)
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return proc, r
}

// read returns the next thing that is written.
func read(t *testing.T, f *os.File) string {
	t.Helper()
	b := make([]byte, 512)
	n, err := f.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// The mounts of a program are there although the domain of its guard forbids them, and
// what the program is to be is found behind what they cover; the guard isn't it.
func TestGuardMounts(t *testing.T) {
	dir := tree(t, "file", "other")
	p := shell(t, `cd "$0"; (echo x >file) 2>/dev/null || echo x >other && echo refused; exec sleep 300`)
	p.Argv = append(p.Argv, dir)
	adj := 700
	p.OOMScoreAdj, p.Guard = &adj, &spawn.Guard{DomainFD: strictDomain(t)}
	p.Mounts = []spawn.Mount{
		bind(dir + "/file"), readOnly(dir + "/file"),
		{Op: spawn.MountNew, Source: "tmpfs", Target: "/proc", Type: "tmpfs"},
	}
	before := oomScoreAdj()
	proc, out := startPiped(t, p)
	if got := read(t, out); got != "refused\n" {
		t.Errorf("inside: %q; want file refused and other written", got)
	}
	for pid, want := range map[int]string{proc.Guarded.Pid: "700", proc.Pid: before} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if got := strings.TrimSpace(string(b)); got != want || err != nil {
			t.Errorf("oom_score_adj %s, %v; want %s", got, err, want)
		}
	}
	if b, err := os.ReadFile(dir + "/other"); string(b) != "x\n" {
		t.Errorf("other: %q, %v", b, err)
	}
	proc.Guarded.End()
	wait(t, proc)
	if e, ok := proc.Guarded.Ending(); !ok || e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("%v, %v; want it killed", e.Status, ok)
	}
}

// What goes wrong with the mounts is said as without a guard.
func TestGuardMountErrors(t *testing.T) {
	dir := tree(t)
	domain := strictDomain(t)
	testenv.CheckFDs(t)
	p := shell(t, "exit 0", bind(dir), bind(dir+"/gone"))
	adj := 700
	p.OOMScoreAdj, p.Guard = &adj, &spawn.Guard{DomainFD: domain}
	_, err := spawn.Start(p)
	var e *spawn.Error
	if !errors.As(err, &e) || e.Stage != spawn.StageMount || e.Index != 1 || e.Errno != syscall.ENOENT {
		t.Errorf("Start = %v; want ENOENT of the second mount", err)
	}
}

// A storm that forks as fast as it can, with one processor for it and the guard,
// ends by one call, with mounts and without.
func TestGuardStorm(t *testing.T) {
	var all, one unix.CPUSet
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	const chains = 8
	for _, mounts := range []bool{false, true} {
		p := shell(t, fmt.Sprintf(`n=0; while [ $n -lt %d ]; do (exec setsid sh -c "$S" &); n=$((n+1)); done; echo ready; exec sleep 300`, chains))
		p.Env = append(p.Env, `S=(setsid sh -c "$S" &); exit`)
		if !mounts {
			p.Namespaces = 0
		}
		p.Guard = &spawn.Guard{DomainFD: strictDomain(t)}
		proc, out := startPiped(t, p)
		if got := read(t, out); got != "ready\n" {
			t.Fatalf("%q", got)
		}
		proc.Guarded.End()
		// Whatever is left holds the pipe.
		if err := out.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(out); err != nil {
			t.Errorf("mounts %v: %q, %v", mounts, b, err)
		}
		wait(t, proc)
		if _, ok := proc.Guarded.Ending(); !ok {
			t.Errorf("mounts %v: no ending", mounts)
		}
	}
}
