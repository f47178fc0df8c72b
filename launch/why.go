package launch

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Answer says what a sandbox lets a command do with one path, and why.
type Answer struct {
	Path policy.Path `json:"path"`
	// Real is where the symbolic links in Path lead, if that is elsewhere.
	Real policy.Path `json:"real,omitempty"`
	Op   policy.Op   `json:"op"`
	// Allowed says that the sandbox lets it happen.
	Allowed bool          `json:"allowed"`
	Reason  policy.Reason `json:"reason"`
	// Rule is the grant that allows it; nil without one.
	Rule *Rule `json:"rule,omitempty"`
	// By is the mechanism that holds a refusal, State how far it does.
	By    string       `json:"by,omitempty"`
	State policy.State `json:"state,omitempty"`
	// Protected is what the path is, if it is to stay as it is.
	Protected string `json:"protected,omitempty"`
	// Permitted says that the file's own permissions let the caller do it.
	Permitted bool `json:"permitted"`
	// Text says it all in a line.
	Text string `json:"text"`
	// Missing is the rule that would allow it; nil if there can't be one.
	Missing *Rule `json:"missing,omitempty"`
	// Flag is that rule as options of the launcher, quoted for a shell.
	Flag string `json:"flag,omitempty"`
	// Hint says what else to do, or why there is no such rule.
	Hint string `json:"hint,omitempty"`
}

// Why says what commands under a policy could do with a path, and why. A path
// that isn't absolute is one in the current folder. Like [Explain] it changes
// nothing, and tries what this machine holds.
func Why(p policy.Policy, o Options, path string, op policy.Op) (*Answer, error) {
	o.DryRun = true
	s, err := newSandbox(p, o)
	if err != nil {
		return nil, err
	}
	v, err := s.buildTried()
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &SetupError{Stage: StageUsage, Err: err}
	}
	return s.answer(v, abs, op), nil
}

// Why says what commands of this sandbox can do with an absolute path, and why.
func (s *Sandbox) Why(path string, op policy.Op) *Answer {
	return s.answer(s.variant(), path, op)
}

func (s *Sandbox) answer(v *variant, path string, op policy.Op) *Answer {
	return s.answerTo(v, path, v.resolved.Judge(path, op, s.options.Environ), op)
}

// answerTo answers when the policy has said what it says of a path.
func (s *Sandbox) answerTo(v *variant, path string, verdict policy.Verdict, op policy.Op) *Answer {
	q := question{s: s, v: v, op: op, verdict: verdict}
	q.Answer = Answer{Path: policy.Path(path), Op: op, Reason: q.verdict.Reason, Allowed: q.verdict.Allows()}
	if q.verdict.Real != filepath.Clean(path) {
		q.Real = policy.Path(q.verdict.Real)
	}
	if g := q.verdict.Grant; g != nil {
		r := ruleOf(*g)
		q.Rule = &r
	}
	if p := q.verdict.Protected; p != nil {
		q.Protected = p.Why
	}
	q.Permitted = permitted(&q.verdict, op)
	q.explain()
	if !q.Allowed {
		q.mend()
	}
	return &q.Answer
}

// Advice says in a line what would let a refused operation happen, or why
// nothing does.
func (a *Answer) Advice() string {
	switch {
	case a.Flag == "":
		return a.Hint
	case a.Hint == "":
		return "grant it with " + a.Flag
	}
	return "grant it with " + a.Flag + "; " + a.Hint
}

// question is one that is being answered.
type question struct {
	Answer
	s       *Sandbox
	v       *variant
	op      policy.Op
	verdict policy.Verdict
}

// explain says why, and by what a refusal is held. What nothing holds isn't
// refused.
func (q *question) explain() {
	var promise policy.Promise
	switch q.Reason {
	case policy.ReasonUnconfined:
		q.Text = "the mode is unconfined: nothing is refused"
		return
	case policy.ReasonUnlimited:
		q.Text = "everything can be read and executed"
		return
	case policy.ReasonGranted:
		q.Text = "granted by the rule for " + q.Rule.Path.String() + " (" + string(q.Rule.Origin) + ")"
		if o := q.Rule.Origin; (o == policy.FromTmp || o == policy.FromDevice) && q.private() {
			q.Text += "; the folder is the command's own: what is there outside isn't seen"
		}
		if q.Protected == "" {
			return
		}
		q.Text += "; it is " + q.Protected
		f := q.feature(policy.PromiseProtect, policy.VerifiedAfter)
		switch q.State = f.State; q.State {
		case policy.VerifiedAfter:
			q.By = f.By
			q.Text += ": a change is found and reported afterwards"
		default:
			q.Text += ", and nothing holds that: " + f.Why
		}
		return
	case policy.ReasonNotGranted:
		promise = policy.PromiseWrite
		switch q.op {
		case policy.OpRead, policy.OpExecute:
			promise = policy.PromiseRead
		case policy.OpConnect:
			promise = policy.PromisePathSockets
		}
		q.Text = "no rule grants it"
		if q.v.resolved.Policy.Mode != policy.WorkspaceWrite && q.op.Changes() {
			q.Text = "the mode is read-only: nothing can be changed"
		}
	case policy.ReasonProtected:
		promise = policy.PromiseProtect
		q.Text = "it lies in " + q.Rule.Path.String() + ", which is granted, and is protected: " + q.Protected
	case policy.ReasonHidden:
		promise = policy.PromiseHide
		q.Text = "it is hidden: it looks empty"
	case policy.ReasonMasked:
		q.Text = "the socket of a program outside: it is covered"
		if q.By, q.State = mountns.Name, policy.Enforced; q.v.boxed() {
			q.By = bwrap.Name
		}
		return
	}
	f := q.feature(promise, policy.Enforced)
	q.By, q.State = f.By, f.State
	if f.State != policy.Enforced {
		q.Allowed = true
		q.Text += "; but this machine can't refuse it: " + f.Why
	}
}

// private reports whether the path lies in a folder that the command gets for
// itself.
func (q *question) private() bool {
	if !q.v.resolved.Policy.PrivateTmp || q.feature(policy.PromisePrivateTmp, policy.Enforced).State != policy.Enforced {
		return false
	}
	real := q.verdict.Real
	return within(real, "/tmp") || within(real, "/dev/shm") || within(real, "/dev/pts")
}

// feature returns how far a promise is held, by a mechanism of the state that
// is wanted if there is one.
func (q *question) feature(p policy.Promise, want policy.State) policy.Feature {
	return q.v.feature(p, want)
}

func (v *variant) feature(p policy.Promise, want policy.State) (found policy.Feature) {
	found = policy.Feature{Promise: p, State: policy.Absent, Why: "nothing here does"}
	for _, f := range v.applied.Features {
		if f.Promise == p && (f.State == want || found.State == policy.Absent) {
			found = f
		}
	}
	return found
}

// mend says what would allow it.
func (q *question) mend() {
	real := q.verdict.Real
	switch q.Reason {
	case policy.ReasonProtected:
		if p := q.v.resolved.Policy.Protect; q.verdict.InRepo || !named(p, real) {
			q.Hint = "what git executes or follows stays as it is: run this command outside the sandbox (--no-protect, if you trust it with all of that)"
			return
		}
		q.Hint = "run this command outside the sandbox, or leave the path out of --protect"
	case policy.ReasonHidden:
		q.Hint = "leave the path out of --hide"
	case policy.ReasonMasked:
		q.missing(real, policy.Connect, "--unix")
	case policy.ReasonNotGranted:
		switch q.op {
		case policy.OpConnect:
			q.missing(real, policy.Connect, "--unix")
		case policy.OpRead, policy.OpExecute:
			if q.verdict.Exists {
				q.missing(real, policy.Read, "--read")
			}
		default:
			q.mendWrite(real)
		}
	}
}

// mendWrite says what would make a path writable: as little as does.
func (q *question) mendWrite(real string) {
	p := &q.v.resolved.Policy
	switch {
	case q.verdict.InRepo:
		q.Hint = "granting it would open what git executes or follows: run this command outside the sandbox"
		if !q.v.layered() && !q.v.boxed() && p.Mode == policy.WorkspaceWrite {
			q.Hint += ", or on a machine with namespaces (see --doctor)"
		}
		return
	case p.Mode != policy.WorkspaceWrite && q.v.resolved.Worktree != "" && within(real, q.v.resolved.Worktree):
		q.Flag = "--mode workspace-write"
		return
	}
	if ofProcess(real) {
		q.Hint = "what /proc has of one process can't be granted"
		return
	}
	var first error
	for _, c := range q.candidates(real) {
		err := policy.CheckWrite(*p, c.path, c.create, q.s.options.Environ)
		if err == nil {
			q.missing(c.path, policy.Read|policy.Write, c.option)
			if p.Mode != policy.WorkspaceWrite {
				q.Flag = "--mode workspace-write " + q.Flag
			}
			return
		}
		if first == nil {
			first = err
		}
	}
	var refused *policy.Error
	switch {
	case errors.As(first, &refused) && refused.Value == real:
		q.Hint = "it can't be granted: " + refused.Why
	case !errors.As(first, &refused):
	case strings.HasPrefix(real, "/proc/"), strings.HasPrefix(real, "/sys/"): // nothing can be made there
		q.Hint = "it can't be granted: " + refused.Why
	default:
		q.Hint = "its folder can't be granted, since it " + refused.Why + ": make the path first and grant it with --rw " + shellWord(real)
	}
}

// ofProcess reports whether a path is in a process's folder in /proc.
func ofProcess(real string) bool {
	rest, ok := strings.CutPrefix(real, "/proc/")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

type candidate struct {
	path, option string
	create       bool
}

// candidates lists what could be granted, the narrowest that serves first.
func (q *question) candidates(real string) (list []candidate) {
	dir := filepath.Dir(real)
	folder := candidate{path: dir, option: "--rw"}
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		folder = candidate{path: dir, option: "--rw-create", create: true}
	}
	switch {
	case q.op == policy.OpMkdir && !q.verdict.Exists:
		return []candidate{{path: real, option: "--rw-create", create: true}}
	case q.op == policy.OpRemove, q.op == policy.OpRename, q.op == policy.OpMkdir:
		return []candidate{folder}
	case q.verdict.Exists:
		return []candidate{{path: real, option: "--rw"}}
	}
	return []candidate{folder}
}

// missing sets the rule that would allow it.
func (q *question) missing(path string, a policy.Access, option string) {
	r := ruleOf(policy.Grant{Path: path, Access: a, Origin: policy.FromUser})
	q.Missing, q.Flag = &r, option+" "+shellWord(path)
}

// permitted reports whether this process could do it, by the permissions of
// what is there or of the folder that it would be made in.
func permitted(v *policy.Verdict, op policy.Op) bool {
	access := func(path string, how uint32) error {
		return unix.Faccessat(unix.AT_FDCWD, path, how, unix.AT_EACCESS)
	}
	inFolder := op == policy.OpMkdir || op == policy.OpRemove || op == policy.OpRename
	switch {
	case op == policy.OpRead:
		return access(v.Real, unix.R_OK) == nil
	case op == policy.OpExecute:
		return access(v.Real, unix.X_OK) == nil
	case v.Exists && !inFolder:
		return access(v.Real, unix.W_OK) == nil
	}
	dir := filepath.Dir(v.Real)
	err := access(dir, unix.W_OK|unix.X_OK)
	for op == policy.OpMkdir && dir != "/" && errors.Is(err, syscall.ENOENT) { // parents are made too
		dir = filepath.Dir(dir)
		err = access(dir, unix.W_OK|unix.X_OK)
	}
	return err == nil
}

// named reports whether a path is, or lies in, one of a list.
func named(list []policy.Path, real string) bool {
	for _, p := range list {
		if path, err := filepath.EvalSymlinks(string(p)); err == nil && within(real, path) {
			return true
		}
	}
	return false
}

// shellWord quotes a word for a shell, if it has to be.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
