// Command llsim runs a command on this kernel as if Landlock were older or
// absent, and optionally as if user namespaces were forbidden, for tests.
//
//	llsim -abi 0|off|1..6 [-no-userns] -- command [arg...]
//
// With -abi 0 the kernel has no Landlock (ENOSYS), with off it was not switched
// on at boot (EOPNOTSUPP), with a number it has that ABI at most, where the real
// one must not be lower. -no-userns refuses user namespaces with EPERM.
//
// A seccomp filter hands the Landlock calls to this process, which answers those
// that an older kernel would answer otherwise, and lets the rest go on to the
// real one. What an old kernel did wrong is not simulated. One difference is
// known: a restrict flag that the ABI doesn't have is EINVAL even without
// no_new_privs, where a kernel says EPERM.
//
// The command can't install a seccomp listener of its own, and, unless llsim is
// root, it has no_new_privs. llsim exits as the command does, with 128+n if that
// died of signal n, 127 if it was not found, 126 if it can't be executed, and
// 125 if llsim itself fails.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "llsim:", err)
	}
	os.Exit(code)
}

// run returns the exit code and, unless that is the command's own, the reason.
func run() (int, error) {
	abiFlag := flag.String("abi", "", "0, off or 1..6")
	noUserns := flag.Bool("no-userns", false, "refuse user namespaces")
	flag.Parse()
	if flag.NArg() == 0 || (*abiFlag == "" && !*noUserns) {
		return 2, errors.New("usage: llsim -abi 0|off|1..6 [-no-userns] -- command [arg...]")
	}
	sim, err := parse(*abiFlag)
	if err != nil {
		return 125, err
	}
	path, err := exec.LookPath(flag.Arg(0))
	if err != nil {
		return 127, err
	}
	// The filter is on this thread alone, which the command is started from.
	runtime.LockOSThread()
	if err := install(filter(sim, *noUserns), sim.abi > 0, func(n *notif, live func() error) answer {
		return sim.decide(n, live)
	}); err != nil {
		return 125, fmt.Errorf("seccomp: %w", err)
	}
	p, err := os.StartProcess(path, flag.Args(), &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if errors.Is(err, fs.ErrNotExist) {
		return 127, err
	} else if err != nil {
		return 126, err
	}
	st, err := p.Wait()
	if err != nil {
		return 125, err
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return st.ExitCode(), nil
}

// simulation is the kernel that the command sees. The zero value is the real
// one.
type simulation struct {
	// abi is the version, 0 when the calls fail with errno, or are real.
	abi   int
	errno syscall.Errno
}

// parse understands the -abi flag and asks whether this kernel can play it.
func parse(s string) (simulation, error) {
	switch s {
	case "":
		return simulation{}, nil
	case "0":
		return simulation{errno: syscall.ENOSYS}, nil
	case "off":
		return simulation{errno: syscall.EOPNOTSUPP}, nil
	}
	abi, err := strconv.Atoi(s)
	if err != nil || abi < 1 || abi > newest {
		return simulation{}, fmt.Errorf("-abi %q is not 0, off or 1..%d", s, newest)
	}
	have, err := ll.LandlockGetABIVersion()
	if err != nil {
		return simulation{}, fmt.Errorf("this kernel has no Landlock: %w", err)
	}
	if abi > have {
		return simulation{}, fmt.Errorf("this kernel has ABI %d only", have)
	}
	return simulation{abi: abi}, nil
}
