package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/launcher"
	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/internal/proctree"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// Self is a supervisor: the calling program itself, which must call [Init]
// first.
const Self = "/proc/self/exe"

// selfName is what the calling program is called when it is to be a supervisor.
const selfName = "shofer-sandbox-supervisor"

// initialised says that [Init] was called: a program that is executed again
// without it would do all that it does once more.
var initialised atomic.Bool

// Init makes the calling program able to be its own supervisor, and to confine
// by bubblewrap. It is called first in main, before flags are looked at. In
// most processes it does nothing and returns; in those that this package
// starts it doesn't return.
func Init() {
	initialised.Store(true)
	launch.Init()
	if len(os.Args) > 1 && launcher.IsScope(os.Args[1:]) {
		os.Args[0] = selfName // by which it starts itself again
	}
	if len(os.Args) > 0 && os.Args[0] == selfName {
		unix.Exit(launcher.Main(os.Args[1:], "embedded"))
	}
}

// supervised is a command with a launcher between it and this process.
type supervised struct {
	cmd    *exec.Cmd // the launcher
	files  *files
	status *os.File // where its record is read
	told   chan struct{}
	ended  chan struct{}

	mu      sync.Mutex
	tree    *proctree.Tree
	box     *runner.Sandbox
	pid     int
	guard   int
	pidfd   int // of the command; -1 if unknown
	killed  time.Time
	failure error
	last    *record // "exited"
}

// record is a line of the launcher's status record.
type record struct {
	Event string `json:"event"`
	launch.Applied

	Pid  int  `json:"pid"`
	Code *int `json:"code"`

	Signal   *string         `json:"signal"`
	Core     bool            `json:"core"`
	Tampered []launch.Change `json:"tampered"`
	Restored []string        `json:"restored"`

	Denials  []launch.Refusal `json:"denials"`
	Untraced []launch.Unseen  `json:"untraced"`

	Group     *cgroup.Stats `json:"group"`
	LimitsHit []string      `json:"limits_hit"`
	Usage     struct {
		User   int64 `json:"user_us"`
		System int64 `json:"system_us"`
		MaxRSS int64 `json:"max_rss_bytes"`
		Read   int64 `json:"io_read_bytes"`
		Write  int64 `json:"io_write_bytes"`
	} `json:"usage"`

	Error    string      `json:"error"`
	Hint     string      `json:"hint"`
	Errno    string      `json:"errno"`
	Path     policy.Path `json:"path"`
	ExitCode int         `json:"exit_code"`
}

// startSupervised starts a command by a launcher, and returns when that says
// that it has been executed.
func (e *Executor) startSupervised(ctx context.Context, spec *runner.Spec, open func(*runner.Spec) (*files, error)) (runner.Process, error) {
	f, err := open(spec)
	if err != nil {
		return nil, &runner.StartError{Err: err}
	}
	p := &supervised{files: f, told: make(chan struct{}), ended: make(chan struct{}), pidfd: -1}
	if err := p.start(e, spec); err != nil {
		f.close()
		return nil, &runner.SandboxError{Err: err}
	}
	go p.read()
	select {
	case <-p.told:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // and with it all
		<-p.told
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return p, nil
	}
	p.tree.Release()
	_ = p.cmd.Wait() // it has failed
	f.close()
	if ctx.Err() != nil && !errors.Is(p.failure, runner.ErrUncertain) {
		return nil, ctx.Err()
	}
	return nil, p.failure
}

// start starts the launcher.
func (p *supervised) start(e *Executor, spec *runner.Spec) error {
	// The launcher finds what it grants by the environment that this executor
	// has found it by, and gives the command the one of the spec.
	pol := e.config.Policy
	pol.Env = policy.Env{Clear: true, Set: spec.Env}
	text, err := json.Marshal(pol)
	if err != nil {
		return err
	}
	pol0, err := scriptFile(text)
	if err != nil {
		return err
	}
	defer func() { _ = pol0.Close() }()
	status, theirs, err := pipe(false)
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()

	extra := append(p.files.extra[:len(p.files.extra):len(p.files.extra)], theirs, pol0)
	fd := 3 + len(p.files.extra)
	args := []string{"--supervise", "--quiet", "--linger", spec.DrainIdle.String(), "--parent", strconv.Itoa(os.Getpid()), "--status-fd", strconv.Itoa(fd), "--policy", "/proc/self/fd/" + strconv.Itoa(fd+1)}
	for i := range p.files.extra {
		args = append(args, "--keep-fd", strconv.Itoa(3+i))
	}
	if b := e.config.Options.Backend; b != launch.BackendAuto {
		args = append(args, "--backend", string(b))
	}
	if e.config.Restore {
		args = append(args, "--restore")
	}
	if b := e.config.Options.Bwrap; b != "" {
		args = append(args, "--bwrap", b)
	}
	if e.config.Options.TraceDenials {
		args = append(args, "--trace-denials")
	}
	args = append(append(args, string(pol.Worktree), "--"), spec.Argv...)

	// The context is for the start; the command is ended by other means.
	c := exec.Command(e.config.Supervisor, args...) //nolint:noctx // see above
	if e.config.Supervisor == Self {
		c.Args[0] = selfName
	}
	c.Env, c.Dir, c.ExtraFiles = e.config.Options.Environ, spec.Dir, extra
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: p.files.terminal != nil}
	if p.files.stdin != nil {
		c.Stdin = p.files.stdin
	}
	c.Stdout, c.Stderr = p.files.stdout, p.files.stderr
	err = c.Start()
	p.files.closeChild()
	if err != nil {
		_ = status.Close()
		return fmt.Errorf("supervisor: %w", err)
	}
	p.cmd, p.status, p.tree = c, status, proctree.New(c.Process.Pid, spec.Mark())
	return nil
}

// read reads the launcher's record to its end, which is when the launcher and
// its guard are gone.
func (p *supervised) read() {
	var once sync.Once
	told := func() { once.Do(func() { close(p.told) }) }
	in := bufio.NewReader(p.status)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var r record
		if json.Unmarshal(line, &r) != nil {
			continue // of a launcher that is newer than this
		}
		p.mu.Lock()
		p.take(&r)
		done := p.failure != nil || p.pid != 0
		p.mu.Unlock()
		if done {
			told()
		}
	}
	_ = p.status.Close()
	p.mu.Lock()
	if p.pid == 0 && p.failure == nil {
		err := errors.New("the supervisor ended before it could say what it did")
		if p.box != nil { // it was about to execute the command
			p.failure = fmt.Errorf("%w: %w", runner.ErrUncertain, err)
		} else {
			p.failure = &runner.SandboxError{Err: err}
		}
	}
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
	p.mu.Unlock()
	told()
	close(p.ended)
}

// take takes a line of the record. p.mu is held.
func (p *supervised) take(r *record) {
	switch r.Event {
	case "applied":
		p.box = sandboxOf(&r.Applied)
	case "started":
		p.pid, p.pidfd = r.Pid, openBelow(r.Pid, p.cmd.Process.Pid)
		p.guard = proctree.Parent(r.Pid)
	case "exited":
		p.last = r
	case "setup-failed":
		p.failure = &runner.SandboxError{Hint: r.Hint, Err: errors.New(r.Error)}
	case "exec-failed":
		cause := errors.New(r.Error)
		if r.ExitCode == launch.ExitNotFound {
			cause = fmt.Errorf("%w%.0w", cause, fs.ErrNotExist)
		}
		p.failure = &runner.StartError{Hint: r.Hint, Err: cause}
	}
}

// openBelow returns a pidfd of a process that descends from a launcher. It is -1 if
// there is none: its number may be anybody's when it has ended.
func openBelow(pid, launcher int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if linux.OwnProc() && !proctree.Descends(pid, launcher) {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

func (p *supervised) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

func (p *supervised) Ended() <-chan struct{} { return p.ended }

func (p *supervised) Streams() runner.Streams { return p.files.streams }

// patience is how long the guard has to end everything when the command has
// been killed, before the launcher is, which ends everything too.
const patience = 3 * time.Second

// Signal sends a signal to all processes of the command. SIGKILL to the first
// one makes the guard kill the rest, in its domain, which nothing leaves.
func (p *supervised) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s == syscall.SIGKILL:
	case p.pidfd >= 0 && !linux.OwnProc(): // the others aren't found
		return unix.PidfdSendSignal(p.pidfd, s, nil, 0)
	default:
		p.tree.SignalEach(s, p.cmd.Process.Pid, p.guard)
		return nil
	}
	if p.killed.IsZero() && p.pidfd >= 0 {
		p.killed = time.Now()
		return unix.PidfdSendSignal(p.pidfd, s, nil, 0)
	}
	if time.Since(p.killed) > patience {
		return p.cmd.Process.Kill()
	}
	return nil
}

// AwaitingInput lists what is seen to wait for the command's input.
func (p *supervised) AwaitingInput() []runner.Survivor { return awaiting(p, p.files.input) }

// Remaining lists what is seen, which is nothing when the guard has ended.
func (p *supervised) Remaining() []runner.Survivor {
	select {
	case <-p.ended:
		return nil
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []proctree.Process
	for _, f := range p.tree.Scan() {
		if f.Pid != p.cmd.Process.Pid && f.Pid != p.guard {
			left = append(left, f)
		}
	}
	return survivors(left)
}

func (p *supervised) Resize(s runner.Size) error { return p.files.resize(s) }

// Finish reaps the launcher.
func (p *supervised) Finish() (runner.Exit, error) {
	stages := p.files.pipeStatus()
	p.files.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	exit := runner.Exit{Code: -1, Sandbox: p.box, PipeStatus: stages}
	select {
	case <-p.ended:
	default:
		go func() {
			_ = p.cmd.Process.Kill()
			p.tree.Release()
			_ = p.cmd.Wait() // nobody asks any more
		}()
		return exit, errNotEnded
	}
	p.tree.Release()
	_ = p.cmd.Wait() // the record says how the command ended
	if p.last == nil {
		return exit, errors.New("the supervisor was killed, and the command with it")
	}
	r := p.last
	if r.Code != nil {
		exit.Code = *r.Code
	}
	if r.Signal != nil {
		exit.Signal, exit.Core = unix.SignalNum(*r.Signal), r.Core
	}
	exit.Usage = waitedFor(
		time.Duration(r.Usage.User)*time.Microsecond, time.Duration(r.Usage.System)*time.Microsecond,
		r.Usage.MaxRSS, r.Usage.Read, r.Usage.Write,
	)
	addGroup(exit.Usage, r.Group)
	exit.LimitsHit = r.LimitsHit
	if exit.Sandbox != nil {
		exit.Sandbox.Tampered, exit.Sandbox.Restored = tampered(r.Tampered), r.Restored
		if r.Denials != nil {
			addTrace(exit.Sandbox, &launch.Trace{Refused: r.Denials, Unseen: r.Untraced})
		}
	}
	return exit, nil
}
