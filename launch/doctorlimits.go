package launch

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// someLimits are tried one by one. Those that the promise takes come first.
var someLimits = [...]struct {
	option  string
	promise bool
	set     func(l *policy.Limits)
}{
	{"--memory", true, func(l *policy.Limits) { l.Memory = 1 << 30 }},
	{"--pids", true, func(l *policy.Limits) { l.Pids = 1000 }},
	{"--cpus", true, func(l *policy.Limits) { l.CPUs = 1 }},
	{"--io-read", false, func(l *policy.Limits) { l.IORead = []policy.IORate{{Rate: 1 << 30}} }},
}

// limits makes control groups with limits, alone and together.
func (e *examiner) limits(ctx context.Context) {
	var all policy.Limits
	var held []string
	gap := ""
	for _, o := range someLimits {
		var l policy.Limits
		o.set(&l)
		if o.promise {
			o.set(&all)
		}
		if _, err := e.tryLimits(ctx, l); err == nil {
			held = append(held, o.option)
		} else if !o.promise {
			gap = "; not " + o.option + ": " + reasonOf(err)
		}
	}
	how, err := e.tryLimits(ctx, all)
	h := Held{
		Feature: policy.Feature{Promise: policy.PromiseLimits, State: policy.Enforced, By: cgroup.Name},
		With:    "--memory, --pids, --cpus",
	}
	if err == nil {
		e.mechanism(cgroup.Name, OK, how+", for "+strings.Join(held, ", ")+gap, "")
	} else {
		l := &limits{}
		l.absent(err)
		h = Held{Feature: l.feature}
		text := reasonOf(err)
		if len(held) > 0 {
			text += "; only for " + strings.Join(held, ", ")
		}
		e.mechanism(cgroup.Name, Fault, text, l.feature.Mend)
	}
	e.report.Promises = append(e.report.Promises, h)
}

// tryLimits makes a group and removes it, or asks for a scope where only that
// can give one, and says what it was.
func (e *examiner) tryLimits(ctx context.Context, l policy.Limits) (how string, err error) {
	o := cgroup.Options{Worktree: filepath.Dir(e.base)} // base is gone when that is read
	place, err := cgroup.Find(l, o)
	var support *cgroup.SupportError
	if errors.As(err, &support) && support.Scope {
		scope, err := e.scope()
		if err == nil {
			err = scope.Holds(l, o)
		}
		return "in a scope of the user's systemd, which the launcher starts itself in", err
	}
	if err != nil {
		return "", err
	}
	g, err := place.Create()
	if err != nil {
		return "", err
	}
	if _, err := g.End(ctx); err != nil {
		return "", err
	}
	return string(place.Version()) + ", in " + strings.Join(place.Folders(), ", "), nil
}

// reasonOf is an error's text without what it begins with.
func reasonOf(err error) string {
	var support *cgroup.SupportError
	if errors.As(err, &support) {
		return support.Why
	}
	return err.Error()
}
