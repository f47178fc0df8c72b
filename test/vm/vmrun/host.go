package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Exit codes besides the command's own.
const (
	exitUsage   = 2
	exitTimeout = 124
	exitFailure = 125
)

const usage = `Usage:
  vmrun prepare [-suite NAME] [KERNEL...]   fetch kernels and build the guest's image
  vmrun kernels                             list the kernels and what is there
  vmrun run [flags] -- command [arg...]     boot, run, print, exit as the command did

The guest:
  -kernel NAME|DIR     6.1, 6.12 (default), 5.10, 6.18, new, another X.Y, or a
                       prepared folder
  -suite NAME          the image's Debian release: bookworm (default), bullseye
                       or trixie
  -append TEXT         more kernel command line, such as lsm=capability,yama
  -init direct|systemd direct (default) is a small init of our own; systemd is a
                       whole boot with logind and a user manager
  -cgroup v2|v1|hybrid|none
                       with -init direct; v2 is the default
  -mem MIB, -smp N     1024 and 1
  -accel auto|tcg|kvm, -cpu MODEL
  -bz                  boot the compressed image

The command:
  -as root|user|session|userunit
                       user: uid 1000; session: a login session of that user;
                       userunit: a service of that user's manager (the last two
                       with -init systemd)
  -delegate            in a cgroup v2 subtree that belongs to the user (direct)
  -in DIR[:GUEST]      copy DIR to GUEST (/vm/in), belonging to whom the command
                       runs as; can be given more than once
  -out GUEST:DIR       copy GUEST to DIR afterwards; more than once
  -env NAME=VALUE      more than once
  -cwd GUEST           the working directory; default the first -in
  -x                   the command is a file of the host, a test of the package
                       in the current folder: copy it, testdata and go.mod in,
                       as in  go test -exec 'vmrun run -kernel 6.1 -x --' ./pkg
  -pre LINE            a shell line that root runs before; more than once

The run:
  -timeout TIME        2m, with -x 10m
  -boot-timeout TIME, -retries N
                       a boot without a sign in TIME (30s, systemd 1m) is
                       repeated N times (2)
  -v                   print the times
  -console FILE        keep the guest's console; - is standard error

All commands:
  -cache DIR           where kernels and images are kept: $VMRUN_CACHE, or
                       shofer-sandbox-vm in the user's cache folder

Environment: VMRUN_MIRROR and VMRUN_SECURITY_MIRROR name Debian archives in place
of those that apt is set up for. VMRUN is set to the kernel's name in the guest.

Exit status: the command's own, 128+n if signal n killed it; 124 after a timeout;
125 if vmrun or the guest failed; 127 if the command is not there.
`

// hintError is an error with a line on what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hinted returns an error with a hint.
func hinted(hint, format string, args ...any) error {
	return &hintError{fmt.Errorf(format, args...), hint}
}

// usageError says that the command line is wrong.
type usageError struct{ why string }

func (e *usageError) Error() string { return e.why }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// hostMain runs the program on the host and returns its exit code.
func hostMain(args []string) int {
	code, err := command(args)
	if err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, "vmrun: error:", err)
	var h *hintError
	var u *usageError
	var end *endError
	switch {
	case errors.As(err, &end):
		return end.code
	case errors.As(err, &h):
		fmt.Fprintln(os.Stderr, "hint:", h.hint)
	case errors.As(err, &u):
		fmt.Fprintln(os.Stderr, "hint: vmrun help says what there is")
		return exitUsage
	}
	return exitFailure
}

func command(args []string) (int, error) {
	if len(args) == 0 {
		return 0, usagef("what to do is missing: prepare, kernels or run")
	}
	if runtime.GOARCH != "amd64" {
		return 0, errors.New("hosts other than x86-64 are not supported")
	}
	switch args[0] {
	case "prepare":
		return prepareCommand(args[1:])
	case "kernels":
		return kernelsCommand(args[1:])
	case "run":
		return runCommand(args[1:])
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return 0, nil
	}
	return 0, usagef("unknown command %q", args[0])
}

// flagSet returns a set with the flag that all commands have.
func flagSet(name string) (set *flag.FlagSet, cache *string) {
	set = flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(discard{})
	return set, set.String("cache", "", "")
}

// discard is an [io.Writer] that nothing comes out of: errors of flags are
// reported by hostMain.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// parseFlags is [flag.FlagSet.Parse] with errors of ours.
func parseFlags(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// prepareCommand fetches kernels and builds an image, where they aren't there.
// A kernel that can't be had doesn't keep the others from being fetched.
func prepareCommand(args []string) (int, error) {
	set, dir := flagSet("prepare")
	suite := set.String("suite", defaultSuite, "")
	if err := parseFlags(set, args); err != nil {
		return 0, err
	}
	cache, err := openCache(*dir)
	if err != nil {
		return 0, err
	}
	names := set.Args()
	if len(names) == 0 {
		names = []string{"6.1", "6.12"}
	}
	return 0, cache.prepare(*suite, names)
}

// kernelsCommand lists the kernels by name.
func kernelsCommand(args []string) (int, error) {
	set, dir := flagSet("kernels")
	if err := parseFlags(set, args); err != nil {
		return 0, err
	}
	cache, err := openCache(*dir)
	if err != nil {
		return 0, err
	}
	for _, k := range kernels {
		have := "not fetched"
		if b, err := os.ReadFile(filepath.Join(cache.kernelDir(k.name), readyFile)); err == nil {
			have = strings.TrimSpace(string(b))
		}
		fmt.Printf("%-5s %-16s %s\n", k.name, k.note, have)
	}
	return 0, nil
}
