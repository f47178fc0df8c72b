package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/proctree"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// direct is a command that is a child of this process, or of a guard that is.
type direct struct {
	cmd     *launch.Cmd
	box     *runner.Sandbox
	boxed   bool // by bubblewrap
	guarded bool
	restore bool // what was tampered with
	files   *files
	ended   chan struct{}
	// alone says, once it has ended, that a guard was killed: what is left isn't
	// ended by it.
	alone bool

	mu   sync.Mutex
	tree *proctree.Tree
}

// startDirect starts a command as a child of this process, or of a guard, in a
// session of its own.
func startDirect(s *launch.Sandbox, spec *runner.Spec, guard bool, open func(*runner.Spec) (*files, error)) (*direct, error) {
	path, err := launch.LookPath(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, sandboxError(err)
	}
	f, err := open(spec)
	if err != nil {
		return nil, &runner.StartError{Err: err}
	}
	c := s.Command(path, spec.Argv[1:]...)
	c.Args[0] = spec.Argv[0]
	c.Env, c.Dir, c.NewSession, c.ControllingTerminal = spec.Env, spec.Dir, true, f.terminal != nil
	if f.stdin != nil {
		c.Stdin = f.stdin
	}
	c.Guard = guard
	if spec.Leftover == runner.LeftoverKill {
		c.Linger = spec.DrainIdle
	}
	c.Stdout, c.Stderr, c.ExtraFiles = f.stdout, f.stderr, f.extra
	err = c.Start()
	f.closeChild()
	if err != nil {
		f.close()
		return nil, sandboxError(err)
	}
	applied := s.Applied() // as the start found it
	leader := c.GuardPid()
	guarded := leader != 0
	if !guarded {
		leader = c.Process.Pid
	}
	p := &direct{
		cmd: c, box: sandboxOf(&applied), boxed: applied.Backend == launch.BackendBwrap, guarded: guarded,
		files: f, ended: make(chan struct{}),
		tree: proctree.New(leader, spec.Mark()),
	}
	if !guarded {
		ends.watch(c.Process, func() { close(p.ended) })
		return p, nil
	}
	go func() {
		p.alone = !c.AwaitGuard()
		close(p.ended)
	}()
	return p, nil
}

// groupRound is how long a control group is waited for to be empty, before whoever
// kills looks again.
const groupRound = time.Second

func (p *direct) Pid() int { return p.cmd.Pid() }

func (p *direct) Ended() <-chan struct{} { return p.ended }

func (p *direct) Streams() runner.Streams { return p.files.streams }

// Signal sends a signal to everything that can be found. Under bubblewrap, a
// signal goes to the command, whose end is that of all; SIGKILL kills all.
func (p *direct) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.cmd.ControlGroup(); g != nil && s == syscall.SIGKILL {
		ctx, cancel := context.WithTimeout(context.Background(), groupRound)
		defer cancel()
		return g.Kill(ctx)
	}
	switch {
	case p.boxed:
		return p.cmd.Signal(s)
	case p.guarded && !p.hasEnded() && s == syscall.SIGKILL:
		p.cmd.EndAll()
	case p.guarded && !p.hasEnded():
		p.tree.SignalEach(s, p.cmd.GuardPid())
	default:
		p.tree.Signal(s)
	}
	return nil
}

func (p *direct) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// AwaitingInput lists what is seen to wait for the command's input.
func (p *direct) AwaitingInput() []runner.Survivor { return awaiting(p, p.files.input) }

// Remaining lists what can be found.
func (p *direct) Remaining() []runner.Survivor {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.cmd.ControlGroup(); g != nil {
		return survivors(inGroup(g))
	}
	if !p.hasEnded() {
		found := p.tree.Scan()
		if p.guarded { // which isn't the command's
			found = slices.DeleteFunc(found, func(f proctree.Process) bool { return f.Pid == p.cmd.GuardPid() })
		}
		return survivors(found)
	}
	if p.guarded && !p.alone {
		return nil
	}
	p.tree.Ended()
	return survivors(p.tree.Scan())
}

// inGroup lists the processes in a group that live.
func inGroup(g *cgroup.Group) (found []proctree.Process) {
	pids, err := g.Procs()
	if err != nil {
		return nil // it is gone, and what was in it
	}
	for _, pid := range pids {
		if p, ok := proctree.Find(pid, proctree.Cgroup); ok {
			found = append(found, p)
		}
	}
	return found
}

func survivors(found []proctree.Process) (left []runner.Survivor) {
	for _, f := range found {
		left = append(left, runner.Survivor{Pid: f.Pid, Name: f.Name, Why: string(f.Why)})
	}
	return left
}

func (p *direct) Resize(s runner.Size) error { return p.files.resize(s) }

// errNotEnded says that a command outlived everything that was done to end it.
var errNotEnded = errors.New("the command could not be ended")

// Finish reaps the command. One that could not be killed, since the kernel
// holds it, is reaped when it ends.
func (p *direct) Finish() (runner.Exit, error) {
	exit := runner.Exit{Code: -1, Sandbox: p.box, PipeStatus: p.files.pipeStatus()}
	p.files.close()
	if !p.hasEnded() {
		go func() {
			<-p.ended
			p.tree.Release()
			_ = p.cmd.Wait() // nobody asks any more
		}()
		return exit, errNotEnded
	}
	p.tree.Release()
	err := p.cmd.Wait()
	end, ok := p.cmd.Status()
	switch {
	case ok:
		fill(&exit, end.Status, &end.Rusage)
		exit.LimitsHit = end.LimitsHit
		addGroup(exit.Usage, end.Group)
	case p.cmd.ProcessState == nil:
		return exit, err
	case p.alone:
		return exit, errors.New("the guard of the command was killed")
	default: // bubblewrap was killed, and the command with it
		exit.Signal = syscall.SIGKILL
	}
	exit.Sandbox.Tampered = tampered(p.cmd.Tampered)
	if p.restore && len(p.cmd.Tampered) > 0 {
		exit.Sandbox.Restored = p.cmd.Restore()
	}
	addTrace(exit.Sandbox, p.cmd.Trace())
	return exit, nil
}

// fill puts how a command ended into an exit.
func fill(exit *runner.Exit, ws syscall.WaitStatus, ru *syscall.Rusage) {
	if ws.Signaled() {
		exit.Signal, exit.Core = ws.Signal(), ws.CoreDump()
	} else {
		exit.Code = ws.ExitStatus()
	}
	exit.Usage = waitedFor(
		time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano()),
		ru.Maxrss*1024, ru.Inblock*blockSize, ru.Oublock*blockSize, // the kernel counts in KiB, and in blocks
	)
}
