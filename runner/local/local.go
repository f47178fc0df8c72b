// Package local runs commands on this machine, confined as a policy says: it
// is the [runner.Executor] of agent hosts and of the runner program.
//
// There are two ways to start a command. Directly, as a child of the calling
// process: that is the fastest. Or supervised, by a guard that stays with the
// command: then it ends with everything it started even when the calling process
// is killed, whatever its processes do to get away. The guard is a copy of the
// calling process, or the launcher where that does more, as with control groups.
//
//	                         direct                          supervised
//	the host is killed       commands go on, as orphans;     commands end
//	                         under bubblewrap they end
//	a kill reaches           session, group, descendants     everything
//	                         and marked processes; with a
//	                         control group or bubblewrap
//	                         everything
//	what it can't reach      is named as a survivor          –
//	what a command leaves    is killed, reported or adopted  is killed
//
// # Limitations
//
// A direct command that starts a session of its own, clears its environment and
// loses its parent gets away, and isn't even named. No process is made a
// subreaper for it: children of the host that aren't ours would come to it too.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// Config is what an [Executor] is made of.
type Config struct {
	// Policy says what commands may do. The zero value lets them read
	// everything and write nothing; [policy.Unconfined] confines nothing, and
	// results say so.
	Policy policy.Policy
	// Options are those of [launch.Prepare]. Their environment is what
	// commands start from.
	Options launch.Options
	// Shell runs commands. Zero is /bin/bash, or /bin/sh where there is none.
	Shell []string
	// Supervisor is what supervises commands: the path of shofer-sandbox, or
	// [Self]. Zero starts them directly.
	Supervisor string
	// Restore puts back what git executes or follows where a command has changed
	// it; results say what was done.
	Restore bool
}

// Executor runs commands on this machine.
type Executor struct {
	config    Config
	authority runner.Authority
	guards    bool // in place of launchers

	mu     sync.Mutex
	now    *shared
	sights []sight // what the sandbox was made for
	closed bool
}

// shared is a sandbox that starts may be using, under the executor's lock.
type shared struct {
	*launch.Sandbox
	users int
	stale bool
}

// New returns an executor. What the machine can't hold of the policy, and what
// the policy requires, is a [*runner.SandboxError]; what doesn't go together,
// and [Self] without [Init], matches [runner.ErrInvalidConfig]. The caller
// closes it, unless a [runner.Runner] does.
func New(c Config) (*Executor, error) {
	if c.Options.Environ == nil {
		c.Options.Environ = os.Environ()
	}
	if len(c.Shell) == 0 {
		c.Shell = defaultShell()
	}
	if c.Options.DryRun {
		return nil, fmt.Errorf("%w: Options.DryRun is set", runner.ErrInvalidConfig)
	}
	if c.Supervisor == Self && !initialised.Load() {
		return nil, fmt.Errorf("%w: Supervisor is Self, and Init has not been called, first in main", runner.ErrInvalidConfig)
	}
	if c.Supervisor != "" && c.Policy.Worktree == "" {
		return nil, fmt.Errorf("%w: a supervised command needs a worktree", runner.ErrInvalidConfig)
	}
	e := &Executor{config: c}
	s, err := e.take()
	if err != nil {
		return nil, err
	}
	defer e.give(s)
	applied := s.Applied()
	// A launcher finds a control group where this process can't make one, and
	// hands signals on where /proc doesn't show to whom; without /proc there is none.
	e.guards = c.Supervisor == Self && s.CanGuard() && applied.Backend != launch.BackendBwrap && !c.Policy.Limits.Group() &&
		(linux.OwnProc() || unix.Access(Self, unix.X_OK) != nil)
	own := c.Policy.Limits.Group() && len(c.Policy.Limits.Cgroup) == 0 // the caller's may have others in them
	e.authority = runner.Authority{
		Name: "local", Writable: writable(&applied), Dir: string(c.Policy.Worktree), Shell: c.Shell, Sandbox: sandboxOf(&applied),
		EndsAll: own && !c.Policy.Limits.BestEffort || c.Supervisor != "" || applied.Backend == launch.BackendBwrap,
		// Bubblewrap's commands die with it, and it with its parent.
		// What is traced needs the host to look at what it does.
		SurvivesHost: c.Supervisor == "" && applied.Backend != launch.BackendBwrap && !c.Options.TraceDenials,
		OnlyKill:     own || c.Supervisor != "" || applied.Backend == launch.BackendBwrap,
	}
	return e, nil
}

func defaultShell() []string {
	for _, sh := range []string{"/bin/bash", "/usr/bin/bash"} {
		if unix.Access(sh, unix.X_OK) == nil {
			return []string{sh}
		}
	}
	return []string{"/bin/sh"}
}

// Authority says what commands may do.
func (e *Executor) Authority() runner.Authority { return e.authority }

// Environ returns the environment that commands start from: the caller's, with
// what the policy sets and drops.
func (e *Executor) Environ() []string {
	s, err := e.take()
	if err != nil {
		return slices.Clone(e.config.Options.Environ) // Start says why
	}
	defer e.give(s)
	return s.Environ()
}

// CheckDir says whether a folder can be worked in.
func (e *Executor) CheckDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "chdir", Path: dir, Err: err}
	}
	return nil
}

// Start starts the command of a spec.
func (e *Executor) Start(ctx context.Context, s *runner.Spec) (runner.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.start(ctx, s, openFiles)
}

// start starts what a spec says, with the files that open makes.
func (e *Executor) start(ctx context.Context, s *runner.Spec, open func(*runner.Spec) (*files, error)) (runner.Process, error) {
	if e.config.Supervisor != "" && !e.guards {
		return e.startSupervised(ctx, s, open)
	}
	sandbox, err := e.take()
	if err != nil {
		return nil, err
	}
	defer e.give(sandbox)
	p, err := startDirect(sandbox.Sandbox, s, e.guards, open)
	if e.guards && errors.Is(err, syscall.ENOMEM) { // for a copy of this process
		return e.startSupervised(ctx, s, open)
	}
	if err != nil {
		return nil, err
	}
	p.restore = e.config.Restore
	return p, nil
}

// Close releases what is held open for commands to come. Those that run go on,
// confined as they are.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return e.drop()
}

// take returns the sandbox, and makes it anew when the repository isn't as it
// was: what is to be protected in it may have come since. The caller gives it
// back when the start is over.
func (e *Executor) take() (*shared, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, runner.ErrClosed
	}
	if e.now == nil || changed(e.sights) {
		sights := look(string(e.config.Policy.Worktree))
		o := e.config.Options
		o.TryScope = o.TryScope || e.config.Supervisor != "" // which gets itself one
		s, err := launch.Prepare(e.config.Policy, o)
		if err != nil {
			return nil, sandboxError(err)
		}
		if err := e.drop(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		e.now, e.sights = &shared{Sandbox: s}, sights
	}
	e.now.users++
	return e.now, nil
}

func (e *Executor) give(s *shared) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.users--
	if s.stale && s.users == 0 {
		_ = s.Close() // there is nobody to tell
	}
}

// drop closes the sandbox as soon as nobody uses it. e.mu is held.
func (e *Executor) drop() error {
	s := e.now
	e.now = nil
	switch {
	case s == nil:
		return nil
	case s.users > 0:
		s.stale = true
		return nil
	}
	return s.Close()
}

// sight is a file as it was seen.
type sight struct {
	path  string
	ino   uint64
	mtime unix.Timespec
}

// look notes what tells that a worktree's repository got something that git
// executes or follows: its pointer, its folders, and where those of other
// worktrees and of submodules are listed.
func look(worktree string) []sight {
	if worktree == "" {
		return nil
	}
	paths := []string{worktree, filepath.Join(worktree, ".git")}
	if repo, err := policy.FindRepo(worktree); err == nil && repo != nil {
		for _, dir := range []string{repo.GitDir, repo.CommonDir} {
			paths = append(paths, dir, filepath.Join(dir, "config"), filepath.Join(dir, "hooks"),
				filepath.Join(dir, "worktrees"), filepath.Join(dir, "modules"))
		}
	}
	slices.Sort(paths)
	sights := make([]sight, 0, len(paths))
	for _, path := range slices.Compact(paths) {
		sights = append(sights, see(path))
	}
	return sights
}

func see(path string) sight {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return sight{path: path}
	}
	s := sight{path: path, ino: st.Ino, mtime: st.Mtim}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && filepath.Base(path) != "worktrees" && filepath.Base(path) != "modules" && filepath.Base(path) != "hooks" {
		s.mtime = unix.Timespec{} // each commit changes it
	}
	return s
}

func changed(sights []sight) bool {
	return slices.ContainsFunc(sights, func(s sight) bool { return see(s.path) != s })
}

// sandboxOf says under what a command is to run, in the runner's words.
func sandboxOf(a *launch.Applied) *runner.Sandbox {
	return &runner.Sandbox{
		Mode: a.Mode, Enforcement: string(a.Enforcement), Backend: string(a.Backend), Features: a.Features,
	}
}

// writable lists what a policy's commands can write to.
func writable(a *launch.Applied) (paths []string) {
	for _, r := range a.Rules {
		if slices.Contains(r.Access, "write") {
			paths = append(paths, string(r.Path))
		}
	}
	return paths
}

// sandboxError says that a command could not be confined, or not be executed.
func sandboxError(err error) error {
	var exec *launch.ExecError
	if errors.As(err, &exec) {
		return &runner.StartError{Hint: launch.Hint(err), Err: err}
	}
	if errors.Is(err, launch.ErrGuardKilled) {
		return fmt.Errorf("%w: %w", runner.ErrUncertain, err)
	}
	return &runner.SandboxError{Hint: launch.Hint(err), Err: err}
}

func tampered(changes []launch.Change) (t []runner.Tampered) {
	for _, c := range changes {
		t = append(t, runner.Tampered{Path: c.Path, What: c.What, Why: c.Why})
	}
	return t
}
