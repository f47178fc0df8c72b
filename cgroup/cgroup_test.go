package cgroup

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// place finds a place, or skips the test where there is none for this user.
func place(t testing.TB, l policy.Limits) *Place {
	t.Helper()
	p, err := Find(l, Options{Worktree: testenv.ModuleRoot(t)})
	if err == nil {
		return p
	}
	if os.Getuid() != 0 {
		t.Skip(err) // a machine needn't delegate anything
	}
	testenv.Skip(t, "%v", err)
	return nil
}

func create(t testing.TB, l policy.Limits) *Group {
	t.Helper()
	g, err := place(t, l).Create()
	if err != nil {
		t.Fatal(err)
	}
	dirs := g.Folders()
	t.Cleanup(func() {
		if _, err := g.End(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		for _, d := range dirs {
			if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", d, err)
			}
		}
	})
	return g
}

func start(t testing.TB, p *spawn.Plan) int {
	t.Helper()
	proc, err := spawn.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(proc.PidFD)
	return proc.Pid
}

func wait(t testing.TB, pid int) syscall.WaitStatus {
	t.Helper()
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			if err != nil {
				t.Fatal(err)
			}
			return ws
		}
	}
}

// helper is a plan for a helper of this test, in the group.
func (g *Group) helper(t testing.TB, name string, args ...string) *spawn.Plan {
	cmd := testenv.Helper(t, name, args...)
	p := g.plan(cmd.Path, args...)
	p.Env = cmd.Env
	return p
}

// groupsOf is what the kernel says of the groups that a process is in.
func groupsOf(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func file(t testing.TB, g *Group, name string) string {
	t.Helper()
	for _, d := range g.Folders() {
		if b, err := os.ReadFile(filepath.Join(d, name)); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	return ""
}

// Every limit is in force, and the command is in the group from its first
// instruction on.
func TestCreate(t *testing.T) {
	none := int64(0)
	g := create(t, policy.Limits{Memory: 64 << 20, Swap: &none, Pids: 20, CPUs: 0.5, CPUWeight: 50})
	want := map[string]string{
		"memory.limit_in_bytes": "67108864", "pids.max": "20", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000", "cpu.shares": "512",
	}
	if g.place.Version() == V2 {
		want = map[string]string{
			"memory.max": "67108864", "memory.oom.group": "1", "pids.max": "20", "cpu.max": "50000 100000", "cpu.weight": "50",
		}
	}
	for name, value := range want {
		if got := file(t, g, name); got != value {
			t.Errorf("%s says %q; want %q", name, got, value)
		}
	}
	pid := start(t, g.plan("sleep", "1000"))
	in := groupsOf(t, pid)
	if n := strings.Count(in, "/"+g.name+"\n"); n != len(g.Folders()) {
		t.Errorf("the command is in %d groups of %d:\n%s", n, len(g.Folders()), in)
	}
	if strings.Contains(groupsOf(t, os.Getpid()), g.name) {
		t.Error("this process is in the command's group")
	}
	if pids, err := g.Procs(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("Procs = %v, %v; want %d", pids, err, pid)
	}
	if err := g.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if ws := wait(t, pid); ws.Signal() != unix.SIGKILL {
		t.Errorf("the command ended by %v", ws.Signal())
	}
	if pids, err := g.Procs(); err != nil || len(pids) > 0 {
		t.Errorf("Procs = %v, %v; want none", pids, err)
	}
}

// A limit that the kernel refuses, or takes as another one, is an error that
// names the file, and nothing is left.
func TestCreateRefused(t *testing.T) {
	p := place(t, policy.Limits{Pids: 20})
	i := slices.IndexFunc(p.trees, func(t tree) bool { return len(t.settings) > 0 })
	for _, s := range []setting{
		{controller: "pids", file: "pids.max", value: "-7"},
		{controller: "pids", file: "pids.max", value: "030"},
		{controller: "pids", file: "pids.none", value: "1"},
	} {
		p.trees[i].settings = []setting{s}
		g, err := p.Create()
		var limit *LimitError
		if !errors.As(err, &limit) || !strings.HasSuffix(limit.File, "/"+s.file) {
			t.Errorf("Create with %v = %v, %v; want a *LimitError", s, g, err)
		}
	}
	left, err := filepath.Glob(p.trees[0].parent + "/" + prefix + strconv.Itoa(os.Getpid()) + "-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// What made itself a daemon is killed, and a storm of forks.
func TestKillStorm(t *testing.T) {
	g := create(t, policy.Limits{Pids: 200})
	leader := start(t, g.helper(t, "storm"))
	deadline := time.Now().Add(time.Minute)
	for {
		pids, err := g.Procs()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d processes, %v", len(pids), err)
		}
		if len(pids) > 10 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	bystander := start(t, create(t, policy.Limits{}).plan("sleep", "1000"))
	if err := g.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	wait(t, leader)
	s, err := g.Stats()
	if err != nil || s.PidsPeak != nil && *s.PidsPeak < 10 {
		t.Errorf("Stats = %+v, %v", s, err)
	}
	if err := unix.Kill(bystander, 0); err != nil {
		t.Errorf("another group's process: %v", err)
	}
}

// Killing one by one does the same, where the kernel can't do it at once.
func TestKillBySignals(t *testing.T) {
	g := create(t, policy.Limits{Pids: 60})
	leader := start(t, g.helper(t, "storm"))
	p := &g.parts[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !retry(ctx, func() bool { pids, _ := p.procs(); return len(pids) > 3 }) {
		t.Fatal("no storm")
	}
	for !p.empty() && ctx.Err() == nil {
		if err := p.killEach(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !p.empty() {
		t.Fatal("not all were killed")
	}
	wait(t, leader)
}

func TestFreeze(t *testing.T) {
	g := create(t, policy.Limits{})
	pid := start(t, g.plan("sh", "-c", "while :; do :; done"))
	if err := g.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := ticks(t, pid)
	time.Sleep(50 * time.Millisecond)
	if after := ticks(t, pid); after != before {
		t.Errorf("frozen, it went on for %d ticks", after-before)
	}
	if err := g.Thaw(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !retry(ctx, func() bool { return ticks(t, pid) > before }) {
		t.Error("it didn't go on")
	}
	// A frozen process is killed all the same.
	if err := g.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	wait(t, pid)
}

// ticks is the processor time of a process.
func ticks(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, _ := number(strings.Fields(rest)[11])
	return n
}

func TestPidsLimited(t *testing.T) {
	g := create(t, policy.Limits{Pids: 4})
	ws := wait(t, start(t, g.plan("sh", "-c", "sleep 100 & sleep 100 & sleep 100 & sleep 100 & sleep 100 &")))
	if ws.ExitStatus() == 0 {
		t.Error("five processes could be made")
	}
	s, err := g.End(t.Context())
	if err != nil || valueOf(s.PidsLimited) == 0 {
		t.Errorf("End = %+v, %v", s, err)
	}
	if s.PidsPeak != nil && *s.PidsPeak != 4 {
		t.Errorf("the peak was %d", *s.PidsPeak)
	}
}

func TestThrottled(t *testing.T) {
	g := create(t, policy.Limits{CPUs: 0.05})
	pid := start(t, g.plan("sh", "-c", "while :; do :; done"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !retry(ctx, func() bool { s, _ := g.Stats(); return valueOf(s.Throttled) > 0 }) {
		t.Error("it was never throttled")
	}
	if err := g.Kill(ctx); err != nil {
		t.Error(err)
	}
	wait(t, pid)
}

// What a dead owner has left is killed and removed, and nobody else's.
func TestSweep(t *testing.T) {
	mine := create(t, policy.Limits{Pids: 50})
	sleeper := start(t, mine.plan("sleep", "1000"))
	cmd := testenv.Helper(t, "own")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
	left, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("the owner said %q", line)
	}
	sweep := func() {
		t.Helper()
		if _, err := mine.place.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	exists := func() bool {
		_, err := os.Stat(filepath.Dir(mine.Folders()[0]) + "/" + name)
		return err == nil
	}
	sweep()
	if !exists() || unix.Kill(left, 0) != nil {
		t.Error("the group of an owner that lives was swept")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// Other limits find it too. Somebody else on this machine may be sweeping just
	// now, and then has it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	retry(ctx, func() bool {
		if _, err := place(t, policy.Limits{CPUs: 1}).Sweep(ctx); err != nil {
			t.Error(err)
		}
		return !exists()
	})
	for _, h := range mine.place.machine.hierarchies {
		if _, err := os.Stat(h.own + "/" + name); err == nil {
			t.Errorf("%s/%s is left", h.own, name)
		}
	}
	if exists() {
		t.Error("the group was not swept")
	}
	if unix.Kill(left, 0) == nil && state(left) != 'Z' {
		t.Error("its process lives")
	}
	if unix.Kill(sleeper, 0) != nil {
		t.Error("the sweep has killed a process of ours")
	}
}

// What a dead owner has left in a scope is swept; the scope isn't ours to end.
func TestSweepScope(t *testing.T) {
	p := place(t, policy.Limits{Pids: 50})
	if !p.trees[0].unified {
		testenv.Skip(t, "needs version 2, in which scopes are")
	}
	scope := p.trees[0].parent + "/" + ScopeName()
	group := scope + "/" + prefix + "1-test-1"
	var sleepers []int
	for _, dir := range []string{scope, group} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		pid := start(t, (&Group{}).plan("sleep", "1000"))
		if err := writeAt(unix.AT_FDCWD, dir+"/cgroup.procs", decimal(int64(pid))); err != nil {
			t.Fatal(err)
		}
		sleepers = append(sleepers, pid)
	}
	t.Cleanup(func() {
		for _, pid := range sleepers {
			_ = unix.Kill(pid, unix.SIGKILL) // none is reaped
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if ok := retry(ctx, func() bool { return removeTree(scope, 0) == nil }); !ok {
			t.Errorf("%s is left", scope)
		}
	})
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group in the scope: %v", err)
	}
	if unix.Kill(sleepers[1], 0) == nil && state(sleepers[1]) != 'Z' {
		t.Error("its process lives")
	}
	if unix.Kill(sleepers[0], 0) != nil || state(sleepers[0]) == 'Z' {
		t.Error("the sweep has killed what is in the scope itself")
	}
}

func state(pid int) byte {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if i := strings.LastIndexByte(string(b), ')'); i >= 0 && i+2 < len(b) {
		return b[i+2]
	}
	return 0
}

// A group that the caller made is used as it is, and stays.
func TestGiven(t *testing.T) {
	made := create(t, policy.Limits{Pids: 5})
	var l policy.Limits
	for _, d := range made.Folders() {
		l.Cgroup = append(l.Cgroup, policy.Path(d))
	}
	p, err := Find(l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Folders(), made.Folders()) {
		t.Errorf("Folders = %q; want %q", p.Folders(), made.Folders())
	}
	wait(t, start(t, made.plan("sh", "-c", "sleep 100 & sleep 100 & sleep 100 & sleep 100 & sleep 100 &")))
	before, err := made.Stats()
	if err != nil || valueOf(before.PidsLimited) == 0 {
		t.Fatalf("Stats = %+v, %v", before, err)
	}
	g, err := p.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := start(t, g.plan("sleep", "1000"))
	if n := strings.Count(groupsOf(t, pid), "/"+made.name+"\n"); n != len(made.Folders()) {
		t.Errorf("it is in\n%s", groupsOf(t, pid))
	}
	s, err := g.End(t.Context())
	if err != nil || valueOf(s.PidsLimited) != 0 || s.PidsPeak != nil {
		t.Errorf("End = %+v, %v; want what happened since", s, err)
	}
	if unix.Kill(pid, 0) != nil || len(made.Folders()) == 0 {
		t.Error("End has ended the caller's group")
	}
	for _, dirs := range [][]policy.Path{
		{policy.Path(t.TempDir())}, {"/sys/fs/cgroup/nothing"}, {l.Cgroup[0], l.Cgroup[0]},
	} {
		var support *SupportError
		if _, err := Find(policy.Limits{Cgroup: dirs}, Options{}); !errors.As(err, &support) {
			t.Errorf("Find(%q) = %v; want a *SupportError", dirs, err)
		}
	}
}

// Groups are made where the caller says.
func TestParent(t *testing.T) {
	outer := create(t, policy.Limits{Pids: 50})
	parent := policy.Path(outer.Folders()[len(outer.Folders())-1])
	p, err := Find(policy.Limits{Pids: 3, CgroupParent: parent}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Create()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(g.Folders(), func(d string) bool { return strings.HasPrefix(d, string(parent)+"/") }) {
		t.Errorf("Folders = %q; want them in %s", g.Folders(), parent)
	}
	if _, err := g.End(t.Context()); err != nil {
		t.Error(err)
	}
}

// Ends of groups that are gone, or twice, do no harm.
func TestEndTwice(t *testing.T) {
	g := create(t, policy.Limits{Pids: 5})
	if _, err := g.End(t.Context()); err != nil {
		t.Error(err)
	}
	if err := g.Kill(t.Context()); err != nil {
		t.Errorf("Kill after End = %v", err)
	}
	if pids, err := g.Procs(); err != nil || pids != nil {
		t.Errorf("Procs after End = %v, %v", pids, err)
	}
}

// What lives on is named, and the group stays for a sweep.
func TestRemoveSurvivors(t *testing.T) {
	g := create(t, policy.Limits{})
	pid := start(t, g.plan("sleep", "1000"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var left *SurvivorsError
	if err := g.Remove(ctx); !errors.As(err, &left) || !slices.Equal(left.Pids, []int{pid}) {
		t.Errorf("Remove = %v; want the survivor %d", err, pid)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, pid)
	if _, err := g.place.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// Descriptors don't add up.
func TestDescriptors(t *testing.T) {
	p := place(t, policy.Limits{Memory: 1 << 30, Pids: 5})
	before := 0
	for i := range 20 {
		if i == 1 { // the first opens what is kept for the others
			before = openFiles(t)
		}
		g, err := p.Create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.End(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors were open, and %d are", before, after)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
