package spawn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		dir := filepath.Join(root, "shofer-spawn-test-"+filepath.Base(t.TempDir()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Logf("no group of our own: %v", err)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
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
