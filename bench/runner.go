package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// runs compares a runner with os/exec, on a command that does nothing: its
// start, its capture, and all that is asked at its end.
func (b *bench) runs() (section, error) {
	s := section{Title: "run of sh -c true by a Go program, with its output", As: b.as, Rounds: b.rounds, Against: []string{"os/exec"}}
	cs := []contender{{"os/exec", b.combinedOutput}}
	for _, w := range []struct {
		name string
		p    policy.Policy
	}{
		{"runner, unconfined", policy.Policy{Mode: policy.Unconfined}},
		{"runner, Landlock", policy.Policy{Mode: policy.WorkspaceWrite, NoProtect: true}},
		{"runner, Landlock and mounts", policy.Policy{Mode: policy.WorkspaceWrite}},
	} {
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

func (b *bench) newRunner(p policy.Policy) (*runner.Runner, *runner.Spec, error) {
	p.Worktree = policy.Path(b.tree)
	e, err := local.New(local.Config{Policy: p, Options: launch.Options{Environ: b.env()}, Shell: []string{"/bin/sh"}})
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
