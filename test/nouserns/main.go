// Command nouserns runs a command where no user namespace can be made, for
// tests: making one fails with ENOSPC, as on a machine on which
// user.max_user_namespaces is 0.
//
//	nouserns [-uid N] -- command [arg...]
//
// The setting is made in a user namespace around the command, so the machine's
// own stays as it is. The command runs as the caller, without capabilities. Root
// names another user by -uid (65535 at most; the group is the same, and there
// are no others); for root all owners of files look as they do outside, for
// everybody else the files of others look like nobody's.
//
// It exits as the command does, with 128+n if that died of signal n, 127 if it
// was not found, 126 if it can't be executed, and 125 if nouserns itself fails.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside is the name of this program in the namespace.
const inside = "nouserns-inside"

const usage = "usage: nouserns [-uid N] -- command [arg...]"

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nouserns:", err)
	}
	os.Exit(code)
}

// run returns the exit code and, unless that is the command's own, the reason.
func run() (int, error) {
	uid := flag.Int("uid", os.Getuid(), "")
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), usage) }
	flag.Parse()
	switch {
	case flag.NArg() == 0:
		return 2, errors.New(usage)
	case *uid < 0 || *uid > 65535:
		return 2, fmt.Errorf("-uid %d is not in 0..65535", *uid)
	case os.Args[0] == inside:
		return become(*uid, flag.Args())
	case os.Getuid() != 0 && *uid != os.Getuid():
		return 2, errors.New("only root can be another user")
	}
	return enclose()
}

// enclose runs this program again in a user namespace.
func enclose() (int, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{inside}, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER,
		UidMappings:                []syscall.SysProcIDMap{{Size: 65536}},
		GidMappings:                []syscall.SysProcIDMap{{Size: 65536}},
		GidMappingsEnableSetgroups: true,
	}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.GidMappingsEnableSetgroups = false
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE} // for the setting; execve would drop it
	}
	cmd.SysProcAttr = attr
	// A signal for the whole group is the command's affair.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return 125, fmt.Errorf("making a user namespace: %w", err)
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// become makes the setting and becomes the command.
func become(uid int, args []string) (int, error) {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return 125, err
	}
	runtime.LockOSThread() // ambient capabilities are a thread's, and exec takes this one's
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return 125, os.NewSyscallError("prctl", err)
	}
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return 125, err
		}
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		signal.Reset()
		err = syscall.Exec(path, args, os.Environ())
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return 127, err
	}
	return 126, err
}
