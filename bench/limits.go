package main

import (
	"errors"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// limits compares starts with and without control groups, which are made, read
// out and removed each time.
func (b *bench) limits() (section, error) {
	s := section{Title: "start of /bin/true by its limits", As: b.as, Rounds: b.rounds, Against: []string{"launch.Cmd", "launcher, linked worktree"}}
	const what = "/bin/true"
	var cs []contender
	var close []func() error
	defer func() {
		for _, f := range close {
			_ = f()
		}
	}()
	for _, c := range []struct {
		name string
		l    policy.Limits
	}{
		{"launch.Cmd", policy.Limits{}},
		{"launch.Cmd, memory", policy.Limits{Memory: 1 << 30}},
		{"launch.Cmd, memory and pids", policy.Limits{Memory: 1 << 30, Pids: 100}},
		{"launch.Cmd, memory, pids and cpus", policy.Limits{Memory: 1 << 30, Pids: 100, CPUs: 2}},
	} {
		sandbox, err := launch.Prepare(
			policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(b.tree), NoProtect: true, Limits: c.l},
			launch.Options{Environ: b.env()},
		)
		var unmet *launch.UnmetError
		if errors.As(err, &unmet) {
			s.Notes = append(s.Notes, "without "+c.name+": "+err.Error())
			continue
		}
		if err != nil {
			return s, err
		}
		close = append(close, sandbox.Close)
		cs = append(cs, contender{c.name, func() error { return sandbox.Command(what).Run() }})
	}
	cs = append(cs, contender{"launcher, linked worktree", b.command(b.launcher, b.tree, "--", what)})
	if _, err := cgroup.Find(policy.Limits{Memory: 1, Pids: 1}, cgroup.Options{}); err == nil {
		cs = append(cs, contender{"launcher, memory and pids", b.command(b.launcher, "--memory", "1G", "--pids", "100", b.tree, "--", what)})
	}
	got, err := interleave(b.rounds, cs)
	s.rows(got)
	return s, err
}
