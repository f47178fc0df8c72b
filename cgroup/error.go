package cgroup

import (
	"fmt"
	"strings"
)

// SupportError says why there is no place for groups with the limits asked for.
type SupportError struct {
	// Why says what is missing, Mend what would help; Mend may be empty.
	Why, Mend string
	// Scope says that the user's systemd could give a group: a transient scope
	// with delegation.
	Scope bool
	// Err is the cause; may be nil.
	Err error
}

func (e *SupportError) Error() string { return "no control group for the limits: " + e.Why }

// Unwrap returns the cause, or nil.
func (e *SupportError) Unwrap() error { return e.Err }

// LimitError says that a limit could not be set, or didn't take.
type LimitError struct {
	// File is the control file, and Value what was written to it.
	File, Value string
	// Got is what it said afterwards, if it could be read.
	Got string
	// Why says what is wrong in words, Mend what would help; both may be empty.
	Why, Mend string
	// Err is the cause; nil if the kernel took the value and has another one.
	Err error
}

func (e *LimitError) Error() string {
	s := fmt.Sprintf("the limit %q can't be set in %s: ", e.Value, e.File)
	switch {
	case e.Why != "":
		return s + e.Why
	case e.Err != nil:
		return s + e.Err.Error()
	}
	return s + fmt.Sprintf("it says %q", e.Got)
}

// Unwrap returns the cause, or nil.
func (e *LimitError) Unwrap() error { return e.Err }

// SurvivorsError says that processes of a group could not be ended in time.
type SurvivorsError struct {
	// Group is its folder.
	Group string
	// Pids are those that are left, by their numbers here.
	Pids []int
}

func (e *SurvivorsError) Error() string {
	return fmt.Sprintf("processes in %s could not be ended: %s", e.Group, strings.Trim(fmt.Sprint(e.Pids), "[]"))
}
