package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// runnerPolicies are those that a runner is measured with.
var runnerPolicies = []struct {
	name string
	p    policy.Policy
}{
	{"runner, unconfined", policy.Policy{Mode: policy.Unconfined}},
	{"runner, Landlock", policy.Policy{Mode: policy.WorkspaceWrite, NoProtect: true}},
	{"runner, Landlock and mounts", policy.Policy{Mode: policy.WorkspaceWrite}},
}

// runs compares a runner with os/exec, on a command that does nothing: its
// start, its capture, and all that is asked at its end.
func (b *bench) runs() (section, error) {
	s := section{Title: "run of sh -c true by a Go program, with its output", As: b.as, Rounds: b.rounds, Against: []string{"os/exec"}}
	cs := []contender{{"os/exec", b.combinedOutput}}
	for _, w := range runnerPolicies {
		r, spec, err := b.newRunner(w.p)
		if err != nil {
			return s, err
		}
		defer func() { _ = r.Close(context.Background()) }()
		cs = append(cs, contender{w.name, func() error { return runOnce(r, spec) }})
	}
	got, err := interleave(b.rounds, cs)
	s.rows(got)
	return s, err
}

// starts compares how soon a started command is the caller's to watch.
func (b *bench) starts() (section, error) {
	s := section{Title: "start of sh -c true by a Go program, until it is handed over", As: b.as, Rounds: b.rounds, Against: []string{"os/exec"}}
	var wait func() error // for what was started last
	cs := []contender{{"os/exec", func() error {
		cmd := exec.Command("/bin/sh", "-c", "true")
		cmd.Env, cmd.Dir = b.env(), b.dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		wait = cmd.Wait
		return cmd.Start()
	}}}
	for _, w := range runnerPolicies {
		r, spec, err := b.newRunner(w.p)
		if err != nil {
			return s, err
		}
		defer func() { _ = r.Close(context.Background()) }()
		cs = append(cs, contender{w.name, func() error {
			e, err := r.Start(context.Background(), spec)
			if err == nil {
				wait = func() error { return e.Wait(context.Background()) }
			}
			return err
		}})
	}
	got, err := interleaveThen(b.rounds, cs, func() error { return wait() })
	s.rows(got)
	return s, err
}

// parallel compares them with more commands at once than there are processors.
func (b *bench) parallel() (section, error) {
	n := 2 * runtime.NumCPU()
	s := section{Title: fmt.Sprintf("%d runs of sh -c true, %d at once", 10*n, n), As: b.as, Rounds: b.heavy, Against: []string{"os/exec"}}
	r, spec, err := b.newRunner(policy.Policy{Mode: policy.WorkspaceWrite, NoProtect: true})
	if err != nil {
		return s, err
	}
	defer func() { _ = r.Close(context.Background()) }()
	sideBySide := func(run func() error) func() error {
		return func() error {
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					for range 10 {
						errs[i] = errors.Join(errs[i], run())
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}
	}
	got, err := interleave(b.heavy, []contender{
		{"os/exec", sideBySide(b.combinedOutput)},
		{"runner, Landlock", sideBySide(func() error { return runOnce(r, spec) })},
	})
	s.rows(got)
	return s, err
}

func (b *bench) combinedOutput() error {
	cmd := exec.Command("/bin/sh", "-c", "true")
	cmd.Env, cmd.Dir = b.env(), b.dir
	_, err := cmd.CombinedOutput()
	return err
}

func (b *bench) newExecutor(p policy.Policy) (*local.Executor, error) {
	p.Worktree = policy.Path(b.tree)
	return local.New(local.Config{Policy: p, Options: launch.Options{Environ: b.env()}, Shell: []string{"/bin/sh"}})
}

func (b *bench) newRunner(p policy.Policy) (*runner.Runner, *runner.Spec, error) {
	e, err := b.newExecutor(p)
	if err != nil {
		return nil, nil, err
	}
	r, err := runner.New(runner.Config{Executor: e})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	spec, err := r.Resolve(runner.Request{Command: "true", Merge: true})
	return r, spec, err
}

func runOnce(r *runner.Runner, s *runner.Spec) error {
	res, err := r.Run(context.Background(), s)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", res.ExitCode)
	}
	return err
}

// endings compares ways to end a tree of processes, of which half have sessions
// of their own, and with its making.
func (b *bench) endings() (section, error) {
	const n = 1000
	s := section{
		Title: fmt.Sprintf("end of %d processes, half of them in sessions of their own, with their start", n), As: b.as, Rounds: max(3, b.heavy/6),
		Against: []string{"kill of the group alone"},
	}
	script := fmt.Sprintf("for i in $(seq %d); do sleep 1000 & setsid sleep 1000 & done; echo grown; wait", n/2)
	cs := []contender{{"kill of the group alone", func() error {
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(script, "setsid ", ""))
		cmd.Env, cmd.Dir, cmd.SysProcAttr = b.env(), b.dir, &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			return err
		}
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return err
		}
		_ = cmd.Wait() // it was killed
		return nil
	}}}
	for _, w := range []struct {
		name       string
		supervisor string
		limits     policy.Limits
	}{
		{"runner, found by /proc", "", policy.Limits{}},
		{"runner, supervised", b.launcher, policy.Limits{}},
		{"runner, in a control group", "", policy.Limits{Pids: 100_000}},
	} {
		if w.limits.Any() {
			if _, err := cgroup.Find(w.limits, cgroup.Options{}); err != nil {
				continue // not this user's
			}
		}
		e, err := local.New(local.Config{
			Policy:  policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(b.tree), NoProtect: true, Limits: w.limits},
			Options: launch.Options{Environ: b.env()}, Supervisor: w.supervisor,
		})
		if err != nil {
			return s, err
		}
		r, err := runner.New(runner.Config{Executor: e, Stop: runner.Immediate})
		if err != nil {
			return s, errors.Join(err, e.Close())
		}
		defer func() { _ = r.Close(context.Background()) }()
		spec, err := r.Resolve(runner.Request{Command: script})
		if err != nil {
			return s, err
		}
		cs = append(cs, contender{w.name, func() error { return growAndKill(r, spec) }})
	}
	got, err := interleave(s.Rounds, cs)
	s.rows(got)
	return s, err
}

func growAndKill(r *runner.Runner, s *runner.Spec) error {
	e, err := r.Start(context.Background(), s)
	if err != nil {
		return err
	}
	out, _ := e.Output()
	if err := out.Wait(context.Background(), 5); err != nil {
		return err
	}
	if _, err := e.Kill(context.Background(), nil); err != nil {
		return err
	}
	if left := e.Result().Survivors; len(left) > 0 {
		return fmt.Errorf("%d survivors", len(left))
	}
	return nil
}
