package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// matrix runs cells.
type matrix struct {
	options
	builds *builds
	pieces pieces
}

// newMatrix builds what the cells run.
func newMatrix(ctx context.Context, o options) (*matrix, error) {
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "matrix: building")
	b, err := build(ctx)
	if err != nil {
		return nil, err
	}
	return &matrix{options: o, builds: b}, nil
}

// close removes what was built.
func (m *matrix) close() {
	_ = os.RemoveAll(m.builds.dir) // what stays is in the way of nothing
}

// run runs the cells, some at a time, and returns their results in order.
func (m *matrix) run(ctx context.Context, cells []cell) []result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := ctx // when no cell begins any more
	if m.within > 0 {
		var stop context.CancelFunc
		begin, stop = context.WithTimeoutCause(ctx, m.within, errLate)
		defer stop()
	}
	m.pieces = prepare(ctx, m.builds.vmrun, cells)
	results := make([]result, len(cells))
	slots := make(chan struct{}, m.parallel)
	var wg sync.WaitGroup
	for i, c := range cells {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			results[i] = m.tryCell(ctx, begin, c)
			fmt.Fprintln(os.Stderr, "matrix:", progress(results[i]))
			<-slots
		})
	}
	wg.Wait()
	return results
}

// errLate is why a cell didn't begin.
var errLate = errors.New("the time of -within was over")

// tryCell runs a cell, and once more if it failed.
func (m *matrix) tryCell(ctx, begin context.Context, c cell) result {
	r := m.runCell(ctx, begin, c)
	if r.problems == nil || begin.Err() != nil {
		return r
	}
	fmt.Fprintf(os.Stderr, "matrix: %s FAILED, and is run again:\n  %s\n", c.name, strings.Join(r.problems, "\n  "))
	return m.runCell(ctx, begin, c)
}

// progress is a line on a cell that has ended.
func progress(r result) string {
	switch {
	case r.missing != "":
		return r.name + ": not run"
	case r.problems != nil:
		return fmt.Sprintf("%s (%s): FAILED, %.1fs", r.name, r.release, r.took.Seconds())
	}
	return fmt.Sprintf("%s (%s): %d passed, %d skipped, %.1fs", r.name, r.release, r.passed, r.skipped, r.took.Seconds())
}

// cellTime bounds a cell, boot and all.
const cellTime = 12 * time.Minute

// runCell runs one cell, once its kernel and image are there.
func (m *matrix) runCell(ctx, begin context.Context, c cell) result {
	r := result{cell: c}
	var args []string
	if begin.Err() != nil {
		r.missing = context.Cause(begin).Error()
		return r
	}
	if c.host() {
		var err error
		if args, err = m.hostCommand(c); err != nil {
			r.missing = err.Error()
			return r
		}
	} else {
		if err := m.pieces.wait(begin, c); err != nil {
			r.missing = err.Error()
			return r
		}
		args = m.guestCommand(c)
	}
	ctx, cancel := context.WithTimeout(ctx, cellTime)
	defer cancel()
	begun := time.Now()
	output, state, err := runCommand(ctx, args)
	if crashed(output, state) {
		fmt.Fprintln(os.Stderr, "matrix:", c.name+": the guest crashed, and is booted again:", lastPanic(output))
		output, state, err = runCommand(ctx, args)
	}
	r.took = time.Since(begun)
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
	if state != nil {
		r.cpu = state.UserTime() + state.SystemTime()
		r.read(string(output), state.ExitCode())
	}
	log := filepath.Join(m.logs, strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(c.name)+".log")
	text := strings.Join(args[:len(args)-1], " ") + "\n" + string(bytes.ReplaceAll(output, []byte("\x16"), nil))
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		r.problems = append(r.problems, err.Error())
	}
	return r
}

// crashed reports whether a guest ended before its command did: emulation isn't
// perfect. A kernel that the tests crash does so again.
func crashed(output []byte, state *os.ProcessState) bool {
	return state != nil && state.ExitCode() == 125 && bytes.Contains(output, []byte("Kernel panic"))
}

// lastPanic is the line that a kernel ended with.
func lastPanic(output []byte) string {
	line := output[max(0, bytes.LastIndex(output, []byte("Kernel panic"))):]
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	return string(bytes.TrimSpace(line))
}

// guestCommand runs a cell's script in a guest.
func (m *matrix) guestCommand(c cell) []string {
	args := append([]string{m.builds.vmrun, "run", "-v", "-timeout", (cellTime - 30*time.Second).String()}, c.vmrunArgs()...)
	args = append(args, "-in", m.builds.core+":"+source)
	if c.whole || c.groups {
		args = append(args, "-in", m.builds.whole+":"+source)
	}
	return append(args, "-cwd", source, "--", "/bin/sh", "-c", c.script(source, m.builds.suites))
}

// hideBwrap runs a command where /usr/bin has no bwrap, and no mount shows
// outside. The layer's own files lie in memory that nobody else sees.
const hideBwrap = `set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=/usr/bin,upperdir=$1/upper,workdir=$1/work" none /usr/bin
rm -f /usr/bin/bwrap
shift
exec "$@"`

// hostCommand runs a cell's script on this machine, as an ordinary user.
func (m *matrix) hostCommand(c cell) ([]string, error) {
	root := os.Getuid() == 0
	var args []string
	if c.container != nil {
		if !root {
			return nil, errors.New("only root can make a container")
		}
		args = append(append(args, m.builds.contain), c.container...)
		args = append(append(args, "--"), m.bareShell(c)...)
		return args, nil
	}
	if c.noBwrap {
		if !root {
			return nil, errors.New("only root can hide bwrap")
		}
		layer := filepath.Join(m.builds.dir, "layer")
		if err := os.MkdirAll(layer, 0o755); err != nil {
			return nil, err
		}
		args = append(args, "unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", hideBwrap, "sh", layer)
	}
	args = append(args, m.builds.llsim, "-abi", c.sim)
	if c.noUserns && !c.enospc {
		args = append(args, "-no-userns")
	}
	args = append(args, "--")
	switch {
	case c.noUserns && c.enospc:
		args = append(args, m.builds.nouserns, "-uid", ordinaryUser(), "--")
	case root:
		args = append(args, "setpriv", "--reuid", ordinaryUser(), "--regid", ordinaryUser(), "--clear-groups", "--inh-caps=-all")
	}
	return append(args, m.bareShell(c)...), nil
}

// bareShell runs a cell's script with nothing of this process's environment. The
// home doesn't exist: tests make their own.
func (m *matrix) bareShell(c cell) []string {
	return []string{
		"env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LANG=C.UTF-8",
		"/bin/sh", "-c", c.script(m.builds.core, m.builds.suites),
	}
}

// runCommand returns a command's output, standard error too, and how it ended,
// if it was started. Interrupted, it asks the command to end.
func runCommand(ctx context.Context, args []string) ([]byte, *os.ProcessState, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case cmd.ProcessState == nil:
		return nil, nil, err
	case ctx.Err() != nil:
		return out.Bytes(), cmd.ProcessState, fmt.Errorf("ended early: %w", context.Cause(ctx))
	}
	return out.Bytes(), cmd.ProcessState, nil // the status says the rest
}
