package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideCheck is tried by a process in the sandbox.
type insideCheck struct {
	check
	run func(a *arena) error
	// state, if there is one, describes what run may change, and is compared
	// outside, before and after.
	state func(a *arena) string
}

// insideChecks are all of them, in the order in which they are tried.
func insideChecks() (all []insideCheck) {
	for _, list := range [][]insideCheck{controlChecks, socketChecks, ipcChecks, systemChecks, gitControls, gitChecks} {
		all = append(all, list...)
	}
	return all
}

// skipError says that something could not be tried.
type skipError string

func (e skipError) Error() string { return string(e) }

// outcomeOf makes an outcome of an error.
func outcomeOf(c check, err error) outcome {
	o := outcome{Check: c.String()}
	var skip skipError
	switch {
	case errors.As(err, &skip):
		o.Skip = string(skip)
	case err != nil:
		o.Err = err.Error()
	}
	return o
}

// insideMain tries the checks that are named, and prints what came of each. It
// waits for a line on standard input before each. The first argument is an
// arena.
func insideMain(args []string) int {
	var a arena
	if err := json.Unmarshal([]byte(args[0]), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	wanted := map[string]bool{}
	for _, name := range args[1:] {
		wanted[name] = true
	}
	out, in := json.NewEncoder(os.Stdout), bufio.NewReader(os.Stdin)
	for _, c := range insideChecks() {
		if !wanted[c.String()] {
			continue
		}
		if _, err := in.ReadString('\n'); err != nil {
			fmt.Fprintln(os.Stderr, "nobody says to go on:", err)
			return exitFailed
		}
		if err := out.Encode(outcomeOf(c.check, c.run(&a))); err != nil {
			return exitFailed
		}
	}
	return 0
}

func openFor(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// newFile makes a file in a folder and removes it.
func newFile(dir string) error {
	f, err := os.CreateTemp(dir, "conformance-own-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// command runs a command and says what it said when it fails.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// controlChecks are ordinary work.
var controlChecks = []insideCheck{
	{check: check{"control", "temporary-file", true}, run: func(*arena) error { return newFile(os.TempDir()) }},
	{check: check{"control", "tmp", true}, run: func(*arena) error { return newFile("/tmp") }},
	{check: check{"control", "read-outside", true}, run: func(a *arena) error { return openFor(a.Out+"/by-path", os.O_RDONLY) }},
	{check: check{"control", "read-system", true}, run: func(*arena) error { return openFor("/etc/passwd", os.O_RDONLY) }},
	{check: check{"control", "null", true}, run: func(*arena) error { return os.WriteFile("/dev/null", []byte("x"), 0) }},
	{check: check{"control", "full", true}, run: func(*arena) error {
		if err := os.WriteFile("/dev/full", []byte("x"), 0); !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("not ENOSPC: %w", err)
		}
		return nil
	}},
	{check: check{"control", "random", true}, run: func(*arena) error {
		f, err := os.Open("/dev/urandom")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 8))
		return err
	}},
	{check: check{"control", "pseudo-terminal", true}, run: func(*arena) error { return openTerminal() }},
	{check: check{"control", "shell", true}, run: func(*arena) error {
		return command("/bin/sh", "-c", `x=$(echo a b | tr a c) && [ "$x" = "c b" ]`)
	}},
	{check: check{"control", "script", true}, run: func(a *arena) error {
		path := a.Tree + "/in/script"
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			return err
		}
		return command(path)
	}},
	{check: check{"control", "kill-child", true}, run: func(*arena) error {
		cmd := exec.Command("/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			return err
		}
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err != nil {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // how it ends doesn't matter
		return err
	}},
	{check: check{"control", "new-session", true}, run: func(*arena) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Run()
	}},
	{check: check{"control", "loopback", true}, run: func(a *arena) error {
		c, err := net.Dial("tcp", a.Other.Loopback)
		if err != nil {
			return err
		}
		return c.Close()
	}},
	{check: check{"control", "listen", true}, run: func(*arena) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return l.Close()
	}},
	{check: check{"control", "own-limit", true}, run: func(*arena) error {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil {
			return err
		}
		return unix.Setrlimit(unix.RLIMIT_CORE, &lim)
	}},
	{check: check{"control", "proc-self", true}, run: func(*arena) error { return openFor("/proc/self/status", os.O_RDONLY) }},
}

// openTerminal makes a pseudo-terminal.
func openTerminal() error {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	return openFor(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY)
}

// systemChecks are about control groups; package attack has more.
var systemChecks = []insideCheck{
	{check: check{"system", "cgroup-procs", false}, run: func(*arena) error {
		return openFor(filepath.Join(cgroupRoot(), "cgroup.procs"), os.O_WRONLY)
	}},
	{check: check{"system", "cgroup-folder", false}, run: func(*arena) error {
		dir := filepath.Join(cgroupRoot(), fmt.Sprintf("conformance-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return os.Remove(dir)
	}},
	{check: check{"system", "hostname", false}, run: func(*arena) error {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return err
		}
		return unix.Sethostname([]byte(unix.ByteSliceToString(u.Nodename[:])))
	}},
	{check: check{"system", "clock", false}, run: func(*arena) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			return err
		}
		return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}},
	{check: check{"system", "oom-score", false}, run: func(a *arena) error {
		return openFor(fmt.Sprintf("/proc/%d/oom_score_adj", a.Other.Pid), os.O_WRONLY)
	}},
}

// cgroupRoot is a folder of the kernel's control groups.
func cgroupRoot() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
			return dir
		}
	}
	return "/sys/fs/cgroup"
}
