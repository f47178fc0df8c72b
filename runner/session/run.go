package session

import (
	"context"
	"os"
	"slices"
	"time"
)

const (
	// startTimeout bounds what takes a shell no time: to start, to change its
	// directory, to say where it is.
	startTimeout = 10 * time.Second
	// drainIdle and drainMax bound how long output is waited for that processes
	// may still write that the command has left, or that outlive its shell.
	drainIdle = 500 * time.Millisecond
	drainMax  = 3 * time.Second
)

// begin makes the shell ready and starts the command.
func (r *Run) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := r.session.config.check(ctx, r.command.Text); err != nil {
		return err
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	sh := r.shell
	r.Pid = sh.proc.Pid()
	if r.command.Dir != "" {
		var err error
		r.before, err = sh.change(ctx, r.command.Dir)
		return err
	}
	at, err := r.session.before(ctx, sh)
	if err == nil && at.gone {
		var now place
		if now, err = sh.change(ctx, r.session.config.fallback()); err == nil {
			err = &DirError{Dir: at.dir, Now: now.dir}
		}
		r.session.at(now)
	}
	r.before = at
	return err
}

// ready starts a shell unless there is one.
func (r *Run) ready(ctx context.Context) error {
	s := r.session
	s.mu.Lock()
	if s.shell != nil && s.shell.isOver() { // while it was idle
		s.forget()
	}
	r.shell, r.lost = s.shell, s.lost
	s.mu.Unlock()
	if r.shell != nil {
		r.lost = ""
		return nil
	}
	sh, err := startShell(ctx, &s.config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = sh.kill()
		sh.close()
		return ErrClosed
	}
	r.shell, s.shell, s.lost, s.last, r.fresh = sh, sh, "", place{}, true
	return nil
}

// follow waits for the command's end.
func (r *Run) follow(ctx context.Context) {
	sh := r.shell
	r.result = Result{Code: -1, DirBefore: r.before.dir, Fresh: r.fresh, Lost: r.lost}
	sh.out.attach(r.command.Stdout)
	sh.errs.attach(r.command.Stderr)
	reports, end := sh.eval(r.command.Text, r.command.Stderr == nil)
	select {
	case at := <-reports:
		r.result.Code, r.result.DirAfter = at.code, at.dir
		r.result.Left = slices.DeleteFunc(slices.Clone(at.children), func(pid int) bool { return slices.Contains(r.before.children, pid) })
		r.session.at(at)
		passed := sh.wait(ctx, end)
		if passed && len(r.result.Left) > 0 {
			r.result.OutputCut = !sh.drain(ctx)
			passed = sh.wait(ctx, sh.again())
		}
		if !passed {
			r.result.OutputCut = true
			r.err = sh.kill() // its output is in disorder
		}
	case <-sh.over:
		exit := sh.ending()
		r.result.Code, r.result.Signal = exit.Code, exit.Signal
		r.result.OutputCut = !sh.drain(ctx)
	case <-ctx.Done():
		r.err = context.Cause(ctx)
		if err := sh.kill(); err != nil {
			r.err = err
		}
		r.result.OutputCut = !sh.drain(context.WithoutCancel(ctx))
	}
	r.result.WriteErr = sh.out.detach()
	if err := sh.errs.detach(); r.result.WriteErr == nil {
		r.result.WriteErr = err
	}
	if sh.isOver() {
		r.result.Ended, r.result.DirAfter = true, ""
	}
	r.session.release(r)
}

// at notes where the shell is, and what it has running.
func (s *Session) at(p place) {
	p.info, _ = os.Stat(p.dir) // nil if it isn't there, or not for us
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = p
}

// before returns where the shell is. It need not be asked if the directory is
// the one that it said after the last command.
func (s *Session) before(ctx context.Context, sh *shell) (place, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last.info != nil && !last.gone {
		if now, err := os.Stat(last.dir); err == nil && os.SameFile(now, last.info) {
			return last, nil
		}
	}
	return sh.ask(ctx)
}

// fallback is where a shell goes whose directory is gone.
func (c *Config) fallback() string {
	if c.Dir != "" {
		if _, err := os.Stat(c.Dir); err == nil {
			return c.Dir
		}
	}
	return "/"
}
