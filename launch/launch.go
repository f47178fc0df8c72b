// Package launch starts commands that are confined as a policy says, from Go
// or in place of the calling process.
//
// [Prepare] turns a [policy.Policy] into a [Sandbox]: it asks the kernel what
// it holds, chooses the mechanism, refuses what can't be held, and opens what
// is granted. The sandbox then starts any number of commands, with the shape of
// os/exec ([Sandbox.Command]), or replaces the process ([Sandbox.Exec]).
// [Sandbox.Applied] reports, promise by promise, what the kernel enforces.
//
// Confinement happens in the child, between clone and exec. No thread of the
// calling process enters the child's domain, so a host that goes on living is
// out of its reach.
//
// # Limitations
//
// Rules belong to files, not to names: a sandbox whose worktree is replaced by
// another folder of the same name refuses to start, and one that runs already
// loses its right to write there. What no mechanism here holds is reported as
// absent.
package launch

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

// Backend is a mechanism, or a combination, that confines.
type Backend string

// The backends.
const (
	// BackendAuto, the zero value, takes the best one that works.
	BackendAuto Backend = ""
	// BackendLandlock is Landlock alone.
	BackendLandlock Backend = "landlock"
	// BackendMountns is Landlock with a mount namespace that holds protected
	// paths.
	BackendMountns Backend = "landlock+mountns"
	// BackendBwrap is bubblewrap, with Landlock inside where there is some.
	BackendBwrap Backend = "bwrap"
	// BackendNone confines nothing: what a mode of unconfined runs under.
	BackendNone Backend = "none"
)

// Options are the facts about a run that aren't the policy's.
type Options struct {
	// Environ is the environment that the command's is made from; nil is
	// [os.Environ].
	Environ []string
	// Backend forces one; zero chooses.
	Backend Backend
	// Bwrap is the bubblewrap to use where that is the backend; zero looks in
	// a few fixed folders. One that others could have changed isn't used.
	Bwrap string
	// OwnGroup says that the control group of this process was made for it, as
	// by systemd-run --scope -p Delegate=yes: where the limits take that, what
	// is in it is moved into a group beneath.
	OwnGroup bool
	// Groups says that commands are started in groups of the caller's (see
	// [Cmd.Group]), which they then can't leave. With limits that is so anyway.
	Groups bool
	// TryScope says that a control group may come from the user's systemd, if
	// need be, since commands are started by a program that does what [WantsScope]
	// says. Whether there would be one is then tried.
	TryScope bool
	// TraceDenials watches which changes commands try, and reports those that
	// are refused: [Cmd.Trace]. It refuses nothing by itself, and slows down what
	// writes. It needs Linux 5.7, the /proc of this process's own PID namespace,
	// and no one who watches this process in that way: else starts fail with a [*WitnessError] in a [*SetupError]'s chain.
	//
	// The command's processes wait for this one at each such call: when it has
	// ended, what they have left of themselves gets ENOSYS from then on.
	TraceDenials bool
	// Once says that one command is started. Regular files among its standard
	// streams, which it may open again by their names, are then added to the one
	// ruleset; else such a command gets a ruleset of its own. Without regard to
	// that, a second command would be confined by the policy and these files.
	Once bool
	// DryRun makes no folder that the policy or the cache would need. The
	// sandbox can be looked at, and not used.
	DryRun bool
}

// Sandbox is a policy made ready on this machine. It may be used by many
// goroutines at once. [Sandbox.Close] releases it; commands that run stay
// confined.
type Sandbox struct {
	policy  policy.Policy
	options Options
	support landlock.Support
	have    uint64 // capabilities of this process
	boxed   bool   // bubblewrap is wanted
	limits  *limits
	swept   sync.Once

	// starts is held for reading by each start, whose descriptors are the
	// sandbox's, and for writing to close them.
	starts sync.RWMutex
	closed bool

	mu    sync.Mutex
	bwrap bwrap.Support // if boxed
	now   *variant
	old   []*variant // that were found not to work here
	// noOverlays says that no overlay could be mounted over a cache.
	noOverlays bool
}

// fileID tells one folder from another that takes its name.
type fileID struct{ dev, ino uint64 }

// Prepare makes a sandbox of a policy. Errors are [*SetupError]s; then nothing
// is left open. Promises that p requires and this machine can't hold are such
// an error, with [*UnmetError] in its chain.
//
// It may make folders: the cache, the paths of Policy.WriteCreate, and the
// logs and hooks folders of a repository that has none.
//
// Whether a mount layer or bubblewrap works is found out by the first start: the
// sandbox then goes on without it, or refuses if the policy requires what it
// holds. Only before a refusal are they tried, so that it names all reasons.
func Prepare(p policy.Policy, o Options) (*Sandbox, error) {
	s, err := newSandbox(p, o)
	if err != nil {
		return nil, err
	}
	v, err := s.build(s.wantsLayer(), nil)
	if err == nil && len(v.missing) > 0 {
		// What else can't be held, and why, depends on what works.
		v, err = s.buildTried()
	}
	if err != nil {
		return nil, err
	}
	if err := s.ready(v); err != nil {
		return nil, err
	}
	s.now = v
	return s, nil
}

// Explain says what [Prepare] would do and changes nothing. Unlike Prepare it
// succeeds when a required promise can't be held; [Applied.Unmet] then lists
// them. It tries whether a mount layer or bubblewrap works.
func Explain(p policy.Policy, o Options) (*Applied, error) {
	o.DryRun = true
	s, err := newSandbox(p, o)
	if err != nil {
		return nil, err
	}
	v, err := s.buildTried()
	if err != nil {
		return nil, err
	}
	if v.boxed() {
		for _, g := range v.resolved.Grants {
			v.applied.addRule(g)
		}
	} else {
		for _, path := range v.ruleset.Paths {
			v.applied.addRule(path.Grant)
		}
	}
	if s.limits != nil && s.limits.place != nil {
		for _, dir := range s.limits.place.Folders() {
			v.applied.Cgroup = append(v.applied.Cgroup, policy.Path(dir))
		}
	}
	v.applied.Env = envChanges(s.options.Environ, v.resolved.Env)
	for _, f := range v.missing {
		v.applied.Unmet = append(v.applied.Unmet, f.Promise)
	}
	return &v.applied, nil
}

// newSandbox does what doesn't depend on the variant.
func newSandbox(p policy.Policy, o Options) (*Sandbox, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	switch o.Backend {
	case BackendAuto, BackendLandlock, BackendMountns, BackendBwrap:
	default:
		return nil, &SetupError{Stage: StagePolicy, Err: &policy.Error{
			Field: "backend", Value: string(o.Backend), Why: "no such backend",
			Hint: "landlock, landlock+mountns or bwrap; without one the best that works is taken",
		}}
	}
	s := &Sandbox{policy: p, options: o, support: landlock.Probe()}
	if s.boxed = s.wantsBox(); s.boxed {
		s.takeBwrap(bwrap.Find(o.Bwrap))
	}
	var err error
	if s.have, err = permittedCaps(); err != nil {
		return nil, &SetupError{Stage: StageCaps, Err: err}
	}
	if o.TraceDenials && !o.DryRun {
		if err := seccomp.ProbeWitness(); err != nil {
			return nil, &SetupError{Stage: StageProbe, Err: &WitnessError{err}}
		}
	}
	if p.Limits.Any() {
		if err := p.Validate(); err != nil {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
		s.limits = newLimits(&p, s.have, o.OwnGroup)
		if o.TryScope && s.limits != nil {
			s.limits.tryScope(&p)
		}
	}
	return s, nil
}

// Mounts reports whether [Prepare] may make a sandbox with mounts of its own: no
// process in a Landlock domain that handles files could start a command in it.
func Mounts(p policy.Policy, o Options) bool {
	s := &Sandbox{policy: p, options: o, support: landlock.Probe()}
	s.boxed = s.wantsBox()
	return s.boxed || s.wantsLayer()
}

// buildTried is build with what was found to work here, by trying.
func (s *Sandbox) buildTried() (*variant, error) {
	if s.boxed {
		s.takeBwrap(bwrap.Probe(context.Background(), s.options.Bwrap))
	}
	layer := s.wantsLayer()
	var missing *mountns.MissingError
	if layer && errors.As(s.tryNamespaces(), &missing) {
		layer = false
	}
	return s.build(layer, missing)
}

// envChanges lists what is set, as NAME=VALUE, and dropped, as -NAME.
func envChanges(before, after []string) (changes []string) {
	had := make(map[string]bool, len(before))
	for _, e := range before {
		had[e] = true
	}
	has := make(map[string]bool, len(after))
	for _, e := range after {
		name, _, _ := strings.Cut(e, "=")
		has[name] = true
		if !had[e] {
			changes = append(changes, e)
		}
	}
	for _, e := range before {
		if name, _, _ := strings.Cut(e, "="); !has[name] {
			changes = append(changes, "-"+name)
		}
	}
	return changes
}

// Close releases what the sandbox holds open, when starts that are under way have
// succeeded or failed. Nothing starts after it: that is [ErrClosed]. A second
// call does nothing.
func (s *Sandbox) Close() error {
	s.starts.Lock()
	defer s.starts.Unlock()
	s.closed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, v := range append(s.old, s.now) {
		if v.domain != nil {
			errs = append(errs, v.domain.Close())
		}
	}
	return errors.Join(errs...)
}

// begin begins a start, which end ends. It fails when the sandbox is closed or was
// never opened: what confines would be missing then.
func (s *Sandbox) begin() (end func(), err error) {
	if s.options.DryRun {
		return nil, &SetupError{Stage: StageStart, Err: errDryRun}
	}
	s.starts.RLock()
	if s.closed {
		s.starts.RUnlock()
		return nil, &SetupError{Stage: StageStart, Err: ErrClosed}
	}
	return s.starts.RUnlock, nil
}

// Environ returns a copy of the environment that commands get.
func (s *Sandbox) Environ() []string { return slices.Clone(s.variant().resolved.Env) }

// Applied reports what is enforced. Before the first start it is what is
// hoped for.
func (s *Sandbox) Applied() Applied {
	v := s.variant()
	a := v.applied
	if v.domain != nil {
		a.addDomain(v.domain)
	}
	return a
}

// Unconfined says why nothing is confined, or "" if something is.
func (s *Sandbox) Unconfined() string {
	a := &s.variant().applied
	switch {
	case a.Backend != BackendNone:
		return ""
	case a.Mode == policy.Unconfined:
		return "the mode is unconfined"
	}
	return a.Kernel.Why
}

// Notes are what the caller should know about the resolved policy.
func (s *Sandbox) Notes() []policy.Note { return s.variant().applied.Notes }

// NeedsParent reports whether a command must be a child of a process that
// stays: [Sandbox.Exec] then doesn't do.
func (s *Sandbox) NeedsParent() bool {
	v := s.variant()
	return s.options.TraceDenials || v.layered() || v.boxed() || v.watched() || s.limits != nil && s.limits.place != nil
}

func (s *Sandbox) variant() *variant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{st.Dev, st.Ino}, nil
}
