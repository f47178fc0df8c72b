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
// loses its right to write there. What Landlock can't hold is reported as
// absent; see package landlock.
package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
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
	// DryRun makes no folder that the policy or the cache would need, and
	// opens no ruleset: the sandbox can be looked at, and not used.
	DryRun bool
}

// Sandbox is a policy made ready on this machine. It may be used by many
// goroutines at once. [Sandbox.Close] releases it; commands that run stay
// confined.
type Sandbox struct {
	resolved *policy.Resolved
	ruleset  landlock.Ruleset
	domain   *landlock.Domain
	applied  Applied
	environ  []string
	caps     *uint64
	worktree fileID
	missing  []policy.Feature // required, and absent
}

// fileID tells one folder from another that takes its name.
type fileID struct{ dev, ino uint64 }

// Prepare makes a sandbox of a policy. Errors are [*SetupError]s; then nothing
// is left open. Promises that p requires and this machine can't hold are such
// an error, with [*UnmetError] in its chain.
//
// It may make folders: the cache, the paths of Policy.WriteCreate, and a
// missing logs folder in a repository.
func Prepare(p policy.Policy, o Options) (*Sandbox, error) {
	s, err := prepare(p, o)
	if err != nil {
		return nil, err
	}
	if len(s.missing) > 0 {
		return nil, &SetupError{Stage: StageProbe, Err: &UnmetError{Features: s.missing, Kernel: s.applied.Kernel}}
	}
	if o.DryRun {
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// Explain says what [Prepare] would do and changes nothing. Unlike Prepare it
// succeeds when a required promise can't be held; [Applied.Unmet] then lists
// them.
func Explain(p policy.Policy, o Options) (*Applied, error) {
	o.DryRun = true
	s, err := prepare(p, o)
	if err != nil {
		return nil, err
	}
	for _, path := range s.ruleset.Paths {
		s.applied.Rules = append(s.applied.Rules, ruleOf(path.Grant))
	}
	s.applied.Env = envChanges(s.environ, s.resolved.Env)
	for _, f := range s.missing {
		s.applied.Unmet = append(s.applied.Unmet, f.Promise)
	}
	return &s.applied, nil
}

// prepare does all of Prepare that leaves nothing to close.
func prepare(p policy.Policy, o Options) (*Sandbox, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if p.Network.Mode == policy.NetworkNone {
		return nil, &SetupError{Stage: StagePolicy, Err: &UnavailableError{What: "a network of none"}}
	}
	switch o.Backend {
	case BackendAuto, BackendLandlock:
	default:
		return nil, &SetupError{Stage: StagePolicy, Err: &UnavailableError{What: "the backend " + string(o.Backend)}}
	}

	r, err := policy.Resolve(p, policy.Options{Environ: o.Environ, DryRun: o.DryRun})
	if err != nil {
		return nil, &SetupError{Stage: StagePolicy, Err: err}
	}
	s := &Sandbox{resolved: r, environ: o.Environ}
	s.applied = Applied{
		Mode:     p.Mode,
		Backend:  BackendLandlock,
		Worktree: policy.Path(r.Worktree),
		Cache:    policy.Path(r.CacheDir),
		Notes:    r.Notes,
	}
	if s.applied.Mode == "" {
		s.applied.Mode = policy.ReadOnly
	}
	if r.Worktree != "" {
		s.worktree, err = identify(r.Worktree)
		if err != nil {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
	}

	support := landlock.Probe()
	s.applied.Kernel = kernelOf(support)
	if p.Mode == policy.Unconfined {
		s.applied.Backend = BackendNone
	}
	s.applied.Features = landlock.Features(support, r)
	for _, f := range s.applied.Features {
		if f.State == policy.Absent && p.Requires(f.Promise) {
			s.missing = append(s.missing, f)
		}
	}
	s.applied.Enforcement = enforcement(p.Mode, s.applied.Features)

	s.ruleset, err = landlock.Compile(support, r)
	if err != nil {
		var unsupported *landlock.SupportError
		if !errors.As(err, &unsupported) {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
		// Whether that matters is a question of what is required.
		s.applied.Backend = BackendNone
	}
	if s.applied.Backend != BackendNone {
		s.caps, err = keptCaps(p.Caps)
		if err != nil {
			return nil, &SetupError{Stage: StageCaps, Err: err}
		}
	}
	return s, nil
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

// open makes the ruleset.
func (s *Sandbox) open() error {
	d, err := s.ruleset.Create()
	if err != nil {
		return &SetupError{Stage: StageRules, Err: err}
	}
	s.domain = d
	return nil
}

// Close releases what the sandbox holds open.
func (s *Sandbox) Close() error {
	if s.domain == nil {
		return nil
	}
	return s.domain.Close()
}

// Environ returns a copy of the environment that commands get.
func (s *Sandbox) Environ() []string { return slices.Clone(s.resolved.Env) }

// Applied reports what is enforced.
func (s *Sandbox) Applied() Applied {
	a := s.applied
	if s.domain != nil {
		a.addRules(s.domain)
	}
	return a
}

// Unconfined says why nothing is confined, or "" if something is.
func (s *Sandbox) Unconfined() string {
	switch {
	case s.applied.Backend != BackendNone:
		return ""
	case s.applied.Mode == policy.Unconfined:
		return "the mode is unconfined"
	}
	return s.applied.Kernel.Why
}

// Notes are what the caller should know about the resolved policy.
func (s *Sandbox) Notes() []policy.Note { return s.applied.Notes }

// confine adds the sandbox's part to a plan. Files that the command gets as
// standard output and error, and that lie outside the grants, are granted too:
// "> /dev/stderr" opens them by name. Such a grant needs a ruleset of its own,
// which release closes.
func (s *Sandbox) confine(p *spawn.Plan) (d *landlock.Domain, release func(), err error) {
	release = func() {}
	if s.worktree != (fileID{}) {
		now, err := identify(s.resolved.Worktree)
		if err != nil || now != s.worktree {
			return nil, release, &SetupError{Stage: StageRules, Err: &ReplacedError{Path: s.resolved.Worktree}}
		}
	}
	if s.applied.Backend == BackendNone {
		return nil, release, nil
	}
	d = s.domain
	if stdio := regularFiles(p.Files); len(stdio) > 0 && d.FD >= 0 {
		if d, err = s.ruleset.Create(); err != nil {
			return nil, release, &SetupError{Stage: StageRules, Err: err}
		}
		release = func() { _ = d.Close() }
		for _, fd := range stdio {
			if err := d.AddFD(fd, policy.Read|policy.Write); err != nil {
				release()
				return nil, func() {}, &SetupError{Stage: StageRules, Err: err}
			}
		}
	}
	p.Caps = s.caps
	p.NoNewPrivs = true
	if d.FD >= 0 {
		p.RulesetFD = d.FD
	}
	return d, release, nil
}

// regularFiles returns those of standard output and error that are files.
func regularFiles(files []int) (fds []int) {
	for i := 1; i < len(files) && i < 3; i++ {
		var st unix.Stat_t
		if files[i] >= 0 && unix.Fstat(files[i], &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			fds = append(fds, files[i])
		}
	}
	return fds
}

func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// keptCaps returns the capabilities to keep, a bit for each, or nil if there
// are none to lose.
func keptCaps(names []string) (*uint64, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return nil, os.NewSyscallError("capget", err)
	}
	have := uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
	if have == 0 {
		return nil, nil
	}
	if names == nil {
		names = policy.DefaultCaps
	}
	var keep uint64
	switch {
	case slices.Equal(names, []string{"all"}):
		keep = have
	case slices.Equal(names, []string{"none"}):
	default:
		all := policy.Capabilities()
		for _, name := range names {
			i := slices.Index(all, strings.ToLower(name))
			if i < 0 {
				return nil, fmt.Errorf("unknown capability %q", name)
			}
			keep |= 1 << i
		}
	}
	keep &= have
	return &keep, nil
}

// keptSignals stay ignored in a command: nohup asks for it.
var keptSignals = []syscall.Signal{syscall.SIGHUP}
