package landlock

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// MaxLayers is how many rulesets the kernel stacks on one thread.
const MaxLayers = 16

// ErrTooManyLayers says that [MaxLayers] rulesets are stacked already. It comes
// together with E2BIG.
var ErrTooManyLayers = errors.New("the calling thread is in 16 nested Landlock domains already, and the kernel allows no more")

// TooManyLayersHint says what to do about [ErrTooManyLayers].
const TooManyLayersHint = "start the command from outside some of the sandboxes that it is nested in"

// Restrict enforces the ruleset fd on the calling thread and on whatever it
// starts from then on. It is for a process that confines itself and execs in
// place.
//
// The caller must have locked the goroutine to its thread with
// [runtime.LockOSThread] and never unlock it: the effect is on this thread
// only, and can't be undone. no_new_privs is set first, also irreversibly. All
// other threads of the process stay as they are, and so are no protection
// against the confined one: they share its memory.
//
// Flags are LANDLOCK_RESTRICT_SELF_*, of those that the ABI knows; 0 does.
// Errors match their errno, and [ErrTooManyLayers] where that is the cause.
func Restrict(fd int, flags uint32) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return restrictError(ll.LandlockRestrictSelf(fd, flags))
}

func restrictError(err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("%w: %w", ErrTooManyLayers, os.NewSyscallError("landlock_restrict_self", err))
	}
	return os.NewSyscallError("landlock_restrict_self", err)
}
