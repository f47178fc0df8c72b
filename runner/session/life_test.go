package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

func TestShellEnds(t *testing.T) {
	for _, tt := range []struct {
		text   string
		code   int
		signal syscall.Signal
		out    string
		lost   string
	}{
		{"echo a; exit 3", 3, 0, "a\n", "it ended with status 3"},
		{"exec sh -c 'echo replaced; exit 5'", 5, 0, "replaced\n", "it ended with status 5"},
		{"kill -9 $$", -1, syscall.SIGKILL, "", "it died of a signal: killed"},
		{"(sleep 600)& exec 255<&-; exit 4", 4, 0, "", "it ended with status 4"},
		{"trap 'echo bye' EXIT; exit", 0, 0, "bye\n", "it ended with status 0"},
		{"set -e; false", 1, 0, "", "it ended with status 1"},
	} {
		s := open(t, nil)
		_, first := run(t, s, "x=1")
		if !first.Fresh || first.Lost != "" {
			t.Errorf("the first command: %+v", first)
		}
		out, r := run(t, s, tt.text)
		if out != tt.out || r.Code != tt.code || r.Signal != tt.signal || !r.Ended || r.DirAfter != "" || r.Fresh {
			t.Errorf("%q: %q, %+v", tt.text, out, r)
		}
		if pid := s.Pid(); pid != 0 {
			t.Errorf("%q: there is still process %d", tt.text, pid)
		}
		out, r = run(t, s, "echo [$x]")
		if out != "[]\n" || !r.Fresh || r.Lost != tt.lost || r.Ended {
			t.Errorf("after %q: %q, %+v; want a new shell, since %q", tt.text, out, r, tt.lost)
		}
		if _, r = run(t, s, "true"); r.Fresh || r.Lost != "" {
			t.Errorf("and after that: %+v", r)
		}
	}
}

// A shell that ends between two commands is noticed.
func TestShellDiesIdle(t *testing.T) {
	s := open(t, nil)
	run(t, s, "x=1")
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); s.Pid() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the shell is still there")
		}
	}
	if out, r := run(t, s, "echo [$x]"); out != "[]\n" || !r.Fresh || r.Lost == "" {
		t.Errorf("after the shell was killed: %q, %+v", out, r)
	}
}

func TestBusy(t *testing.T) {
	s := open(t, nil)
	began := time.Now()
	r, err := s.Start(t.Context(), session.Command{Text: "read -t 600 <> <(:)"})
	if err != nil {
		t.Fatal(err)
	}
	var e *session.BusyError
	_, err = s.Start(t.Context(), session.Command{Text: "echo typed into it"})
	if !errors.As(err, &e) || e.Pid != r.Pid || e.Pid == 0 || e.Since.Before(began) || !strings.Contains(e.Command, "read") || !s.Busy() {
		t.Errorf("Start in a busy session: %#v; want a BusyError with pid %d", err, r.Pid)
	}
	select {
	case <-r.Done():
		t.Error("the command is said to have ended")
	default:
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-r.Done()
	if got, _ := r.Wait(); got.Code != -1 || got.Signal != syscall.SIGKILL || !got.Ended {
		t.Errorf("the command that was running: %+v", got)
	}
	if _, err := s.Start(t.Context(), session.Command{}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Start in a closed session: %v", err)
	}
}

// A command that takes too long ends with its shell, and what it wrote is kept.
func TestTimeout(t *testing.T) {
	testenv.CheckFDs(t)
	dir := t.TempDir()
	s := open(t, func(c *session.Config) { c.Dir = dir })
	run(t, s, "x=1")
	for _, text := range []string{
		"echo some; sleep 600", "echo some; while :; do :; done", "echo some; trap '' TERM INT HUP; sleep 600 & sleep 600; wait", "echo some; exec sleep 600",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := canceller{cancel: cancel}
		r, err := s.Run(ctx, session.Command{Text: text, Stdout: &out})
		if !errors.Is(err, errLate) || r.Code != -1 || !r.Ended || out.String() != "some\n" {
			t.Errorf("%q: %q, %+v, %v", text, out.String(), r, err)
		}
		if got, r := run(t, s, "echo [$x]"); got != "[]\n" || !r.Fresh || r.Lost != "it was killed" {
			t.Errorf("after %q: %q, %+v", text, got, r)
		}
	}
	// What was written before is passed on, also if nobody has read it yet.
	ctx, cancel := context.WithCancelCause(t.Context())
	out := canceller{cancel: cancel, wait: filepath.Join(dir, "written")}
	if _, err := s.Run(ctx, session.Command{Text: "echo some; sleep 0.2; echo more; touch written; sleep 600", Stdout: &out}); !errors.Is(err, errLate) || out.String() != "some\nmore\n" {
		t.Errorf("a command whose output nobody had read: %q, %v", out.String(), err)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(errLate)
	if _, err := s.Run(ctx, session.Command{Text: "touch ran"}); !errors.Is(err, errLate) {
		t.Errorf("with a context that is done: %v", err)
	}
	if out, _ := run(t, s, "ls"); out != "written\n" {
		t.Errorf("afterwards there is %q", out)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

var errLate = errors.New("too late")

// canceller cancels when something is written to it.
type canceller struct {
	bytes.Buffer
	cancel context.CancelCauseFunc
	wait   string // for this file first; may be empty
}

func (c *canceller) Write(p []byte) (int, error) {
	for deadline := time.Now().Add(time.Minute); c.wait != "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(c.wait); err == nil {
			break
		}
	}
	c.cancel(errLate)
	return c.Buffer.Write(p)
}

// Background jobs are reported and go on; their output is waited for, briefly.
func TestBackground(t *testing.T) {
	s := open(t, nil)
	// A machine under load may take longer than is waited: then once more.
	try := func(f func() bool) bool {
		for range 4 {
			if f() {
				return true
			}
		}
		return false
	}
	var out string
	var r session.Result
	if !try(func() bool {
		out, r = run(t, s, "kill $(jobs -p) 2>/dev/null; { sleep 0.1; echo late; exec sleep 600; } & echo now")
		return out == "now\nlate\n"
	}) || len(r.Left) != 1 || r.OutputCut {
		t.Errorf("with a job: %q, %+v", out, r)
	}
	pid := r.Left
	if out, r := run(t, s, "jobs -p | tail -n 1"); out != fmt.Sprintf("%d\n", pid[0]) || len(r.Left) != 0 {
		t.Errorf("jobs: %q, %+v; want %d", out, r, pid)
	}
	if out, r := run(t, s, "kill $(jobs -p); wait; echo done"); !strings.HasSuffix(out, "done\n") || len(r.Left) != 0 {
		t.Errorf("the end of the job: %q, %+v", out, r)
	}
	// What a process substitution still writes belongs to its command.
	if !try(func() bool {
		out, r = run(t, s, "echo x > >(sleep 0.2; cat)")
		return out == "x\n"
	}) {
		t.Errorf("a process substitution: %q, %+v", out, r)
	}
	// Who doesn't stop is cut.
	if !try(func() bool {
		out, r = run(t, s, "kill $(jobs -p) 2>/dev/null; { while :; do echo chatter; sleep 0.05; done; } & echo now")
		return r.OutputCut && strings.Count(out, "chatter") >= 10
	}) {
		t.Errorf("with a chatterer: %d bytes, %+v", len(out), r)
	}
	if out, r := run(t, s, "kill $(jobs -p); wait 2>/dev/null; printf end"); !strings.HasSuffix(out, "end") || r.OutputCut {
		t.Errorf("afterwards: %q, %+v", out, r)
	}
}

// A writer that fails, or dawdles, is no reason for the command to.
func TestWriters(t *testing.T) {
	s := open(t, nil)
	r, err := s.Run(t.Context(), session.Command{Text: "seq 100000; echo ok >f", Stdout: failing{}})
	if err != nil || r.Code != 0 || !errors.Is(r.WriteErr, syscall.ENOSPC) {
		t.Errorf("with a writer that fails: %+v, %v", r, err)
	}
	var slow dawdling
	r, err = s.Run(t.Context(), session.Command{Text: "seq 40000", Stdout: &slow})
	if err != nil || r.Code != 0 || r.WriteErr != nil || !strings.HasSuffix(slow.String(), "\n40000\n") {
		t.Errorf("with a slow writer: %d bytes, %+v, %v", slow.Len(), r, err)
	}
	if out, _ := run(t, s, "cat f"); out != "ok\n" {
		t.Errorf("the command didn't go on: %q", out)
	}
	r, err = s.Run(t.Context(), session.Command{Text: "seq 100000"})
	if err != nil || r.Code != 0 {
		t.Errorf("without a writer: %+v, %v", r, err)
	}
}

// Output of a shell that has ended is passed on to a writer that needs longer
// for a piece than is waited for more of it.
func TestWriterSlowAtEnd(t *testing.T) {
	s := open(t, nil)
	var slow lazy
	r, err := s.Run(t.Context(), session.Command{Text: "echo first; read -t 0.2 <> <(:); seq 10000; exit 3", Stdout: &slow})
	if err != nil || r.Code != 3 || r.OutputCut || !strings.HasSuffix(slow.String(), "\n10000\n") {
		t.Errorf("%d bytes, %+v, %v; want all", slow.Len(), r, err)
	}
}

// lazy takes its time for the first piece.
type lazy struct{ bytes.Buffer }

func (l *lazy) Write(p []byte) (int, error) {
	if l.Len() == 0 {
		time.Sleep(1200 * time.Millisecond)
	}
	return l.Buffer.Write(p)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

type dawdling struct{ bytes.Buffer }

func (d *dawdling) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return d.Buffer.Write(p)
}

// No start-up file is read, and none is handed on.
func TestStartUp(t *testing.T) {
	rc := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(rc, []byte("x=1; echo noise"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *session.Config) { c.Env = append(slices.Clone(environment), "BASH_ENV="+rc, "ENV="+rc) })
	if out, _ := run(t, s, "echo [$x]; bash -c 'echo [$x]'"); out != "[]\n[]\n" {
		t.Errorf("the command writes %q", out)
	}
}

func TestPrefix(t *testing.T) {
	s := open(t, func(c *session.Config) { c.Prefix = "time -p" })
	if out, _ := run(t, s, "echo a"); !strings.HasPrefix(out, "a\nreal ") {
		t.Errorf("with a prefix: %q", out)
	}
}

func TestIdle(t *testing.T) {
	testenv.CheckFDs(t)
	s := open(t, func(c *session.Config) { c.Idle = 50 * time.Millisecond })
	gone := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); s.Pid() != 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the idle shell is still there")
			}
		}
	}
	run(t, s, "x=1")
	gone()
	if out, r := run(t, s, "echo [$x]"); out != "[]\n" || r.Lost != "it had been idle" {
		t.Errorf("after the shell was idle: %q, %+v", out, r)
	}
	// A background job keeps it.
	_, r := run(t, s, "y=1; sleep 600 >/dev/null 2>&1 &")
	time.Sleep(200 * time.Millisecond)
	if out, again := run(t, s, "echo $y"); len(r.Left) != 1 || out != "1\n" || again.Fresh {
		t.Errorf("with a job: %+v, then %q, %+v", r, out, again)
	}
	for _, pid := range r.Left {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	gone()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := session.New(session.Config{}); err == nil {
		t.Error("New without a starter succeeds")
	}
	var e *session.StartError
	s := open(t, func(c *session.Config) { c.Shell = "/nonexistent/bash" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a shell: %v; want a StartError", err)
	}
	s = open(t, func(c *session.Config) { c.Shell = "/bin/false" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) {
		t.Errorf("with a shell that fails: %v; want a StartError", err)
	}
	s = open(t, func(c *session.Config) { c.Shell = "/bin/ls" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) || !strings.Contains(e.Said, "unrecognized") {
		t.Errorf("with a shell that complains: %#v; want what it says", err)
	}
}

// A shell that can't be killed is let go.
func TestStuck(t *testing.T) {
	session.ShortenKill(t, 200*time.Millisecond)
	var kept []*process
	s := open(t, func(c *session.Config) {
		c.Starter = session.StarterFunc(func(ctx context.Context, p session.Program) (session.Process, error) {
			proc, err := direct(ctx, p)
			if err != nil {
				return nil, err
			}
			if len(p.Files) > 3 { // a shell, and no check of its syntax
				kept = append(kept, proc.(*process))
				return immortal{kept[len(kept)-1]}, nil
			}
			return proc, nil
		})
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	var e *session.StuckError
	_, err := s.Run(ctx, session.Command{Text: "echo some; exec sleep 600", Stdout: &canceller{cancel: cancel}})
	if len(kept) != 1 {
		t.Fatalf("%d shells were started: %v", len(kept), err)
	}
	if !errors.As(err, &e) || e.Pid != kept[0].Pid() {
		t.Errorf("Run: %v; want a StuckError", err)
	}
	if _, r := run(t, s, "exit 2"); !r.Fresh || r.Code != 2 {
		t.Errorf("afterwards: %+v", r)
	}
	if err := kept[0].Kill(); err != nil { // it isn't reaped yet, so the number is its own
		t.Error(err)
	}
}

type immortal struct{ *process }

func (immortal) Kill() error { return nil }

// Nothing is left of many sessions.
func TestNoLeak(t *testing.T) {
	n := 20
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		n = 1000
	}
	testenv.CheckFDs(t)
	before := runtime.NumGoroutine()
	for i := range n {
		s := open(t, nil)
		text := []string{"echo a", "exit 1", "(sleep 600) & sleep 0", "exec true"}[i%4]
		if _, err := s.Run(t.Context(), session.Command{Text: text}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
