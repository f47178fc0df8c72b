package launcher

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/launch"
)

// forwarded are the signals that the parent hands on to the command.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

// startAndWait starts the command as a child, waits for it, and returns the
// exit code that tells how it ended.
func startAndWait(s *launch.Sandbox, c *launch.Command, rec *launch.Record) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	proc, err := s.Start(c)
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				_ = proc.Signal(sig) // it may have ended already
			case <-ended:
				return
			}
		}
	}()
	state, err := proc.Wait()
	close(ended)
	if err != nil {
		return 0, &launch.SetupError{Stage: launch.StageStart, Err: err}
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	rec.Exited(ws)
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}
