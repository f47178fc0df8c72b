package launch

import (
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// signalABI is the version of Landlock that can keep signals in.
const signalABI = 6

// HasGuardDomain reports whether a guard of commands under p has a domain that
// keeps signals in, with the commands one deeper, so that it kills everything in
// it by one call. A domain forbids moves between folders unless it handles them,
// and one that does forbids mounts: where commands may get mounts there is none.
// The guard then kills its children until it has none, as it does below ABI 6.
// Without /proc no descendant is found.
func HasGuardDomain(p policy.Policy, o Options) bool {
	return landlock.Probe().ABI >= signalABI && (!Mounts(p, o) || unix.Access("/proc/self/stat", unix.R_OK) != nil)
}

// GuardDomain makes the domain of such a guard; its FD is negative if there is
// none. The caller closes it.
func GuardDomain(p policy.Policy, o Options) (*landlock.Domain, error) {
	var rs landlock.Ruleset
	if HasGuardDomain(p, o) {
		rs.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		rs.HandledFS = unix.LANDLOCK_ACCESS_FS_REFER
		rs.Paths = []landlock.PathRule{{Grant: policy.Grant{Path: "/"}, Rights: unix.LANDLOCK_ACCESS_FS_REFER}}
	}
	return rs.Create()
}

// CanGuard reports whether [Cmd.Guard] works here: from Linux 5.9 on.
func CanGuard() bool { return spawn.CanGuard() }

// startGuarded starts a plan below a guard.
func (c *Cmd) startGuarded(v *variant, p *spawn.Plan) (*Started, error) {
	d, err := GuardDomain(c.sandbox.policy, c.sandbox.options)
	if err != nil {
		return nil, &SetupError{Stage: StageRules, Err: err}
	}
	defer func() { _ = d.Close() }()
	p.Guard = &spawn.Guard{Linger: c.Linger}
	if d.FD >= 0 {
		p.Guard.DomainFD = d.FD
	}
	started, err := c.sandbox.startPlan(v, p, p.Argv[0])
	if err != nil {
		return nil, err
	}
	if started.command, err = unix.PidfdOpen(started.Pid, 0); err != nil { // it has ended
		started.command = -1
		return started, nil
	}
	if started.pidfd, err = unix.FcntlInt(uintptr(started.command), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		started.pidfd = -1
	}
	return started, nil
}

// Pid is the command's process, once it is started; under [BackendBwrap]
// bubblewrap's.
func (c *Cmd) Pid() int {
	if c.started != nil && c.started.guarded != nil {
		return c.started.Pid
	}
	return c.Process.Pid
}

// EndAll has the guard kill everything that the command has started, itself
// included, and returns at once: when Process has ended nothing is left. It does
// nothing without [Cmd.Guard].
func (c *Cmd) EndAll() {
	if c.started != nil && c.started.guarded != nil {
		c.started.guarded.End()
	}
}

// GuardEnded is called when Process, a guard, has ended, and before Wait is. It
// reports whether all is well: false says that the guard was killed, and that
// processes of the command may be left.
func (c *Cmd) GuardEnded() bool {
	g := c.started.guarded
	if g == nil || c.asked {
		return c.end != nil
	}
	c.asked = true
	if e, ok := g.Ending(); ok {
		c.end = &Ended{Status: e.Status, Rusage: e.Rusage}
	}
	if c.started.command >= 0 {
		_ = unix.Close(c.started.command)
	}
	return c.end != nil
}
