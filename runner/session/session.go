// Package session keeps bash running between commands, so that the working
// directory, variables, functions and options that one command leaves are there
// for the next.
//
// A [Session] is one shell, which is started for the first command, and anew
// after it has ended. It runs one command at a time. A command's text reaches
// the shell through a descriptor that it reads its script from, so no prompt,
// quoting or terminal is involved; its status comes back on another one, marked
// by a number that can't be guessed. Standard input is the null device. All
// that a command wrote before it ended has been passed on when it is done.
//
// A [Pool] keeps the sessions of a host, by key.
//
// Limitations: a shell that lives on can be spoilt for later commands by
// earlier ones, if only by a function called builtin. Background jobs stay, and
// what they write goes to the command that runs at the time, or is dropped.
// Descriptors 50, 51 and 52 are the session's. The shell has to be bash (5.2 was
// tried), and who kills it has to end the whole tree: see [Process].
package session

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is what a [Starter] starts. The files stay the session's.
type Program struct {
	Args []string // the path of the program first
	Env  []string
	Dir  string
	// Files are the descriptors from 0 on.
	Files []*os.File
}

// Starter starts a program: confined, limited, elsewhere, as the host sees fit.
// The executor of package runner/local is one. The program must lead a new session without a terminal. It isn't bound to
// the context once it is started.
type Starter interface {
	StartProgram(ctx context.Context, p Program) (Process, error)
}

// StarterFunc is a function that is a [Starter].
type StarterFunc func(ctx context.Context, p Program) (Process, error)

// StartProgram calls f.
func (f StarterFunc) StartProgram(ctx context.Context, p Program) (Process, error) { return f(ctx, p) }

// Process is a program that was started. Wait is called once, Kill at any time,
// beside Wait too.
type Process interface {
	Pid() int
	// Wait waits until the program has ended, and ends what it has left behind.
	Wait() (Exit, error)
	// Kill ends the program and all that it has started. It needn't wait.
	Kill() error
}

// Exit is how a program ended.
type Exit struct {
	Code   int            // −1 if it is not known, or a signal
	Signal syscall.Signal // 0 if it is none
}

// Config is what a session is made of.
type Config struct {
	// Starter starts the shell. It is never nil.
	Starter Starter
	// Shell is the path of bash. Empty is /bin/bash.
	Shell string
	// Env is the shell's environment.
	Env []string
	// Dir is where the shell starts, and what it goes back to when its working
	// directory is gone.
	Dir string
	// Prefix is put before each command, with a space.
	Prefix string
	// Snapshot, if not nil, gives the shell aliases, functions and options.
	Snapshot *Snapshot
	// Idle is how long a shell without a command or a background job is kept.
	// Zero keeps it.
	Idle time.Duration
}

// Command is what a session runs.
type Command struct {
	Text string
	// Dir is where to go before, as cd would; it stays the working directory.
	// Empty stays.
	Dir string
	// Stdout and Stderr get what the command writes, from one goroutine each.
	// Nil drops it; if Stderr is nil, standard error goes to Stdout, in order.
	// A write that fails ends writing, not the command; one that waits keeps
	// the command waiting.
	Stdout, Stderr io.Writer
}

// Result is how a command ended.
type Result struct {
	// Code is the command's exit status, −1 if it isn't known.
	Code int
	// Signal is what the shell itself died of, 0 if it didn't.
	Signal syscall.Signal
	// DirBefore and DirAfter are the working directory, by the shell's PWD.
	// DirAfter is empty if the shell is gone.
	DirBefore, DirAfter string
	// Left are the processes that the command has left running, children of
	// the shell, by their numbers there.
	Left []int
	// Fresh says that the shell was started for this command, Lost what became
	// of the one before: how it ended, or empty if there was none.
	Fresh bool
	Lost  string
	// Ended says that the shell has ended with this command: it was told to,
	// replaced itself, or was killed. The next command gets a new one.
	Ended bool
	// OutputCut says that output may be missing: who held it open didn't stop
	// writing in time.
	OutputCut bool
	// WriteErr is the first error of Stdout or Stderr.
	WriteErr error
}

// Session is a shell that runs commands one after the other. Its methods may be
// called by several goroutines at once.
type Session struct {
	config Config

	mu     sync.Mutex
	closed bool
	shell  *shell // nil before the first command and after the end
	lost   string // how the last shell ended
	run    *Run   // nil while idle
	last   place  // what the shell said after the last command
	used   time.Time
	timer  *time.Timer
}

// New makes a session. Nothing is started yet.
func New(c Config) (*Session, error) {
	if c.Starter == nil {
		return nil, errors.New("session: there is no starter")
	}
	if c.Shell == "" {
		c.Shell = "/bin/bash"
	}
	c.Env = slices.Clone(c.Env)
	return &Session{config: c, used: time.Now()}, nil
}

// Run is a command that was started.
type Run struct {
	Pid     int // of the shell
	Started time.Time

	session *Session
	shell   *shell
	command Command
	before  place
	fresh   bool
	lost    string

	done   chan struct{}
	result Result
	err    error
}

// Start starts a command, which ends with its shell when ctx is done: what a
// shell is like after half a command nobody knows.
//
// Nothing has run if there is an error: a [*BusyError], a [*SyntaxError], a
// [*DirError], a [*StartError], [ErrClosed], or the context's.
func (s *Session) Start(ctx context.Context, c Command) (*Run, error) {
	if strings.IndexByte(c.Text, 0) >= 0 || strings.IndexByte(c.Dir, 0) >= 0 {
		return nil, &SyntaxError{Text: "a command can't have a NUL byte"}
	}
	if s.config.Prefix != "" {
		c.Text = s.config.Prefix + " " + c.Text
	}
	r := &Run{Started: time.Now(), session: s, command: c, done: make(chan struct{})}
	if err := s.claim(r); err != nil {
		return nil, err
	}
	if err := r.begin(ctx); err != nil {
		s.release(r)
		if s.isClosed() { // whatever came of that: the pool begins anew elsewhere
			return nil, ErrClosed
		}
		return nil, err
	}
	go r.follow(ctx)
	return r, nil
}

// claim makes the session busy with r.
func (s *Session) claim(r *Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.run != nil:
		e := &BusyError{Since: s.run.Started, Command: s.run.command.Text}
		if s.shell != nil {
			e.Pid = s.shell.proc.Pid()
		}
		return e
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.run = r
	return nil
}

// release makes the session idle, and forgets a shell that has ended.
func (s *Session) release(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.used = nil, time.Now()
	if s.shell != nil && s.shell.isOver() {
		s.forget()
	}
	if s.closed && s.shell != nil {
		_ = s.shell.kill() // Close waits for it too
		s.forget()
	}
	if s.shell != nil && s.config.Idle > 0 {
		s.timer = time.AfterFunc(s.config.Idle, s.expire)
	}
	close(r.done)
}

// forget lets go of a shell that has ended. The caller holds s.mu.
func (s *Session) forget() {
	s.lost = s.shell.epitaph()
	s.shell.close()
	s.shell, s.last = nil, place{}
}

// expire ends an idle shell, unless it has background jobs.
func (s *Session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil || s.shell == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if at, err := s.shell.ask(ctx); err == nil && len(at.children) > 0 {
		s.timer = time.AfterFunc(s.config.Idle, s.expire)
		return
	}
	_ = s.shell.kill() // it is let go in any case
	s.forget()
	s.lost = "it had been idle"
}

// Run runs a command to its end; see [Session.Start] and [Run.Wait].
func (s *Session) Run(ctx context.Context, c Command) (Result, error) {
	r, err := s.Start(ctx, c)
	if err != nil {
		return Result{Code: -1}, err
	}
	return r.Wait()
}

// Done is closed when the command has ended and its output is passed on.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait waits for Done. The error is the context's cause if it ended the
// command, or a [*StuckError]; a status other than 0 is none. The result is
// filled in any case.
func (r *Run) Wait() (Result, error) {
	<-r.done
	return r.result, r.err
}

// Busy reports whether a command is running.
func (s *Session) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil
}

// Pid is the shell's, 0 if there is none now.
func (s *Session) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shell == nil || s.shell.isOver() {
		return 0
	}
	return s.shell.proc.Pid()
}

// Close ends the shell, a running command with it, and waits for that, though
// not for ever: see [StuckError]. Closing again does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	run, sh := s.run, s.shell
	s.mu.Unlock()
	if sh == nil && run == nil {
		return nil
	}
	if run == nil {
		err := sh.kill()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.shell == sh {
			s.forget()
		}
		return err
	}
	if sh != nil {
		if err := sh.kill(); err != nil {
			return err
		}
	}
	<-run.done
	return nil
}
