package bwrap

import (
	"slices"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Identity says which file is to be found at a path.
type Identity struct {
	Path policy.Path `json:"path"`
	Dev  uint64      `json:"dev"`
	Ino  uint64      `json:"ino"`
}

// SwappedError says that a path in the sandbox isn't the one that was looked
// at: somebody put something else in its place.
type SwappedError struct {
	Path string
	// Err is the errno if there is nothing to be seen; else nil.
	Err error
}

func (e *SwappedError) Error() string {
	s := "bwrap: " + policy.Path(e.Path).String() + " was replaced while the sandbox was made"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the errno.
func (e *SwappedError) Unwrap() error { return e.Err }

// Identities lists what the mounts of the sandbox must show, for [Check] in the
// inner stage. bwrap takes its sources by name: a command that ran before, and
// may write where a name lies, could have led it elsewhere in the meantime.
func (l *Layout) Identities() []Identity {
	var ids []Identity
	for _, s := range l.plan() {
		if e := s.entry; e != nil && e.Ino != 0 && !e.Optional {
			ids = append(ids, Identity{policy.Path(e.Path), e.Dev, e.Ino})
		}
	}
	return slices.Clip(ids)
}

// Check compares ids with what is there. It is for the inner stage, before it
// does anything else. The error is a [*SwappedError].
func Check(ids []Identity) error {
	var st syscall.Stat_t
	for _, id := range ids {
		if err := lstat(string(id.Path), &st); err != nil {
			return &SwappedError{Path: string(id.Path), Err: err}
		}
		if uint64(st.Dev) != id.Dev || st.Ino != id.Ino { //nolint:unconvert // Dev differs by architecture
			return &SwappedError{Path: string(id.Path)}
		}
	}
	return nil
}
