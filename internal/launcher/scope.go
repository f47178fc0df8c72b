package launcher

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Where only the user's systemd can give a control group, the launcher starts
// itself again in a transient scope, by systemd-run, and waits. What runs there
// says so by a pipe: if that ends without a word, systemd-run has failed, whose
// exit code would look like the command's.

// scopeOption is how the launcher starts itself in a scope. It isn't for users,
// and not in names.
const scopeOption = "shofer-scope-fd"

// IsScope reports whether a program was started with these args, without its
// name, to be the launcher in a scope: systemd-run gives it no name of our
// choice.
func IsScope(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], "--"+scopeOption+"=")
}

// scopeStart bounds the time until systemd has made the scope.
const scopeStart = 2 * time.Minute

// inScope starts the launcher again in a scope, with the same args, and waits
// for it.
func inScope(o *options, args []string) (int, error) {
	fail := func(err error) (int, error) {
		return 0, &launch.SetupError{Stage: launch.StageLimits, Err: err}
	}
	inherit, err := o.inherited()
	if err != nil {
		return 0, err
	}
	if o.statusFD >= 0 {
		inherit = append(inherit, o.statusFD)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fail(os.NewSyscallError("pipe2", err))
	}
	defer func() { _ = unix.Close(pipe[0]) }()
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	argv := []string{
		"systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--description=shofer-sandbox",
		"--unit=" + cgroup.ScopeName(),
		"--", "/usr/bin/env",
	}
	// What systemd-run needs, or sets, the command isn't to see.
	for _, name := range cgroup.ScopeVars() {
		if v, ok := os.LookupEnv(name); ok {
			argv = append(argv, name+"="+v)
		} else {
			argv = append(argv, "--unset="+name)
		}
	}
	argv = append(argv, self, "--"+scopeOption+"="+strconv.Itoa(pipe[1]))
	if o.policyFile != nil {
		fd, err := textFD(o.policyFile)
		if err != nil {
			return fail(err)
		}
		defer func() { _ = unix.Close(fd) }()
		argv = append(argv, "--"+guardPolicyOption+"="+strconv.Itoa(fd))
		inherit = append(inherit, fd)
	}
	plan := &spawn.Plan{
		Path: cgroup.SystemdRun(), Argv: append(argv, args...), Env: cgroup.ScopeEnv(os.Environ()),
		Files: []int{0, 1, 2}, Inherit: append(inherit, pipe[1]), KeepIgnored: []syscall.Signal{syscall.SIGHUP},
	}
	p := newParent(false)
	p.ready()
	proc, err := spawn.Start(plan)
	_ = unix.Close(pipe[1])
	if err != nil {
		return fail(err)
	}
	if o.supervise {
		// What is inside ends with this process, which ends with its own parent.
		watchOwnParent(o.parent, killSelf)
	}
	made := awaitWord(pipe[0])
	if !made {
		_ = unix.Kill(proc.Pid, syscall.SIGKILL) // it may have ended; it isn't reaped
	}
	e, err := p.wait(process(proc.Pid), proc.Pid)
	switch {
	case err != nil:
		return fail(err)
	case !made:
		return fail(&cgroup.SupportError{
			Why:  "systemd-run made no scope for this user",
			Mend: "see what it says: systemd-run --user --scope -p Delegate=yes true",
		})
	}
	return exitCode(e.Status), nil
}

// without reports whether the command is to run all the same when there is no
// scope, as err says: then nothing has run yet.
func (o *options) without(err error) bool {
	var support *cgroup.SupportError
	return errors.As(err, &support) && !o.policy.Requires(policy.PromiseLimits)
}

// awaitWord waits for a byte from a pipe.
func awaitWord(pipe int) bool {
	deadline := time.Now().Add(scopeStart)
	for {
		fds := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(time.Until(deadline)/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		n, err = unix.Read(pipe, make([]byte, 1))
		return err == nil && n == 1
	}
}

// enterScope says to who started this process that it is in the scope. The pipe
// stays open: it breaks when who started it is gone. The guard hasn't got it.
//
// Then this process is to be as gone as the launcher that the user knows of: what
// is left has no owner, and is swept.
func (o *options) enterScope() {
	if o.scopeFD < 0 || o.guardFD >= 0 {
		return
	}
	unix.CloseOnExec(o.scopeFD)
	_, _ = unix.Write(o.scopeFD, []byte{1}) // who is gone needs no word
	if !o.supervise {
		o.watchParent(killSelf)
	}
}

// killSelf ends this process as SIGKILL by others does.
func killSelf() { _ = unix.Kill(os.Getpid(), syscall.SIGKILL) }

// watchParent calls gone when whoever started this launcher is: another one that
// is outside of the scope, or the process that [watchOwnParent] watches.
func (o *options) watchParent(gone func()) {
	if o.scopeFD < 0 {
		watchOwnParent(o.parent, gone)
		return
	}
	go func() {
		for {
			fds := []unix.PollFd{{Fd: int32(o.scopeFD)}}
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				gone()
				return
			}
		}
	}()
}

// needsScope reports whether only a scope can hold the limits.
func (o *options) needsScope() bool {
	if o.scopeFD >= 0 || !o.policy.Limits.Group() {
		return false
	}
	_, err := cgroup.Find(o.policy.Limits, cgroup.Options{Worktree: string(o.policy.Worktree)})
	var support *cgroup.SupportError
	return errors.As(err, &support) && support.Scope
}
