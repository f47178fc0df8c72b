// Package witness finds out what a system call is about to do, while its caller
// waits: which paths it would change, as the caller sees them, and whether the
// files' own permissions would let it.
//
// It reads the caller's memory and looks through its root and current folder in
// /proc, so the process must be one that may be traced: of the same user, in no
// deeper Landlock domain than the caller's descendants are, and dumpable.
//
// # Limitations
//
// All of that can change before the kernel carries the call out: what is found
// is for a report, and never for a decision. After everything has been read the
// caller must be asked for once more ([seccomp.Listener.Waits]), since a number
// may have become another process's.
//
// Calls that fail for a reason of their own are left out as far as that can be
// foreseen: a file that isn't there, a folder that is. Access lists aren't read
// where the caller's user is another one, and processes in a folder of their own
// (chroot) aren't understood.
package witness

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

// Act is what a call would do.
type Act struct {
	// Accesses are the changes of what has a path; none if there is nothing that
	// a sandbox could refuse.
	Accesses []Access
	// Ring says that the caller makes an io_uring, by which it can do what isn't
	// seen.
	Ring bool

	call   *seccomp.Call
	status *status
}

// Access is what would be done to one path.
type Access struct {
	// Path is absolute, and otherwise as the caller names it, unless it goes up;
	// Real is without symbolic links.
	Path, Real string
	// Exists says that it is there.
	Exists bool
	Op     policy.Op
	// Metadata says that only mode, owner, times or attributes change, which
	// nothing refuses but a read-only mount. ReadOnly says that there is one: for
	// the caller, and not for us.
	Metadata, ReadOnly bool
	// File is what is there.
	File unix.Stat_t

	kind   needs
	mode   uint32   // of a node that is made
	owners [2]int32 // of chown
}

// BlindError says that a process can't be looked at.
type BlindError struct{ Err error }

func (e *BlindError) Error() string {
	return "the process may not be traced: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *BlindError) Unwrap() error { return e.Err }

// ErrChroot says that a process has a root folder of its own.
var ErrChroot = errors.New("the process has another root folder")

// Look finds out what a call would do. Errors are a [*BlindError], [ErrChroot],
// and, for a process that has ended, others. The act says even then who acts.
func Look(c *seccomp.Call) (*Act, error) {
	a := &Act{call: c}
	switch {
	case c.Name == "io_uring_setup":
		a.Ring = true
		return a, nil
	case c.Name == "":
		return a, nil
	case c.Thread == 0:
		return a, &BlindError{errors.New("it has no number here")}
	}
	l := looker{act: a, proc: "/proc/" + strconv.Itoa(c.Thread) + "/", args: c.Args, root: -1}
	defer l.close()
	err := l.look(c.Name)
	if errors.Is(err, errNothing) {
		err = nil
	}
	return a, blind(err)
}

// blind makes a [BlindError] of what forbids to look.
func blind(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &BlindError{err}
	}
	return err
}

// Process returns the number and name of the process that makes the call. A
// program chooses its name, so what can't be printed of it is a ?.
func (a *Act) Process() (pid int, name string) {
	s, err := a.readStatus()
	if err != nil {
		return a.call.Thread, ""
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(s.tgid) + "/comm")
	if err != nil || len(b) == 0 {
		return s.tgid, ""
	}
	return s.tgid, strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(b[:len(b)-1]))
}

// Call is the name of the call.
func (a *Act) Call() string { return a.call.Name }
