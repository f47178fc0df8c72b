package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// variant is a sandbox for one combination of mechanisms. What is granted
// depends on it: without a mount layer git's common folder can't be granted as
// a whole.
type variant struct {
	resolved *policy.Resolved
	ruleset  landlock.Ruleset
	domain   *landlock.Domain
	mounts   mountns.Plan
	// watch covers again what somebody outside replaces; nil if nothing is
	// covered.
	watch *mountns.Watch
	// late are rules for what only the child's mounts bring about. A ruleset
	// that is to get them is for one start.
	late []spawn.Rule
	// layout is the sandbox that bwrap makes; nil without.
	layout     *bwrap.Layout
	bwrap      bwrap.Support
	filter     seccomp.Filter
	programs   *programs
	noFilters  bool
	namespaces uintptr
	worktree   fileID
	applied    Applied
	missing    []policy.Feature // required, and absent
	dropped    []string         // variables that name a socket outside
}

// programs are a filter's, once they are compiled: without a terminal, and with
// one.
type programs [2]atomic.Pointer[[][]unix.SockFilter]

// watched reports whether protected paths are compared afterwards.
func (v *variant) watched() bool {
	p := &v.resolved.Policy
	return p.Mode == policy.WorkspaceWrite && v.resolved.Repo != nil && !p.NoProtect && v.applied.Backend != BackendNone
}

// snapshot notes the state of protected paths before a start.
func (v *variant) snapshot() (*tamper.State, error) {
	if !v.watched() {
		return nil, nil
	}
	state, err := tamper.Snapshot(v.resolved)
	if err != nil {
		return nil, &SetupError{Stage: StageProtect, Err: err}
	}
	return state, nil
}

// boxed reports whether the command gets a sandbox of bubblewrap's.
func (v *variant) boxed() bool { return v.applied.Backend == BackendBwrap }

// layered reports whether the command gets a mount namespace of ours.
func (v *variant) layered() bool {
	return !v.boxed() && len(v.mounts.Mounts)+len(v.resolved.Overlays) > 0
}

// addLate takes the rules for what is granted by name on a new file system out
// of the ruleset: the child adds them when it is mounted.
func (v *variant) addLate() {
	if len(v.mounts.NewFS) == 0 {
		return
	}
	early := v.ruleset.Paths[:0:0]
	for _, rule := range v.ruleset.Paths {
		if v.onNewFS(rule.Grant) {
			v.late = append(v.late, spawn.Rule{Path: rule.Grant.Path, Rights: uint64(rule.Rights)})
		} else {
			early = append(early, rule)
		}
	}
	v.ruleset.Paths = early
}

// onNewFS reports whether a grant is for what is new, and not for what was
// taken along.
func (v *variant) onNewFS(g policy.Grant) bool {
	if g.Origin != policy.FromTmp && g.Origin != policy.FromDevice && g.Origin != policy.FromCache {
		return false
	}
	for _, dir := range v.mounts.NewFS {
		if g.Path == dir || g.Origin != policy.FromCache && strings.HasPrefix(g.Path, dir+"/") {
			return true
		}
	}
	return false
}

// wantsLayer reports whether a mount layer may be of use.
func (s *Sandbox) wantsLayer() bool {
	p := &s.policy
	if s.options.Backend == BackendLandlock || s.support.ABI == 0 || p.Mode == policy.Unconfined || s.boxed {
		return false
	}
	return p.Mode == policy.WorkspaceWrite && !p.NoProtect || len(p.Protect) > 0 ||
		len(p.Hide) > 0 || p.PrivateTmp || p.StrictMetadata || s.options.Backend == BackendMountns
}

// build resolves the policy and compiles it. If there is no mount layer
// although one was wanted, missing says why.
func (s *Sandbox) build(layer bool, missing *mountns.MissingError) (*variant, error) {
	p := s.policy
	boxed := s.boxed && s.bwrap.Usable()
	r, err := policy.Resolve(p, policy.Options{
		Environ: s.options.Environ, DryRun: s.options.DryRun, MountLayer: layer || boxed, Overlays: layer && !boxed && !s.noOverlays,
	})
	if err != nil {
		return nil, &SetupError{Stage: StagePolicy, Err: err}
	}
	if layer && r.Repo != nil && len(r.Protect) == 0 {
		// What there is no mount for must not be granted as if there were.
		if r, err = policy.Resolve(p, policy.Options{Environ: s.options.Environ, DryRun: s.options.DryRun}); err != nil {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
	}
	v := &variant{resolved: r, programs: new(programs)}
	if err := s.limits.checkGrants(r); err != nil {
		return nil, &SetupError{Stage: StagePolicy, Err: err}
	}
	if r.Worktree != "" {
		if v.worktree, err = identify(r.Worktree); err != nil {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
	}
	support := s.support
	if boxed && support.ABI == 1 {
		// Its every domain forbids to rename from folder to folder, and
		// bubblewrap holds all that it could.
		support = landlock.Support{}
	}
	v.ruleset, err = landlock.Compile(support, r)
	backend := BackendLandlock
	if err != nil {
		var unsupported *landlock.SupportError
		if !errors.As(err, &unsupported) {
			return nil, &SetupError{Stage: StagePolicy, Err: err}
		}
		backend = BackendNone // whether that matters is a question of what is required
	}
	switch {
	case p.Mode == policy.Unconfined:
		backend = BackendNone
	case boxed:
		backend = BackendBwrap
	}
	if layer && backend != BackendNone {
		s.addMounts(v)
	}
	if v.layered() {
		backend = BackendMountns
	}
	if !v.layered() && !boxed {
		s.dropSockets(v)
	}

	v.applied = Applied{
		Mode: p.Mode, Backend: backend, Kernel: kernelOf(s.support),
		Worktree: policy.Path(r.Worktree), Cache: policy.Path(r.CacheDir), Notes: r.Notes,
	}
	if v.applied.Mode == "" {
		v.applied.Mode = policy.ReadOnly
	}
	v.applied.Features = landlock.Features(support, r)
	if p.Mode != policy.Unconfined {
		v.filter = filterOf(&p, support)
		v.filter.NoForeignGroups = s.options.Groups || s.limits != nil && s.limits.place != nil
		if boxed {
			v.filter.NoTruncate = false
		}
		unsupported := seccomp.Probe()
		withFilter(v.applied.Features, &p, support, v.filter, unsupported)
		if unsupported != nil {
			v.filter = seccomp.Filter{} // whether that matters is a question of what is required
		}
		v.noFilters = unsupported != nil
	}
	for i, f := range v.applied.Features {
		v.applied.Features[i] = mountns.Feature(f, r, v.layered(), missing)
	}
	if s.boxed {
		if err := s.addBox(v); err != nil {
			return nil, err
		}
	}
	if v.layered() || v.layout != nil {
		v.watch = mountns.NewWatch(r)
	}
	v.applied.Features = v.withComparison(v.applied.Features)
	v.withSockets(v.applied.Features)
	v.applied.Features = s.limits.withFeature(v)
	for _, f := range v.applied.Features {
		if f.State == policy.Absent && p.Requires(f.Promise) {
			v.missing = append(v.missing, f)
		}
	}
	v.applied.Enforcement = enforcement(p.Mode, v.applied.Features)
	return v, nil
}

// addMounts compiles the mounts of v, if it has any.
func (s *Sandbox) addMounts(v *variant) {
	v.mounts = mountns.Compile(v.resolved)
	if v.layered() || s.options.Backend == BackendMountns {
		if s.maskSockets(v); len(v.resolved.Mask) > 0 {
			v.mounts = mountns.Compile(v.resolved)
		}
	}
	if !v.layered() {
		return
	}
	v.addLate()
	v.namespaces = unix.CLONE_NEWNS
	if s.have&(1<<unix.CAP_SYS_ADMIN) == 0 {
		v.namespaces |= unix.CLONE_NEWUSER
	}
}

// withComparison adds what a comparison afterwards holds: all of the
// protection, or the rest of it where there are mounts.
func (v *variant) withComparison(features []policy.Feature) []policy.Feature {
	i := slices.IndexFunc(features, func(f policy.Feature) bool { return f.Promise == policy.PromiseProtect })
	mounts := (v.layered() || v.boxed()) && features[max(i, 0)].State == policy.Enforced
	if i < 0 || !v.watched() || len(v.resolved.Policy.Protect) > 0 && !mounts {
		return features
	}
	after := policy.Feature{
		Promise: policy.PromiseProtect, State: policy.VerifiedAfter, By: "comparison",
		Why: "names that don't exist yet can't be covered",
	}
	if mounts {
		return slices.Insert(features, i+1, after)
	}
	if features[i].State == policy.Absent {
		after.Why, after.Mend = features[i].Why, features[i].Mend
		features[i] = after
	}
	return features
}

// ready refuses what can't be held, and makes the ruleset.
func (s *Sandbox) ready(v *variant) error {
	if len(v.missing) > 0 {
		scope := len(v.missing) == 1 && v.missing[0].Promise == policy.PromiseLimits && WantsScope(s, nil)
		return &SetupError{Stage: StageProbe, Err: &UnmetError{Features: v.missing, Kernel: v.applied.Kernel, scope: scope}}
	}
	if s.options.DryRun || v.boxed() {
		return nil // the inner stage makes the ruleset, of what it finds there
	}
	d, err := v.ruleset.Create()
	if err != nil {
		return &SetupError{Stage: StageRules, Err: err}
	}
	v.domain = d
	return nil
}

// attempt starts a command under the present variant, in the control group
// given, or else in one of its own if the limits take that. If it turns out that
// this machine has no mount layer, it tries the next way.
func (s *Sandbox) attempt(given *cgroup.Group, start func(*variant, *slots, *group) (*Started, error)) (_ *Started, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	g, err := s.newGroup(given)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.discard()
			err = s.blameMemory(err)
		}
	}()
	for {
		v := s.variant()
		state, err := v.snapshot()
		if err != nil {
			return nil, err
		}
		slots, err := v.takeSlots()
		if err != nil {
			return nil, err
		}
		started, err := start(v, slots, g)
		if err == nil {
			started.state, started.slots, started.group = state, slots, g
			started.watch(v.watch)
			s.sweep()
			return started, nil
		}
		slots.release()
		var box *boxError
		switch {
		case errors.As(err, &box):
			err = s.otherBox(v, box)
		case v.layered() && slots.failed(err):
			err = s.withoutOverlays(v)
		case v.layered() && mountns.Unsupported(err):
			err = s.fallBack(v, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

// fallBack replaces the variant v, which failed with cause, by the next one.
func (s *Sandbox) fallBack(v *variant, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != v {
		return nil // another start was faster
	}
	if v.namespaces&unix.CLONE_NEWUSER == 0 {
		next := *v
		next.namespaces |= unix.CLONE_NEWUSER
		s.now = &next // which shares the domain, so v isn't kept
		return nil
	}
	missing := mountns.Reason(cause)
	if s.options.Backend == BackendMountns {
		return &SetupError{Stage: StageProbe, Err: &LayerError{Why: missing.Why, Mend: missing.Mend, Err: cause}}
	}
	next, err := s.build(false, missing)
	if err != nil {
		return err
	}
	if err := s.ready(next); err != nil {
		return err
	}
	s.old, s.now = append(s.old, v), next
	return nil
}

// tryNamespaces finds out whether a mount layer works, by making one.
func (s *Sandbox) tryNamespaces() error {
	return mountns.Probe(s.have&(1<<unix.CAP_SYS_ADMIN) != 0)
}

// confine adds the sandbox's part to a plan. Files that the command gets as
// standard output and error, and that lie outside the grants, are granted too:
// "> /dev/stderr" opens them by name. Such a grant needs a ruleset of its own,
// which release closes.
func (s *Sandbox) confine(v *variant, p *spawn.Plan, overlays *slots) (d *landlock.Domain, release func(), err error) {
	release = func() {}
	if v.worktree != (fileID{}) {
		now, err := identify(v.resolved.Worktree)
		if err != nil || now != v.worktree {
			return nil, release, &SetupError{Stage: StageRules, Err: &ReplacedError{Path: v.resolved.Worktree}}
		}
	}
	switch v.applied.Backend {
	case BackendNone:
		return nil, release, nil
	case BackendBwrap:
		if err := v.enclose(p); err != nil {
			return nil, release, err
		}
		return nil, release, s.addWitness(v, p)
	}
	d = v.domain
	if stdio := regularFiles(p.Files); len(stdio)+len(v.late) > 0 && d.FD >= 0 {
		if !s.options.Once {
			if d, err = v.ruleset.Create(); err != nil {
				return nil, release, &SetupError{Stage: StageRules, Err: err}
			}
			release = func() { _ = d.Close() }
		}
		for _, fd := range stdio {
			if err := d.AddFD(fd, policy.Read|policy.Write); err != nil {
				release()
				return nil, func() {}, &SetupError{Stage: StageRules, Err: err}
			}
		}
	}
	if v.layered() {
		p.Namespaces, p.Mounts, p.Rules = v.namespaces, v.mounts.Mounts, v.late
		if len(overlays.mounts) > 0 {
			p.Mounts = append(slices.Clip(overlays.mounts), p.Mounts...)
		}
		if v.namespaces&unix.CLONE_NEWUSER != 0 {
			if ssh := sshConfig(s.options.Environ); len(ssh) > 0 {
				// First, since what is private or hidden may cover the copies.
				p.Mounts = append(ssh, p.Mounts...)
			}
		}
		if p.Dir == "" {
			// What is mounted over the present folder is seen only by who
			// enters it again.
			if p.Dir, err = os.Getwd(); err != nil {
				release()
				return nil, func() {}, &SetupError{Stage: StageStart, Err: &policy.Error{
					Why: "the current directory does not exist (any more), or can't be reached", Hint: "go to another one, or name one to run in", Err: err,
				}}
			}
		}
	}
	if p.Caps, err = s.keptCaps(v); err != nil {
		release()
		return nil, func() {}, &SetupError{Stage: StageCaps, Err: err}
	}
	if p.Filters, err = v.filters(p.Files, p.NewSession); err != nil {
		release()
		return nil, func() {}, &SetupError{Stage: StageConfine, Err: err}
	}
	if err := s.addWitness(v, p); err != nil {
		release()
		return nil, func() {}, err
	}
	p.NoNewPrivs = true
	if d.FD >= 0 {
		p.RulesetFD = d.FD
		if s.options.TraceDenials { // for who reads the machine's log
			p.RestrictFlags = landlock.ABIs[min(s.support.ABI, landlock.Newest)].RestrictFlags & unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
		}
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

// permittedCaps returns the capabilities of this process, a bit for each.
func permittedCaps() (uint64, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0, os.NewSyscallError("capget", err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}

// keptCaps returns the capabilities that the command keeps, a bit for each, or
// nil if there are none to lose.
func (s *Sandbox) keptCaps(v *variant) (*uint64, error) {
	have := s.have
	if v.namespaces&unix.CLONE_NEWUSER != 0 {
		// All of them, in the new namespace, until the exec of an ordinary
		// user's program, which has none.
		have = 0
		if os.Geteuid() == 0 {
			have = ^uint64(0)
		}
	} else if have == 0 {
		return nil, nil
	}
	names := s.policy.Caps
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
