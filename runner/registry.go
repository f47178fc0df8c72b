package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// register makes room for one more command.
func (r *Runner) register(e *Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if limit := r.config.MaxRunning; limit > 0 && len(r.live) >= limit {
		return ErrTooMany
	}
	if limit := r.config.MaxPerOwner; limit > 0 {
		n := 0
		for _, other := range r.live {
			if other.spec.Owner == e.spec.Owner {
				n++
			}
		}
		if n >= limit {
			return ErrTooMany
		}
	}
	r.count++
	e.number = r.count
	r.live[e.id] = e
	return nil
}

// finished moves a command to those that have ended.
func (r *Runner) finished(e *Execution) {
	r.mu.Lock()
	delete(r.live, e.id)
	r.old = append(r.old, e)
	gone := r.prune()
	r.mu.Unlock()
	release(gone)
}

// prune removes what is retained no longer, and returns it. r.mu is held.
func (r *Runner) prune() []*Execution {
	n := max(0, len(r.old)-r.config.Retain)
	for limit := time.Now().Add(-r.config.RetainFor); n < len(r.old) && r.old[n].endedAt().Before(limit); {
		n++
	}
	if n == 0 {
		return nil
	}
	gone := slices.Clone(r.old[:n])
	r.old = slices.Delete(r.old, 0, n)
	return gone
}

func (e *Execution) endedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// release closes what executions hold open; their artifacts stay.
func release(gone []*Execution) {
	for _, e := range gone {
		_ = e.out.c.Close() // the artifacts are complete since the end
	}
}

// Get returns a command by its id: one that lives, or that has ended and is
// retained. The error is [ErrUnknown].
func (r *Runner) Get(id string) (*Execution, error) {
	r.mu.Lock()
	gone := r.prune()
	e := r.live[id]
	if e == nil {
		if i := slices.IndexFunc(r.old, func(e *Execution) bool { return e.id == id }); i >= 0 {
			e = r.old[i]
		}
	}
	r.mu.Unlock()
	release(gone)
	if e == nil {
		return nil, ErrUnknown
	}
	return e, nil
}

// List returns all commands that Get finds, the oldest first.
func (r *Runner) List() []*Execution {
	r.mu.Lock()
	gone := r.prune()
	all := slices.Clone(r.old)
	for _, e := range r.live {
		all = append(all, e)
	}
	r.mu.Unlock()
	release(gone)
	slices.SortFunc(all, func(a, b *Execution) int { return cmp.Compare(a.number, b.number) })
	return all
}

// KillOwner ends all commands of an owner, and waits until that is done, or ctx
// is.
func (r *Runner) KillOwner(ctx context.Context, owner string) error {
	return r.killAll(ctx, CauseKilled, func(e *Execution) bool { return e.spec.Owner == owner })
}

func (r *Runner) killAll(ctx context.Context, cause Cause, which func(*Execution) bool) error {
	r.mu.Lock()
	var all []*Execution
	for _, e := range r.live {
		if which(e) {
			all = append(all, e)
		}
	}
	r.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() { _, errs[i] = e.killFor(ctx, cause, nil) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all commands, those in the background too, waits for them, and
// closes the executor. Nothing starts afterwards. If ctx ends before, it
// returns its error, and what has been begun goes on.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if err := r.killAll(ctx, CauseClosed, func(*Execution) bool { return true }); err != nil {
		return err
	}
	r.mu.Lock()
	gone := r.old
	r.old = nil
	r.mu.Unlock()
	release(gone)
	return r.config.Executor.Close()
}
