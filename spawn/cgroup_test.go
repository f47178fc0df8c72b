package spawn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// newCgroup makes a version 2 group of this test's own.
func newCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(root, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(root, "shofer-spawn-test-")
		if err != nil {
			t.Logf("no group of our own: %v", err)
			continue
		}
		t.Cleanup(func() {
			err := os.Remove(dir)
			// Some kernels let a process leave its group after it was waited for.
			for end := time.Now().Add(30 * time.Second); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = os.Remove(dir) {
				time.Sleep(time.Millisecond)
			}
			if err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	return ""
}

// The child begins in the group, or joins it before the exec; the caller stays
// where it is.
func TestStartCgroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a control group everywhere")
	}
	dir := newCgroup(t)
	if dir == "" {
		testenv.Skip(t, "needs a writable version 2 hierarchy of control groups")
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = procs.Close() }()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(*spawn.Plan){
		"made inside": func(p *spawn.Plan) { p.CgroupFD = int(folder.Fd()) },
		"joined":      func(p *spawn.Plan) { p.JoinFDs = []int{int(procs.Fd())} },
	} {
		t.Run(name, func(t *testing.T) {
			p := &spawn.Plan{Path: "/bin/cat", Argv: []string{"cat", "/proc/self/cgroup"}}
			set(p)
			out, ws := run(t, p)
			if ws != 0 || !strings.Contains(string(out), "0::/"+filepath.Base(dir)+"\n") {
				t.Errorf("status %v, groups\n%s", ws, out)
			}
			if after, _ := os.ReadFile("/proc/self/cgroup"); string(after) != string(own) {
				t.Errorf("the caller's groups were\n%s\nand are\n%s", own, after)
			}
		})
	}
}

// Where clone3 is refused, as in many containers, the child joins its group.
func TestStartCgroupNoClone3(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a control group everywhere")
	}
	dir := newCgroup(t)
	if dir == "" {
		testenv.Skip(t, "needs a writable version 2 hierarchy of control groups")
	}
	out, ws := run(t, &spawn.Plan{
		Path: "/proc/self/exe", Argv: []string{"spawn.test", dir}, Env: append(os.Environ(), "SPAWN_HELPER=no-clone3"), NoNewPrivs: true,
		Filters: [][]unix.SockFilter{{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jt: 0, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}},
	})
	if ws != 0 || !strings.Contains(string(out), "0::/"+filepath.Base(dir)+"\n") {
		t.Errorf("status %v, groups\n%s", ws, out)
	}
}

// noClone3 starts a command in the group that is its argument.
func noClone3(args []string) int {
	if _, _, e := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); e != unix.ENOSYS {
		fmt.Fprintln(os.Stderr, "clone3:", e)
		return 1
	}
	folder, err := os.Open(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return succeed(&spawn.Plan{
		Path: "/bin/cat", Argv: []string{"cat", "/proc/self/cgroup"}, Files: []int{0, 1, 2}, CgroupFD: int(folder.Fd()),
	})
}

// succeed runs a program from a helper, and returns the helper's exit code: 0 if
// it is the program's, too.
func succeed(plan *spawn.Plan) int {
	p, err := spawn.Start(plan)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != nil || ws != 0 {
		fmt.Fprintln(os.Stderr, err, ws)
		return 1
	}
	return 0
}

// Linux kills at birth what is made in a group in which something was killed
// before. It is started there all the same.
func TestStartInKilledCgroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a control group everywhere")
	}
	dir := newCgroup(t)
	if dir == "" {
		testenv.Skip(t, "needs a writable version 2 hierarchy of control groups")
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	first, err := spawn.Start(&spawn.Plan{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Files: []int{-1, -1, -1}, CgroupFD: int(folder.Fd())})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		_ = unix.Kill(first.Pid, unix.SIGKILL)
		wait(t, first)
		testenv.Skip(t, "needs cgroup.kill (Linux 5.14): %v", err)
	}
	wait(t, first)
	for range 3 {
		out, ws := run(t, &spawn.Plan{Path: "/bin/cat", Argv: []string{"cat", "/proc/self/cgroup"}, CgroupFD: int(folder.Fd())})
		if ws != 0 || !strings.Contains(string(out), "0::/"+filepath.Base(dir)+"\n") {
			t.Errorf("status %v, groups\n%s", ws, out)
		}
	}
	_, err = spawn.Start(&spawn.Plan{Path: "/nothing", Argv: []string{"x"}, Files: []int{-1, -1, -1}, CgroupFD: int(folder.Fd())})
	var e *spawn.Error
	if !errors.As(err, &e) || e.Stage != spawn.StageExec || e.Errno != unix.ENOENT {
		t.Errorf("Start of what isn't there = %v", err)
	}
}

// The descriptor refers to the process: it becomes readable when that ends,
// and takes signals.
func TestPidFD(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := int(null.Fd())
	proc, err := spawn.Start(&spawn.Plan{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Files: []int{fd, fd, fd}})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PidfdSendSignal(proc.PidFD, unix.SIGTERM, nil, 0); err != nil {
		t.Error(err)
	}
	poll := []unix.PollFd{{Fd: int32(proc.PidFD), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 20_000); n != 1 || err != nil {
		t.Errorf("Poll = %d, %v", n, err)
	}
	if ws := wait(t, proc); ws.Signal() != unix.SIGTERM {
		t.Errorf("it ended with %v; want SIGTERM", ws)
	}
}
