package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

// errTimeout ends a command of a session.
var errTimeout = errors.New("the timeout is over")

// ran is how a command of a session went.
type ran struct {
	ExitCode  *int    `json:"exit_code"`
	Signal    *string `json:"signal"`
	TimedOut  bool    `json:"timed_out"`
	Aborted   bool    `json:"aborted"`
	Duration  int64   `json:"duration_ms"`
	DirBefore string  `json:"dir_before"`
	DirAfter  string  `json:"dir_after,omitempty"`
	// Left are processes that it left running, Fresh says that it got a new
	// shell, Lost what became of the one before, and Ended that the shell ended
	// with it.
	Left  []int  `json:"left,omitempty"`
	Fresh bool   `json:"fresh"`
	Lost  string `json:"lost,omitempty"`
	Ended bool   `json:"ended"`
	// OutputCut says that there may be more output.
	OutputCut bool   `json:"output_cut"`
	Error     string `json:"error,omitempty"`
	// Exit is what a program that ran it exits with.
	Exit int `json:"exit"`
}

// shell is a session with the time that its commands have.
type shell struct {
	*session.Session
	timeout time.Duration // 0 for none
}

// run runs a command. An error means that nothing has run.
func (s *shell) run(ctx context.Context, t background.Task) (*ran, error) {
	timeout := t.Timeout
	if timeout == 0 {
		timeout = s.timeout
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	begin := time.Now()
	r, err := s.Start(ctx, session.Command{Text: t.Text, Dir: t.Dir, Stdout: t.Stdout, Stderr: t.Stderr})
	if err != nil {
		return nil, err
	}
	res, err := r.Wait()
	got := &ran{
		Duration: time.Since(begin).Milliseconds(), DirBefore: res.DirBefore, DirAfter: res.DirAfter, Left: res.Left,
		Fresh: res.Fresh, Lost: res.Lost, Ended: res.Ended, OutputCut: res.OutputCut, Exit: exitFailed,
	}
	switch {
	case errors.Is(err, errTimeout):
		got.TimedOut, got.Exit = true, exitTimeout
	case ctx.Err() != nil && err != nil:
		got.Aborted, got.Exit = true, exitSignal+int(syscall.SIGINT)
	case err != nil:
		got.Error = err.Error()
	case res.Signal != 0:
		name := signalText(res.Signal)
		got.Signal, got.Exit = &name, exitSignal+int(res.Signal)
	case res.Code >= 0:
		got.ExitCode, got.Exit = &res.Code, res.Code
	}
	return got, nil
}

// shells starts sessions in place of commands: what ends a command ends the
// session, and what is printed in it is the command's output.
type shells struct {
	*local.Executor
	timeout, idle time.Duration
	bashrc        bool
	now           *shellProcess // once there is one
}

// open makes a session of a spec. No shell is started yet.
func (x *shells) open(ctx context.Context, s *runner.Spec, starter session.Starter) (*shell, error) {
	if filepath.Base(s.Argv[0]) != "bash" {
		return nil, &hinted{errors.New("a session takes bash, not " + s.Argv[0]), "--shell PATH says where bash is"}
	}
	c := session.Config{Starter: starter, Shell: s.Argv[0], Env: s.Env, Dir: s.Dir}
	if x.bashrc {
		var err error
		if c.Snapshot, err = session.Take(ctx, c); err != nil {
			return nil, &hinted{err, "leave --bashrc out"}
		}
	}
	own, err := session.New(c)
	if err != nil {
		return nil, err
	}
	return &shell{own, x.timeout}, nil
}

// Start starts a session with its shell.
func (x *shells) Start(ctx context.Context, s *runner.Spec) (runner.Process, error) {
	p := &shellProcess{idle: x.idle, ended: make(chan struct{})}
	var err error
	if p.shell, err = x.open(ctx, s, session.StarterFunc(p.start(x.Executor))); err != nil {
		return nil, err
	}
	if _, err := p.shell.Run(ctx, session.Command{Text: ":"}); err != nil {
		return nil, errors.Join(err, p.shell.Close())
	}
	p.pid = p.shell.Pid()
	p.stdout.r, p.stdout.w = io.Pipe()
	p.stderr.r, p.stderr.w = io.Pipe()
	p.restart()
	x.now = p
	return p, nil
}

// run runs a command in the session for somebody who asks.
func (x *shells) run(ctx context.Context, t background.Task) (json.RawMessage, error) {
	p := x.now
	t.Stdout = io.MultiWriter(p.stdout.w, t.Stdout)
	if t.Stderr != nil {
		t.Stderr = io.MultiWriter(p.stderr.w, t.Stderr)
	}
	defer p.restart()
	got, err := p.shell.run(ctx, t)
	if err != nil {
		return nil, err
	}
	return json.Marshal(got)
}

// shellProcess is a session as a process: it ends when the session is ended.
type shellProcess struct {
	shell          *shell
	pid            int // of the first shell
	stdout, stderr struct {
		r *io.PipeReader
		w *io.PipeWriter
	}
	ended chan struct{}
	once  sync.Once
	idle  time.Duration // 0 for any time

	mu       sync.Mutex
	programs []runner.Process // that may still run
	timer    *time.Timer
}

// start is an executor's start of a program, which is noted.
func (p *shellProcess) start(x *local.Executor) func(context.Context, session.Program) (session.Process, error) {
	return func(ctx context.Context, program session.Program) (session.Process, error) {
		proc, err := x.StartProgram(ctx, program)
		if r, ok := proc.(runner.Process); ok && err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.programs = append(p.alive(), r)
		}
		return proc, err
	}
}

// alive lists the programs that run. p.mu is held.
func (p *shellProcess) alive() (some []runner.Process) {
	for _, r := range p.programs {
		select {
		case <-r.Ended():
		default:
			some = append(some, r)
		}
	}
	return some
}

// restart begins to count the time without a command anew.
func (p *shellProcess) restart() {
	if p.idle <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.timer = time.AfterFunc(p.idle, p.expire)
		return
	}
	p.timer.Reset(p.idle)
}

// expire ends a session that runs neither a command nor a background job.
func (p *shellProcess) expire() {
	const shellAlone = 1
	if p.shell.Busy() || len(p.Remaining()) > shellAlone {
		p.restart()
		return
	}
	p.end()
}

// end ends the session, if that isn't done yet.
func (p *shellProcess) end() {
	p.once.Do(func() {
		go func() {
			defer close(p.ended)
			_ = p.shell.Close() // what couldn't be killed is among what remains
			_ = p.stdout.w.Close()
			_ = p.stderr.w.Close()
		}()
	})
}

func (p *shellProcess) Pid() int { return p.pid }

func (p *shellProcess) Ended() <-chan struct{} { return p.ended }

func (p *shellProcess) Streams() runner.Streams {
	return runner.Streams{Stdout: p.stdout.r, Stderr: p.stderr.r}
}

// Signal ends the session: no signal does anything else to it.
func (p *shellProcess) Signal(syscall.Signal) error {
	p.end()
	return nil
}

func (p *shellProcess) Remaining() (left []runner.Survivor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.programs = p.alive()
	for _, r := range p.programs {
		left = append(left, r.Remaining()...)
	}
	return left
}

func (p *shellProcess) Resize(runner.Size) error { return runner.ErrNoTerminal }

func (p *shellProcess) Finish() (runner.Exit, error) {
	_ = p.stdout.r.Close()
	_ = p.stderr.r.Close()
	return runner.Exit{}, nil
}
