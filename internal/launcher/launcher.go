// Package launcher is the program shofer-sandbox: it reads the command line,
// confines, and becomes the command, or stays as its parent where something is
// left to do when the command has ended.
//
// It never exits the process itself: [Main] returns the exit code, or doesn't
// return at all, because the process has become the command.
package launcher

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Main runs the launcher. args are the arguments without the program's name,
// version is what --version prints.
//
// The caller is the main goroutine and holds [runtime.LockOSThread] since the
// start of the program: confinement belongs to a thread, and the one that
// confines itself must be the one that execs.
func Main(args []string, version string) int {
	o, err := parse(args)
	if err != nil {
		rec, _ := o.record() // one thing that is wrong is enough
		return fail(rec, err)
	}
	switch {
	case o.help:
		return print(usage)
	case o.version:
		return print(fmt.Sprintf("shofer-sandbox %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
	}
	switch {
	case o.doctor:
		return doctor(o)
	case o.verify:
		return verify(o)
	}
	rec, err := o.record()
	if err != nil {
		return fail(nil, err)
	}
	switch {
	case o.explain:
		return explain(o)
	case o.why != "":
		return why(o)
	}
	code, err := start(o, rec, args)
	if err != nil {
		return fail(rec, o.inOptions(err))
	}
	return code
}

// start runs the command in this process, or below a guard.
func start(o *options, rec *launch.Record, args []string) (int, error) {
	o.enterScope()
	o.forks = o.supervise && o.guardFD < 0 && launch.CanGuard(o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap})
	if o.supervise && o.guardFD < 0 && !o.forks {
		if o.needsScope() { // the guard can't leave this process's group
			if code, err := inScope(o, args); !o.without(err) {
				return code, err
			}
		}
		return supervise(o, args)
	}
	return run(o, rec, args)
}

// run becomes the command. It returns when that failed, or when the command
// was started as a child and has ended.
func run(o *options, rec *launch.Record, args []string) (int, error) {
	inherit, err := o.inherited()
	if err != nil {
		return 0, err
	}
	options := launch.Options{Backend: o.backend, Bwrap: o.bwrap, OwnGroup: o.scopeFD >= 0, TraceDenials: o.trace, Once: true}
	var p *parent // nil if none is needed, as far as is known
	if o.guardFD >= 0 || o.forks || o.needsParent() || o.git() && launch.Mounts(o.policy, options) {
		p = newParent(o.newSession)
	}
	if o.forks {
		o.watchParent(func() { close(p.orphaned) })
	}
	s, err := launch.Prepare(o.policy, options)
	if o.scopeFD < 0 && o.guardFD < 0 && launch.WantsScope(s, err) {
		if code, err := inScope(o, args); !o.without(err) {
			return code, err
		}
	}
	if err != nil {
		return 0, err
	}
	o.warnOf(s)
	c := &launch.Command{
		Args: o.command, Dir: o.chdir, Inherit: inherit, Record: rec,
		NewSession: o.newSession, Linger: o.linger,
	}
	if o.guardFD >= 0 {
		g, err := newGuard(o)
		if err != nil {
			return 0, err
		}
		if !c.NewSession {
			c.Group = g.group
		}
		return startAndWait(s, c, rec, o, g, p)
	}
	if c.Guard = o.forks; c.Guard && !c.NewSession {
		c.Group = unix.Getpgrp()
	}
	if p == nil && s.NeedsParent() {
		p = newParent(o.newSession)
	}
	if p != nil {
		return startAndWait(s, c, rec, o, nil, p)
	}
	return 0, s.Exec(c)
}

// needsParent reports whether the command must be a child whatever comes of the
// policy: so that its control group is removed, or since a group leader, as this
// process may be, can't make a session.
func (o *options) needsParent() bool {
	return o.policy.Limits.Group() || o.newSession && unix.Getpgrp() == os.Getpid()
}

// git reports whether there is something of git's to protect, at a glance.
func (o *options) git() bool {
	return unix.Access(string(o.policy.Worktree)+"/.git", unix.F_OK) == nil
}

// warnOf says on standard error what the user must not miss: that nothing is
// confined, that limits don't hold, or that git's pointers were tampered with.
func (o *options) warnOf(s *launch.Sandbox) {
	if why := s.Unconfined(); why != "" {
		o.warn("warning: nothing is confined: " + why)
	}
	if o.policy.Limits.Any() {
		for _, f := range s.Applied().Features {
			if f.Promise == policy.PromiseLimits && f.State == policy.Absent {
				o.warn(limitsWarning + f.Why)
			}
		}
	}
	for _, n := range s.Notes() {
		if strings.HasPrefix(n.Code, "git-tampered") {
			o.warn("warning: " + n.Text)
			if n.Hint != "" {
				o.warn("hint: " + n.Hint)
			}
		}
	}
}

// limitsWarning begins what is said where limits aren't held, by --best-effort
// or --limits best-effort.
const limitsWarning = "warning: not all limits hold: "

// warn says something that isn't an error, unless that isn't wanted.
func (o *options) warn(line string) {
	if !o.quiet {
		say(line)
	}
}

// record opens the descriptor of --status-fd, which the command doesn't get.
func (o *options) record() (*launch.Record, error) {
	if o.statusFD < 3 {
		return nil, nil
	}
	flags, err := unix.FcntlInt(uintptr(o.statusFD), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, usageError(fmt.Sprintf("--status-fd %d: the descriptor is not open for writing", o.statusFD),
			"open it in the shell, as in: shofer-sandbox --status-fd 3 … 3>status.json")
	}
	unix.CloseOnExec(o.statusFD)
	return launch.NewRecord(fdWriter(o.statusFD)), nil
}

// fdWriter writes to a descriptor that stays the caller's: unlike an [os.File]
// it is neither closed nor put into the poller.
type fdWriter int

func (fd fdWriter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Write(int(fd), b[n:])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN): // full, and whoever opened it didn't want to wait
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, syscall.EINTR) {
				return n, err
			}
		case err != nil:
			return n, err
		default:
			n += m
		}
	}
	return n, nil
}

// inherited lists the descriptors above 2 that the command gets: pipes, which
// process substitution and make's job server hand down, and those of
// --keep-fd.
func (o *options) inherited() ([]int, error) {
	for _, fd := range o.keepFDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, usageError(fmt.Sprintf("--keep-fd %d: the descriptor is not open", fd), "")
		}
	}
	fds := slices.Clone(o.keepFDs)
	for _, fd := range openDescriptors() {
		if fd == o.statusFD || fd == o.guardFD || fd == o.guardPolicy || fd == o.scopeFD || slices.Contains(fds, fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// openDescriptors lists descriptors above 2 that are open, and perhaps some
// that aren't. It reads the folder by hand: an [os.File] would set up the
// poller for it.
func openDescriptors() (fds []int) {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil { // no /proc: try the likely ones
		for fd := 3; fd < 1024; fd++ {
			fds = append(fds, fd)
		}
		return fds
	}
	defer func() { _ = unix.Close(dir) }()
	var buf [1024]byte
	for {
		n, err := unix.ReadDirent(dir, buf[:])
		if err != nil || n <= 0 {
			return fds
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if fd, ok := atoi(name); ok && fd > 2 && fd != dir {
				fds = append(fds, fd)
			}
		}
	}
}

// atoi reads a decimal number; unlike [strconv.Atoi] it takes no sign.
func atoi(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// fail reports an error that kept the command from running and returns the
// exit code that goes with it.
func fail(rec *launch.Record, err error) int {
	say("error: " + err.Error())
	if h := launch.Hint(err); h != "" {
		say("hint: " + h)
	}
	rec.Failed(err)
	var exec *launch.ExecError
	if errors.As(err, &exec) {
		return exec.ExitCode()
	}
	return launch.ExitSetup
}

// say writes a line to standard error. Standard output belongs to the command.
func say(line string) {
	line = strings.ReplaceAll(line, "\n", `\n`)
	if !strings.HasPrefix(line, "hint:") {
		line = "shofer-sandbox: " + line
	}
	_, _ = os.Stderr.WriteString(line + "\n")
}

// print writes to standard output, for options that run no command.
func print(s string) int {
	if _, err := os.Stdout.WriteString(s); err != nil {
		say("error: " + err.Error())
		return launch.ExitSetup
	}
	return 0
}
