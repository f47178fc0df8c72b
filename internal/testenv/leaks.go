package testenv

import (
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CheckProcesses fails t if at its end processes live that have the entry in
// their environment that it returns, and kills them. Unlike the mark of
// [Command], it gets through to what a runner starts.
func CheckProcesses(t testing.TB) (entry string) {
	t.Helper()
	entry = strings.Replace(newCookie(), cookieVar, "TEST_COOKIE", 1)
	t.Cleanup(func() {
		for _, pid := range settle(entry) {
			t.Errorf("left alive: pid %d: %s", pid, commandLine(pid))
			kill(pid)
		}
	})
	return entry
}

// CheckGoroutines fails t if at its end, or soon after, there are more goroutines
// than now. It can't be used in a test that runs beside others in parallel.
func CheckGoroutines(t testing.TB) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE) // the first time, that begins one that stays
	signal.Stop(c)
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nobody says that a goroutine has ended
		}
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
	})
}
