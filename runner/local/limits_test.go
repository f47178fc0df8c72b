package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/internal/testgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// Limits hold, are told as facts, and make a group that nothing leaves.
func TestLimits(t *testing.T) {
	limits := policy.Limits{Memory: 64 << 20, Pids: 64}
	testgroup.Place(t, limits)
	for _, way := range []string{"direct", "unconfined", "supervised", "boxed"} {
		t.Run(way, func(t *testing.T) {
			r := newRunner(t, runner.Config{Executor: executor(t, func(c *local.Config) {
				ways[way](c)
				c.Policy.Limits = limits
			})})
			if !r.Authority().EndsAll || !r.Authority().OnlyKill {
				t.Errorf("authority %+v; want one whose kills reach everything", r.Authority())
			}
			res := run(t, r, runner.Request{Command: "echo hello; true"})
			if u := res.Usage; res.ExitCode != 0 || u.Source != "cgroup" || u.MemoryPeak == 0 || res.OOMKilled == nil || *res.OOMKilled || len(res.LimitsHit) > 0 {
				t.Errorf("%+v with %+v; want facts of a group", res, u)
			}
			res = run(t, r, runner.Request{Command: "exec tail /dev/zero"})
			if res.OOMKilled == nil || !*res.OOMKilled || !slices.Contains(res.LimitsHit, "memory") {
				t.Errorf("a memory bomb: %+v; want it killed for memory", res)
			}
			if u := res.Usage; u == nil || !u.OOMGroup || u.OOMKills == nil || *u.OOMKills < 1 || slices.Contains(u.FromRusage, "memory_peak_bytes") {
				t.Errorf("a memory bomb: %+v; want the facts of its group", u)
			}
			if res.Signal != syscall.SIGKILL || res.KilledBy != runner.CauseMemory {
				t.Errorf("a memory bomb: signal %v, killed by %q; want SIGKILL for memory", res.Signal, res.KilledBy)
			}

			spec, err := r.Resolve(runner.Request{Command: fmt.Sprintf(tree, 4, away)})
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := e.Output()
			if err := out.Wait(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Kill(t.Context(), runner.Immediate); err != nil {
				t.Error(err)
			}
			if left := testenv.WorkingIn(t, spec.Dir); len(left) > 0 || len(e.Result().Survivors) > 0 {
				t.Errorf("left: %v, survivors %v", left, e.Result().Survivors)
			}
		})
	}
}

// In a group of the caller's, others that are in it aren't the command's.
func TestCallersGroup(t *testing.T) {
	g := testgroup.Create(t, testgroup.Place(t, policy.Limits{Pids: 100})).Folders()[0]
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	if err := os.WriteFile(g+"/cgroup.procs", fmt.Append(nil, other.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"direct", "unconfined", "supervised", "boxed"} {
		t.Run(way, func(t *testing.T) {
			r := newRunner(t, runner.Config{Executor: executor(t, func(c *local.Config) {
				ways[way](c)
				c.Policy.Limits = policy.Limits{Cgroup: []policy.Path{policy.Path(g)}}
			})})
			if a := r.Authority(); a.EndsAll != (way == "supervised" || way == "boxed") {
				t.Errorf("authority %+v; want none that a group gives", a)
			}
			res := run(t, r, runner.Request{Command: "grep -c " + filepath.Base(g) + " /proc/self/cgroup"})
			if n := strings.TrimSpace(string(res.Stdout.Text())); n == "0" || n == "" || len(res.Leftover) > 0 || len(res.Survivors) > 0 {
				t.Errorf("%+v, which says %q; want it in the group, and nothing left", res, n)
			}
			res = run(t, r, runner.Request{Command: "sleep 1000", Timeout: time.Second / 4})
			if !res.TimedOut || len(res.Leftover) > 0 || len(res.Survivors) > 0 {
				t.Errorf("%+v; want it killed, and nothing else", res)
			}
			if pid, err := syscall.Wait4(other.Process.Pid, nil, syscall.WNOHANG, nil); pid != 0 || err != nil {
				t.Fatalf("another process in the group has ended: %d, %v", pid, err)
			}
		})
	}
}
