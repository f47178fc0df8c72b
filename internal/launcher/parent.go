package launcher

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"golang.org/x/sys/unix"
)

// parent stays with a child that does the work: it hands signals on, stops and
// continues with it, and says how it ended.
//
// The child is in the parent's process group unless it has a session of its
// own, so that a pipeline in a shell stays one job: what a terminal sends, it
// sends to both.
type parent struct {
	// alone says that the child is in a process group of its own.
	alone   bool
	signals chan os.Signal
	// collecting is closed when signals are collected.
	collecting chan struct{}
	// orphaned is closed when who started this process is gone, if that is to be
	// known.
	orphaned chan struct{}

	mu    sync.Mutex
	child child // nil before it is there, and when it may be reaped
}

// child is what a parent stays with.
type child interface {
	// Signal sends it a signal.
	Signal(s syscall.Signal) error
	// Change waits until it stops, which it reports, or has ended.
	Change() (stopped bool)
	// Reap says how it ended.
	Reap() (launch.Ended, error)
}

// forwarded are the signals that are handed on.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH,
	syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// newParent begins to collect signals, for as long as this process lives; see
// ready. That takes a while, in which others can be busy.
//
// From here on this process confines nothing in itself, so that the goroutine
// needn't keep its thread: waking another one would wake a thread each time.
func newParent(alone bool) *parent {
	runtime.UnlockOSThread()
	p := &parent{alone: alone, signals: make(chan os.Signal, 32), collecting: make(chan struct{}), orphaned: make(chan struct{})}
	go func() {
		signal.Notify(p.signals, slices.DeleteFunc(slices.Clone(forwarded), func(s os.Signal) bool {
			// One that is ignored, as nohup's, stays so; and a new size is told
			// to all who share the terminal, by nobody else.
			return signal.Ignored(s) || s == syscall.SIGWINCH && !alone
		})...)
		close(p.collecting)
	}()
	return p
}

// ready returns when signals are collected: before the child starts, lest one
// that is meant for it kills the parent instead. One that has come before there
// is a child ends this process.
func (p *parent) ready() {
	<-p.collecting
	for range len(p.signals) {
		switch s := <-p.signals; s {
		case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
			signal.Reset(s)
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s.(syscall.Signal))
		default:
			p.signals <- s
		}
	}
}

// wait returns when the child has ended, and reaps it. pid is that of the
// command, or what stands for it.
func (p *parent) wait(c child, pid int) (launch.Ended, error) {
	p.setChild(c)
	go p.forwardAll()
	for c.Change() {
		p.stop(c, pid)
	}
	p.setChild(nil) // its number may soon be another's
	return c.Reap()
}

func (p *parent) setChild(c child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child = c
}

func (p *parent) forwardAll() {
	for s := range p.signals {
		if sig, ok := s.(syscall.Signal); ok {
			p.forward(sig)
		}
	}
}

// forward hands a signal on. What the terminal generates has reached the child
// already, and a second Ctrl-C would mean something else to it.
func (p *parent) forward(s syscall.Signal) {
	if !p.alone && p.fromTerminal(s) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		_ = p.child.Signal(s) // it may have ended, but isn't reaped
	}
}

// fromTerminal reports whether s probably came from the terminal: of the
// signals that it sends, to a group in the foreground.
func (p *parent) fromTerminal(s syscall.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGHUP:
		return foreground()
	}
	return false
}

// foreground reports whether this process's group is the one that the terminal
// talks to.
func foreground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(tty) }()
	pgrp, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// stop stops this process like its child, so that a shell notices, and
// continues the child when it is continued itself. If the terminal has stopped
// both, and the shell has continued both, it is too late for that.
func (p *parent) stop(c child, pid int) {
	if state(pid) != 'T' {
		return
	}
	linux.StopSelf()
	_ = c.Signal(syscall.SIGCONT)
}

// state returns the letter of a process's state, as in proc(5), 0 if unknown.
func state(pid int) byte {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may have any byte.
	if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) {
		return b[i+2]
	}
	return 0
}

// process is a child by its id.
type process int

// Signal sends a signal. The child isn't reaped, so the id is its own.
func (p process) Signal(s syscall.Signal) error { return unix.Kill(int(p), s) }

// Change leaves a child that has ended to be reaped.
func (p process) Change() (stopped bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, int(p), &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != cldStopped {
			return false
		}
		_ = unix.Waitid(unix.P_PID, int(p), nil, unix.WSTOPPED|unix.WNOHANG, nil) // take it off
		return true
	}
}

// cldStopped is CLD_STOPPED of the kernel's asm-generic/siginfo.h.
const cldStopped = 5

// Reap waits for the child.
func (p process) Reap() (e launch.Ended, err error) {
	for {
		_, err = syscall.Wait4(int(p), &e.Status, 0, &e.Rusage)
		if !errors.Is(err, syscall.EINTR) {
			return e, os.NewSyscallError("wait4", err)
		}
	}
}

// startAndWait starts the command as a child, waits for it, and returns the
// exit code that tells how it ended. Before it says so the guard, if there is
// one, ends what the command has left when it has lingered long enough. What
// was tampered with is reported, and put back if that is asked for.
func startAndWait(s *launch.Sandbox, c *launch.Command, rec *launch.Record, o *options, g *guard, p *parent) (int, error) {
	p.ready()
	started, err := g.start(s, c)
	if err != nil {
		return 0, err
	}
	if err := started.NoGroup(); err != nil {
		o.warn(limitsWarning + err.Error())
	}
	g.watches(started)
	var e launch.Ended
	switch {
	case started.Box != nil:
		e, err = p.wait(started.Box, started.Box.Pid)
	case started.Guarded != nil:
		go func() {
			<-p.orphaned
			started.Guarded.End()
		}()
		e, err = p.wait(started.Guarded, started.Pid)
	default:
		e, err = p.wait(process(started.Pid), started.Pid)
	}
	g.ended()
	if errors.Is(err, launch.ErrGuardKilled) {
		o.warn("warning: the guard of the command was killed: what the command has left goes on")
		return 128 + int(syscall.SIGKILL), nil
	}
	if err != nil {
		return 0, &launch.SetupError{Stage: launch.StageStart, Err: err}
	}
	if g != nil {
		g.endRest(o.linger)
	}
	o.endGroup(s, started, &e)
	e.Tampered = started.Tampered()
	for _, t := range e.Tampered {
		o.warn("warning: " + t.Path.String() + " was " + t.What + " while the command ran: " + t.Why)
	}
	if len(e.Tampered) > 0 && o.restore {
		e.Restored = started.Restore()
		for _, done := range e.Restored {
			o.warn("restore: " + done)
		}
	} else if len(e.Tampered) > 0 {
		o.warn("hint: before you run git there: " + oneLine(tamper.VerifyCommand(string(o.policy.Worktree))))
	}
	if e.Trace = started.Trace(); e.Trace != nil {
		o.tell(e.Trace)
	}
	rec.Exited(e)
	return exitCode(e.Status), nil
}

// endGroup ends what the command has left in its control group, and says which
// limits it ran into.
func (o *options) endGroup(s *launch.Sandbox, started *launch.Started, e *launch.Ended) {
	var err error
	e.Group, err = started.EndGroup(context.Background())
	var left *cgroup.SurvivorsError
	if errors.As(err, &left) {
		e.Survivors = left.Pids
	}
	if err != nil {
		o.warn("warning: " + err.Error())
	}
	e.LimitsHit = s.LimitsHit(e.Status, e.Group)
	for _, hit := range e.LimitsHit {
		switch hit {
		case "memory":
			o.warn("warning: the command used up its memory, and was killed")
		case "pids":
			o.warn("warning: the command could not start all of its processes and threads: it had as many as it may")
		case "fsize":
			o.warn("warning: the command wrote a file as large as a file may become")
		}
	}
}

// exitCode is the code that says how a command ended.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
