package launcher_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// A signal ends the command or keeps it from starting, however early it comes.
func TestEarlySignal(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		repo := u.NewRepo(t)
		launcher := testenv.BuildLauncher(t)
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			for after := range 50 {
				cmd := repo.Command(launcher, ".", "--", "sleep", "1000")
				cmd.SysProcAttr = withSession(cmd.SysProcAttr)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Duration(after) * 100 * time.Microsecond)
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
				if !ok || (!ws.Signaled() || ws.Signal() != sig) && ws.ExitStatus() != 128+int(sig) {
					t.Errorf("%v after %d00 µs: %v", sig, after, cmd.ProcessState)
				}
			}
		}
		testenv.AwaitNobodyIn(t, repo.Dir)
	})
}
