package runner

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// watch waits for a command that has been handed off: by itself it ends, or it is
// ended. ctx ends it as long as somebody waits for it.
type watch struct {
	e          *Execution
	hard, idle timer
	ended      <-chan struct{}
	abort      <-chan struct{}
	background <-chan struct{}
	adopted    *poll // not nil when the first process has ended, and others are stayed with
}

func (e *Execution) watch(ctx context.Context) *watch {
	return &watch{
		e: e, hard: newTimer(e.spec.Timeout), idle: newTimer(e.spec.IdleTimeout),
		ended: e.process.Ended(), abort: ctx.Done(), background: e.background,
	}
}

// reason is why a wait is over.
type reason int

const (
	nothing reason = iota
	endedItself
	toBeEnded
	softTimeout
	backgrounded
)

// run is the goroutine of a command: it waits on, for what a wait has told, ends
// the command when it must, and finds out everything about its end.
func (w *watch) run(why reason, k kill) {
	for why != endedItself && why != toBeEnded {
		why, k = w.wait(nil)
	}
	if why == toBeEnded {
		w.e.end(k)
	}
	w.e.settle()
}

// wait waits until the command has ended or is to be ended, or those who wait for
// it may go on: it is then called again. Soft tells of their timeout.
func (w *watch) wait(soft <-chan time.Time) (reason, kill) {
	e := w.e
	for {
		select {
		case <-w.ended:
			if e.spec.Leftover != LeftoverAdopt || len(e.process.Remaining()) == 0 {
				return w.over(endedItself, kill{})
			}
			e.emit(Event{Kind: EventExited})
			w.ended, w.adopted = nil, newPoll(adoptedPoll)
		case <-w.adopted.C():
			if len(e.process.Remaining()) == 0 {
				return w.over(endedItself, kill{})
			}
			w.adopted.again()
		case <-w.hard.C():
			return w.over(toBeEnded, kill{CauseTimeout, e.spec.Stop})
		case <-w.idle.C():
			if quiet := time.Since(e.made) - time.Duration(e.outAt.Load()); quiet < e.spec.IdleTimeout {
				w.idle.reset(e.spec.IdleTimeout - quiet)
				continue
			}
			return w.over(toBeEnded, kill{CauseIdle, e.spec.Stop})
		case <-w.abort:
			select {
			case <-w.background: // both: then nobody waits
				w.abort, w.background = nil, nil
				return backgrounded, kill{}
			default:
			}
			return w.over(toBeEnded, kill{CauseAborted, e.spec.Stop})
		case k := <-e.kills:
			return w.over(toBeEnded, k)
		case <-w.background:
			w.abort, w.background = nil, nil
			return backgrounded, kill{}
		case <-soft:
			return softTimeout, kill{}
		}
	}
}

// over is the end of the waiting.
func (w *watch) over(why reason, k kill) (reason, kill) {
	w.hard.stop()
	w.idle.stop()
	return why, k
}

// timer is one that needn't be there.
type timer struct{ t *time.Timer }

// newTimer returns a timer, which never fires if d is 0.
func newTimer(d time.Duration) timer {
	if d > 0 {
		return timer{time.NewTimer(d)}
	}
	return timer{}
}

// C is when it fires.
func (t timer) C() <-chan time.Time {
	if t.t == nil {
		return nil
	}
	return t.t.C
}

func (t timer) reset(d time.Duration) { t.t.Reset(d) }

func (t timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}

// yields is how often somebody who reads is let through, before it is waited for
// him with a timer.
const yields = 64

// quiet reports whether a command that has ended by itself has left nothing: all
// its output is there, and no process is. Else it is to be settled.
func (e *Execution) quiet() bool {
	for range yields { // what holds it open ends just when it does
		if e.out.ended() {
			break
		}
		runtime.Gosched()
	}
	if !e.out.ended() || len(e.process.Remaining()) > 0 {
		return false
	}
	e.mu.Lock()
	e.ended = time.Now()
	e.mu.Unlock()
	e.emit(Event{Kind: EventExited})
	e.emit(e.totals(EventDrained))
	return true
}

// end ends the command with all its processes. If it has ended by itself
// before, that is what counts, and only what it left is ended.
func (e *Execution) end(k kill) {
	if !e.hasEnded() {
		e.mu.Lock()
		e.cause = k.cause
		e.mu.Unlock()
		e.emit(Event{Kind: EventStopping, Cause: k.cause})
	}
	for steps := k.steps; len(steps) > 0; steps = steps[1:] {
		e.signal(steps[0].Signal)
		gone, more := e.gone(steps[0].Wait)
		if gone {
			return
		}
		if more != nil { // somebody is more in a hurry
			steps = append([]StopStep{{}}, more.steps...)
		}
	}
	e.killAll()
}

// signal sends a signal to all processes.
func (e *Execution) signal(s syscall.Signal) {
	_ = e.process.Signal(s) // whether it did anything is seen by what remains
	e.emit(Event{Kind: EventSignalled, Signal: signalName(s)})
}

func (e *Execution) hasEnded() bool {
	select {
	case <-e.process.Ended():
		return true
	default:
		return false
	}
}

// gone waits for all processes to end, at most for the given time, and returns
// early with another wish to end the command.
func (e *Execution) gone(within time.Duration) (gone bool, more *kill) {
	bound := time.NewTimer(within)
	defer bound.Stop()
	select {
	case <-e.process.Ended():
	case <-bound.C:
		return false, nil
	case k := <-e.kills:
		return false, &k
	}
	for p := newPoll(goonPoll); ; p.again() {
		if len(e.process.Remaining()) == 0 {
			return true, nil
		}
		select {
		case <-p.C():
		case <-bound.C:
			return false, nil
		case k := <-e.kills:
			return false, &k
		}
	}
}

// killAll kills until nothing remains, or it has taken too long: then what
// does is a survivor.
func (e *Execution) killAll() {
	bound := time.NewTimer(e.spec.StopBound)
	defer bound.Stop()
	e.emit(Event{Kind: EventSignalled, Signal: signalName(syscall.SIGKILL)})
	for p := newPoll(goonPoll); ; p.again() {
		_ = e.process.Signal(syscall.SIGKILL)
		left := e.process.Remaining()
		if len(left) == 0 && e.hasEnded() {
			return
		}
		select {
		case <-p.C():
		case <-e.kills: // it is being done
		case <-bound.C:
			e.mu.Lock()
			e.survive = left
			e.mu.Unlock()
			return
		}
	}
}

// settle finds out everything about a command that has ended, and says so.
func (e *Execution) settle() {
	e.mu.Lock()
	e.ended = time.Now()
	cause := e.cause
	e.mu.Unlock()
	e.emit(Event{Kind: EventExited})
	e.drain(e.spec.DrainMax)
	if cause == CauseNone {
		e.tidy()
	}
	e.emit(e.totals(EventDrained))
	e.conclude(cause)
}

// conclude is the end of a command of which nothing more is waited for.
func (e *Execution) conclude(cause Cause) {
	heldOpen := !e.out.ended() && e.out.giveUp()
	exit, err := e.process.Finish()
	<-e.out.copied // Finish has closed the streams
	e.out.c.End()
	if d, ok := e.runner.config.Executor.(Denier); ok && exit.Sandbox != nil && !exit.Sandbox.Traced && (exit.Code != 0 || exit.Signal != 0) {
		stderr, stdout := e.lastWords()
		exit.Sandbox.Denials = d.Denials(e.spec, exit, stderr, stdout)
		exit.Sandbox.Denied = len(exit.Sandbox.Denials) > 0
	}
	e.mu.Lock()
	e.exit, e.err, e.heldOpen = exit, err, heldOpen
	switch {
	case cause != CauseNone || exit.Signal == 0:
	case exit.Usage != nil && exit.Usage.OOMKills != nil && *exit.Usage.OOMKills > 0:
		e.cause = CauseMemory
	default:
		e.cause = CauseUnknown
	}
	e.state = StateExited
	if e.cause != CauseNone && exit.Code < 0 {
		e.state = StateKilled
	}
	e.mu.Unlock()
	e.finish(EventSettled, "")
}

// lastWords is what the command printed last. Where both streams are one, it
// is the first.
func (e *Execution) lastWords() (stderr, stdout []byte) {
	last := func(c *capture.Stream) []byte {
		shot := c.Snapshot()
		if shot.Omitted > 0 {
			shot.Head = append(shot.Head, '\n') // what is left out may end in a line
		}
		return append(shot.Head, shot.Tail...)
	}
	if e.out.merged || e.spec.Terminal != nil {
		return last(e.out.c.Stdout), nil
	}
	return last(e.out.c.Stderr), last(e.out.c.Stdout)
}

// lateBytes is how much may still come, after the time for a drain, from those
// who had to wait for the caller's writer.
const lateBytes = 1 << 20

// drain waits for the output to end: no longer than the given time, nor for
// longer than a while in which none came. That is about the command: while the
// caller's writer takes its time, nothing is given up, unless very much comes.
func (e *Execution) drain(within time.Duration) {
	if e.out.ended() {
		return
	}
	since := int64(time.Since(e.made))
	limit, idle := time.NewTimer(within), time.NewTimer(e.spec.DrainIdle)
	defer limit.Stop()
	defer idle.Stop()
	most := int64(-1)
	for {
		select {
		case <-e.out.copied:
			return
		case <-limit.C:
			size := e.out.c.Stdout.Size() + e.out.c.Stderr.Size()
			if most < 0 {
				most = size + lateBytes
			}
			if size > most || e.out.teeing.Load() == 0 {
				return
			}
			limit.Reset(e.spec.DrainIdle)
		case <-idle.C:
			if e.out.teeing.Load() > 0 {
				idle.Reset(e.spec.DrainIdle)
				continue
			}
			quiet := time.Since(e.made) - time.Duration(max(since, e.outAt.Load()))
			if quiet >= e.spec.DrainIdle {
				return
			}
			idle.Reset(e.spec.DrainIdle - quiet)
		}
	}
}

// tidy deals with the processes that a command has left which ended by itself.
func (e *Execution) tidy() {
	left := e.process.Remaining()
	if len(left) == 0 {
		return
	}
	e.mu.Lock()
	if e.spec.Leftover == LeftoverKill {
		e.leftover = left
	} else {
		e.survive = left
	}
	e.mu.Unlock()
	if e.spec.Leftover == LeftoverKill {
		e.killAll()
		e.drain(e.spec.DrainIdle) // what they had written
	}
}

// fail says that the command hasn't run.
func (e *Execution) fail(err error) {
	e.mu.Lock()
	e.state, e.err, e.ended = StateFailed, err, time.Now()
	var box *SandboxError
	if errors.As(err, &box) {
		if s := e.spec.Authority.Sandbox; s != nil {
			failed := *s
			failed.RunnerFailed = true
			e.exit.Sandbox = &failed
		}
	}
	e.mu.Unlock()
	e.out.c.End()
	e.finish(EventFailed, err.Error())
}

// finish is the last thing in a command's life.
func (e *Execution) finish(kind EventKind, text string) {
	e.cancel(nil)
	e.runner.finished(e)
	if e.runner.config.Observe != nil {
		e.emit(Event{Kind: kind, Text: text, Result: e.Result()})
	}
	close(e.done)
}

// poll is a timer that waits ever longer.
type poll struct {
	timer     *time.Timer
	next, max time.Duration
}

const (
	goonPoll    = 20 * time.Millisecond
	adoptedPoll = time.Second
)

func newPoll(limit time.Duration) *poll {
	const first = time.Millisecond
	return &poll{time.NewTimer(first), 2 * first, limit}
}

// C is when to look again; nil if p is.
func (p *poll) C() <-chan time.Time {
	if p == nil {
		return nil
	}
	return p.timer.C
}

// again sets the timer anew, when it has fired or isn't waited for any more.
func (p *poll) again() {
	p.timer.Reset(p.next)
	p.next = min(2*p.next, p.max)
}
