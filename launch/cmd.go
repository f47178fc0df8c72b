package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Cmd is a confined command that is being prepared or run. It has the shape of
// [exec.Cmd], and where it isn't said otherwise its behaviour.
//
// A Cmd is used once. Its methods may not be called by several goroutines at
// once; different Cmds of one [Sandbox] may.
type Cmd struct {
	// Path is the file to run, and is never empty. If it is relative, it is
	// relative to Dir.
	Path string
	// Args are the arguments, the command first. Empty stands for {Path}.
	Args []string
	// Env is the environment. Nil is that of the sandbox, which
	// [Cmd.Environ] returns; a list that wasn't made from it lacks the
	// variables that point the tools' caches into the grants.
	Env []string
	// Dir is the working directory. Zero is the calling process's own.
	Dir string

	// Stdin is what the command reads; nil is the null device. An [*os.File]
	// is handed to it; of anything else a goroutine copies.
	Stdin io.Reader
	// Stdout and Stderr are where its output goes; nil is the null device.
	// An [*os.File] is handed to it, and, if it is a file outside the grants,
	// is writable by name too. If the two are the same and comparable, at most
	// one goroutine at a time calls Write.
	Stdout, Stderr io.Writer
	// ExtraFiles become descriptors 3 and up; a nil entry leaves its number
	// closed. No other descriptor reaches the command.
	ExtraFiles []*os.File

	// NewSession starts the command in a new session, away from the terminal;
	// NewGroup only in a new process group. At most one of them.
	NewSession, NewGroup bool
	// ControllingTerminal makes the command's standard input the controlling
	// terminal of its new session: it must be a terminal that no session has
	// yet. It needs NewSession.
	ControllingTerminal bool

	// Guard puts a guard between this process and the command: a copy of this
	// process that executes nothing, adopts the command's orphans, and kills all
	// that it has started when it has ended, when [Cmd.EndAll] says so, and when
	// this process is gone, however that came. Under bubblewrap, which does that
	// itself, it changes nothing. Where [Sandbox.CanGuard] says no, Start fails.
	//
	// It costs a fork, which takes longer the more memory this process has: some
	// 10 ms for 512 MiB. What this process rewrites later is kept twice, and what
	// was in its memory, secrets too, lives on in the guard. That is as likely to
	// be killed for want of memory as this process. It has a session of its own,
	// so that without NewSession too the command has no terminal.
	Guard bool
	// Linger is how long, under bubblewrap or with a guard, what the command has
	// left gets to end by itself when it has ended: it is killed then. Zero
	// kills it at once.
	Linger time.Duration

	// Group is a control group of the caller's that the command starts in, and
	// that the caller ends; [Options.Groups] keeps the command in it. Nil makes
	// one where the policy's limits take that: Wait then ends what the command
	// has left in it.
	Group *cgroup.Group

	// Process is the command once it is started. Under [BackendBwrap] it is
	// bubblewrap: killing it kills the command and all that it has started,
	// other signals are to be sent by [Cmd.Signal], and a command that died of
	// signal n has exit code 128+n. With a guard it is nil: [Cmd.Pid] is the
	// command, which is no child of this process, [Cmd.EndAll] ends it, and
	// [Cmd.Status] tells how it ended.
	Process *os.Process
	// ProcessState is there once Wait has returned.
	ProcessState *os.ProcessState
	// Tampered says, once Wait has returned, which protected paths are not as
	// they were before Start. It can't tell who changed them, and what the
	// command left running may still do so.
	Tampered []Change

	// Err is why the command can't be started, if that is known already:
	// [Sandbox.Command] didn't find it.
	Err error

	// Cancel is called when the context of [Sandbox.CommandContext] is done.
	// Zero kills the process, and only that one; with NewSession or NewGroup
	// its whole group.
	Cancel func() error
	// WaitDelay bounds how long Wait waits, after the context is done or the
	// command has ended, for pipes that other processes hold open. Zero
	// doesn't bound it.
	WaitDelay time.Duration

	sandbox *Sandbox
	started *Started
	ctx     context.Context
	io      stdio
	watch   chan error // result of the goroutine that watches ctx
	ended   chan struct{}
	used    *cgroup.Stats
	end     *Ended // as the inner stage or the guard saw it; nil without one
	asked   bool   // the guard, how it ended
	waited  bool
	done    bool
}

// Command returns a command that runs confined. If name has no slash it is
// looked up in the PATH of the sandbox's environment.
func (s *Sandbox) Command(name string, arg ...string) *Cmd {
	c := &Cmd{Path: name, Args: append([]string{name}, arg...), sandbox: s}
	path, err := lookPath(name, "", s.variant().resolved.Env)
	if err != nil {
		c.Err = err
		return c
	}
	c.Path = path
	return c
}

// CommandContext is like [Sandbox.Command], with a context that ends the
// command when it is done first; see Cancel and WaitDelay.
func (s *Sandbox) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	if ctx == nil {
		panic("launch: nil context")
	}
	c := s.Command(name, arg...)
	c.ctx = ctx
	return c
}

// String returns the path and the arguments, for people.
func (c *Cmd) String() string {
	if len(c.Args) < 2 {
		return c.Path
	}
	return c.Path + " " + strings.Join(c.Args[1:], " ")
}

// Environ returns a copy of the environment that the command would get.
func (c *Cmd) Environ() []string {
	if c.Env != nil {
		return slices.Clone(c.Env)
	}
	return c.sandbox.Environ()
}

// Start starts the command and returns when its exec has succeeded. The caller
// must call [Cmd.Wait].
//
// Errors are [*SetupError] and [*ExecError], and the context's if it is done
// already. After an error nothing runs.
func (c *Cmd) Start() (err error) {
	switch {
	case c.sandbox == nil:
		return errors.New("launch: a Cmd has to be made by a Sandbox's Command")
	case c.done:
		return errors.New("launch: already started")
	}
	c.done = true
	defer func() {
		c.io.closeChild()
		if err != nil {
			c.io.closeParent()
		}
	}()
	if c.Err != nil {
		return c.Err
	}
	if c.ctx != nil && c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	switch {
	case c.NewSession && c.NewGroup:
		return &SetupError{Stage: StageStart, Err: errors.New("NewSession and NewGroup exclude each other")}
	case c.ControllingTerminal && !c.NewSession:
		return &SetupError{Stage: StageStart, Err: errors.New("ControllingTerminal needs NewSession")}
	}
	files, err := c.files()
	if err != nil {
		return &SetupError{Stage: StageStart, Err: err}
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	c.started, err = c.sandbox.attempt(c.Group, func(v *variant, overlays *slots, g *group) (*Started, error) {
		p := &spawn.Plan{
			Path: c.Path, Argv: args, Env: c.Env, Dir: c.Dir, Files: files,
			NewSession: c.NewSession, NewGroup: c.NewGroup, ControllingTerminal: c.ControllingTerminal,
			KeepIgnored: keptSignals,
		}
		if p.Env == nil {
			p.Env = v.resolved.Env
		}
		c.sandbox.limits.addTo(p, g)
		_, release, err := c.sandbox.confine(v, p, overlays)
		defer release()
		if err != nil {
			return nil, err
		}
		if v.boxed() {
			return c.sandbox.startCmd(v, p, c.Linger)
		}
		if c.Guard {
			return c.sandbox.startGuarded(v, p, overlays, &spawn.Guard{Linger: c.Linger})
		}
		return c.sandbox.startPlan(v, p, args[0])
	})
	if err != nil {
		return err
	}
	pid := c.started.Pid
	if c.started.Box != nil {
		pid = c.started.Box.bwrap
	}
	if !c.guarded() {
		if c.Process, err = os.FindProcess(pid); err != nil { // it isn't reaped, so it is there
			return startFailure(err)
		}
	}
	c.io.start()
	c.watchContext()
	return nil
}

// files opens what the command gets as its descriptors, in their order.
func (c *Cmd) files() ([]int, error) {
	fds := make([]int, 0, 3+len(c.ExtraFiles))
	in, err := c.io.input(c.Stdin)
	if err != nil {
		return nil, err
	}
	out, err := c.io.output(c.Stdout)
	if err != nil {
		return nil, err
	}
	errOut := out
	if c.Stderr == nil || !sameWriter(c.Stderr, c.Stdout) {
		if errOut, err = c.io.output(c.Stderr); err != nil {
			return nil, err
		}
	}
	for _, f := range append([]*os.File{in, out, errOut}, c.ExtraFiles...) {
		if f == nil {
			fds = append(fds, -1)
			continue
		}
		fd, err := descriptor(f)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// Run starts the command and waits for it; see [Cmd.Start] and [Cmd.Wait].
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Wait waits for the command to end and for its output to be copied, and
// closes what belongs to it. A status other than 0 is an [*exec.ExitError]; a
// context that ended the command makes the error its own. A pipe that is still
// held open when WaitDelay has passed gives [exec.ErrWaitDelay], unless there
// is another error. With a guard no status is an error; [Cmd.Status] tells.
//
// Where the policy limits what a command and its descendants use together, what
// the command has left is killed. What can't be killed within ten seconds gives
// a [*cgroup.SurvivorsError], unless there is another error.
func (c *Cmd) Wait() error {
	if c.started == nil {
		return errors.New("launch: not started")
	}
	if c.waited {
		return errors.New("launch: Wait was already called")
	}
	c.waited = true
	var watchErr error
	if c.guarded() {
		c.AwaitGuard()
	} else if c.watch != nil {
		// Reaping comes last: until then nothing can be killed by mistake.
		awaitEnd(c.Process.Pid)
	}
	if c.watch != nil {
		close(c.ended)
		watchErr = <-c.watch
	}
	err := c.reap()
	if err != nil && watchErr != nil || c.guarded() && watchErr != nil {
		err = watchErr // our own kill caused the status
	}
	if b := c.started.Box; b != nil {
		c.end = b.ended()
		b.close()
	}
	// Before the pipes, which what is left may hold open.
	var endErr error
	c.used, endErr = c.started.EndGroup(context.Background())
	ioErr := c.io.wait(c.WaitDelay)
	if err == nil {
		err = endErr
	}
	if err == nil {
		err = ioErr
	}
	c.io.closeParent()
	c.Tampered = c.started.Tampered()
	return err
}

// Restore puts back, once Wait has returned, what is in Tampered, as far as it was
// kept, and says what it did and what it could not, a line each. What was created
// is moved aside, never deleted.
func (c *Cmd) Restore() (done []string) {
	if !c.waited {
		return nil
	}
	return c.started.Restore()
}

// reap reaps what was started.
func (c *Cmd) reap() (err error) {
	if c.guarded() {
		return c.reapGuard()
	}
	if c.ProcessState, err = c.Process.Wait(); err == nil && !c.ProcessState.Success() {
		err = &exec.ExitError{ProcessState: c.ProcessState}
	}
	return err
}

// Status returns, once Wait has returned, how the command ended and what it
// used. Where ProcessState is bubblewrap's, a signal is told from an exit code
// by this alone; ok is false if bubblewrap was killed before the command had
// ended, or the command with it.
func (c *Cmd) Status() (e Ended, ok bool) {
	switch {
	case !c.waited || c.ProcessState == nil && !c.guarded():
		return Ended{}, false
	case c.started.Box != nil || c.guarded():
		if c.end == nil {
			return Ended{}, false
		}
		e = *c.end
	default:
		e.Status, _ = c.ProcessState.Sys().(syscall.WaitStatus)
		if ru, isRusage := c.ProcessState.SysUsage().(*syscall.Rusage); isRusage {
			e.Rusage = *ru
		}
	}
	e.Tampered, e.Trace = c.Tampered, c.Trace()
	e.Group, e.LimitsHit = c.used, c.sandbox.LimitsHit(e.Status, c.used)
	return e, true
}

// Trace returns, once Start has, what was seen of the command until now, and
// when Wait has returned all that it did; nil without [Options.TraceDenials].
func (c *Cmd) Trace() *Trace {
	if c.started == nil {
		return nil
	}
	return c.started.Trace()
}

// ControlGroup returns, once Start has, the control group that was made for the
// command, nil if none was: one of the caller's may have others in it. Its Kill,
// Procs and Stats may be used until Wait is called, which ends and removes it.
func (c *Cmd) ControlGroup() *cgroup.Group {
	if c.started == nil || c.started.group.given {
		return nil
	}
	if g := c.started.group.Group; g != nil && g.Made() {
		return g
	}
	return nil
}

// Signal sends the command a signal. With a guard only SIGKILL can be sent, which
// is [Cmd.EndAll]; others are [errors.ErrUnsupported].
func (c *Cmd) Signal(sig syscall.Signal) error {
	switch {
	case c.started == nil:
		return errors.New("launch: not started")
	case c.started.Box != nil && sig != syscall.SIGKILL:
		return c.started.Box.Signal(sig)
	case c.guarded() && sig != syscall.SIGKILL:
		return errors.ErrUnsupported
	case c.guarded():
		c.EndAll()
		return nil
	}
	return c.Process.Signal(sig)
}

// awaitEnd waits until a child has ended and leaves it to be reaped.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// watchContext ends the command when the context is done.
func (c *Cmd) watchContext() {
	if c.ctx == nil || c.ctx.Done() == nil {
		return
	}
	c.watch, c.ended = make(chan error, 1), make(chan struct{})
	go func() {
		select {
		case <-c.ended:
			c.watch <- nil
			return
		case <-c.ctx.Done():
		}
		cancel := c.Cancel
		if cancel == nil {
			cancel = c.kill
		}
		err := cancel()
		if err == nil || errors.Is(err, os.ErrProcessDone) {
			c.watch <- c.ctx.Err()
			return
		}
		c.watch <- err
	}()
}

// Output runs the command and returns what it writes to standard output. If
// Stderr is nil, an [*exec.ExitError] holds what it writes there, cut in the
// middle if it is long.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("launch: Stdout already set")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *excerpt
	if c.Stderr == nil {
		stderr = new(excerpt)
		c.Stderr = stderr
	}
	err := c.Run()
	var exit *exec.ExitError
	if stderr != nil && errors.As(err, &exit) {
		exit.Stderr = stderr.bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns what it writes to standard
// output and standard error, in the order in which it does.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("launch: Stdout or Stderr already set")
	}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	return b.Bytes(), err
}
