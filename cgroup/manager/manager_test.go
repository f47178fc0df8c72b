package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/cgroup/manager"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/internal/testgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Helpers{"scope": inScope}))
}

func create(t *testing.T, l policy.Limits) *cgroup.Group {
	t.Helper()
	return testgroup.Create(t, testgroup.Place(t, l))
}

// start runs a shell script in the group.
func start(t *testing.T, g *cgroup.Group, script string) {
	t.Helper()
	proc, err := spawn.Start(&spawn.Plan{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ(), Files: []int{-1, -1, -1},
		CgroupFD: max(0, g.FD()), JoinFDs: g.Join(),
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(proc.PidFD)
	t.Cleanup(func() {
		_ = g.Kill(context.WithoutCancel(t.Context()))
		_, _ = unix.Wait4(proc.Pid, nil, 0, nil)
	})
}

func TestStat(t *testing.T) {
	g := create(t, policy.Limits{Memory: 256 << 20, Pids: 77})
	start(t, g, "sleep 1000")
	m, err := manager.Stat(g)
	if err != nil || m.V1 == nil && m.V2 == nil {
		t.Fatalf("Stat() = %+v, %v", m, err)
	}
	memory, pids := m.V1.GetMemory().GetUsage().GetLimit(), m.V1.GetPids().GetLimit()
	if m.V1 == nil {
		memory, pids = m.V2.GetMemory().GetUsageLimit(), m.V2.GetPids().GetLimit()
	}
	if memory != 256<<20 || pids != 77 {
		t.Errorf("the limits are %d and %d; want %d and 77", memory, pids, 256<<20)
	}
}

// A kill is told while the group is there, and the end of the group ends the
// watch.
func TestWatch(t *testing.T) {
	g := create(t, policy.Limits{Memory: 32 << 20})
	events, err := manager.Watch(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	start(t, g, "x=0123456789; while :; do x=$x$x; done")
	select {
	case e, ok := <-events:
		if !ok || e.OOMKills == 0 {
			t.Errorf("the event is %+v, %t", e, ok)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
	}
	if _, err := g.End(t.Context()); err != nil {
		t.Error(err)
	}
	for range events {
	}
}

func TestWatchStopped(t *testing.T) {
	g := create(t, policy.Limits{Memory: 32 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	events, err := manager.Watch(ctx, g)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range events {
		t.Error("an event")
	}
}

func TestWatchUnsupported(t *testing.T) {
	g := create(t, policy.Limits{})
	if g.Parts()[0].Controllers == nil && unix.Access(g.Folders()[0]+"/memory.events", unix.F_OK) == nil {
		t.Skip("each group has the controller here")
	}
	if _, err := manager.Watch(t.Context(), g); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Watch() = %v; want it to be unsupported", err)
	}
}

// inScope enters a scope and makes a group in it.
func inScope([]string) int {
	if err := manager.EnterScope(context.Background()); err != nil {
		var support *cgroup.SupportError
		fmt.Println("no scope:", errors.As(err, &support) && support.Mend != "", err)
		return 0
	}
	p, err := cgroup.Find(policy.Limits{Memory: 64 << 20, Pids: 50, CPUs: 1}, cgroup.Options{Own: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g, err := p.Create()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command("cat", "/proc/self/cgroup")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := g.End(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestEnterScope(t *testing.T) {
	cmd := testenv.Helper(t, "scope")
	r := testenv.Run(t, cmd)
	switch {
	case r.Code != 0:
		t.Error(r)
	case strings.HasPrefix(r.Stdout, "no scope: true "):
		t.Skip(r.Stdout) // a guest with systemd runs it
	case !strings.Contains(r.Stdout, ".scope/shofer-sandbox-"):
		t.Errorf("the command was in %s", r.Stdout)
	}
}
