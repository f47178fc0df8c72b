package launcher

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// With --supervise a guard is between the launcher and the command, which adopts every
// orphan and ends everything when the command ends, or the launcher, or who has started
// it: see [launch.CanGuard] for the one that is a copy of the launcher.
//
// Where that can't be, the launcher is three processes. The outer one starts the
// guard, which is this program again, and holds a pipe to it. The guard starts the
// command. When the command ends, or the pipe does because the outer process is gone,
// the guard kills its children, and those that become its children by that, until it
// has none: what made itself a daemon too, and nothing else. Where the command gets no
// mounts, the guard is in a Landlock domain that keeps signals in, with the command one
// deeper, and kills everything in it by one call.

// supervise starts the guard, which does what args say, and waits for it.
func supervise(o *options, args []string) (int, error) {
	p := newParent(o.newSession)
	inherit, err := o.inherited()
	if err != nil {
		return 0, err
	}
	if o.statusFD >= 0 {
		inherit = append(inherit, o.statusFD)
	}
	argv := []string{os.Args[0]}
	if o.scopeFD >= 0 && len(args) > 1 && strings.HasPrefix(args[1], "--"+guardPolicyOption+"=") {
		args = slices.Delete(slices.Clone(args), 1, 2) // the guard gets one of its own
	}
	if o.policyFile != nil {
		fd, err := textFD(o.policyFile)
		if err != nil {
			return 0, &launch.SetupError{Stage: launch.StageStart, Err: err}
		}
		defer func() { _ = unix.Close(fd) }()
		argv = append(argv, "--"+guardPolicyOption+"="+strconv.Itoa(fd))
		inherit = append(inherit, fd)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, &launch.SetupError{Stage: launch.StageStart, Err: os.NewSyscallError("pipe2", err)}
	}
	o.watchParent(func() { _ = unix.Close(pipe[1]) })

	domain, err := launch.GuardDomain(o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap})
	if err != nil {
		return 0, &launch.SetupError{Stage: launch.StageRules, Err: err}
	}
	defer func() { _ = domain.Close() }()
	plan := &spawn.Plan{
		Path:  self(),
		Argv:  append(append(argv, "--"+guardOption+"="+strconv.Itoa(pipe[0])), args...),
		Env:   os.Environ(),
		Files: []int{0, 1, 2}, Inherit: append(inherit, pipe[0]),
		// Whoever kills the launcher by its group must not kill the guard.
		NewGroup:    true,
		KeepIgnored: []syscall.Signal{syscall.SIGHUP},
	}
	if domain.FD >= 0 {
		plan.NoNewPrivs, plan.RulesetFD = true, domain.FD
	}
	p.ready()
	proc, err := spawn.Start(plan)
	_ = unix.Close(pipe[0])
	if err != nil {
		return 0, &launch.SetupError{Stage: launch.StageStart, Err: err}
	}
	e, err := p.wait(process(proc.Pid), proc.Pid)
	if err != nil {
		return 0, &launch.SetupError{Stage: launch.StageStart, Err: err}
	}
	return exitCode(e.Status), nil
}

// textFD returns a descriptor of a file in memory with the given text.
func textFD(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("text", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if _, err := fdWriter(fd).Write(text); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("write", err)
	}
	return fd, nil
}

// self is this program's file.
func self() string {
	const file = "/proc/self/exe"
	if unix.Access(file, unix.X_OK) == nil {
		return file
	}
	path, err := exec.LookPath(os.Args[0]) // no /proc is mounted
	if err != nil {
		return file // and the start says what is wrong
	}
	return path
}

// watchOwnParent calls gone when a process is: the given one, or for 0 the one that
// started this one. It watches the process, not, as PR_SET_PDEATHSIG would, the
// thread in it that happened to start us.
//
// When that was killed right after the start, this process belongs to another
// one by now, and can't know it: hence the caller that can't let that happen
// says which it is.
func watchOwnParent(pid int, gone func()) {
	given := pid != 0
	if !given {
		pid = unix.Getppid()
	}
	if pid <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS):
		return // before Linux 5.3: the guard ends with us
	case err != nil || !given && unix.Getppid() != pid:
		gone()
		return
	}
	go func() {
		for {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				gone()
				return
			}
		}
	}()
}

// guard is the middle process: it runs the command and ends all of it.
type guard struct {
	pipe int
	// group is the launcher's process group, which the command is to be in:
	// that is the one that the terminal talks to.
	group   int
	started atomic.Pointer[launch.Started] // nil before it is there
	// starting is held while the command is started, and for good when
	// everything is ended: nothing is born after that.
	starting sync.Mutex
	// domain says that kill(-1) reaches the command's processes and no others;
	// sees, that /proc lists this process's children.
	domain, sees bool
}

// newGuard makes this process the one that orphans of the command are given
// to, so that it sees when there are none left, and ends everything when the
// pipe ends.
func newGuard(o *options) (*guard, error) {
	pipe := o.guardFD
	unix.CloseOnExec(pipe)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, &launch.SetupError{Stage: launch.StageStart, Err: os.NewSyscallError("prctl", err)}
	}
	group, err := unix.Getpgid(unix.Getppid())
	if err != nil {
		return nil, &launch.SetupError{Stage: launch.StageStart, Err: os.NewSyscallError("getpgid", err)}
	}
	g := &guard{
		pipe: pipe, group: group, sees: launch.SeesChildren(),
		domain: launch.HasGuardDomain(o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap}),
	}
	go func() {
		b := make([]byte, 1)
		for {
			n, err := unix.Read(pipe, b)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n <= 0 {
				break
			}
		}
		g.kill()
		g.starting.Lock() // what was being started has been, and may have missed that
		g.removeGroup()   // first, since nothing that forks outruns that
		g.endAll()
		unix.Exit(128 + int(syscall.SIGKILL)) // nobody is left to tell
	}()
	return g, nil
}

// start starts the command. A nil guard doesn't mind.
func (g *guard) start(s *launch.Sandbox, c *launch.Command) (*launch.Started, error) {
	if g != nil {
		g.starting.Lock()
		defer g.starting.Unlock()
	}
	return s.Start(c)
}

// watches says what was started. A nil guard doesn't care.
func (g *guard) watches(started *launch.Started) {
	if g == nil {
		return
	}
	g.started.Store(started)
	if started.Box == nil { // else the orphans are in there
		go reapOrphans(started.Pid)
	}
}

// reapOrphans takes what becomes a child of this process and ends, until the
// command has ended, lest it stays as a zombie for as long. A child that this
// process makes itself is in its group, and none of those.
func reapOrphans(command int) {
	group := unix.Getpgrp()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		pid := pidOf(&info)
		if err != nil || pid == command {
			return
		}
		if pgid, err := unix.Getpgid(pid); err == nil && pgid == group {
			runtime.Gosched() // who made it waits for it
			continue
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// removeGroup ends the command's control group, if it has one. One that is being
// made at the moment is left for the next start to sweep.
func (g *guard) removeGroup() {
	if started := g.started.Load(); started != nil {
		_, _ = started.EndGroup(context.Background()) // nobody is left to tell
	}
}

// kill kills every process of the command that is in the guard's domain, or else
// is its child by now: what those had started becomes that in turn. A child that
// isn't reaped can't be taken for another process.
func (g *guard) kill() {
	if g.domain {
		_ = unix.Kill(-1, syscall.SIGKILL)
		return
	}
	if !g.sees {
		killUnseen()
		return
	}
	for _, pid := range children() {
		_ = unix.Kill(pid, syscall.SIGKILL)
	}
}

// killUnseen kills this process's children where /proc doesn't list them: it asks
// for each number whether it is a child's, which takes a second or two where
// there may be four million.
func killUnseen() {
	last := 1 << 22 // as many as there can be
	if b, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		if n, ok := atoi(strings.TrimSpace(string(b))); ok {
			last = n
		}
	}
	for pid := 1; pid <= last; pid++ {
		if unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil {
			_ = unix.Kill(pid, syscall.SIGKILL)
		}
	}
}

// endAll kills until no child is left. It goes round faster than anything forks,
// so that nothing outruns it.
func (g *guard) endAll() {
	for idle := 0; ; {
		n := 0
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return
			}
			if pid <= 0 {
				break
			}
			n++
		}
		if n > 0 {
			idle = 0
		} else if idle++; idle > patience {
			pause()
		}
		g.kill()
	}
}

// patience is for how many rounds without anything that ended endAll doesn't
// pause.
const patience = 1000

// pause waits for a moment.
func pause() {
	wait := unix.NsecToTimespec(int64(time.Millisecond))
	_, _ = unix.Ppoll(nil, &wait, nil)
}

// endRest waits for what the command has left, and kills it when linger is
// over, until nothing is.
func (g *guard) endRest(linger time.Duration) {
	if linger > 0 {
		over := time.AfterFunc(linger, g.endAll)
		defer over.Stop()
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
				return
			}
		}
	}
	g.endAll()
}

// ended is called when the command has: from here on the guard may reap it. If
// everything is being ended, it doesn't return.
func (g *guard) ended() {
	if g != nil {
		g.starting.Lock()
		defer g.starting.Unlock()
	}
}

// children lists those of this process, zombies included, whichever of its
// threads they belong to.
func children() (pids []int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			continue // it has ended
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, ok := atoi(f); ok {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
