package policy

import "strconv"

// Error is a policy that can't be used: which part of it, and what would mend
// it.
type Error struct {
	// Field names the part in JSON's terms, such as "write[1]" or
	// "network.mode".
	Field string
	// Value is what it says; may be empty.
	Value string
	// Why says what is wrong with it.
	Why string
	// Hint says what to do about it; may be empty.
	Hint string
	// Err is the cause, nil if the value itself is wrong. A path that doesn't
	// exist has [io/fs.ErrNotExist] in its chain.
	Err error
}

// Error returns the field, the value and what is wrong, on one line, without
// the hint.
func (e *Error) Error() string {
	s := e.Field
	if e.Value != "" {
		if s != "" {
			s += " "
		}
		s += strconv.Quote(e.Value)
	}
	if s != "" {
		s += ": "
	}
	return s + e.Why
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
