package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// portName is the virtio port's.
const portName = "vmrun"

// openPort opens the port to the host, and waits for it.
func openPort(patience time.Duration) (*os.File, error) {
	late := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name") // the pattern is right
		for _, n := range names {
			if b, err := os.ReadFile(n); err != nil || strings.TrimSpace(string(b)) != portName {
				continue
			}
			dev := "/dev/" + filepath.Base(filepath.Dir(n))
			if f, err := os.OpenFile(dev, os.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
				return f, nil
			}
		}
		select {
		case <-tick.C:
		case <-late:
			return nil, errors.New("there is no port to the host")
		}
	}
}

// agentMain runs the job, tells the host, and waits for the end of the guest. It
// returns only if it can't tell.
func agentMain() error {
	port, err := openPort(20 * time.Second)
	if err != nil {
		return err
	}
	a := agent{frameWriter{w: port}}
	status, err := a.work()
	if err != nil {
		err = a.send(frameFail, []byte(err.Error()))
	}
	if err := errors.Join(err, a.send(frameExit, []byte(strconv.Itoa(status)))); err != nil {
		return err
	}
	rest()
	return nil
}

// agent does the job in the guest.
type agent struct{ frameWriter }

// work runs the command and returns its status.
func (a *agent) work() (int, error) {
	j, err := readJob(agentJobFile)
	if err != nil {
		return exitFailure, err
	}
	uptime, _ := os.ReadFile("/proc/uptime") // for people
	if err := a.send(frameHello, bytes.TrimSpace(uptime)); err != nil {
		return exitFailure, err
	}
	for _, line := range j.Pre {
		if err := runPre(line); err != nil {
			return exitFailure, err
		}
	}
	cmd, err := j.command()
	if err != nil {
		return exitFailure, err
	}
	cmd.Stdout, cmd.Stderr = a.stream(frameStdout), a.stream(frameStderr)
	// A process that is left behind with the output open isn't waited for.
	cmd.WaitDelay = 2 * time.Second
	if err := a.send(frameStart, nil); err != nil {
		return exitFailure, err
	}
	runErr := cmd.Run()
	if cmd.ProcessState == nil { // it wasn't started
		err = a.send(frameStderr, []byte("vmrun: "+runErr.Error()+"\n"))
	}
	return exitStatus(cmd, runErr), errors.Join(err, a.copyOut(j.Out))
}

// runPre runs a shell line as root.
func runPre(line string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", line)
	cmd.Env = []string{guestPath, "HOME=/root"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("-pre %q: %w\n%s", line, err, out)
	}
	return nil
}

// exitStatus is the status that a shell would give.
func exitStatus(cmd *exec.Cmd, err error) int {
	if cmd.ProcessState != nil {
		ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return cmd.ProcessState.ExitCode()
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return 127
	}
	return 126
}

// command makes the job's command. Its Err is set if there is no such program.
func (j *job) command() (*exec.Cmd, error) {
	env := append([]string{guestPath, "LANG=C.UTF-8", "TERM=dumb"}, j.Env...)
	argv := j.Argv
	attr := &syscall.SysProcAttr{Setsid: true}
	switch j.As {
	case asSession, asUserUnit:
		argv, env = j.systemdRun(env), []string{guestPath}
	case asUser:
		env = append([]string{
			"HOME=/home/dev", "USER=dev", "LOGNAME=dev", "SHELL=/bin/bash",
			fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", guestUID),
		}, env...)
		attr.Credential = &syscall.Credential{Uid: guestUID, Gid: guestGID, Groups: []uint32{guestGID}}
	default:
		env = append([]string{"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash"}, env...)
	}
	// Programs are looked up in the guest's path, whoever starts the agent.
	if err := os.Setenv("PATH", strings.TrimPrefix(guestPath, "PATH=")); err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		cmd.Path, cmd.Err = filepath.Join(j.Cwd, argv[0]), nil
	}
	cmd.Env, cmd.Dir, cmd.SysProcAttr = env, j.Cwd, attr
	if j.Delegate {
		group, err := os.Open(delegatedCgroup)
		if err != nil {
			return nil, err
		}
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	return cmd, nil
}

// systemdRun wraps the command: a session is opened by PAM, as a login does.
func (j *job) systemdRun(env []string) []string {
	argv := []string{
		"systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--service-type=exec",
		"-p", "TimeoutStartSec=infinity", // which ends at the exec, but not with PAM
		"-p", "WorkingDirectory=" + j.Cwd,
	}
	if j.As == asSession {
		argv = append(argv, "-p", "User=dev", "-p", "PAMName=login", "-p", "TTYPath=",
			"-p", "Environment=XDG_SESSION_TYPE=tty XDG_SESSION_CLASS=user")
	} else {
		argv = append(argv, "--user", "-M", "dev@")
	}
	for _, kv := range env {
		argv = append(argv, "-E", kv)
	}
	argv = append(argv, "--")
	for _, a := range j.Argv {
		argv = append(argv, strings.ReplaceAll(a, "$", "$$")) // the service manager expands variables
	}
	return argv
}

// copyOut sends the folders of -out.
func (a *agent) copyOut(dirs []string) error {
	var errs []error
	for i, dir := range dirs {
		w := tar.NewWriter(a.stream(frameTar, byte(i)))
		if err := errors.Join(addTree(w, dir, ""), w.Close()); err != nil {
			errs = append(errs, fmt.Errorf("copying %s out: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}
