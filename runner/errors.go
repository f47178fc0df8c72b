package runner

import (
	"errors"
	"fmt"
	"io/fs"
)

// What callers can match, by [errors.Is].
var (
	// ErrNilExecutor: a runner was made without an executor. There is no
	// default: whoever lets commands run says where.
	ErrNilExecutor = errors.New("runner: executor must not be nil")
	// ErrInvalidConfig: the configuration of a runner or an executor is
	// unusable.
	ErrInvalidConfig = errors.New("runner: configuration is invalid")
	// ErrEmptyCommand: there is nothing to run. Nothing has run.
	ErrEmptyCommand = errors.New("runner: command must not be empty")
	// ErrInvalidInput: a request is unusable. Nothing has run.
	ErrInvalidInput = errors.New("runner: input is invalid")
	// ErrDenied: the host's approval was refused. Nothing has run.
	ErrDenied = errors.New("runner: not approved")
	// ErrTooMany: as many commands run as may. Nothing has run.
	ErrTooMany = errors.New("runner: too many commands are running")
	// ErrUnknown: there is no execution of that id, or no more.
	ErrUnknown = errors.New("runner: no such command")
	// ErrClosed: the runner was closed.
	ErrClosed = errors.New("runner: closed")
	// ErrNoStdin: the command's standard input isn't open to writes.
	ErrNoStdin = errors.New("runner: the command's standard input isn't open")
	// ErrNoTerminal: the command has no terminal.
	ErrNoTerminal = errors.New("runner: the command has no terminal")
	// ErrNotStarted: the command was stopped before it was handed off. It has
	// not run.
	ErrNotStarted = errors.New("runner: stopped before the start")
)

// DirError says that the working directory can't be used. Nothing has run. It
// matches [ErrInvalidInput] and its cause.
type DirError struct {
	Dir string
	Err error
	// File says that it exists and isn't a folder.
	File bool
}

func (e *DirError) Error() string {
	switch {
	case e.File:
		return "working directory is not a directory: " + e.Dir
	case errors.Is(e.Err, fs.ErrNotExist):
		return "working directory does not exist: " + e.Dir
	}
	return fmt.Sprintf("working directory cannot be used: %s: %v", e.Dir, e.Err)
}

// Unwrap returns ErrInvalidInput and the cause.
func (e *DirError) Unwrap() []error { return []error{ErrInvalidInput, e.Err} }

// SandboxCode is how a [SandboxError] is called in JSON.
const SandboxCode = "SANDBOX_UNAVAILABLE"

// SandboxError says that confinement was asked for and could not be had. The
// command has not run. Executors return it from Start.
type SandboxError struct {
	// Hint says what would mend it; may be empty.
	Hint string
	Err  error
}

func (e *SandboxError) Error() string { return "sandbox unavailable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SandboxError) Unwrap() error { return e.Err }

// StartError says that the command could not be executed. It has not run.
// Executors return it from Start.
type StartError struct {
	// Hint says what would mend it; may be empty.
	Hint string
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// invalid makes an ErrInvalidInput with its reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidInput, fmt.Errorf(format, args...))
}

// ErrUncertain is matched by an error after which it isn't known whether the
// command has run. It is no reason to run it again.
var ErrUncertain = errors.New("runner: the command may have run")

// ErrorCode is a short name of an error for machines, "" for nil.
func ErrorCode(err error) string {
	var box *SandboxError
	var start *StartError
	var dir *DirError
	var blocked *BlockedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &box):
		return SandboxCode
	case errors.As(err, &start):
		return "START_FAILED"
	case errors.As(err, &dir):
		return "BAD_DIRECTORY"
	case errors.As(err, &blocked):
		return "BLOCKED"
	case errors.Is(err, ErrEmptyCommand):
		return "EMPTY_COMMAND"
	case errors.Is(err, ErrInvalidInput):
		return "INVALID_INPUT"
	case errors.Is(err, ErrDenied):
		return "NOT_APPROVED"
	case errors.Is(err, ErrNotStarted):
		return "NOT_STARTED"
	case errors.Is(err, ErrTooMany):
		return "TOO_MANY"
	case errors.Is(err, ErrUnknown):
		return "UNKNOWN_ID"
	case errors.Is(err, ErrClosed):
		return "CLOSED"
	case errors.Is(err, ErrNoStdin):
		return "NO_STDIN"
	case errors.Is(err, ErrNoTerminal):
		return "NO_TERMINAL"
	case errors.Is(err, ErrUncertain):
		return "UNCERTAIN"
	}
	return "FAILED"
}

// Hint says what would mend an error, or "".
func Hint(err error) string {
	var box *SandboxError
	var start *StartError
	switch {
	case errors.As(err, &box):
		return box.Hint
	case errors.As(err, &start):
		return start.Hint
	}
	return ""
}
