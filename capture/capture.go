// Package capture keeps what a command prints: in bounded memory, with nothing
// lost where there is a disk to put it on, and readable at any size.
//
// A stream of any length is one line of bytes that is kept from its beginning
// up to some point and again from some later point to its end. What lies between
// is the gap. That is so in memory, where the two parts are small windows, and on
// disk, where the gap is empty until an artifact reaches its cap. Whoever reads
// does so by [Source] and needn't know which of the two it is.
//
// Bytes are never changed: a stream may hold NUL and text that isn't UTF-8.
//
// The package uses nothing else of this module.
package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Source is a stream as readers see it: a command's output while it is written
// and afterwards, or an artifact of a store. All methods may be called at the
// same time by several goroutines.
type Source interface {
	// ReadAt reads bytes of the stream, by their offset in it, as
	// [io.ReaderAt] says. It stops at the gap with a [*GapError], whose To is
	// where to go on, and at the present end with [io.EOF], also while more
	// may come.
	io.ReaderAt
	// Size returns how many bytes the stream has had so far, kept or not.
	Size() int64
	// Gap returns the bytes that aren't kept, and the zero Gap when all are.
	// While the stream is live To can grow, and From gets smaller only where
	// an artifact is given up.
	Gap() Gap
	// Live reports whether more may come.
	Live() bool
	// Wait returns nil once the stream has more than seen bytes or is no
	// longer live, or the cause for which ctx ended before.
	Wait(ctx context.Context, seen int64) error
}

// Gap is the part of a stream that isn't kept: the bytes From ≤ offset < To.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Lines is how many line ends are among the bytes. It makes the numbers of
	// the lines after the gap right.
	Lines int64 `json:"lines"`
}

// GapError is returned for bytes of a stream that aren't kept: From ≤ offset <
// To.
type GapError struct{ From, To int64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("bytes %d to %d aren't kept", e.From, e.To)
}

// Snapshot is what there is of a stream in memory at one moment. It shares no
// memory with the stream.
type Snapshot struct {
	// Head is the stream's beginning, and all of it when nothing is omitted.
	// Tail is its end, and empty when nothing is omitted. Where something is,
	// Head ends and Tail begins at a line's boundary if that costs little, and
	// never inside a rune.
	Head, Tail []byte
	// Omitted is how many bytes lie between Head and Tail, OmittedLines how
	// many line ends are among them.
	Omitted, OmittedLines int64
	// Bytes and Lines are what the stream has had so far. A last line without
	// an end counts.
	Bytes, Lines int64
	// Artifact names the complete stream in the store. It is empty as long as
	// the windows hold everything (see [Options.All]), without a store, and
	// after a failure.
	Artifact ID
	// SpillErr is why there is no artifact although the windows don't hold
	// everything. It is nil without a store.
	SpillErr error
	// Live reports whether more may come.
	Live bool
}

// ID names an artifact of a [Store]. It is opaque, can't be guessed, and sorts by
// the time of creation.
type ID string

// ErrBadID is matched by the errors of [ParseID].
var ErrBadID = errors.New("not an artifact's id")

// ParseID returns s as an ID if it has an id's form: 26 digits and capital
// letters, or cmd-N.txt with N in at most 39 decimal digits, which is a form that others
// use and that [Store] reads. The form has no place for a path. It says nothing
// about whether there is such an artifact.
func ParseID(s string) (ID, error) {
	if isULID(s) || isForeign(s) {
		return ID(s), nil
	}
	return "", fmt.Errorf("%w: %.60q", ErrBadID, s)
}

// isULID reports whether s is a ULID in its canonical form.
func isULID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// isForeign reports whether s is cmd-N.txt.
func isForeign(s string) bool {
	n, ok := strings.CutPrefix(s, "cmd-")
	if !ok {
		return false
	}
	n, ok = strings.CutSuffix(n, ".txt")
	return ok && n != "" && len(n) <= 39 && strings.Trim(n, "0123456789") == ""
}
