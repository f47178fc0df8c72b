package launch

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// wantsBox reports whether bubblewrap is asked for, or of use since Landlock
// can't hold writes.
func (s *Sandbox) wantsBox() bool {
	p := &s.policy
	switch {
	case p.Mode == policy.Unconfined:
		return false
	case s.options.Backend == BackendBwrap:
		return true
	}
	return s.options.Backend == BackendAuto && s.support.ABI < landlockWrites
}

// takeBwrap notes what was found out about bubblewrap. If it is of no use, and
// what only it holds isn't required, there is a next best way.
func (s *Sandbox) takeBwrap(found bwrap.Support) {
	s.bwrap = found
	if !found.Usable() && s.options.Backend == BackendAuto && !s.policy.Requires(policy.PromiseWrite) {
		s.boxed = false
	}
}

// landlockWrites is the version of Landlock that confines writes.
const landlockWrites = 3

// addBox lays out the sandbox that v is to have, and takes what it holds into
// the features.
func (s *Sandbox) addBox(v *variant) error {
	r, sup := v.resolved, s.bwrap
	if !sup.Usable() && s.options.Backend == BackendBwrap {
		return &SetupError{Stage: StageProbe, Err: &BwrapError{Why: sup.Reason(), Mend: sup.Mend()}}
	}
	v.bwrap = sup
	if sup.Usable() {
		s.maskSockets(v)
	}
	o := bwrap.Options{PrivateTmp: r.Policy.PrivateTmp, Init: true}
	for _, h := range r.Hide {
		o.Hide = append(o.Hide, h.Path)
	}
	features := bwrap.Features(sup, r, o)
	if why, mend := canSeal(); why != "" {
		for i, f := range features {
			if f.Promise == policy.PromiseMetadata && f.State == policy.Enforced {
				features[i] = policy.Feature{Promise: f.Promise, State: policy.Absent, Why: "root can change the mode of the machine's devices: " + why, Mend: mend}
			}
		}
	}
	v.applied.Features = withBox(v.applied.Features, features, sup.Usable())
	if !sup.Usable() || s.options.DryRun {
		return nil
	}
	l, err := bwrap.Look(sup, r, o)
	if err != nil {
		return &SetupError{Stage: StageRules, Err: err}
	}
	// A filter holds it too.
	l.NewNet = l.NewNet && sup.NetNS
	v.layout = l
	for _, g := range l.Applied {
		v.applied.Rules = append(v.applied.Rules, ruleOf(g))
	}
	for _, skip := range l.Skipped {
		rule := ruleOf(skip.Grant)
		rule.Why = skip.Why
		v.applied.Skipped = append(v.applied.Skipped, rule)
	}
	return nil
}

// withBox corrects what holds without bubblewrap by what holds with it.
func withBox(features, by []policy.Feature, usable bool) []policy.Feature {
	box := map[policy.Promise]policy.Feature{}
	for _, f := range by {
		box[f.Promise] = f
	}
	if _, ok := box[policy.PromiseProtect]; !ok { // of paths that aren't git's
		f := box[policy.PromiseWrite]
		f.Promise = policy.PromiseProtect
		box[policy.PromiseProtect] = f
	}
	for i, f := range features {
		b, ok := box[f.Promise]
		held := f.State == policy.Enforced
		switch {
		case !ok:
		case b.State == policy.Enforced && held && f.Why == "":
			features[i].By = bwrap.Name + "+" + f.By
		case b.State == policy.Enforced:
			features[i] = b
		case held:
		case usable:
			features[i] = b
		default:
			features[i].Why = f.Why + ", and " + b.Why
			features[i].Mend = either(b.Mend, strings.TrimPrefix(f.Mend, "bubblewrap, or "))
		}
	}
	return features
}

// either joins two ways to mend something; each may be empty.
func either(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", or " + b
}

// enclose adds to a plan what the inner stage adds to a sandbox of
// bubblewrap's.
func (v *variant) enclose(p *spawn.Plan) (err error) {
	if !filepath.IsAbs(p.Dir) {
		// The inner stage is elsewhere.
		here, err := os.Getwd()
		if err != nil {
			return &SetupError{Stage: StageStart, Err: &os.PathError{Op: "getwd", Path: ".", Err: err}}
		}
		p.Dir = filepath.Join(here, p.Dir)
	}
	if p.Filters, err = v.filters(p.Files, p.NewSession); err != nil {
		return &SetupError{Stage: StageConfine, Err: err}
	}
	return nil
}

// startCmd starts what the plan p says for a [Cmd].
func (s *Sandbox) startCmd(v *variant, p *spawn.Plan, linger time.Duration) (*Started, error) {
	b, err := v.startBox(p, linger)
	if err != nil {
		return nil, err
	}
	b.told = make(chan struct{})
	go func() { // or the sandbox would wait for its reports to be read
		defer close(b.told)
		for b.Change() {
		}
	}()
	return &Started{Box: b, trace: s.traceCalls(v, b.listener, p.Files)}, nil
}

// otherBox replaces the variant v, under which bubblewrap failed with cause, by
// one for what works here, if something else does.
func (s *Sandbox) otherBox(v *variant, cause *boxError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != v {
		return nil // another start was faster
	}
	if v.bwrap.Tried || cause.ready {
		return &SetupError{Stage: StageConfine, Err: cause}
	}
	next, err := s.buildTried()
	if err != nil {
		return err
	}
	if err := s.ready(next); err != nil {
		return err
	}
	s.old, s.now = append(s.old, v), next
	return nil
}
