package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner/environ"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

// Config is what a [Runner] is made of. The zero value of each field, but
// Executor, stands for a default.
type Config struct {
	// Executor runs the commands. It must be given, and is closed with the
	// runner.
	Executor Executor
	// Store keeps the output that doesn't fit in memory. Nil keeps none: then
	// the middle of long output is lost, and the result says so. It stays the
	// caller's. One that lies where commands may write is refused.
	Store *capture.Store
	// SaveAll keeps all output there, also what fits in memory. It is then
	// there when this process is killed.
	SaveAll bool

	// Dir is what relative working directories are relative to, and where
	// commands run. Zero is the executor's folder, or else the process's at
	// the time of [New]; it doesn't follow a later chdir.
	Dir string
	// Shell runs commands; it gets "-c" and the command. Zero is /bin/bash, or
	// /bin/sh where that isn't there.
	Shell []string
	// Scrub says which variables of the ambient environment are dropped as
	// credentials.
	Scrub environ.Scrub
	// Hardening says how commands are kept from waiting for somebody.
	Hardening environ.Hardening
	// Env sets variables of all commands; those of a request come after.
	Env []string

	// Timeout is that of a request without one; zero is 120 s, [None] none,
	// which needs AllowNoTimeout.
	Timeout time.Duration
	// MaxTimeout caps all timeouts; zero is an hour.
	MaxTimeout time.Duration
	// AllowNoTimeout lets commands run without a timeout.
	AllowNoTimeout bool
	// NoTimeoutFor lists commands that have no timeout, by their first words,
	// as "npm run dev". The words are those of the shell's grammar, so "npm"
	// isn't "npmx", and a line of several commands is exempt only if each is.
	NoTimeoutFor []string
	// SoftTimeout and IdleTimeout are those of a request without; zero is none.
	SoftTimeout, IdleTimeout time.Duration
	// Stop is how commands are ended; nil is [DefaultStop].
	Stop []StopStep
	// StopBound is how long killing may take; zero is 5 s.
	StopBound time.Duration
	// Leftover is for requests without one; zero is [LeftoverKill].
	Leftover Leftover
	// DrainIdle and DrainMax are as in [Spec]; zero is 500 ms and 3 s.
	DrainIdle, DrainMax time.Duration

	// Keep and Budget are for requests without; zero is [KeepBoth] and
	// [Medium].
	Keep   Keep
	Budget int

	// MaxRunning bounds the commands that run at once, MaxPerOwner those of
	// one owner. One more is refused with [ErrTooMany]. Zero is no bound.
	MaxRunning, MaxPerOwner int
	// Retain is how many commands stay readable after they have ended, and
	// RetainFor how long. Zero is 256 and an hour.
	Retain    int
	RetainFor time.Duration

	// Intercept are rules for commands that a tool of the host does better.
	Intercept *intercept.Interceptor
	// Tools are the names of the host's tools. Only a rule for one of these
	// blocks a command.
	Tools []string
	// Lift makes a trailing "| head -n N" or "| tail -n N" a limit on what is
	// kept, where that changes nothing else. The zero value leaves commands as
	// they are.
	Lift bool

	// Approve is asked before each start, and may wait for a person. An error
	// keeps the command from running; it matches [ErrDenied]. Nil approves.
	Approve func(ctx context.Context, s *Spec) error
	// ApproveTimeout bounds it; zero doesn't.
	ApproveTimeout time.Duration
	// Observe is told each event, in the order of each command, by the
	// goroutine that waits for it: it must return soon, and may not call
	// methods that wait. Nil observes nothing.
	Observe func(Event)
}

// DefaultStop is how commands are ended: SIGTERM and 3 s, then all are killed.
var DefaultStop = []StopStep{{syscall.SIGTERM, 3 * time.Second}}

// Immediate ends a command without asking it.
var Immediate = []StopStep{}

const (
	defaultTimeout    = 120 * time.Second
	defaultMaxTimeout = time.Hour
	defaultStopBound  = 5 * time.Second
	defaultDrainIdle  = 500 * time.Millisecond
	defaultDrainMax   = 3 * time.Second
	defaultRetain     = 256
	defaultRetainFor  = time.Hour
)

// complete checks a configuration and fills it in.
func (c *Config) complete() error {
	if c.Executor == nil {
		return ErrNilExecutor
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		none  bool
	}{
		{"Timeout", c.Timeout, true},
		{"MaxTimeout", c.MaxTimeout, false},
		{"SoftTimeout", c.SoftTimeout, true},
		{"IdleTimeout", c.IdleTimeout, true},
		{"StopBound", c.StopBound, false},
		{"DrainIdle", c.DrainIdle, false},
		{"DrainMax", c.DrainMax, false},
		{"RetainFor", c.RetainFor, false},
		{"ApproveTimeout", c.ApproveTimeout, false},
	} {
		if d.value < 0 && (!d.none || d.value != None) {
			return fmt.Errorf("%w: %s is negative", ErrInvalidConfig, d.name)
		}
	}
	if c.Timeout == None && !c.AllowNoTimeout {
		return fmt.Errorf("%w: Timeout is None without AllowNoTimeout", ErrInvalidConfig)
	}
	if c.Budget < 0 || c.Retain < 0 || c.MaxRunning < 0 || c.MaxPerOwner < 0 {
		return fmt.Errorf("%w: a count is negative", ErrInvalidConfig)
	}
	setZero(&c.Timeout, defaultTimeout)
	setZero(&c.MaxTimeout, defaultMaxTimeout)
	setZero(&c.StopBound, defaultStopBound)
	setZero(&c.DrainIdle, defaultDrainIdle)
	setZero(&c.DrainMax, defaultDrainMax)
	setZero(&c.Retain, defaultRetain)
	setZero(&c.RetainFor, defaultRetainFor)
	setZero(&c.Leftover, LeftoverKill)
	setZero(&c.Keep, KeepBoth)
	setZero(&c.Budget, Medium)
	if c.Stop == nil {
		c.Stop = DefaultStop
	}
	if err := checkStop(c.Stop); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	if err := c.Leftover.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	if err := c.Keep.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	setZero(&c.Dir, c.Executor.Authority().Dir)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	c.Dir = dir
	return nil
}

// setZero sets *p unless it is set.
func setZero[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func checkStop(steps []StopStep) error {
	for _, s := range steps {
		if s.Signal <= 0 || s.Signal > 64 || s.Wait < 0 {
			return fmt.Errorf("a stop sequence has signal %d and a wait of %v", int(s.Signal), s.Wait)
		}
	}
	return nil
}

func (l Leftover) check() error {
	switch l {
	case LeftoverKill, LeftoverReport, LeftoverAdopt:
		return nil
	}
	return fmt.Errorf("leftover %q is none of kill, report and adopt", string(l))
}

func (k Keep) check() error {
	switch k {
	case KeepBoth, KeepHead, KeepTail:
		return nil
	}
	return fmt.Errorf("keep %q is none of head+tail, head and tail", string(k))
}
