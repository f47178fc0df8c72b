package spawn_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Orphans that end don't stay as zombies while the program runs.
func TestGuardReaps(t *testing.T) {
	p, in := guardedShell(t, spawn.Guard{}, "i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; echo done; sleep 300")
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("/proc/%d/task/%d/children", p.Pid, p.Pid)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(strings.Fields(string(b))) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("the guard has children %s; want the program alone", b)
			break
		}
	}
	p.Guarded.End()
	wait(t, p)
	_, _ = p.Guarded.Ending()
}

// The program doesn't outlive its guard.
func TestGuardKilled(t *testing.T) {
	p, in := guardedShell(t, spawn.Guard{}, "echo $$; exec sleep 300")
	pids := readPids(t, in, 1)
	if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if e, ok := p.Guarded.Ending(); ok {
		t.Errorf("%+v; want no ending", e)
	}
	mustBeGone(t, pids)
}

// strictHost starts a guarded program where SIGCHLD is ignored and descriptors
// are few, and prints how it ended.
func strictHost() {
	signal.Ignore(syscall.SIGCHLD)
	limit := unix.Rlimit{Cur: 16, Max: 16}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		fmt.Println(err)
	}
	p, err := spawn.Start(&spawn.Plan{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 3"}, Env: []string{"PATH=/usr/bin:/bin"},
		Files: []int{-1, 1, 2}, NewSession: true, Guard: &spawn.Guard{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, ok := p.Guarded.Ending()
	fmt.Println(e.Status.ExitStatus(), ok)
}

// What the host does with its signals and descriptors makes no difference.
func TestGuardStrictHost(t *testing.T) {
	host := exec.CommandContext(t.Context(), os.Args[0])
	host.Env = append(os.Environ(), "SPAWN_HELPER=strict-host")
	if out, err := host.CombinedOutput(); err != nil || string(out) != "3 true\n" {
		t.Errorf("%q, %v; want the exit code 3", out, err)
	}
}

// A domain that doesn't keep signals in is refused: the guard kills all that it
// may kill.
func TestGuardOpenDomain(t *testing.T) {
	attr := struct{ fs uint64 }{unix.LANDLOCK_ACCESS_FS_MAKE_SOCK}
	fd, err := landlockRuleset(&attr.fs, 8)
	if err != nil {
		testenv.Skip(t, "needs Landlock: %v", err)
	}
	defer unix.Close(fd)
	_, err = spawn.Start(&spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, Guard: &spawn.Guard{DomainFD: fd}})
	var e *spawn.Error
	if !errors.As(err, &e) || e.Stage != spawn.StageLandlock || e.Errno != syscall.EINVAL {
		t.Errorf("%v; want EINVAL of Landlock", err)
	}
}

// What is wrong is said with a control group, too.
func TestGuardBadCgroup(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, err = spawn.Start(&spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, CgroupFD: fd, Guard: &spawn.Guard{}})
	var e *spawn.Error
	if !errors.As(err, &e) || e.Stage != spawn.StageClone || e.Errno != syscall.EBADF {
		t.Errorf("%v; want EBADF of the clone", err)
	}
}

// A start that hangs, as one that joins a pipe in place of a control group, keeps
// no other guard from being told.
func TestGuardOtherHangs(t *testing.T) {
	p, in := guardedShell(t, spawn.Guard{}, "echo $$; exec sleep 300")
	pids := readPids(t, in, 1)
	var full [2]int
	if err := unix.Pipe2(full[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	size, err := unix.FcntlInt(uintptr(full[1]), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(full[1], make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	hangs := make(chan *spawn.Process)
	go func() {
		p, err := spawn.Start(&spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, JoinFDs: []int{full[1]}, Guard: &spawn.Guard{}})
		if err != nil {
			t.Error(err)
		}
		hangs <- p
	}()
	for end := time.Now().Add(10 * time.Second); childrenOf(t) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	p.Guarded.End()
	wait(t, p)
	_, _ = p.Guarded.Ending()
	mustBeGone(t, pids)
	if _, err := unix.Read(full[0], make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if p := <-hangs; p != nil {
		_, _ = p.Guarded.Ending()
		wait(t, p)
	}
	_, _ = unix.Close(full[0]), unix.Close(full[1])
}

// childrenOf counts this process's children.
func childrenOf(t *testing.T) (n int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		n += len(strings.Fields(string(b)))
	}
	return n
}
