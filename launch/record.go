package launch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Applied says what a command runs under. It is the record's line "applied",
// and what --explain prints.
type Applied struct {
	Mode        policy.Mode `json:"mode"`
	Backend     Backend     `json:"backend"`
	Enforcement Enforcement `json:"enforcement"`
	Kernel      Kernel      `json:"kernel"`
	Worktree    policy.Path `json:"worktree,omitempty"`
	Cache       policy.Path `json:"cache,omitempty"`
	// Cgroup are the folders of the command's control group, or, before the
	// start, those in which it would be made.
	Cgroup []policy.Path `json:"cgroup,omitempty"`
	// Features has an entry for each promise that the policy is about.
	Features []policy.Feature `json:"features"`
	// Rules are in force; Skipped were left out since there is no such path.
	Rules   []Rule `json:"rules"`
	Skipped []Rule `json:"skipped,omitempty"`
	// Notes are what the caller should know.
	Notes []policy.Note `json:"notes,omitempty"`
	// Env are the changes to the caller's environment: NAME=VALUE for what is
	// set, -NAME for what is dropped. Only [Explain] fills it.
	Env []string `json:"env,omitempty"`
	// Unmet are promises that are required and can't be held: the command
	// would not be started. Only [Explain] fills it.
	Unmet []policy.Promise `json:"unmet,omitempty"`
}

// Enforcement is one word over all features.
type Enforcement string

const (
	// Full: every promise is enforced.
	Full Enforcement = "full"
	// Partial: some are not.
	Partial Enforcement = "partial"
	// None: nothing is.
	None Enforcement = "none"
)

// Kernel is what was found out about it.
type Kernel struct {
	Release     string `json:"release"`
	LandlockABI int    `json:"landlock_abi"`
	Errata      uint32 `json:"landlock_errata,omitempty"`
	// Why says why there is no Landlock; empty if there is.
	Why string `json:"why,omitempty"`
}

// Rule is a path that was opened, or would have been.
type Rule struct {
	Path   policy.Path   `json:"path"`
	Access []string      `json:"access"`
	Origin policy.Origin `json:"origin"`
	// Why says why a rule was skipped.
	Why string `json:"why,omitempty"`
}

func ruleOf(g policy.Grant) Rule {
	r := Rule{Path: policy.Path(g.Path), Origin: g.Origin}
	for _, a := range []struct {
		bit  policy.Access
		name string
	}{{policy.Read, "read"}, {policy.Write, "write"}, {policy.Ioctl, "ioctl"}, {policy.Connect, "connect"}} {
		if g.Access&a.bit != 0 {
			r.Access = append(r.Access, a.name)
		}
	}
	return r
}

// addRule adds a grant that would be opened.
func (a *Applied) addRule(g policy.Grant) {
	r := ruleOf(g)
	if g.Optional {
		if _, err := os.Lstat(g.Path); err != nil {
			r.Why = "no such path"
			a.Skipped = append(a.Skipped, r)
			return
		}
	}
	a.Rules = append(a.Rules, r)
}

// addDomain adds the grants that were opened, and those that weren't.
func (a *Applied) addDomain(d *landlock.Domain) {
	for _, r := range d.Applied {
		a.Rules = append(a.Rules, ruleOf(r.Grant))
	}
	for _, s := range d.Skipped {
		r := ruleOf(s.Grant)
		r.Why = s.Why
		a.Skipped = append(a.Skipped, r)
	}
}

func enforcement(mode policy.Mode, features []policy.Feature) Enforcement {
	if mode == policy.Unconfined {
		return None
	}
	held := 0
	for _, f := range features {
		if f.State == policy.Enforced {
			held++
		}
	}
	switch held {
	case 0:
		return None
	case len(features):
		return Full
	}
	return Partial
}

// Record writes the status record: JSON objects, one a line, each with the key
// "event". A nil Record, or one whose reader went away, swallows everything:
// the record never harms the command.
type Record struct{ w io.Writer }

// NewRecord returns a record that writes to w, each line by one call.
func NewRecord(w io.Writer) *Record { return &Record{w: w} }

// Applied says what the command runs under. It is the last thing before the
// exec.
func (r *Record) Applied(a Applied) {
	if a.Features == nil {
		a.Features = []policy.Feature{}
	}
	if a.Rules == nil {
		a.Rules = []Rule{}
	}
	r.write(struct {
		Event string `json:"event"`
		Applied
	}{"applied", a})
}

// Started says that the exec has succeeded.
func (r *Record) Started(pid int) {
	r.write(struct {
		Event string `json:"event"`
		Pid   int    `json:"pid"`
	}{"started", pid})
}

// Ended is how a command ended, as its parent saw it.
type Ended struct {
	Status syscall.WaitStatus
	// Rusage is that of the command and of the descendants that it, or the
	// guard, waited for.
	Rusage syscall.Rusage
	// Group is what was used in the command's control group, nil if there was
	// none, and LimitsHit are the limits that it ran into.
	Group     *cgroup.Stats
	LimitsHit []string
	// Survivors are processes in the group that could not be killed.
	Survivors []int
	// Tampered are protected paths that changed meanwhile.
	Tampered []Change
	// Restored says what was put back of that, and what could not be.
	Restored []string
	// Trace is what was refused; nil if it wasn't traced.
	Trace *Trace
}

// Exited says how the command ended.
func (r *Record) Exited(e Ended) {
	type usage struct {
		User    int64 `json:"user_us"`
		System  int64 `json:"system_us"`
		MaxRSS  int64 `json:"max_rss_bytes"`
		IORead  int64 `json:"io_read_bytes"`
		IOWrite int64 `json:"io_write_bytes"`
	}
	line := struct {
		Event  string  `json:"event"`
		Code   *int    `json:"code"`
		Signal *string `json:"signal"`
		Core   bool    `json:"core"`
		Usage  usage   `json:"usage"`

		Group     *cgroup.Stats `json:"group,omitempty"`
		LimitsHit []string      `json:"limits_hit,omitempty"`
		Survivors []int         `json:"survivors,omitempty"`

		Tampered []Change `json:"tampered,omitempty"`
		Restored []string `json:"restored,omitempty"`

		Denials  []Refusal `json:"denials,omitzero"`
		More     int       `json:"denials_more,omitempty"`
		Untraced []Unseen  `json:"untraced,omitempty"`
	}{Event: "exited", Tampered: e.Tampered, Restored: e.Restored, Usage: usage{
		User:    e.Rusage.Utime.Nano() / 1000,
		System:  e.Rusage.Stime.Nano() / 1000,
		MaxRSS:  e.Rusage.Maxrss * 1024, // the kernel counts in KiB
		IORead:  e.Rusage.Inblock * 512, // and in sectors
		IOWrite: e.Rusage.Oublock * 512,
	}, Group: e.Group, LimitsHit: e.LimitsHit, Survivors: e.Survivors}
	if e.Trace != nil {
		line.Denials, line.More, line.Untraced = e.Trace.Refused, e.Trace.More, e.Trace.Unseen
		if line.Denials == nil {
			line.Denials = []Refusal{}
		}
	}
	if e.Status.Signaled() {
		name := signalName(e.Status.Signal())
		line.Signal, line.Core = &name, e.Status.CoreDump()
	} else {
		code := e.Status.ExitStatus()
		line.Code = &code
	}
	r.write(line)
}

// Failed says why nothing ran: "setup-failed" or, for an [ExecError],
// "exec-failed". It says nothing about [ErrGuardKilled]: "applied" then stands for a
// command that may have run.
func (r *Record) Failed(err error) {
	if r == nil || errors.Is(err, ErrGuardKilled) {
		return
	}
	f := struct {
		Event   string      `json:"event"`
		Stage   string      `json:"stage,omitempty"`
		Error   string      `json:"error"`
		Hint    string      `json:"hint,omitempty"`
		Errno   string      `json:"errno,omitempty"`
		Path    policy.Path `json:"path,omitempty"`
		Code    int         `json:"exit_code"`
		Command string      `json:"command,omitempty"`
	}{Event: "setup-failed", Error: err.Error(), Hint: Hint(err), Code: ExitSetup}

	var exec *ExecError
	var setup *SetupError
	if errors.As(err, &exec) {
		f.Event, f.Stage, f.Code = "exec-failed", "exec", exec.ExitCode()
		f.Path, f.Command = policy.Path(exec.Path), exec.Name
	} else if errors.As(err, &setup) {
		f.Stage = setup.Stage
		f.Path = pathOf(err)
	}
	var errno syscall.Errno
	var interp *InterpreterError
	switch {
	case errors.As(err, &errno):
		f.Errno = errnoName(errno)
	case errors.As(err, &interp): // what is missing isn't the command, so its chain has no such errno
		f.Errno = errnoName(syscall.ENOENT)
	}
	r.write(f)
}

func (r *Record) write(v any) {
	if r == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"event": "setup-failed", "stage": "record", "error": err.Error()})
	}
	_, _ = r.w.Write(append(b, '\n')) // a reader that went away does no harm
}
