// Package runner runs commands and tells the truth about them: it bounds their
// time and their output, ends them with everything they started, lets them go
// on in the background, and keeps apart what is known of their end: exit code,
// signal, timeout, abort, output that is held open, and what it doesn't know.
//
// Where and under what authority a command runs is the business of an
// [Executor]; package runner/local has the one for this machine, which confines
// what a command may write. There is none by default.
//
// A [Request] says what is wanted; [Runner.Resolve] answers every open question
// and makes a [Spec] of it, which can be looked at; [Runner.Start] and
// [Runner.Run] do what it says. An exit code that isn't 0 is a result, not an
// error. Errors are for what could not be started or not be seen.
//
// # The end of a command
//
// A command has ended when its first process has. Its output is then waited for
// until it ends, or none came for a while, since what the command left behind
// may hold it open for ever. What it left is killed, unless the request says
// otherwise. To end a command from outside, all its processes get the signals of
// a stop sequence, are killed if they don't heed them, and are looked for
// afterwards: what lives on is named. Whether everything can be found is the
// executor's business: see [Authority.EndsAll].
//
// # Limitations
//
// A runner keeps its commands in memory. When its process is killed, what
// becomes of them is the executor's business: see [Authority.SurvivesHost].
package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// Runner runs commands. Its methods may be called by several goroutines at
// once.
type Runner struct {
	config    Config
	authority Authority
	seq       atomic.Uint64

	mu     sync.Mutex
	closed bool
	count  uint64
	// live are those that haven't ended, old those that have, the latest last.
	live map[string]*Execution
	old  []*Execution
}

// New returns a runner. Errors are [ErrNilExecutor] and [ErrInvalidConfig].
// The caller closes it; on an error the executor stays the caller's.
func New(c Config) (*Runner, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	r := &Runner{config: c, authority: c.Executor.Authority(), live: map[string]*Execution{}}
	if c.Store != nil {
		if err := c.Store.Check(r.authority.Writable...); err != nil {
			return nil, fmt.Errorf("%w: Store: %w", ErrInvalidConfig, err)
		}
	}
	if len(r.config.Shell) == 0 {
		r.config.Shell = r.authority.Shell
	}
	if len(r.config.Shell) == 0 {
		r.config.Shell = []string{"/bin/sh"}
	}
	if err := r.checkExempt(); err != nil {
		return nil, err
	}
	return r, nil
}

// Authority is that of the executor.
func (r *Runner) Authority() Authority { return r.authority }

// Run starts a command and waits until it has ended, its soft timeout has
// passed, or somebody has put it into the background. In the last two cases the
// result says how things stand, and [Runner.Get] finds the command. If ctx ends
// before, the command is ended.
//
// The result is there whenever the error is nil, and with an error of the
// start it says that nothing has run.
func (r *Runner) Run(ctx context.Context, s *Spec) (*Result, error) {
	e, err := r.begin(ctx, s)
	if err != nil {
		if e == nil {
			return nil, err
		}
		return e.Result(), err
	}
	soft := newTimer(s.SoftTimeout)
	defer soft.stop()
	w := e.watch(ctx)
	switch why, k := w.wait(soft.C()); {
	case why == endedItself && e.quiet():
		e.conclude(CauseNone) // it takes no time, and no goroutine
	default:
		if why == softTimeout {
			e.Background()
		}
		go w.run(why, k)
		select {
		case <-e.done:
		case <-e.background:
		case <-soft.C():
			select {
			case <-e.done: // both: then it has ended
			default:
				e.Background()
			}
		}
	}
	res := e.Result()
	return res, res.Err
}

// Start starts a command and returns when it has been handed off. If ctx ends
// while somebody still waits for the command, it is ended; see
// [Execution.Background].
//
// Errors are [ErrDenied], [ErrTooMany], [ErrClosed], [ErrNotStarted],
// [*SandboxError] and [*StartError], [ErrEmptyCommand] for a spec that
// [Runner.Resolve] didn't make, and the context's: then nothing has run, and the
// execution, if there is one, says so too.
func (r *Runner) Start(ctx context.Context, s *Spec) (*Execution, error) {
	e, err := r.begin(ctx, s)
	if err == nil {
		go e.watch(ctx).run(nothing, kill{})
	}
	return e, err
}

// begin is Start, but for the goroutine that waits for the command.
func (r *Runner) begin(ctx context.Context, s *Spec) (*Execution, error) {
	if len(s.Argv) == 0 { // it isn't Resolve's
		return nil, ErrEmptyCommand
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	startCtx, cancel := context.WithCancelCause(ctx)
	e := &Execution{
		id: newID(), spec: s, runner: r, made: time.Now(), state: StateQueued, exit: Exit{Code: -1},
		done: make(chan struct{}), background: make(chan struct{}), kills: make(chan kill), cancel: cancel,
	}
	e.out = newOutput(s, &r.config, e.printed)
	if err := r.register(e); err != nil {
		cancel(nil)
		return nil, err
	}
	e.emit(Event{Kind: EventQueued, Label: s.Label})
	if err := e.start(startCtx); err != nil {
		e.fail(err)
		return e, err
	}
	// Before it is returned: who has it may write to it.
	e.out.copyAll(e.process.Streams(), e.spec)
	e.stdin.feed(e.process.Streams().Stdin, e.spec.Stdin, e.spec.OpenStdin || e.spec.Terminal != nil)
	return e, nil
}

// start asks for the approval and hands the command off.
func (e *Execution) start(ctx context.Context) error {
	if approve := e.runner.config.Approve; approve != nil {
		ask, cancel := ctx, context.CancelFunc(func() {})
		if d := e.runner.config.ApproveTimeout; d > 0 {
			ask, cancel = context.WithTimeout(ctx, d)
		}
		err := approve(ask, e.spec.clone())
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, ErrDenied):
			return fmt.Errorf("%w: %w", ErrDenied, err)
		case err != nil:
			return err
		}
	}
	p, err := e.runner.config.Executor.Start(ctx, e.marked())
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrUncertain) {
			return context.Cause(ctx)
		}
		return err
	}
	e.mu.Lock()
	e.process, e.handed, e.state = p, time.Now(), StateRunning
	select {
	case <-e.background:
		e.state = StateBackgrounded
	default:
	}
	e.mu.Unlock()
	e.emit(Event{Kind: EventHandedOff})
	return nil
}

// MarkVar is the variable in which every command has its id: it is how those of
// its processes are found that have got away.
const MarkVar = "SHOFER_EXECUTION"

// marked returns the spec with the mark.
func (e *Execution) marked() *Spec {
	s := *e.spec
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], MarkVar+"="+e.id)
	return &s
}

// Mark is the entry of the environment by which a command's processes are
// found, "" if it has none.
func (s *Spec) Mark() string {
	if n := len(s.Env); n > 0 && len(s.Env[n-1]) > len(MarkVar) && s.Env[n-1][:len(MarkVar)+1] == MarkVar+"=" {
		return s.Env[n-1]
	}
	return ""
}

// newID returns an id.
func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }
