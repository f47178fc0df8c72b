package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/internal/testgroup"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// eachBackend runs f under each backend that this machine has.
func eachBackend(t *testing.T, f func(t *testing.T, o launch.Options, p policy.Policy)) {
	for _, b := range []launch.Backend{launch.BackendLandlock, launch.BackendMountns, launch.BackendBwrap} {
		t.Run(string(b), func(t *testing.T) {
			inside, _ := places(t)
			p := workspace(inside)
			p.NoCache = true
			switch b { //nolint:exhaustive // those above
			case launch.BackendLandlock:
				needLandlock(t)
			case launch.BackendMountns:
				needLayer(t)
				p.StrictMetadata = true
			case launch.BackendBwrap:
				if s := bwrap.Probe(t.Context(), ""); !s.Usable() {
					testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
				}
			}
			f(t, launch.Options{Backend: b}, p)
		})
	}
}

func prepareWith(t *testing.T, p policy.Policy, o launch.Options) *launch.Sandbox {
	t.Helper()
	s, err := launch.Prepare(p, o)
	if err != nil {
		t.Fatalf("Prepare: %v (hint: %s)", err, launch.Hint(err))
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// left lists the groups of this process.
func left(t *testing.T, p *cgroup.Place) (names []string) {
	t.Helper()
	for _, dir := range p.Folders() {
		found, err := filepath.Glob(fmt.Sprintf("%s/shofer-sandbox-%d-*", dir, os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

func feature(a launch.Applied, promise policy.Promise) policy.Feature {
	for _, f := range a.Features {
		if f.Promise == promise {
			return f
		}
	}
	return policy.Feature{}
}

// Under each backend the command is in its group from the start, can't leave it,
// and what it leaves in it is ended.
func TestLimits(t *testing.T) {
	l := policy.Limits{Memory: 200 << 20, Pids: 30, CPUs: 64}
	place := testgroup.Place(t, l)
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		testenv.CheckFDs(t)
		p.Limits = l
		s := prepareWith(t, p, o)
		if f := feature(s.Applied(), policy.PromiseLimits); f.State != policy.Enforced || f.By != cgroup.Name {
			t.Errorf("limits: %+v", f)
		}
		if !s.NeedsParent() {
			t.Error("NeedsParent() = false")
		}
		for range 2 { // the second is as good as the first
			cmd := leaver(t, s, place)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "stayed\n") {
				t.Errorf("the command: %v\n%s", err, out)
			}
			if n := strings.Count(string(out), "/shofer-sandbox-"); n < len(place.Folders()) {
				t.Errorf("the command was in %d groups of %d:\n%s", n, len(place.Folders()), out)
			}
			if names := left(t, place); len(names) > 0 {
				t.Errorf("left: %q", names)
			}
			e, ok := cmd.Status()
			if !ok || e.Group == nil || e.Group.OOMKilled == nil || *e.Group.OOMKilled != 0 || len(e.LimitsHit) > 0 {
				t.Errorf("Status() = %+v, %t", e, ok)
			}
		}
	})
}

// leaver is a command that tries to leave its group.
func leaver(t *testing.T, s *launch.Sandbox, place *cgroup.Place) *launch.Cmd {
	t.Helper()
	helper := testenv.Helper(t, "leave", place.Folders()...)
	c := s.Command(helper.Path, place.Folders()...)
	c.Env = slices.Concat(s.Environ(), helper.Env)
	return c
}

// leave tries each way out of the group, by the folders that groups are made in.
func leave(parents []string) int {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%s", own)
	for _, dir := range parents {
		for _, name := range []string{"cgroup.procs", "tasks", "memory.max", "memory.limit_in_bytes", "pids.max"} {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
				fmt.Println("could open", f.Name())
				return 1
			}
		}
		if err := os.Mkdir(dir+"/shofer-test", 0o755); err == nil {
			fmt.Println("could make a group in", dir)
			return 1
		}
		f, err := os.Open(dir)
		if err != nil {
			continue // bubblewrap may hide it
		}
		cmd := exec.Command("cat", "/proc/self/cgroup")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
		out, err := cmd.CombinedOutput()
		_ = f.Close()
		if err == nil || !errors.Is(err, syscall.ENOSYS) {
			fmt.Printf("a child could be started in %s: %v\n%s", dir, err, out)
			return 1
		}
	}
	fmt.Println("stayed")
	return 0
}

// What limits are hit is told, and the rest of the group ends with the command.
func TestLimitsHit(t *testing.T) {
	l := policy.Limits{Memory: 32 << 20, Pids: 20, FileSize: 1 << 20}
	place := testgroup.Place(t, l)
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		p.Limits = l
		s := prepareWith(t, p, o)
		for _, tt := range []struct {
			script string
			hit    []string
		}{
			{"sleep 1000 & :", nil},
			{"setsid sleep 1000 & x=0123456789; while :; do x=$x$x; done", []string{"memory"}},
			{"f() { f & f & sleep 1000; }; f 2>/dev/null & for i in 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3; do sleep 1000 & done", []string{"pids"}},
			{"exec head -c 2M /dev/zero >file", []string{"fsize"}},
			{"head -c 2M /dev/zero >file", []string{"fsize"}},
		} {
			cmd := s.Command("sh", "-c", tt.script)
			cmd.Dir = string(p.Worktree)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out // held open by what is left
			err := cmd.Run()
			e, ok := cmd.Status()
			if !ok || !slices.Equal(e.LimitsHit, tt.hit) {
				t.Errorf("%s: %v, hit %q, %+v; want %q", tt.script, err, e.LimitsHit, e.Group, tt.hit)
			}
			if slices.Contains(tt.hit, "memory") && (e.Group == nil || !e.Group.OOMGroup) {
				t.Errorf("%s: %+v", tt.script, e.Group)
			}
			if names := left(t, place); len(names) > 0 {
				t.Errorf("%s left %q", tt.script, names)
			}
		}
	})
}

// A limit that is too low for the start itself is named as the reason.
func TestLittleMemory(t *testing.T) {
	place := testgroup.Place(t, policy.Limits{Memory: 1 << 20})
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		for _, n := range []int64{1, 4 << 10, 16 << 10} {
			p.Limits = policy.Limits{Memory: n}
			err := prepareWith(t, p, o).Command("true").Run()
			var setup *launch.SetupError
			var exit *exec.ExitError
			switch {
			case errors.As(err, &setup) && setup.Stage == launch.StageLimits && strings.Contains(err.Error(), "too little") && launch.Hint(err) != "":
			case errors.As(err, &exit) && exit.Sys() == syscall.WaitStatus(syscall.SIGKILL): // in its exec, from which there is no way back
			default:
				t.Errorf("Run() with %d bytes = %v (hint: %s); want the limit blamed", n, err, launch.Hint(err))
			}
			if names := left(t, place); len(names) > 0 {
				t.Errorf("%d bytes left %q", n, names)
			}
		}
	})
}

// Limits of single processes take no group.
func TestProcessLimits(t *testing.T) {
	oom, core := int64(500), int64(0)
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		p.Limits = policy.Limits{OpenFiles: 77, FileSize: 4 << 10, Core: &core, Nice: 2, OOMScoreAdj: &oom}
		s := prepareWith(t, p, o)
		f := feature(s.Applied(), policy.PromiseLimits)
		if f.State != policy.Enforced || f.By != "rlimit" {
			t.Errorf("limits: %+v", f)
		}
		out := output(t, s, "", "ulimit -n; ulimit -Hn; ulimit -c; ulimit -f; nice; cat /proc/self/oom_score_adj")
		outside, err := exec.Command("nice").Output()
		if err != nil {
			t.Fatal(err)
		}
		var nice int
		if _, err := fmt.Sscan(string(outside), &nice); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("77\n77\n0\n8\n%d\n500\n", nice+2); out != want {
			t.Errorf("the command says %q; want %q", out, want)
		}
	})
}

// What can't be held is refused, or reported.
func TestLimitsAbsent(t *testing.T) {
	needLandlock(t)
	inside, _ := places(t)
	p := workspace(inside)
	p.NoCache = true
	nowhere := policy.Limits{Pids: 10, CgroupParent: "/sys/fs/cgroup/nothing"}
	high := policy.Limits{OpenFiles: 1 << 30}
	for _, l := range []policy.Limits{nowhere, high} {
		if l.OpenFiles != 0 && os.Getuid() == 0 {
			continue // root may raise limits
		}
		p.Limits = l
		s, err := launch.Prepare(p, launch.Options{})
		var unmet *launch.UnmetError
		if !errors.As(err, &unmet) || len(unmet.Features) != 1 || unmet.Features[0].Promise != policy.PromiseLimits || launch.Hint(err) == "" {
			t.Errorf("Prepare with %+v = %v, %v (hint: %s); want limits unmet", l, s, err, launch.Hint(err))
		}
		p.Limits.BestEffort = true
		s = prepareWith(t, p, launch.Options{})
		if f := feature(s.Applied(), policy.PromiseLimits); f.State != policy.Absent || f.Why == "" {
			t.Errorf("with %+v limits: %+v", l, f)
		}
		if out := output(t, s, inside, "echo ran"); out != "ran\n" {
			t.Errorf("the command says %q", out)
		}
	}

	// What can be held is, all the same.
	place := testgroup.Place(t, policy.Limits{Pids: 7})
	p = workspace(inside)
	p.NoCache = true
	p.Limits = policy.Limits{Pids: 7, IORead: []policy.IORate{{Device: "/proc", Rate: 1}}, BestEffort: true}
	s := prepareWith(t, p, launch.Options{})
	if f := feature(s.Applied(), policy.PromiseLimits); f.State != policy.Absent || !strings.Contains(f.Why, "/proc") {
		t.Errorf("with a part limits: %+v", f)
	}
	wants(t, output(t, s, inside, "cat /proc/self/cgroup"), "/shofer-sandbox-")
	if names := left(t, place); len(names) > 0 {
		t.Errorf("left: %q", names)
	}

	p = workspace(inside)
	p.Require = []policy.Promise{policy.PromiseLimits}
	_, err := launch.Prepare(p, launch.Options{})
	if err == nil || !strings.Contains(err.Error(), "none are asked for") {
		t.Errorf("Prepare that requires limits without any = %v", err)
	}
}

// Each refusal has its mend.
func TestLimitsHint(t *testing.T) {
	const without = "run with --limits best-effort, and without them"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&cgroup.SupportError{Why: "x"}, without},
		{&cgroup.SupportError{Why: "x", Mend: "do y"}, "do y; or " + without},
		{&cgroup.SupportError{Why: "x", Scope: true}, "start this program by: systemd-run --user --scope -p Delegate=yes; or " + without},
		{&cgroup.SupportError{Why: "x", Err: syscall.EACCES}, "a sandbox that this program runs in may forbid it: set the limits there, or start this outside; or " + without},
		{&cgroup.LimitError{File: "x", Value: "1", Mend: "do y"}, "do y; or " + without},
		{&launch.UnmetError{Features: []policy.Feature{{Promise: policy.PromiseLimits}}}, without},
		{&launch.UnmetError{Features: []policy.Feature{{Promise: policy.PromiseLimits, Mend: "do y"}}}, "do y; or " + without},
		{&launch.UnmetError{Features: []policy.Feature{{Promise: policy.PromiseHide}}}, "run with --best-effort, and without the promise"},
	} {
		if got := launch.Hint(&launch.SetupError{Stage: launch.StageLimits, Err: tt.err}); got != tt.want {
			t.Errorf("Hint(%v) = %q; want %q", tt.err, got, tt.want)
		}
	}
}

// No grant may cover the control groups.
func TestLimitsGrants(t *testing.T) {
	l := policy.Limits{Pids: 10}
	place := testgroup.Place(t, l)
	inside, _ := places(t)
	for _, grant := range []string{"/", "/sys", "/sys/fs/cgroup", place.Folders()[0]} {
		p := workspace(inside)
		p.AllowBroad, p.Write, p.NoProtect = true, []policy.Path{policy.Path(grant)}, true
		if _, err := launch.Explain(p, launch.Options{}); err != nil {
			t.Errorf("Explain with %s and no limits: %v", grant, err)
		}
		p.Limits = l
		_, err := launch.Prepare(p, launch.Options{})
		var pol *policy.Error
		if !errors.As(err, &pol) || !strings.Contains(err.Error(), "leave its limits") {
			t.Errorf("Prepare with %s = %v; want a *policy.Error", grant, err)
		}
	}
	p := workspace(place.Folders()[0])
	p.Limits, p.AllowBroad = l, true
	if _, err := launch.Prepare(p, launch.Options{}); err == nil {
		t.Error("a worktree among the control groups is taken")
	}
}

// Limits hold in mode unconfined, too, with a word about it.
func TestLimitsUnconfined(t *testing.T) {
	l := policy.Limits{Pids: 10}
	place := testgroup.Place(t, l)
	s := prepare(t, policy.Policy{Mode: policy.Unconfined, Limits: l})
	if f := feature(s.Applied(), policy.PromiseLimits); f.State != policy.Enforced || f.Why == "" {
		t.Errorf("limits: %+v", f)
	}
	wants(t, output(t, s, "/", "cat /proc/self/cgroup"), "/shofer-sandbox-")
	if names := left(t, place); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

// A group of the caller's is the caller's to end.
func TestCmdGroup(t *testing.T) {
	place := testgroup.Place(t, policy.Limits{})
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		o.Groups = true
		s := prepareWith(t, p, o)
		g, err := place.Create()
		if err != nil {
			t.Fatal(err)
		}
		c := leaver(t, s, place)
		c.Group = g
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), filepath.Base(g.Folders()[0])+"\n") {
			t.Errorf("the command: %v\n%s", err, out)
		}
		if _, err := os.Stat(g.Folders()[0]); err != nil {
			t.Errorf("the group: %v", err)
		}
		used, err := g.End(context.WithoutCancel(t.Context()))
		if err != nil || used.User == nil {
			t.Errorf("End() = %+v, %v", used, err)
		}
	})
}

// A command that isn't started leaves no group.
func TestLimitsNotStarted(t *testing.T) {
	l := policy.Limits{Pids: 10}
	place := testgroup.Place(t, l)
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock")
	}
	inside, _ := places(t)
	p := workspace(inside)
	p.Limits = l
	s := prepare(t, p)
	testenv.CheckFDs(t)
	c := s.Command("/etc/passwd")
	var e *launch.ExecError
	if err := c.Run(); !errors.As(err, &e) {
		t.Errorf("Run() = %v", err)
	}
	if names := left(t, place); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}
