package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runCommand boots a guest and runs the command in it.
func runCommand(args []string) (int, error) {
	r := run{begun: time.Now()}
	var err error
	if r.options, err = parseRun(args); err != nil {
		return 0, err
	}
	kernel, err := r.kernelDir()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	r.signals = signals
	if r.tmp, err = os.MkdirTemp("", "vmrun-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(r.tmp)
	f, err := r.write(kernel)
	if err != nil {
		return 0, err
	}
	r.args = r.qemuArgs(f)
	r.late = time.After(r.timeout - time.Since(r.begun))
	r.outs = openOuts(r.out)
	err = r.boot()
	if e := r.outs.close(); err == nil && r.status == 0 {
		err = e
	}
	if r.verbose {
		fmt.Fprintln(os.Stderr, "vmrun:", r.times())
	}
	if e := r.showConsole(f.console, err != nil); err == nil {
		err = e
	}
	return r.status, err
}

// endError says that the guest, not the command, ended the run.
type endError struct {
	code int // vmrun's exit code
	why  string
}

func (e *endError) Error() string { return e.why }

// run is one run of a command, over as many boots as it takes.
type run struct {
	*options
	tmp     string
	args    []string // QEMU's
	signals <-chan os.Signal
	late    <-chan time.Time // the end of all patience
	outs    outs
	status  int    // the command's
	problem string // what went wrong in the guest

	begun, booted, hello, started, ended time.Time
}

// write writes the files of a machine.
func (r *run) write(kernel string) (files, error) {
	f := files{kernel: kernel, initrd: filepath.Join(r.tmp, "initrd"), console: filepath.Join(r.tmp, "console")}
	j := r.job()
	if j.Payload {
		f.payload = filepath.Join(r.tmp, "in.tar")
		if err := r.writePayload(f.payload, j); err != nil {
			return f, err
		}
	}
	initrd, err := buildInitrd(kernel, j)
	if err != nil {
		return f, err
	}
	return f, os.WriteFile(f.initrd, initrd, 0o600)
}

// boot runs the command in a guest. A boot that gives no sign, which is rare and
// happens under emulation, is repeated: until the agent says hello nothing has
// been passed on.
func (r *run) boot() error {
	for try := 0; ; try++ {
		r.booted, r.hello, r.started, r.ended = time.Now(), time.Time{}, time.Time{}, time.Time{}
		m, err := startMachine(r.args, r.tmp)
		if err != nil {
			return err
		}
		end := r.follow(m)
		m.stop()
		if end == nil {
			return nil
		}
		if said := strings.TrimSpace(m.stderr.String()); said != "" {
			end.why += "; QEMU says: " + said
		}
		if end.code != exitFailure || !r.hello.IsZero() || try >= r.retries {
			return end
		}
		fmt.Fprintf(os.Stderr, "vmrun: %v; booting again\n", end)
	}
}

// follow passes on what the guest says until the command has ended, and sets the
// status then.
func (r *run) follow(m *machine) *endError {
	boot := time.NewTimer(r.bootFor)
	defer boot.Stop()
	for {
		select {
		case s := <-r.signals:
			n, _ := s.(syscall.Signal) // all signals are of this type here
			return &endError{128 + int(n), "ended by a signal: " + s.String()}
		case <-boot.C:
			if r.hello.IsZero() {
				return &endError{exitFailure, fmt.Sprintf("no sign from the guest after %v", r.bootFor)}
			}
		case <-r.late:
			return &endError{exitTimeout, fmt.Sprintf("timed out after %v, %s", r.timeout, r.phase())}
		case f, ok := <-m.frames:
			switch {
			case !ok:
				return &endError{exitFailure, "the guest ended while " + r.phase()}
			case f.t == frameExit:
				return r.exited(string(f.data))
			}
			r.heed(f)
		}
	}
}

// phase says what the guest is doing.
func (r *run) phase() string {
	switch {
	case !r.started.IsZero():
		return "running the command"
	case !r.hello.IsZero():
		return "running -pre"
	}
	return "booting"
}

// heed takes a frame that isn't the last.
func (r *run) heed(f frame) {
	switch f.t {
	case frameHello:
		r.hello = time.Now()
	case frameStart:
		r.started = time.Now()
	case frameStdout:
		_, _ = os.Stdout.Write(f.data) // nobody else can be told
	case frameStderr:
		_, _ = os.Stderr.Write(f.data)
	case frameTar:
		r.outs.write(f.data)
	case frameFail:
		r.problem = string(f.data)
	}
}

// exited takes the status.
func (r *run) exited(text string) *endError {
	r.ended = time.Now()
	status, err := strconv.Atoi(text)
	if err != nil {
		return &endError{exitFailure, "the guest sent no status: " + err.Error()}
	}
	switch {
	case r.problem == "":
	case r.started.IsZero() || status == 0:
		return &endError{exitFailure, "in the guest: " + r.problem}
	default: // the command's own status counts
		fmt.Fprintln(os.Stderr, "vmrun: in the guest:", r.problem)
	}
	r.status = status
	return nil
}

// times says how long each part took.
func (r *run) times() string {
	between := func(a, b time.Time) string {
		if a.IsZero() || b.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.2fs", b.Sub(a).Seconds())
	}
	return fmt.Sprintf("%s kernel=%s init=%s prepare=%s boot=%s pre=%s command=%s total=%s status=%d",
		r.accel, filepath.Base(r.kernel), r.init, between(r.begun, r.booted), between(r.booted, r.hello),
		between(r.hello, r.started), between(r.started, r.ended), between(r.begun, time.Now()), r.status)
}

// consoleTail is how many lines of the guest's console a failure shows.
const consoleTail = 15

// showConsole puts the guest's console where -console says, and after a failure
// its end on standard error.
func (r *run) showConsole(file string, failed bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil //nolint:nilerr // QEMU didn't get as far, and has said why
	}
	switch r.console {
	case "":
	case "-":
		_, _ = os.Stderr.Write(b)
		return nil
	default:
		if err := os.WriteFile(r.console, b, 0o600); err != nil {
			return err
		}
	}
	if failed && len(b) > 0 {
		lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
		fmt.Fprintf(os.Stderr, "vmrun: end of the guest's console:\n%s\n", strings.Join(lines[max(0, len(lines)-consoleTail):], "\n"))
	}
	return nil
}
