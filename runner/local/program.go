package local

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
	"golang.org/x/sys/unix"
)

const (
	// programBound is how long killing a program may take.
	programBound = 5 * time.Second
	// programPoll is how often it is looked whether it has ended.
	programPoll = 10 * time.Millisecond
)

// StartProgram starts a program as commands are started: confined, supervised
// if commands are, in a session of its own. So an executor is a
// [session.Starter], and shells that live between commands are as confined as
// commands that have a shell of their own. A program's environment is what the
// caller gives; [Executor.Environ] is what commands start from.
func (e *Executor) StartProgram(ctx context.Context, p session.Program) (session.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	spec := &runner.Spec{
		Argv: p.Args, Dir: p.Dir, Leftover: runner.LeftoverKill,
		Env: append(slices.Clone(p.Env), runner.MarkVar+"=session-"+rand.Text()),
	}
	open := func(*runner.Spec) (*files, error) { return filesOf(p.Files) }
	proc, err := e.start(ctx, spec, open)
	return program(proc), err
}

// filesOf returns copies of a program's files.
func filesOf(given []*os.File) (_ *files, err error) {
	f := &files{}
	defer func() {
		if err != nil {
			f.closeChild()
		}
	}()
	for i, g := range given {
		fd, err := unix.FcntlInt(g.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		d := os.NewFile(uintptr(fd), g.Name())
		switch i {
		case 0:
			f.stdin = d
		case 1:
			f.stdout = d
		case 2:
			f.stderr = d
		default:
			f.extra = append(f.extra, d)
		}
	}
	return f, nil
}

// program is a process as sessions see it; nil if it is none.
func program(p runner.Process) session.Process {
	if p == nil {
		return nil
	}
	return &programProcess{Process: p}
}

type programProcess struct {
	runner.Process

	mu   sync.Mutex
	done bool // Finish was called: nothing may be signalled any more
}

// Wait waits for the end of the program, and ends what it left.
func (p *programProcess) Wait() (session.Exit, error) {
	<-p.Ended()
	_ = p.Kill() // what is left then, no signal ends
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	exit, err := p.Finish()
	return session.Exit{Code: exit.Code, Signal: exit.Signal}, err
}

// Kill ends the program with all its processes, and waits until nothing remains
// or it has taken too long.
func (p *programProcess) Kill() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for deadline := time.Now().Add(programBound); time.Now().Before(deadline); timer.Reset(programPoll) {
		<-timer.C
		if p.kill() {
			return nil
		}
	}
	return errNotEnded
}

// kill kills what remains, and reports whether nothing does.
func (p *programProcess) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return true
	}
	if len(p.Remaining()) == 0 {
		select {
		case <-p.Ended():
			return true
		default:
		}
	}
	_ = p.Signal(syscall.SIGKILL) // whether it did anything is seen by what remains
	return false
}
