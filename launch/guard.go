package launch

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// signalABI is the version of Landlock that can keep signals in.
const signalABI = 6

// guardDomain reports whether a guard of commands under p has a domain that keeps
// signals in, with the commands one deeper, so that it kills everything in it by
// one call. There is none where nothing is to be confined, since it would be: the
// guard then kills its children until it has none, as it does below ABI 6.
func guardDomain(p policy.Policy) bool {
	return landlock.Probe().ABI >= signalABI && p.Mode != policy.Unconfined
}

// HasGuardDomain reports whether a guard that is a program has such a domain. It
// forbids moves between folders unless it handles them, and one that does forbids
// mounts: where commands may get mounts there is none. Without /proc no descendant
// is found.
func HasGuardDomain(p policy.Policy, o Options) bool {
	return guardDomain(p) && (!Mounts(p, o) || unix.Access("/proc/self/stat", unix.R_OK) != nil)
}

// GuardDomain makes the domain of such a guard; its FD is negative if there is
// none. The caller closes it.
func GuardDomain(p policy.Policy, o Options) (*landlock.Domain, error) {
	return newGuardDomain(HasGuardDomain(p, o))
}

// newGuardDomain makes a domain, if there is to be one. In it files can be moved
// between folders, as outside.
func newGuardDomain(has bool) (*landlock.Domain, error) {
	var rs landlock.Ruleset
	if has {
		rs.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		rs.HandledFS = unix.LANDLOCK_ACCESS_FS_REFER
		rs.Paths = []landlock.PathRule{{Grant: policy.Grant{Path: "/"}, Rights: unix.LANDLOCK_ACCESS_FS_REFER}}
	}
	return rs.Create()
}

// CanGuard reports whether [Command.Guard] works for commands under p: where
// [Cmd.Guard] would, unless the command is bubblewrap's, or gets a control group,
// which only a process that outlives this one can remove, or no signal could be
// handed on, since /proc doesn't show to whom.
func CanGuard(p policy.Policy, o Options) bool {
	s := &Sandbox{policy: p, options: o, support: landlock.Probe()}
	return !p.Limits.Group() && !s.wantsBox() && linux.OwnProc() && s.CanGuard()
}

// CanGuard reports whether [Cmd.Guard] works here: from Linux 5.9 on, where the
// guard has a domain of its own or finds its children ([SeesChildren]).
func (s *Sandbox) CanGuard() bool {
	return spawn.CanGuard() && (SeesChildren() || guardDomain(s.policy))
}

// SeesChildren reports whether /proc lists a process's children, by the numbers
// that it knows them by itself. It doesn't where the kernel lacks
// CONFIG_PROC_CHILDREN, where there is no /proc, and where that is another PID
// namespace's, as below unshare --pid without --mount-proc.
func SeesChildren() bool {
	return linux.OwnProc() && unix.Access("/proc/thread-self/children", unix.R_OK) == nil
}

// errNoGuard says that a guard would end less than it promises.
var errNoGuard = errors.New("no guard can find what a command has started: /proc doesn't list it, and no Landlock domain is to hold it")

// startGuarded starts a plan below a guard.
func (s *Sandbox) startGuarded(v *variant, p *spawn.Plan, overlays *slots, g *spawn.Guard) (*Started, error) {
	d, err := newGuardDomain(guardDomain(s.policy))
	if err != nil {
		return nil, &SetupError{Stage: StageRules, Err: err}
	}
	defer func() { _ = d.Close() }()
	if d.FD < 0 && !SeesChildren() {
		return nil, &SetupError{Stage: StageStart, Err: errNoGuard}
	}
	p.Guard = g
	// What the command writes to is its own until it has ended, whatever becomes of
	// this process.
	g.Hold = overlays.locks
	if d.FD >= 0 {
		g.DomainFD = d.FD
		// Else each process outside that its one call doesn't reach would be noted in
		// the machine's log.
		g.RestrictFlags = landlock.ABIs[min(s.support.ABI, landlock.Newest)].RestrictFlags & unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
	}
	started, err := s.startPlan(v, p, p.Argv[0])
	if err != nil {
		return nil, err
	}
	if v.watch != nil {
		started.pidfd = childOf(started.guard, started.Pid)
	}
	return started, nil
}

// childOf opens a process that is another one's child. It returns -1 if that has
// ended: its number may be anybody's by now.
func childOf(parent, pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The name in parentheses may have any byte; the state follows.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if err != nil || len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// Pid is the command's process, once it is started; under [BackendBwrap]
// bubblewrap's.
func (c *Cmd) Pid() int {
	if c.guarded() {
		return c.started.Pid
	}
	return c.Process.Pid
}

// GuardPid is the guard's process once the command is started, 0 without one. It
// isn't reaped before Wait is called.
func (c *Cmd) GuardPid() int {
	if !c.guarded() {
		return 0
	}
	return c.started.guard
}

func (c *Cmd) guarded() bool { return c.started != nil && c.started.guarded != nil }

// EndAll has the guard kill everything that the command has started, itself
// included, and returns at once; [Cmd.AwaitGuard] tells when it is done. It does
// nothing without [Cmd.Guard].
func (c *Cmd) EndAll() {
	if c.guarded() {
		c.started.guarded.End()
	}
}

// AwaitGuard waits until the guard says that nothing is left of the command. It
// reports false if the guard was killed: processes of the command may be left
// then. It is called once, before Wait, which does so otherwise.
func (c *Cmd) AwaitGuard() bool {
	if !c.asked {
		c.asked = true
		if e, ok := c.started.guarded.Ending(); ok {
			c.end = &Ended{Status: e.Status, Rusage: e.Rusage}
		}
	}
	return c.end != nil
}

// ErrGuardKilled says that nobody saw the command's end: its guard was killed, and
// the command with it, but not what that had started.
var ErrGuardKilled = errors.New("the guard of the command was killed")

// errGuardEarly says that a guard was killed when the command hadn't begun.
var errGuardEarly = errors.New("the guard of the command was killed before the command ran")

// guardHint says what to do about a guard that was killed.
const guardHint = "look what killed the process shofer-guard (the kernel's log says so if it was for want of memory)"

// reapGuard lets go of a guard, which has nothing to do any more but to end.
func (c *Cmd) reapGuard() error {
	go waitFor(c.started.guard)
	if c.end == nil {
		return ErrGuardKilled
	}
	return nil
}

// Guarded is a command of [Command.Guard].
type Guarded struct {
	started *Started
	pidfd   int // -1 if it had ended before it was looked at
}

func newGuarded(s *Started) *Guarded {
	return &Guarded{started: s, pidfd: childOf(s.guard, s.Pid)}
}

// Signal sends the command a signal.
func (g *Guarded) Signal(sig syscall.Signal) error {
	if g.pidfd < 0 {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(g.pidfd, sig, nil, 0)
}

// End has the guard kill everything that the command has started, itself included.
// It returns at once. Many goroutines may call it.
func (g *Guarded) End() { g.started.guarded.End() }

// Change waits until the command stops, which it reports, or the guard says that
// nothing is left.
func (g *Guarded) Change() (stopped bool) { return g.started.guarded.Stopped() }

// Reap says how the command ended, when nothing of it is left. If the guard was
// killed, that is [ErrGuardKilled]. It is called once, after all else but End.
func (g *Guarded) Reap() (e Ended, err error) {
	end, ok := g.started.guarded.Ending()
	if g.pidfd >= 0 {
		_ = unix.Close(g.pidfd)
	}
	waitFor(g.started.guard)
	if !ok {
		return Ended{}, ErrGuardKilled
	}
	return Ended{Status: end.Status, Rusage: end.Rusage}, nil
}

// waitFor reaps a guard, which has nothing to do any more but to end.
func waitFor(guard int) {
	for {
		if _, err := unix.Wait4(guard, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
