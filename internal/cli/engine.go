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

// config says how commands are run as the options say, with an executor and
// perhaps a store, which the caller closes.
func (p *program) config(a *ask) (_ runner.Config, err error) {
	pol, o, dir, err := a.policy()
	if err != nil {
		return runner.Config{}, setupError(err)
	}
	c := runner.Config{Dir: dir, Scrub: a.scrub(), Hardening: a.hardening(), MaxTimeout: forever, AllowNoTimeout: true}
	x, err := local.New(local.Config{Policy: pol, Options: o, Supervisor: a.supervisor(), Restore: a.restore})
	if err != nil {
		return c, a.inOptions(err)
	}
	c.Executor = x
	if !a.noSave {
		if c.Store, err = p.store(); err != nil && (!a.mayNotSave || p.state != "") {
			return c, errors.Join(err, x.Close())
		}
		if err != nil && !p.quiet { // the command matters more than what is kept of it
			say("warning: its output isn't kept: " + textOf(err))
			say("hint: " + hintOf(err) + ", or --no-save")
		}
	}
	return c, nil
}

// engine makes a runner as the options say. Its caller may run commands as long
// as he likes, since he also may without it. Change, if not nil, changes the
// configuration.
func (p *program) engine(a *ask, change func(*runner.Config)) (*engine, error) {
	c, err := p.config(a)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&c)
	}
	e := &engine{store: c.Store}
	if e.Runner, err = runner.New(c); err != nil {
		return nil, errors.Join(storeError(err, !c.SaveAll), c.Executor.Close(), e.closeStore())
	}
	return e, nil
}

// storeError says what to do about a store that commands could write to.
func storeError(err error, optional bool) error {
	var inside *capture.GrantError
	if !errors.As(err, &inside) {
		return err
	}
	hint := "keep output elsewhere (--state DIR)"
	if optional {
		hint += ", or not at all (--no-save)"
	}
	return &hinted{inside, hint}
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
