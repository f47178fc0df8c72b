package session

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed says that the session, or the pool, was closed.
var ErrClosed = errors.New("session is closed")

// BusyError says that a command is still running in the session.
type BusyError struct {
	Pid     int // of the shell; 0 while it is being started
	Since   time.Time
	Command string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("session is busy since %s: its shell, process %d, runs another command", e.Since.Format(time.TimeOnly), e.Pid)
}

// SyntaxError says that bash can't parse a command. None of it has run.
type SyntaxError struct {
	// Text is what bash says.
	Text string
}

func (e *SyntaxError) Error() string { return e.Text }

// DirError says that the shell couldn't go to a directory, or that its own is
// gone.
type DirError struct {
	Dir string
	// Why is what bash says; empty if it is the shell's own that is gone.
	Why string
	// Now is where the shell is.
	Now string
}

func (e *DirError) Error() string {
	if e.Why == "" {
		return fmt.Sprintf("the session's working directory %s no longer exists; it is now %s", e.Dir, e.Now)
	}
	return e.Why
}

// StartError says that there is no shell.
type StartError struct {
	// Said is what the shell wrote; may be empty.
	Said string
	Err  error
}

func (e *StartError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("start the session's shell: %v", e.Err)
	}
	return fmt.Sprintf("start the session's shell: %v: %s", e.Err, e.Said)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// StuckError says that a shell was killed and has not ended in time. The
// session has let go of it.
type StuckError struct{ Pid int }

func (e *StuckError) Error() string {
	return fmt.Sprintf("the session's shell, process %d, was killed and has not ended", e.Pid)
}

// LimitError says that a pool has no room for another session: all that it has
// are in use.
type LimitError struct{ Max int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("all %d sessions are in use", e.Max)
}
