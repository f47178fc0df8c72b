package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// display shares a terminal between what a command prints and a line that says
// how it is doing. The line is there only while the cursor is at the beginning
// of a line that the command hasn't begun, and it is gone before the command's
// next byte: the two are never in one line.
type display struct {
	mu    sync.Mutex
	shown bool
	// begun says that the command has begun a line on the terminal.
	begun bool

	stop chan struct{}
	done chan struct{}
}

// newDisplay returns a display, nil where there is no terminal for the line, or
// one that takes text alone.
func (p *program) newDisplay() *display {
	if p.quiet || plain() || !isTerminal(os.Stderr) {
		return nil
	}
	return &display{stop: make(chan struct{}), done: make(chan struct{})}
}

// writer returns a writer of the command's to one of the standard streams.
func (d *display) writer(f *os.File) io.Writer {
	if d == nil || !isTerminal(f) {
		return f
	}
	return displayed{d, f}
}

type displayed struct {
	d *display
	f *os.File
}

func (w displayed) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.d.hide()
	if len(p) > 0 {
		w.d.begun = p[len(p)-1] != '\n'
	}
	return w.f.Write(p)
}

// hide removes the line. d.mu is held.
func (d *display) hide() {
	if d.shown {
		_, _ = os.Stderr.WriteString("\r\x1b[K")
		d.shown = false
	}
}

// pause removes the line; it comes again.
func (d *display) pause() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hide()
}

// show shows a line, unless the command is in the middle of one.
func (d *display) show(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		return
	}
	if width := columns(os.Stderr); width > 0 && len(text) >= width {
		text = text[:max(0, width-1)] // of ASCII
	}
	if os.Getenv("NO_COLOR") == "" {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	_, _ = os.Stderr.WriteString("\r\x1b[K" + text)
	d.shown = true
}

// refresh is how often the line is renewed.
const refresh = 500 * time.Millisecond

// watch shows how a command is doing until close is called.
func (d *display) watch(e *runner.Execution) {
	if d == nil {
		return
	}
	go func() {
		defer close(d.done)
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		begin, last := time.Now(), background.Load{}
		for {
			select {
			case <-d.stop:
				return
			case <-tick.C:
				now := background.Measure(e)
				d.show(statusLine(e, time.Since(begin), now, now.CPU-last.CPU))
				last = now
			}
		}
	}()
}

// close removes the line for good.
func (d *display) close() {
	if d == nil {
		return
	}
	close(d.stop)
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hide()
	if d.begun {
		_, _ = os.Stderr.WriteString("\n") // what comes now begins a line
		d.begun = false
	}
}

// statusLine says how a command is doing, in ASCII. Spent is the processor time
// since the last line.
func statusLine(e *runner.Execution, elapsed time.Duration, l background.Load, spent time.Duration) string {
	var b strings.Builder
	b.WriteString(elapsed.Round(100 * time.Millisecond).String())
	if t := e.Spec().Timeout; t > 0 {
		b.WriteString(" of " + t.String())
	}
	percent := max(0, int(100*spent/refresh))
	fmt.Fprintf(&b, " | memory %s | cpu %d%% | processes %d | output %s", bytesText(l.Memory), percent, l.Processes, bytesText(l.Output))
	return b.String()
}
