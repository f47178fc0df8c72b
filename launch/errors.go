package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// Exit codes of the launcher, besides the command's own and 128 plus the
// number of the signal that killed it.
const (
	// ExitSetup: bad usage, policy, probe, confinement or limits.
	ExitSetup = 125
	// ExitCannotExec: the command was found and can't be executed.
	ExitCannotExec = 126
	// ExitNotFound: the command was not found.
	ExitNotFound = 127
)

// Stages of a [SetupError].
const (
	StageUsage   = "usage"
	StagePolicy  = "policy"
	StageProbe   = "probe"
	StageRules   = "rules"
	StageCaps    = "capabilities"
	StageConfine = "confinement"
	StageProtect = "protect"
	StageLimits  = "limits"
	StageStart   = "start"
)

// SetupError says that nothing ran, because the confinement could not be set
// up. The launcher exits with [ExitSetup]. One that matches [ErrGuardKilled] says
// instead that the command may have begun to run, and was killed.
type SetupError struct {
	// Stage is one of the Stage constants, or the name of a [spawn.Stage].
	Stage string
	Err   error
}

// Error returns the cause; the stage is for machines.
func (e *SetupError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// ExecError says that nothing ran, because the command could not be executed.
// It wraps [fs.ErrNotExist] exactly when the command was not found (exit code
// [ExitNotFound], else [ExitCannotExec]).
type ExecError struct {
	// Name is the command as it was given.
	Name string
	// Path is the file that was tried; empty if none was found.
	Path string
	// Why says in words what is wrong with it; may be empty.
	Why string
	// Mend says what to do about it; may be empty.
	Mend string
	// Err is the cause.
	Err error
}

// Error names the command and the cause.
func (e *ExecError) Error() string {
	s := "cannot execute " + e.Name
	if e.Path != "" && e.Path != e.Name {
		s += " (" + e.Path + ")"
	}
	if e.Why != "" {
		return s + ": " + e.Why
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExecError) Unwrap() error { return e.Err }

// ExitCode is the launcher's exit code for the error.
func (e *ExecError) ExitCode() int {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitCannotExec
}

// UnmetError says that this machine can't hold a promise that the policy
// requires.
type UnmetError struct {
	// Features are those that are required and absent.
	Features []policy.Feature
	// Kernel is what was asked.
	Kernel Kernel
	// scope says that all that is missing is a control group, which the user's
	// systemd could give.
	scope bool
}

// Error names the promises and what is missing.
func (e *UnmetError) Error() string {
	var b strings.Builder
	for i, f := range e.Features {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "this machine can't hold the promise %q: %s", f.Promise, f.Why)
	}
	return b.String()
}

// ErrClosed is matched by the error of a start after [Sandbox.Close]. Nothing has
// run.
var ErrClosed = errors.New("the sandbox is closed")

var errDryRun = errors.New("the sandbox was prepared with DryRun: nothing can be started in it")

// ReplacedError says that the worktree isn't the folder any more that the
// sandbox was prepared for.
type ReplacedError struct{ Path string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s was removed or replaced since the sandbox was prepared", e.Path)
}

// Hint says what would mend err, or "".
func Hint(err error) string {
	var (
		pol      *policy.Error
		exec     *ExecError
		unmet    *UnmetError
		rule     *landlock.RuleError
		replaced *ReplacedError
		layer    *LayerError
		box      *BwrapError
		inside   *InsideError
		leak     *bwrap.LeakError
		support  *cgroup.SupportError
		limit    *cgroup.LimitError
		watched  *WitnessError
	)
	switch {
	case errors.As(err, &pol):
		return pol.Hint
	case errors.As(err, &exec):
		return exec.Mend
	case errors.As(err, &unmet):
		return unmetHint(unmet)
	case errors.Is(err, landlock.ErrTooManyLayers):
		return landlock.TooManyLayersHint
	case errors.As(err, &rule) && errors.Is(err, fs.ErrNotExist):
		return "make the path first, or use --rw-create to have it made"
	case errors.As(err, &layer):
		return layer.Mend
	case errors.As(err, &box):
		return box.Mend
	case errors.As(err, &inside):
		return inside.Mend
	case errors.As(err, &support), errors.As(err, &limit):
		return orWithout(limitsMend(err), withoutLimits)
	case errors.As(err, &leak):
		return "hand the data on by a pipe, as in: cat FILE | shofer-sandbox …"
	case errors.Is(err, errNoInit):
		return "call launch.Init first in main, or start the command by the program shofer-sandbox"
	case errors.As(err, &watched):
		return witnessHint
	case errors.Is(err, ErrGuardKilled):
		return guardHint + ", and what the command has done, before you run it again"
	case errors.Is(err, errGuardEarly):
		return guardHint
	case errors.As(err, &replaced):
		return "prepare the sandbox again"
	case errors.Is(err, fs.ErrPermission):
		return "check who owns the path and its folders"
	}
	return ""
}

func unmetHint(e *UnmetError) string {
	var mends []string
	for _, f := range e.Features {
		if f.Mend != "" {
			mends = append(mends, f.Mend)
		}
	}
	without := "run with --best-effort, and without the promise"
	if len(e.Features) == 1 && e.Features[0].Promise == policy.PromiseLimits {
		without = withoutLimits
	}
	return orWithout(strings.Join(mends, "; "), without)
}

// orWithout adds to what would mend something how to do without it.
func orWithout(mend, without string) string {
	if mend == "" {
		return without
	}
	return mend + "; or " + without
}

// startError sorts a failed start into a SetupError or an ExecError.
func startError(err error, name string) error {
	var e *spawn.Error
	if !errors.As(err, &e) {
		return &SetupError{Stage: StageStart, Err: err}
	}
	switch e.Stage {
	case spawn.StageExec:
		return diagnose(name, e.Name, e.Errno)
	case spawn.StageGuard:
		if e.Errno == syscall.EPIPE {
			err = fmt.Errorf("%w as it started the command, which may have begun, and was killed with it", ErrGuardKilled)
		} else {
			err = errGuardEarly
		}
	case spawn.StageDir:
		return &SetupError{Stage: e.Stage.String(), Err: dirError(e)}
	case spawn.StageWitness:
		return &SetupError{Stage: e.Stage.String(), Err: &WitnessError{err}}
	case spawn.StageLandlock:
		if e.Errno == syscall.E2BIG {
			return &SetupError{Stage: e.Stage.String(), Err: fmt.Errorf("%w (%w)", landlock.ErrTooManyLayers, e)}
		}
	}
	return &SetupError{Stage: e.Stage.String(), Err: err}
}

// dirHint says what to do about a working directory that isn't there.
const dirHint = "name another one (--chdir); --private-tmp and --hide hide what isn't granted"

func dirError(e *spawn.Error) error {
	switch {
	case errors.Is(e, fs.ErrNotExist):
		return &policy.Error{Field: "working directory", Value: e.Name, Why: "does not exist (any more), or is hidden", Hint: dirHint, Err: e}
	case e.Errno == syscall.ENOTDIR:
		return &policy.Error{Field: "working directory", Value: e.Name, Why: "is not a directory", Err: e}
	}
	return &policy.Error{Field: "working directory", Value: e.Name, Why: e.Errno.Error(), Err: e}
}

// LayerError says why there is no mount layer although one was asked for.
type LayerError struct {
	Why, Mend string
	Err       error
}

func (e *LayerError) Error() string { return "no mount layer: " + e.Why }

// Unwrap returns the cause.
func (e *LayerError) Unwrap() error { return e.Err }

// BwrapError says why there is no sandbox of bubblewrap's although one was
// asked for.
type BwrapError struct {
	Why, Mend string
	Err       error // may be nil
}

func (e *BwrapError) Error() string {
	return fmt.Sprintf("this machine can't hold the promise %q by bubblewrap: %s", policy.PromiseWrite, e.Why)
}

// Unwrap returns the cause, or nil.
func (e *BwrapError) Unwrap() error { return e.Err }

// errNoInit says that this program can't be the inner stage of a sandbox.
var errNoInit = errors.New("bubblewrap has to execute this program inside the sandbox, and it doesn't expect that")
