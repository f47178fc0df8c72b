package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

// Report says what this machine holds for this user. [Examine] makes it.
type Report struct {
	Kernel Kernel `json:"kernel"`
	// Backend is what a run with the default policy takes.
	Backend Backend `json:"backend"`
	// Promises has an entry for each promise there is, the default ones first.
	Promises []Held `json:"promises"`
	// Mechanisms are what could hold them, Checks what else matters here.
	Mechanisms []Check `json:"mechanisms"`
	Checks     []Check `json:"checks"`
	// Sockets are those that lead to programs outside, and that this user may
	// connect to.
	Sockets []Socket `json:"sockets"`
	// Repo is the repository of the worktree that was asked about; nil if none
	// was, or if it belongs to none.
	Repo *RepoFound `json:"repo,omitempty"`
}

// Held says how far a promise is held.
type Held struct {
	policy.Feature
	// Default says that a run without any option makes the promise.
	Default bool `json:"default"`
	// With is the option that it takes, if it isn't held without.
	With string `json:"with,omitempty"`
	// Rest says what of it is only verified afterwards.
	Rest string `json:"rest,omitempty"`
}

// Grade says what a check found.
type Grade string

const (
	// OK: it is as it should be.
	OK Grade = "ok"
	// Info: it makes a difference, and is no fault.
	Info Grade = "note"
	// Fault: it takes something away.
	Fault Grade = "gap"
)

// Check is one thing that was tried or looked at.
type Check struct {
	Name  string `json:"name"`
	Grade Grade  `json:"grade"`
	Text  string `json:"text"`
	// Mend says what would help; may be empty.
	Mend string `json:"mend,omitempty"`
}

// Socket is a way to a program outside.
type Socket struct {
	Path policy.Path `json:"path"`
	// What it leads to, in a word or two.
	What string `json:"what"`
}

// RepoFound is a repository, as package policy found it.
type RepoFound struct {
	Kind      policy.RepoKind `json:"kind"`
	WorkTree  policy.Path     `json:"worktree,omitempty"`
	GitDir    policy.Path     `json:"git_dir,omitempty"`
	CommonDir policy.Path     `json:"common_dir,omitempty"`
	Trusted   bool            `json:"trusted"`
	Problem   *policy.Note    `json:"problem,omitempty"`
}

// Full reports whether this machine holds every default promise, if need be by
// an option, and a start under them works.
func (r *Report) Full() bool {
	for _, h := range r.Promises {
		if h.Default && h.State != policy.Enforced {
			return false
		}
	}
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == checkStart && c.Grade == Fault })
}

// checkStart is the check that decides over all promises.
const checkStart = "start"

// Examine finds out what this machine holds, by trying: it starts a confined
// program that can't be executed, in a temporary folder that it removes again,
// and bubblewrap if there is one. Worktree is the folder to be asked about;
// empty is none. Of the options the environment counts, and the bubblewrap.
//
// It takes some ten milliseconds, and ends within some ten seconds on a
// machine on which bubblewrap hangs; ctx bounds that part. The answer is for
// the calling process: another one may have other rights.
//
// The error says that there is no such worktree, or no place to try it in.
func Examine(ctx context.Context, worktree string, o Options) (*Report, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	e := &examiner{environ: o.Environ, bwrap: o.Bwrap, support: landlock.Probe()}
	e.scope = sync.OnceValues(func() (*cgroup.Scope, error) { return cgroup.TryScope(ctx) })
	e.report.Kernel = kernelOf(e.support)
	var err error
	if e.have, err = permittedCaps(); err != nil {
		return nil, &SetupError{Stage: StageCaps, Err: err}
	}
	if err := e.stage(); err != nil {
		return nil, &SetupError{Stage: StageProbe, Err: err}
	}
	defer func() { _ = os.RemoveAll(e.base) }() // its own folder, in a temporary one
	if worktree == "" {
		worktree = e.base + "/" + stageTree
	} else if err := e.repo(worktree); err != nil {
		return nil, &SetupError{Stage: StagePolicy, Err: err}
	}
	if err := e.promises(worktree); err != nil {
		return nil, err
	}
	e.tryStart()
	e.mendLayer()
	e.mechanisms(ctx)
	e.limits(ctx)
	e.machine()
	e.sockets()
	return &e.report, nil
}

// examiner makes a report.
type examiner struct {
	environ []string
	bwrap   string // the one to use; zero is one of the usual places
	support landlock.Support
	have    uint64 // capabilities
	base    string // a folder to try things in
	report  Report
	usual   Applied // of the default policy
	// layer says why there is no mount layer; nil if there is one.
	layer error
	// scope asks the user's systemd for a control group, once.
	scope func() (*cgroup.Scope, error)
	// userns says that the layer has a user namespace.
	userns bool
}

// Names in the folder in which things are tried.
const (
	stageTree   = "tree"
	stageHidden = "tree/hidden"
	stageNoise  = "nothing"
)

// stage makes a folder with a repository, one that can be hidden, and a file
// that can't be executed.
func (e *examiner) stage() error {
	var err error
	for _, dir := range []string{lookUp(e.environ, "TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"} {
		if dir == "" {
			continue
		}
		var made string
		if made, err = os.MkdirTemp(dir, "shofer-sandbox-"); err != nil {
			continue
		}
		if made, err = filepath.Abs(made); err == nil {
			made, err = filepath.EvalSymlinks(made)
		}
		e.base = made
		break
	}
	if e.base == "" || err != nil {
		return fmt.Errorf("no temporary folder to try anything in: %w", err)
	}
	git := e.base + "/" + stageTree + "/.git"
	for _, dir := range []string{e.base + "/" + stageHidden, git + "/objects", git + "/refs", git + "/hooks", git + "/info", git + "/logs"} {
		err = errors.Join(err, os.MkdirAll(dir, 0o700))
	}
	for name, text := range map[string]string{
		git + "/HEAD":             "ref: refs/heads/main\n",
		git + "/config":           "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		e.base + "/" + stageNoise: "\x7f",
	} {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o700)) //nolint:gosec // one of them is to be executed
	}
	return err
}

func lookUp(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// repo says what repository the worktree belongs to.
func (e *examiner) repo(worktree string) error {
	found, err := policy.FindRepo(worktree)
	if err != nil || found == nil {
		return err
	}
	e.report.Repo = &RepoFound{
		Kind: found.Kind, WorkTree: policy.Path(found.WorkTree), GitDir: policy.Path(found.GitDir),
		CommonDir: policy.Path(found.CommonDir), Trusted: found.Trusted, Problem: found.Problem,
	}
	return nil
}

// heldWith are what takes an option, or may be held with one.
var heldWith = [...]struct {
	promise policy.Promise
	option  string
	ask     func(p *policy.Policy, e *examiner)
}{
	{policy.PromiseMetadata, "--strict-metadata", func(p *policy.Policy, _ *examiner) { p.StrictMetadata = true }},
	{policy.PromiseRead, "--read", func(p *policy.Policy, _ *examiner) { p.Read = []policy.Path{policy.ReadSystem} }},
	{policy.PromiseHide, "--hide", func(p *policy.Policy, e *examiner) {
		p.Hide = []policy.Path{policy.Path(e.base + "/" + stageHidden)}
	}},
	{policy.PromisePrivateTmp, "--private-tmp", func(p *policy.Policy, _ *examiner) { p.PrivateTmp = true }},
	{policy.PromiseNetwork, "--net none", func(p *policy.Policy, _ *examiner) { p.Network.Mode = policy.NetworkNone }},
}

// usual returns the default policy.
func usual(worktree string) policy.Policy {
	return policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(worktree)}
}

// promises asks what a run with the default policy would hold, and what each
// option adds.
func (e *examiner) promises(worktree string) error {
	a, err := Explain(usual(worktree), Options{Environ: e.environ, Bwrap: e.bwrap})
	if err != nil {
		return err
	}
	e.usual, e.report.Backend = *a, a.Backend
	list := merge(a.Features)
	for _, o := range heldWith {
		p := usual(worktree)
		o.ask(&p, e)
		a, err := Explain(p, Options{Environ: e.environ, Bwrap: e.bwrap})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(a.Features, func(f policy.Feature) bool { return f.Promise == o.promise })
		if at < 0 {
			continue
		}
		h := Held{Feature: a.Features[at]}
		if h.State == policy.Enforced {
			// The mounts that it takes may be refused where others aren't.
			p.Worktree = policy.Path(e.base + "/" + stageTree)
			if _, err := e.start(p, BackendAuto); err != nil {
				h.Feature = policy.Feature{
					Promise: o.promise, State: policy.Absent, Why: "a start with " + o.option + " fails: " + err.Error(), Mend: Hint(err),
				}
			} else {
				h.With = o.option
			}
		}
		at = slices.IndexFunc(list, func(h Held) bool { return h.Promise == o.promise })
		switch {
		case at < 0:
			list = append(list, h)
		case list[at].State != policy.Enforced:
			h.Default = true
			list[at] = h
		}
	}
	e.report.Promises = list
	return nil
}

// merge makes a list with one entry for each promise out of the features of
// the default policy.
func merge(features []policy.Feature) (list []Held) {
	for _, f := range features {
		at := slices.IndexFunc(list, func(h Held) bool { return h.Promise == f.Promise })
		switch {
		case at < 0:
			list = append(list, Held{Feature: f, Default: true})
		case f.State == policy.VerifiedAfter:
			list[at].Rest = "by " + f.By + " afterwards: " + f.Why
		}
	}
	return list
}

// tryStart starts what can't be executed: if nothing but that goes wrong, all
// that a command is confined by works here.
func (e *examiner) tryStart() {
	p := usual(e.base + "/" + stageTree)
	if _, err := e.start(p, BackendAuto); err != nil {
		e.add(checkStart, Fault, "no confined program can be started: "+err.Error(), Hint(err))
	} else {
		e.add(checkStart, OK, "a confined program was started, up to its exec", "")
	}
	if e.support.ABI == 0 {
		e.layer = &LayerError{Why: "it goes with Landlock, which there isn't", Mend: e.support.Mend()}
		return
	}
	p.BestEffort = true // a kernel before ABI 3 has mounts too
	e.userns, e.layer = e.start(p, BackendMountns)
}

// layerMend says what would bring mounts, "" if they are there.
func (e *examiner) layerMend() string {
	mend := Hint(e.layer)
	if e.layer != nil && mend == "" && len(confinedBy()) > 0 {
		mend = "run this outside the sandbox, or the container, that it is in"
	}
	return mend
}

// mendLayer says of what takes mounts how this machine would have them.
func (e *examiner) mendLayer() {
	mend := e.layerMend()
	if mend == "" {
		return
	}
	for i := range e.report.Promises {
		h := &e.report.Promises[i]
		switch h.Promise {
		case policy.PromiseProtect, policy.PromiseMetadata, policy.PromiseHide, policy.PromisePrivateTmp:
			if h.State != policy.Enforced {
				h.Mend = mend
			}
		}
	}
}

// start tries a policy under a backend. It says whether the program would have
// had a user namespace, and why it didn't get as far as its exec.
func (e *examiner) start(p policy.Policy, backend Backend) (userns bool, err error) {
	p.NoCache = true
	s, err := Prepare(p, Options{Environ: e.environ, Bwrap: e.bwrap, Backend: backend})
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Close() }() // it has only descriptors
	name := e.base + "/" + stageNoise
	c := &Cmd{Path: name, Args: []string{name}, Dir: e.base + "/" + stageTree, sandbox: s}
	err = c.Start()
	var exec *ExecError
	switch {
	case errors.As(err, &exec):
		err = nil
	case err == nil: // where a handler for such files is installed
		_ = c.Wait()
	}
	v := s.variant()
	return v.layered() && v.namespaces&unix.CLONE_NEWUSER != 0, err
}

func (e *examiner) add(name string, g Grade, text, mend string) {
	e.report.Checks = append(e.report.Checks, Check{Name: name, Grade: g, Text: text, Mend: mend})
}

func (e *examiner) mechanism(name string, g Grade, text, mend string) {
	e.report.Mechanisms = append(e.report.Mechanisms, Check{Name: name, Grade: g, Text: text, Mend: mend})
}

// mechanisms says which ones work.
func (e *examiner) mechanisms(ctx context.Context) {
	s := e.support
	switch {
	case s.ABI == 0:
		e.mechanism(landlock.Name, Fault, s.Reason(), s.Mend())
	case s.ABI < 3:
		e.mechanism(landlock.Name, Fault, fmt.Sprintf("ABI %d, which doesn't stop truncate(2)", s.ABI), "Linux 6.2 or newer")
	default:
		e.mechanism(landlock.Name, OK, fmt.Sprintf("ABI %d, errata %#x", s.ABI, s.Errata), "")
	}

	var layer *LayerError
	switch {
	case e.layer == nil && e.userns:
		e.mechanism(mountns.Name, OK, "mounts in a user namespace", "")
	case e.layer == nil:
		e.mechanism(mountns.Name, OK, "mounts, with CAP_SYS_ADMIN", "")
	case errors.As(e.layer, &layer):
		e.mechanism(mountns.Name, Fault, layer.Why, e.layerMend())
	default:
		e.mechanism(mountns.Name, Fault, e.layer.Error(), e.layerMend())
	}

	var unsupported *seccomp.SupportError
	switch err := seccomp.Probe(); {
	case err == nil:
		e.mechanism("seccomp", OK, "filters can be installed", "")
	case errors.As(err, &unsupported):
		e.mechanism("seccomp", Fault, unsupported.Reason(), unsupported.Mend())
	default:
		e.mechanism("seccomp", Fault, err.Error(), "")
	}

	b := bwrap.Probe(ctx, e.bwrap)
	if b.Usable() {
		has := []string{"version " + b.Version.String() + ", " + b.Path}
		for _, n := range []struct {
			has  bool
			name string
		}{{b.UserNS, "user"}, {b.PidNS, "pid"}, {b.NetNS, "network"}} {
			if n.has {
				has = append(has, n.name+" namespace")
			}
		}
		e.mechanism(bwrap.Name, OK, strings.Join(has, ", "), "")
	} else {
		grade := Info // it is for machines without Landlock
		if s.ABI < 3 {
			grade = Fault
		}
		e.mechanism(bwrap.Name, grade, b.Reason(), b.Mend())
	}
}
