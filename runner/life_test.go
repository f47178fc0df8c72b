package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A command ends in one of these ways, and each fact is told by itself.
func TestLife(t *testing.T) {
	const s = time.Second
	ignores := func(sigs ...syscall.Signal) func(*command) {
		return func(c *command) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, sig := range sigs {
				c.deaf[sig] = true
			}
		}
	}
	tests := []struct {
		name string
		on   func(*command)
		q    Request
		do   func(ctx context.Context, e *Execution) // while it runs

		took    time.Duration
		code    int
		signal  syscall.Signal
		cause   Cause
		signals []syscall.Signal
		left    int // survivors
		held    bool
		state   State
	}{
		{name: "by itself", on: after(2*s, 3), took: 2 * s, code: 3, state: StateExited},
		{name: "timeout", q: Request{Timeout: 5 * s}, took: 5 * s, code: -1, signal: syscall.SIGTERM, cause: CauseTimeout, signals: []syscall.Signal{15}, state: StateKilled},
		{
			name: "timeout, trapped", q: Request{Timeout: 5 * s}, on: func(c *command) {
				c.mu.Lock()
				c.onSignal = func(syscall.Signal) {
					go func() { <-time.After(s); c.end(Exit{Code: 0}) }()
				}
				c.mu.Unlock()
			}, took: 6 * s, code: 0, cause: CauseTimeout, signals: []syscall.Signal{15}, state: StateExited,
		},
		{name: "timeout, deaf", on: ignores(15), q: Request{Timeout: 5 * s}, took: 8 * s, code: -1, signal: 9, cause: CauseTimeout, signals: []syscall.Signal{15, 9}, state: StateKilled},
		{
			name: "never dies", on: ignores(15, 9), q: Request{Timeout: 5 * s}, took: 13 * s, code: -1, cause: CauseTimeout, left: 1, held: true, state: StateKilled,
		},
		{name: "idle", q: Request{IdleTimeout: 4 * s}, on: func(c *command) {
			for range 3 {
				<-time.After(3 * s)
				_, _ = c.out.Write([]byte("x"))
			}
		}, took: 13 * s, code: -1, signal: 15, cause: CauseIdle, signals: []syscall.Signal{15}, state: StateKilled},
		{name: "killed", do: func(ctx context.Context, e *Execution) {
			<-time.After(s)
			if ok, err := e.Kill(ctx, nil); !ok || err != nil {
				panic(fmt.Sprint(ok, err))
			}
		}, took: s, code: -1, signal: 15, cause: CauseKilled, signals: []syscall.Signal{15}, state: StateKilled},
		{name: "killed at once", on: ignores(15), do: func(ctx context.Context, e *Execution) {
			<-time.After(s)
			_, _ = e.Kill(ctx, Immediate)
		}, took: s, code: -1, signal: 9, cause: CauseKilled, signals: []syscall.Signal{9}, state: StateKilled},
		{name: "killed, then at once", on: ignores(15), do: func(ctx context.Context, e *Execution) {
			<-time.After(s)
			go func() { _, _ = e.Kill(ctx, nil) }()
			<-time.After(s)
			_, _ = e.Kill(ctx, Immediate)
		}, took: 2 * s, code: -1, signal: 9, cause: CauseKilled, signals: []syscall.Signal{15, 9}, state: StateKilled},
		{name: "timeout at the end", on: after(5*s, 0), q: Request{Timeout: 5*s + 1}, took: 5 * s, code: 0, state: StateExited},
		{name: "silent holder", on: func(c *command) {
			c.mu.Lock()
			c.holds = true
			c.mu.Unlock()
			after(s, 0)(c)
		}, took: s, code: 0, held: true, state: StateExited},
		{name: "leaves one", on: func(c *command) {
			c.mu.Lock()
			c.left = 2
			c.mu.Unlock()
			after(s, 0)(c)
		}, took: s, code: 0, signals: []syscall.Signal{9}, state: StateExited},
		{name: "leaves one, reported", q: Request{Leftover: LeftoverReport}, on: func(c *command) {
			c.mu.Lock()
			c.left = 2
			c.mu.Unlock()
			after(s, 0)(c)
		}, took: s, code: 0, left: 1, state: StateExited},
		{name: "leaves one, adopted", q: Request{Leftover: LeftoverAdopt}, on: func(c *command) {
			c.mu.Lock()
			c.left = 2
			c.mu.Unlock()
			after(s, 0)(c)
			<-time.After(10*s - 1)
			c.mu.Lock()
			c.left = 0
			c.mu.Unlock()
		}, took: 11 * s, code: 0, state: StateExited},
		{name: "its own signal", on: func(c *command) { <-time.After(s); c.end(Exit{Code: -1, Signal: 11}) }, took: s, code: -1, signal: 11, cause: CauseUnknown, state: StateKilled},
		{name: "for memory", on: func(c *command) {
			<-time.After(s)
			n := int64(1)
			c.end(Exit{Code: -1, Signal: 9, Usage: &Usage{OOMKills: &n}})
		}, took: s, code: -1, signal: 9, cause: CauseMemory, state: StateKilled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{on: tt.on}
				r, kinds := fakeRunner(t, f, Config{})
				tt.q.Command = "x"
				e, err := r.Start(t.Context(), resolve(t, r, tt.q))
				if err != nil {
					t.Fatal(err)
				}
				if tt.do != nil {
					tt.do(t.Context(), e)
				}
				<-e.Done()
				res := e.Result()
				if res.Duration < tt.took || res.Duration > tt.took+s {
					t.Errorf("Duration = %v; want %v", res.Duration, tt.took)
				}
				if res.ExitCode != tt.code || res.Signal != tt.signal || res.KilledBy != tt.cause || res.State != tt.state {
					t.Errorf("code %d, signal %v, killed by %q, %s; want %d, %v, %q, %s", res.ExitCode, res.Signal, res.KilledBy, res.State, tt.code, tt.signal, tt.cause, tt.state)
				}
				if res.TimedOut && res.Aborted || res.TimedOut != (tt.cause == CauseTimeout || tt.cause == CauseIdle) {
					t.Errorf("TimedOut %v, Aborted %v with cause %q", res.TimedOut, res.Aborted, tt.cause)
				}
				if len(res.Survivors) != tt.left || res.OutputHeldOpen != tt.held {
					t.Errorf("survivors %v, held open %v; want %d, %v", res.Survivors, res.OutputHeldOpen, tt.left, tt.held)
				}
				sent := f.started[0].sent()
				if tt.left == 0 && !slices.Equal(slices.Compact(sent), tt.signals) {
					t.Errorf("signals %v; want %v", sent, tt.signals)
				}
				got := kinds()
				if got[0] != EventQueued || got[1] != EventHandedOff || got[len(got)-1] != EventSettled {
					t.Errorf("events %v; want queued, handed_off, …, settled", got)
				}
				if ok, err := e.Kill(t.Context(), nil); ok || err != nil {
					t.Errorf("Kill() of what has ended = %v, %v; want false, nil", ok, err)
				}
				if again, err := r.Get(e.ID()); again != e || err != nil {
					t.Errorf("Get() = %v, %v; want the execution", again, err)
				}
			})
		})
	}
}

// A soft timeout lets the caller go on; the command stays, with its hard
// timeout, and its context has no power over it.
func TestSoftTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{slow: 7 * time.Second}
		r, kinds := fakeRunner(t, f, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		res, err := r.Run(ctx, resolve(t, r, Request{Command: "x", SoftTimeout: 5 * time.Second, Timeout: 60 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 12*time.Second {
			t.Errorf("Run() took %v; want 7 s for the start and 5 s from the hand-off", got)
		}
		if res.State != StateBackgrounded || !res.HandedOff || res.ExitCode != -1 || res.TimedOut {
			t.Errorf("%+v; want a command in the background", res)
		}
		cancel()
		e, err := r.Get(res.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.started[0].out.Write([]byte("later\n")); err != nil {
			t.Error(err)
		}
		<-e.Done()
		res = e.Result()
		if res.KilledBy != CauseTimeout || res.Duration != 60*time.Second || string(res.Stdout.Text()) != "later\n" {
			t.Errorf("killed by %q after %v, %q; want the hard timeout after 60 s, and the output", res.KilledBy, res.Duration, res.Stdout.Text())
		}
		if got := kinds(); !slices.Contains(got, EventBackgrounded) {
			t.Errorf("events %v; want one of the background", got)
		}
	})
}

// Whoever waits can be let go at any time, also by a message.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		r, _ := fakeRunner(t, f, Config{})
		go func() {
			<-time.After(3 * time.Second)
			r.List()[0].Feedback("look at this")
		}()
		res, err := r.Run(t.Context(), resolve(t, r, Request{Command: "x"}))
		if err != nil || res.State != StateBackgrounded || !slices.Equal(res.Feedback, []string{"look at this"}) {
			t.Errorf("Run() = %+v, %v; want the message", res, err)
		}
		e := r.List()[0]
		if e.Background() {
			t.Error("Background() twice is true")
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if res := e.Result(); res.KilledBy != CauseClosed || !res.Aborted {
			t.Errorf("after Close: %+v; want it ended", res)
		}
		if _, err := r.Start(t.Context(), e.Spec()); !errors.Is(err, ErrClosed) {
			t.Errorf("Start() after Close = %v; want ErrClosed", err)
		}
	})
}

// The context of one who waits ends the command.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakeRunner(t, &fake{}, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		res, err := r.Run(ctx, resolve(t, r, Request{Command: "x"}))
		if err != nil || !res.Aborted || res.TimedOut || res.KilledBy != CauseAborted || res.Duration != 4*time.Second {
			t.Errorf("Run() = %+v, %v; want it aborted after 4 s", res, err)
		}
	})
}

// What is stopped before the hand-off doesn't run, and says so.
func TestBeforeHandOff(t *testing.T) {
	asked := errors.New("no")
	tests := []struct {
		name string
		f    *fake
		c    Config
		do   func(ctx context.Context, e *Execution)
		want error
		code string
	}{
		{"killed while it starts", &fake{slow: time.Hour}, Config{}, func(ctx context.Context, e *Execution) {
			if ok, err := e.Kill(ctx, nil); ok || err != nil {
				panic(fmt.Sprint(ok, err))
			}
		}, ErrNotStarted, "NOT_STARTED"},
		{"not approved", &fake{}, Config{Approve: func(context.Context, *Spec) error { return asked }}, nil, ErrDenied, "NOT_APPROVED"},
		{"no answer", &fake{}, Config{ApproveTimeout: time.Minute, Approve: func(ctx context.Context, _ *Spec) error {
			<-ctx.Done()
			return ctx.Err()
		}}, nil, ErrDenied, "NOT_APPROVED"},
		{"no sandbox", &fake{err: &SandboxError{Err: asked, Hint: "mend"}}, Config{}, nil, asked, SandboxCode},
		{"no program", &fake{err: &StartError{Err: asked}}, Config{}, nil, asked, "START_FAILED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, kinds := fakeRunner(t, tt.f, tt.c)
				if tt.do != nil {
					go func() {
						<-time.After(time.Second)
						tt.do(t.Context(), r.List()[0])
					}()
				}
				res, err := r.Run(t.Context(), resolve(t, r, Request{Command: "x"}))
				if !errors.Is(err, tt.want) || ErrorCode(err) != tt.code {
					t.Errorf("Run() = %v (%s); want %v (%s)", err, ErrorCode(err), tt.want, tt.code)
				}
				if res == nil || res.HandedOff || res.State != StateFailed || res.ExitCode != -1 {
					t.Errorf("result %+v; want one that says nothing has run", res)
				}
				if got := kinds(); !slices.Equal(got, []EventKind{EventQueued, EventFailed}) {
					t.Errorf("events %v; want queued and failed", got)
				}
				if len(tt.f.started) > 0 {
					t.Error("it was started")
				}
			})
		})
	}
}

// A spec that Resolve didn't make starts nothing, and is no command of the runner's.
func TestForeignSpec(t *testing.T) {
	r, _ := fakeRunner(t, &fake{}, Config{})
	if res, err := r.Run(t.Context(), &Spec{}); res != nil || !errors.Is(err, ErrEmptyCommand) {
		t.Errorf("Run(an empty spec) = %v, %v; want ErrEmptyCommand", res, err)
	}
	if list := r.List(); len(list) != 0 {
		t.Errorf("List() has %d; want none", len(list))
	}
}

// No more commands run than may, and those that ended are forgotten in time.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakeRunner(t, &fake{}, Config{MaxRunning: 3, MaxPerOwner: 2, Retain: 2, RetainFor: time.Minute})
		start := func(owner string) (*Execution, error) {
			return r.Start(t.Context(), resolve(t, r, Request{Command: "x", Owner: owner}))
		}
		for i, tt := range []struct {
			owner string
			want  error
		}{{"a", nil}, {"a", nil}, {"a", ErrTooMany}, {"b", nil}, {"c", ErrTooMany}} {
			if _, err := start(tt.owner); !errors.Is(err, tt.want) {
				t.Errorf("start %d = %v; want %v", i, err, tt.want)
			}
		}
		all := r.List()
		if len(all) != 3 {
			t.Fatalf("List() has %d; want 3", len(all))
		}
		if err := r.KillOwner(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if _, err := all[2].Kill(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if _, err := r.Get(all[2].ID()); err != nil || len(r.List()) != 2 {
			t.Errorf("Get() of the last = %v, List() has %d; want it and 2", err, len(r.List()))
		}
		<-time.After(2 * time.Minute)
		if got := r.List(); len(got) != 0 {
			t.Errorf("List() after two minutes has %d; want none", len(got))
		}
		if _, err := r.Get(all[2].ID()); !errors.Is(err, ErrUnknown) {
			t.Errorf("Get() after two minutes = %v; want ErrUnknown", err)
		}
	})
}
