package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Execution is one command, from its request on. Its methods may be called by
// several goroutines at once, at any time.
type Execution struct {
	id     string
	number uint64 // in the order of requests
	spec   *Spec
	runner *Runner
	made   time.Time
	out    *output

	// done is closed when everything is known.
	done chan struct{}
	// background is closed when nobody waits any more.
	background     chan struct{}
	backgroundOnce sync.Once
	// kills are wishes to end it, which the goroutine that waits for it reads.
	kills chan kill
	// cancel ends its start.
	cancel context.CancelCauseFunc

	stdin  stdin
	outAt  atomic.Int64 // when it last printed, in nanoseconds since made
	seenAt atomic.Int64 // when that was last told, likewise

	mu       sync.Mutex
	process  Process // nil before the hand-off
	state    State
	handed   time.Time
	ended    time.Time
	cause    Cause
	heldOpen bool
	leftover []Survivor
	survive  []Survivor
	exit     Exit
	feedback []string
	err      error
}

// kill is a wish to end a command.
type kill struct {
	cause Cause
	steps []StopStep
}

// ID names the execution. It can't be guessed, and sorts by the millisecond in
// which it was made.
func (e *Execution) ID() string { return e.id }

// Spec returns what is run. It may not be changed.
func (e *Execution) Spec() *Spec { return e.spec }

// Done is closed when the command has ended and everything is known.
func (e *Execution) Done() <-chan struct{} { return e.done }

// State returns where in its life the command is.
func (e *Execution) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// Pid is the command's process, 0 before the hand-off. It stays when the
// command has ended, and may then be another's.
func (e *Execution) Pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return 0
	}
	return e.process.Pid()
}

// Processes lists the processes of the command that live, as far as they are
// found; none when it has ended.
func (e *Execution) Processes() []Survivor {
	select {
	case <-e.done:
		return nil
	default:
	}
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Remaining()
}

// AwaitingInput lists the processes of the command that wait, at this moment,
// for what [Execution.Write] writes, as far as the executor can see it. One that
// is listed does wait; one that isn't may do so in a way that can't be seen.
func (e *Execution) AwaitingInput() []Survivor {
	if !e.spec.OpenStdin && e.spec.Terminal == nil {
		return nil
	}
	select {
	case <-e.done:
		return nil
	default:
	}
	e.mu.Lock()
	p, ok := e.process.(InputWaiter)
	e.mu.Unlock()
	if !ok {
		return nil
	}
	return p.AwaitingInput()
}

// Background lets whoever waits in [Runner.Run] go on without the command,
// which runs on, is captured, and can be killed. The context that it was
// started with no longer ends it; its timeouts and [Runner.Close] do. It
// reports whether the command was waited for.
func (e *Execution) Background() bool {
	e.mu.Lock()
	if e.state != StateQueued && e.state != StateRunning {
		e.mu.Unlock()
		return false
	}
	first := false
	e.backgroundOnce.Do(func() { first = true; close(e.background) })
	if first && e.state == StateRunning {
		e.state = StateBackgrounded
	}
	e.mu.Unlock()
	if first {
		e.emit(Event{Kind: EventBackgrounded})
	}
	return first
}

// Feedback adds a message of the host's to the result, and lets whoever waits
// go on with it: the command is then in the background.
func (e *Execution) Feedback(text string) {
	e.mu.Lock()
	e.feedback = append(e.feedback, text)
	e.mu.Unlock()
	e.emit(Event{Kind: EventFeedback, Text: text})
	e.Background()
}

// Kill ends the command with all its processes, whatever state it is in, and
// waits until that is done, or ctx is. One that hasn't started doesn't. Steps
// is how; nil is the spec's way. It reports false if the command had ended
// already, which is no error.
//
// It is done within the times of the steps, [Spec.StopBound] and
// [Spec.DrainMax]; what could not be killed is in [Result.Survivors].
func (e *Execution) Kill(ctx context.Context, steps []StopStep) (killed bool, err error) {
	if err := checkStop(steps); err != nil {
		return false, invalid("%w", err)
	}
	return e.killFor(ctx, CauseKilled, steps)
}

func (e *Execution) killFor(ctx context.Context, cause Cause, steps []StopStep) (bool, error) {
	if steps == nil {
		steps = e.spec.Stop
	}
	select {
	case <-e.done:
		return false, nil
	default:
	}
	e.cancel(fmt.Errorf("%w: %s", ErrNotStarted, cause))
	select {
	case e.kills <- kill{cause, steps}:
	case <-e.done:
	case <-ctx.Done():
	}
	if err := e.Wait(ctx); err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause != CauseNone && e.cause != CauseUnknown && e.cause != CauseMemory, nil
}

// Signal sends a signal to all processes of the command that runs, as SIGSTOP or
// SIGCONT; ending it is better done by [Execution.Kill]. Its times go on while it
// is stopped. One that doesn't run gets nothing, which is no error.
func (e *Execution) Signal(s syscall.Signal) error {
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	select {
	case <-e.done:
		return nil
	default:
	}
	if p == nil {
		return nil
	}
	return p.Signal(s)
}

// Wait waits until everything is known, or ctx ends: then the error is its,
// and the command goes on.
func (e *Execution) Wait(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-e.done: // both: then it has ended
		return nil
	default:
		return ctx.Err()
	}
}

// Write writes to the command's standard input, or to its terminal. It may
// wait for the command to read. A command that doesn't read any more is no
// error: what is written is then lost, as in a shell's pipeline.
func (e *Execution) Write(b []byte) (int, error) { return e.stdin.write(b) }

// CloseStdin closes the command's standard input. At a terminal, ^D has to be
// written instead.
func (e *Execution) CloseStdin() error { return e.stdin.close() }

// Resize sets the size of the command's terminal.
func (e *Execution) Resize(s Size) error {
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	if p == nil || e.spec.Terminal == nil {
		return ErrNoTerminal
	}
	return p.Resize(s)
}

// Result says what is known now.
func (e *Execution) Result() *Result {
	awaiting := e.AwaitingInput()
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &Result{
		ID: e.id, Label: e.spec.Label, State: e.state, Command: e.spec.Command, Dir: e.spec.Dir,
		HandedOff: !e.handed.IsZero(), ExitCode: e.exit.Code, Signal: e.exit.Signal, Core: e.exit.Core, PipeStatus: e.exit.PipeStatus,
		KilledBy: e.cause, TimedOut: e.cause == CauseTimeout || e.cause == CauseIdle,
		Aborted: e.cause == CauseAborted || e.cause == CauseKilled || e.cause == CauseClosed,
		Timeout: e.spec.Timeout, OutputHeldOpen: e.heldOpen, AwaitingInput: awaiting,
		Leftover: slices.Clone(e.leftover), Survivors: slices.Clone(e.survive),
		Usage: e.exit.Usage, LimitsHit: e.exit.LimitsHit, Sandbox: e.exit.Sandbox,
		Feedback: slices.Clone(e.feedback), Notes: e.spec.Notes, Err: e.err,
	}
	if r.Sandbox == nil {
		r.Sandbox = e.spec.Authority.Sandbox
	}
	if u := e.exit.Usage; u != nil && u.OOMKills != nil {
		killed := *u.OOMKills > 0
		r.OOMKilled = &killed
	}
	if e.process != nil {
		r.Pid = e.process.Pid()
	}
	now := time.Now()
	if !e.ended.IsZero() {
		now = e.ended
	}
	if e.handed.IsZero() {
		r.Queued = now.Sub(e.made)
	} else {
		r.Queued, r.Duration = e.handed.Sub(e.made), now.Sub(e.handed)
	}
	e.out.results(r)
	return r
}

// emit tells the observer.
func (e *Execution) emit(ev Event) {
	observe := e.runner.config.Observe
	if observe == nil {
		return
	}
	ev.ID, ev.Time = e.id, time.Now()
	e.mu.Lock()
	if e.process != nil {
		ev.Pid = e.process.Pid()
	}
	e.mu.Unlock()
	ev.Seq = e.runner.seq.Add(1)
	observe(ev)
}
