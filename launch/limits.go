package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// rlimitName is what [policy.Feature.By] says for limits of single processes.
const rlimitName = "rlimit"

// limits are a policy's, as this machine can hold them.
type limits struct {
	// place is where control groups are made; nil if there are none.
	place *cgroup.Place
	// lacks says why there is no place although one is wanted.
	lacks error
	// feature is what is held, unless the command can leave its group.
	feature policy.Feature

	rlimits     []spawn.Rlimit
	nice        int
	oomScoreAdj *int
}

// newLimits looks for what holds the policy's limits; nil if it has none.
func newLimits(p *policy.Policy, have uint64, ownGroup bool) *limits {
	if !p.Limits.Any() {
		return nil
	}
	l := &limits{feature: policy.Feature{Promise: policy.PromiseLimits, State: policy.Enforced}}
	var by []string
	if p.Limits.Group() {
		l.place, l.lacks = cgroup.Find(p.Limits, cgroup.Options{Worktree: string(p.Worktree), Own: ownGroup})
		if l.lacks != nil {
			l.absent(l.lacks)
			if l.place = findSome(p, ownGroup); l.place != nil {
				l.feature.Why += " (others of them hold)"
			}
		} else {
			by = append(by, cgroup.Name)
		}
	}
	if p.Limits.Process() {
		by = append(by, rlimitName)
		if why := l.addProcess(&p.Limits, have); why != "" && l.lacks == nil {
			l.feature.State, l.feature.Why = policy.Absent, why
			l.feature.Mend = "leave it as it is, or start this program with the capability"
		}
	}
	if l.feature.State == policy.Enforced {
		l.feature.By = strings.Join(by, "+")
	}
	return l
}

// findSome looks for a place for those of the limits that can be held where not
// all can, if that is allowed; nil if there is none.
func findSome(p *policy.Policy, ownGroup bool) *cgroup.Place {
	want := p.Limits
	if p.Requires(policy.PromiseLimits) || len(want.Cgroup) > 0 {
		return nil
	}
	var place *cgroup.Place
	held := policy.Limits{CgroupParent: want.CgroupParent}
	for _, set := range []func(l *policy.Limits){
		func(l *policy.Limits) { l.Memory, l.Swap = want.Memory, want.Swap },
		func(l *policy.Limits) { l.Pids = want.Pids },
		func(l *policy.Limits) { l.CPUs, l.CPUWeight = want.CPUs, want.CPUWeight },
		func(l *policy.Limits) { l.IORead = want.IORead },
		func(l *policy.Limits) { l.IOWrite = want.IOWrite },
	} {
		var alone policy.Limits
		if set(&alone); !alone.Group() {
			continue
		}
		more := held
		set(&more)
		if found, err := cgroup.Find(more, cgroup.Options{Worktree: string(p.Worktree), Own: ownGroup}); err == nil {
			place, held = found, more
		}
	}
	return place
}

// absent says why a group can't be had.
func (l *limits) absent(err error) {
	l.feature = policy.Feature{Promise: policy.PromiseLimits, State: policy.Absent, Why: err.Error(), Mend: limitsMend(err)}
}

// withoutLimits is how to do without limits that can't be had.
const withoutLimits = "run with --limits best-effort, and without them"

// limitsMend is what would help where a group can't be had, "" if that isn't
// known.
func limitsMend(err error) string {
	var support *cgroup.SupportError
	var limit *cgroup.LimitError
	mend := ""
	switch {
	case errors.As(err, &support) && support.Scope:
		return scopeHint
	case errors.As(err, &support):
		mend = support.Mend
	case errors.As(err, &limit):
		mend = limit.Mend
	}
	if mend == "" && errors.Is(err, fs.ErrPermission) {
		mend = "a sandbox that this program runs in may forbid it: set the limits there, or start this outside"
	}
	return mend
}

// tryScope finds out whether the user's systemd would give the group that is
// lacking.
func (l *limits) tryScope(p *policy.Policy) {
	var support *cgroup.SupportError
	if !errors.As(l.lacks, &support) || !support.Scope {
		return
	}
	scope, err := cgroup.TryScope(context.Background())
	if err == nil {
		err = scope.Holds(p.Limits, cgroup.Options{Worktree: string(p.Worktree)})
	}
	if err != nil {
		l.absent(err)
		return
	}
	l.feature = policy.Feature{Promise: policy.PromiseLimits, State: policy.Enforced, By: cgroup.Name}
}

// scopeHint is what a program does that has no group to divide.
const scopeHint = "start this program by: systemd-run --user --scope -p Delegate=yes"

// addProcess adds the limits of single processes, as far as this process may set
// them, and says what it may not.
func (l *limits) addProcess(p *policy.Limits, have uint64) (why string) {
	var bad []string
	add := func(resource int, name string, n int64) {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err == nil && uint64(n) > now.Max && have&(1<<unix.CAP_SYS_RESOURCE) == 0 {
			bad = append(bad, fmt.Sprintf("the limit %s is %d already, and raising it to %d takes CAP_SYS_RESOURCE", name, now.Max, n))
			n = int64(now.Max)
		}
		l.rlimits = append(l.rlimits, spawn.Rlimit{Resource: resource, Cur: uint64(n), Max: uint64(n)})
	}
	if p.OpenFiles != 0 {
		add(unix.RLIMIT_NOFILE, "nofile", p.OpenFiles)
	}
	if p.FileSize != 0 {
		add(unix.RLIMIT_FSIZE, "fsize", p.FileSize)
	}
	if p.Core != nil {
		add(unix.RLIMIT_CORE, "core", *p.Core)
	}
	l.nice = int(p.Nice)
	if p.Nice < 0 && have&(1<<unix.CAP_SYS_NICE) == 0 && !mayLower(l.nice) {
		bad = append(bad, "lowering the niceness takes CAP_SYS_NICE, or a higher RLIMIT_NICE")
		l.nice = 0
	}
	if p.OOMScoreAdj != nil {
		n := int(*p.OOMScoreAdj)
		if now, ok := oomScoreAdj(); ok && n < now && have&(1<<unix.CAP_SYS_RESOURCE) == 0 {
			bad = append(bad, fmt.Sprintf("oom_score_adj is %d, and lowering it to %d takes CAP_SYS_RESOURCE", now, n))
			n = now
		}
		l.oomScoreAdj = &n
	}
	return strings.Join(bad, "; ")
}

// mayLower reports whether RLIMIT_NICE allows a niceness that much lower.
func mayLower(by int) bool {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the niceness
	var limit unix.Rlimit
	return err == nil && unix.Getrlimit(unix.RLIMIT_NICE, &limit) == nil && uint64(now-by) <= limit.Cur
}

// oomScoreAdj returns this process's.
func oomScoreAdj() (n int, ok bool) {
	_, err := fmt.Sscan(readLine("/proc/self/oom_score_adj"), &n)
	return n, err == nil
}

// checkGrants refuses grants through which the command could leave its group.
func (l *limits) checkGrants(r *policy.Resolved) error {
	if l == nil || l.place == nil {
		return nil
	}
	for _, g := range r.Grants {
		if g.Access&policy.Write == 0 {
			continue
		}
		for _, mount := range l.place.Mounts() {
			if within(g.Path, mount) || within(mount, g.Path) {
				return &policy.Error{
					Field: grantField(g.Origin), Value: g.Path, Why: "through the control groups in it the command could leave its limits",
					Hint: "grant something smaller, or leave the limits out",
				}
			}
		}
	}
	return nil
}

// grantField is the part of a policy that a grant comes from.
func grantField(o policy.Origin) string {
	switch o { //nolint:exhaustive // the others aren't asked for by name
	case policy.FromUser:
		return "write"
	case policy.FromTmp:
		return "TMPDIR"
	}
	return string(o)
}

// within reports whether path is dir or lies beneath it; both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// withFeature returns the features of a variant with what is held of the limits.
func (l *limits) withFeature(v *variant) []policy.Feature {
	features := v.applied.Features
	i := slices.IndexFunc(features, func(f policy.Feature) bool { return f.Promise == policy.PromiseLimits })
	switch {
	case l != nil && i >= 0:
		features[i] = l.featureUnder(v)
	case l != nil:
		features = append(features, l.featureUnder(v))
	case i >= 0:
		features[i].Why, features[i].Mend = "none are asked for", "--memory, --pids, --cpus and others"
	}
	return features
}

// featureUnder is what is held under a variant: where the command can leave its
// group, that is another thing.
func (l *limits) featureUnder(v *variant) policy.Feature {
	f := l.feature
	switch {
	case l.place == nil || f.State != policy.Enforced:
	case v.applied.Mode == policy.Unconfined:
		f.Why = "since nothing confines it, the command could leave its group"
	case v.applied.Backend == BackendNone || v.noFilters:
		f = policy.Feature{
			Promise: f.Promise, State: policy.Absent,
			Why: "they are set, but without Landlock and seccomp the command could leave its control group",
		}
	}
	return f
}

// addTo adds what a command is started with, in its group.
func (l *limits) addTo(p *spawn.Plan, g *group) {
	if l != nil {
		p.Rlimits, p.Nice, p.OOMScoreAdj = l.rlimits, l.nice, l.oomScoreAdj
	}
	if g.Group != nil {
		p.CgroupFD, p.JoinFDs = max(0, g.FD()), g.Join()
	}
}

// group is the control group that a command starts in.
type group struct {
	*cgroup.Group // nil for none
	mu            sync.Mutex
	// given says that it is the caller's.
	given bool
	// lacks says why there is none although one is wanted.
	lacks error
}

// discard removes the group of a command that wasn't started.
func (g *group) discard() {
	if g.Group != nil && !g.given {
		_, _ = g.End(context.Background()) // the first error counts
	}
}

// newGroup makes the group for one command, unless there is to be none or the
// caller has one.
func (s *Sandbox) newGroup(given *cgroup.Group) (*group, error) {
	if given != nil || s.limits == nil || s.limits.place == nil {
		return &group{Group: given, given: given != nil}, nil
	}
	g, err := s.limits.place.Create()
	if err != nil && s.policy.Requires(policy.PromiseLimits) {
		return nil, &SetupError{Stage: StageLimits, Err: err}
	}
	return &group{Group: g, lacks: err}, nil
}

// littleMemory is more than the kernel needs for the arguments of any command:
// below, "argument list too long" means something else.
const littleMemory = 8 << 20

// blameMemory says of a start that failed for want of memory that the limit is
// why: the child is within it from its first instruction on.
func (s *Sandbox) blameMemory(err error) error {
	limit := s.policy.Limits.Memory
	var exec *ExecError
	isExec := errors.As(err, &exec)
	starved := errors.Is(err, unix.ENOMEM) || isExec && limit < littleMemory && errors.Is(err, unix.E2BIG)
	if limit == 0 || !starved {
		return err
	}
	if isExec {
		err = exec.Err // it isn't the command's fault
	}
	return &SetupError{Stage: StageLimits, Err: &policy.Error{
		Field: "limits.memory", Value: strconv.FormatInt(limit, 10), Why: "is too little to start a command with",
		Hint: "allow it more, some megabytes at the least", Err: err,
	}}
}

// addGroup adds the folders of the command's group, or says why it has none.
func (a *Applied) addGroup(g *group) {
	if g.Group != nil {
		for _, dir := range g.Folders() {
			a.Cgroup = append(a.Cgroup, policy.Path(dir))
		}
	}
	if g.lacks == nil {
		return
	}
	a.Features = slices.Clone(a.Features)
	for i, f := range a.Features {
		if f.Promise == policy.PromiseLimits {
			l := &limits{}
			l.absent(g.lacks)
			a.Features[i] = l.feature
		}
	}
	a.Enforcement = enforcement(a.Mode, a.Features)
}

// sweep removes, once, what programs that are dead have left of groups. What
// can't be removed harms nobody here.
func (s *Sandbox) sweep() {
	if s.limits != nil && s.limits.place != nil {
		s.swept.Do(func() { _, _ = s.limits.place.Sweep(context.Background()) })
	}
}

// WantsScope reports, of what [Prepare] returned, whether a control group that
// the limits lack could be had by starting this program again by
// [cgroup.SystemdRun], with the options --user, --scope and -p Delegate=yes, and
// then with Options.OwnGroup.
func WantsScope(s *Sandbox, err error) bool {
	var unmet *UnmetError
	var support *cgroup.SupportError
	switch {
	case errors.As(err, &unmet):
		return unmet.scope
	case s != nil && s.limits != nil && errors.As(s.limits.lacks, &support):
		return support.Scope
	}
	return false
}

// NoGroup says why the command has no control group although there is a place
// for one; nil if it has one, or was to have none.
func (s *Started) NoGroup() error { return s.group.lacks }

// EndGroup ends what the command has left in its control group, says what it
// used, and removes the group. The Stats are nil if there was none. The second
// time it says the same. Many goroutines may call it.
func (s *Started) EndGroup(ctx context.Context) (*cgroup.Stats, error) {
	if s.group.Group == nil || s.group.given {
		return nil, nil
	}
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	used, err := s.group.End(ctx)
	return &used, err
}

// LimitsHit are the limits that a command ran into: memory, pids, cpus, fsize.
// Used is what it used, nil if that isn't known.
func (s *Sandbox) LimitsHit(status syscall.WaitStatus, used *cgroup.Stats) (hits []string) {
	if used != nil {
		for _, h := range []struct {
			name string
			n    *int64
		}{{"memory", used.OOMKilled}, {"pids", used.PidsLimited}, {"cpus", used.Throttled}} {
			if h.n != nil && *h.n > 0 {
				hits = append(hits, h.name)
			}
		}
	}
	// A shell says in its exit code what one of its children died of.
	if s.policy.Limits.FileSize != 0 && (status.Signaled() && status.Signal() == syscall.SIGXFSZ ||
		status.Exited() && status.ExitStatus() == 128+int(syscall.SIGXFSZ)) {
		hits = append(hits, "fsize")
	}
	return hits
}
