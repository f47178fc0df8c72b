package main

import (
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

	"github.com/shofer-dev/shofer-sandbox/landlock"
	"golang.org/x/sys/unix"
)

// facts are all there is to know, in the order in which they are printed.
var facts = []struct {
	key  string
	find func() string
}{
	{"kernel", release},
	{"uid", func() string { return strconv.Itoa(os.Getuid()) }},
	{"landlock", landlockABI},
	{"lsm", func() string { return fileText("/sys/kernel/security/lsm") }},
	{"userns", userns},
	{"max_user_namespaces", func() string { return fileText("/proc/sys/user/max_user_namespaces") }},
	{"unprivileged_userns_clone", func() string { return fileText("/proc/sys/kernel/unprivileged_userns_clone") }},
	{"apparmor_restrict_unprivileged_userns", func() string { return fileText("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") }},
	{"bwrap", bwrap},
	{"cgroups", cgroups},
	{"cgroup", ownCgroup},
	{"delegated", delegated},
	{"controllers", func() string { return cgroupFile("cgroup.controllers") }},
	{"cgroup.kill", func() string { return yes(exists(cgroupPath("cgroup.kill"))) }},
	{"bus", func() string { return yes(exists(fmt.Sprintf("/run/user/%d/bus", os.Getuid()))) }},
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// fileText returns a file's first line, or the errno.
func fileText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return errnoName(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// errnoName returns the errno's name, or the error's text.
func errnoName(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		if e == unix.EOPNOTSUPP { // it has two names
			return "EOPNOTSUPP"
		}
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
	}
	return err.Error()
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return errnoName(err)
	}
	return unix.ByteSliceToString(u.Release[:])
}

// landlockABI is the version, or why there is none.
func landlockABI() string {
	s := landlock.Probe()
	if s.ABI == 0 {
		return errnoName(s.Err)
	}
	return strconv.Itoa(s.ABI)
}

// nothing is the name by which this program does nothing.
const nothing = "probe-nothing"

// patience is how long a program may take that is tried.
const patience = time.Minute

// userns is yes, or the errno of making a user namespace.
func userns() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{nothing}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		return errnoName(err)
	}
	return "yes"
}

// bwrap is yes if it works, no if there is none, else what it says.
func bwrap() string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "no"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", "/bin/true")
	cmd.WaitDelay = time.Second // one that fails can leave a child behind
	if out, err := cmd.CombinedOutput(); err != nil {
		return strings.ReplaceAll(fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out))), "\n", " ")
	}
	return "yes"
}

const cgroupRoot = "/sys/fs/cgroup"

// cgroups says how they are mounted: v2, hybrid, v1 or none.
func cgroups() string {
	switch {
	case isCgroup2(cgroupRoot):
		return "v2"
	case isCgroup2(cgroupRoot + "/unified"):
		return "hybrid"
	case exists(cgroupRoot + "/pids/cgroup.procs"):
		return "v1"
	}
	return "none"
}

func isCgroup2(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && int64(st.Type) == unix.CGROUP2_SUPER_MAGIC //nolint:unconvert // differs by architecture
}

// ownCgroup is this process's group in the v2 hierarchy; empty without.
func ownCgroup() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// cgroupPath returns a file of the own group, "" where there is no v2 hierarchy.
func cgroupPath(name string) string {
	root := cgroupRoot
	if !isCgroup2(root) {
		root += "/unified"
	}
	own := ownCgroup()
	if own == "" || !isCgroup2(root) {
		return ""
	}
	return filepath.Join(root, own, name)
}

func cgroupFile(name string) string {
	path := cgroupPath(name)
	if path == "" {
		return ""
	}
	return fileText(path)
}

// delegated is yes if groups can be made beneath the own one.
func delegated() string {
	dir := cgroupPath("")
	return yes(dir != "" && unix.Access(dir, unix.W_OK|unix.X_OK) == nil)
}
