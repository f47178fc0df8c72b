package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// interrupts ends a command when this program is told to end: the first signal
// is handed on, the second one kills.
type interrupts struct {
	got   chan os.Signal
	stop  chan struct{}
	first syscall.Signal // 0 as long as none came
	done  chan struct{}
}

// catch begins to catch signals. What is written to a closed pipe is an error
// from now on.
func catch() *interrupts {
	i := &interrupts{got: make(chan os.Signal, 4), stop: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(i.got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(i.got, syscall.SIGTSTP)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return i
}

// watch ends e at a signal, and giveUp is called at the third. At SIGTSTP, as of
// Ctrl-Z, pause is called, e stops, and this process does until it is continued.
// It returns at once; release ends it.
func (i *interrupts) watch(e *runner.Execution, pause, giveUp func()) {
	go func() {
		defer close(i.done)
		for n := 1; ; n++ {
			select {
			case <-i.stop:
				return
			case s := <-i.got:
				sig := s.(syscall.Signal)
				if sig == syscall.SIGTSTP {
					n--
					pause()
					_ = e.Signal(syscall.SIGSTOP) // what ends meanwhile needn't be stopped
					linux.StopSelf()
					_ = e.Signal(syscall.SIGCONT)
					continue
				}
				switch n {
				case 1:
					i.first = sig
					go func() { _, _ = e.Kill(context.Background(), []runner.StopStep{{Signal: sig, Wait: patience(e)}}) }()
				case 2:
					go func() { _, _ = e.Kill(context.Background(), runner.Immediate) }()
				default:
					giveUp()
				}
			}
		}
	}()
}

// patience is how long the command has after a signal.
func patience(e *runner.Execution) (d time.Duration) {
	for _, s := range e.Spec().Stop {
		d += s.Wait
	}
	return d
}

// release stops watching and returns the first signal that came, 0 for none.
func (i *interrupts) release() syscall.Signal {
	close(i.stop)
	<-i.done
	return i.first
}
