package cli

import (
	"context"
	"errors"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// engine is a runner with what belongs to it.
type engine struct {
	*runner.Runner
	store *capture.Store // nil without
}

// forever is longer than anything runs.
const forever = 100 * 365 * 24 * time.Hour

// engine makes a runner as the options say. Its caller may run commands as long
// as he likes, since he also may without it. Change, if not nil, changes the
// configuration.
func (p *program) engine(a *ask, change func(*runner.Config)) (_ *engine, err error) {
	pol, o, dir, err := a.policy()
	if err != nil {
		return nil, setupError(err)
	}
	x, err := local.New(local.Config{Policy: pol, Options: o, Supervisor: a.supervisor()})
	if err != nil {
		return nil, err
	}
	e := &engine{}
	defer func() {
		if err != nil {
			_ = x.Close()
			_ = e.closeStore()
		}
	}()
	if !a.noSave {
		if e.store, err = p.store(); err != nil {
			return nil, err
		}
	}
	c := runner.Config{
		Executor: x, Store: e.store, Dir: dir, Scrub: a.scrub(), Hardening: a.hardening(),
		MaxTimeout: forever, AllowNoTimeout: true,
	}
	if change != nil {
		change(&c)
	}
	e.Runner, err = runner.New(c)
	var inside *capture.GrantError
	if errors.As(err, &inside) {
		hint := "keep output elsewhere (--state DIR)"
		if !c.SaveAll {
			hint += ", or not at all (--no-save)"
		}
		return nil, &hinted{inside, hint}
	}
	return e, err
}

func (e *engine) closeStore() error {
	if e.store == nil {
		return nil
	}
	return e.store.Close()
}

// close ends everything that runs.
func (e *engine) close() error {
	return errors.Join(e.Close(context.Background()), e.closeStore())
}
