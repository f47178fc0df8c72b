package testenv

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

// CheckFDs fails t if at its end, or soon after, this process has descriptors open
// that it hadn't before. Those of the runtime's poller don't count. It can't be used in
// a test that runs beside others in parallel.
func CheckFDs(t testing.TB) {
	t.Helper()
	before := openFDs(t)
	t.Cleanup(func() {
		left := func() map[string]string {
			now := openFDs(t)
			maps.DeleteFunc(now, func(fd, what string) bool { return before[fd] == what })
			return now
		}
		for deadline := time.Now().Add(settleTime); len(left()) > 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nobody says that a descriptor was closed
		}
		for fd, what := range left() {
			t.Errorf("descriptor %s was left open: %s", fd, what)
		}
	})
}

// openFDs maps the open descriptors of this process to what they are.
func openFDs(t testing.TB) map[string]string {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	fds := map[string]string{}
	for _, e := range dir {
		what, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // the one of ReadDir itself
		case strings.HasPrefix(what, "anon_inode:[event"): // eventpoll, eventfd
		default:
			fds[e.Name()] = what
		}
	}
	return fds
}
