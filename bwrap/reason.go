package bwrap

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// Cause is why bwrap can't be used. The zero value is none.
type Cause uint8

const (
	// Missing: there is no bwrap.
	Missing Cause = iota + 1
	// Untrusted: there is one that others could have changed.
	Untrusted
	// TooOld: it lacks options.
	TooOld
	// Broken: it doesn't even print its version.
	Broken
	// TimedOut: it didn't end.
	TimedOut
	// NoProc: /proc isn't mounted.
	NoProc
	// ForeignProc: /proc is that of another pid namespace. bwrap looks for its
	// child there, takes another process for it, or fails, and leaves the child.
	ForeignProc
	// AppArmor takes all rights from who makes a user namespace.
	AppArmor
	// NoNamespaces: user.max_user_namespaces is 0, or used up.
	NoNamespaces
	// RootOnly: kernel.unprivileged_userns_clone is 0.
	RootOnly
	// NotBuilt: the kernel has no user namespaces.
	NotBuilt
	// Filtered: a seccomp filter forbids namespaces.
	Filtered
	// NoPrivileges: bwrap is setuid, which has no effect under no_new_privs.
	NoPrivileges
	// Refused: namespaces can be made, and mounts in them can't.
	Refused
)

// Reason says in words why bwrap can't be used; empty when it can.
func (s Support) Reason() string {
	detail := ""
	if s.Detail != "" {
		detail = " (" + s.Detail + ")"
	}
	switch s.Cause {
	case 0:
		return ""
	case Missing:
		if s.Detail != "" {
			return "there is no bubblewrap: " + s.Detail
		}
		return "bubblewrap is not installed"
	case Untrusted:
		return "the bubblewrap that is here isn't trusted: " + s.Detail
	case TooOld:
		return "bubblewrap " + s.Version.String() + " is too old, " + oldest.String() + " is needed"
	case Broken:
		return "bubblewrap doesn't run" + detail
	case TimedOut:
		return "bubblewrap doesn't end" + detail
	case NoProc:
		return "/proc is not mounted"
	case ForeignProc:
		return "/proc shows the processes of another PID namespace, where bubblewrap doesn't find its own"
	case AppArmor:
		return "AppArmor gives programs without a profile of their own no rights in a user namespace (kernel.apparmor_restrict_unprivileged_userns is 1)" + detail
	case NoNamespaces:
		return "user namespaces are turned off or used up (user.max_user_namespaces, or the depth of nesting)"
	case RootOnly:
		return "only root may make user namespaces (kernel.unprivileged_userns_clone is 0)"
	case NotBuilt:
		return "this kernel was built without user namespaces"
	case Filtered:
		return "a seccomp filter forbids user namespaces, as those of container runtimes do"
	case NoPrivileges:
		return "bubblewrap is setuid, which has no effect in a process with no_new_privs" + detail
	case Refused:
		return "the kernel doesn't let bubblewrap make its mounts, as in a container or in another sandbox" + detail
	}
	return "bubblewrap can't be used" + detail
}

// Mend says what would make bwrap usable; empty when it is, or when nothing is
// known.
func (s Support) Mend() string {
	switch s.Cause {
	case Missing:
		return "install the package bubblewrap"
	case Untrusted:
		return "install the package bubblewrap, or give its file and folders to root and take write permission from others"
	case TooOld:
		return "a newer bubblewrap"
	case Broken, TimedOut:
		return "install the package bubblewrap again"
	case NoProc:
		return "mount -t proc proc /proc"
	case ForeignProc:
		return "a /proc of this PID namespace, as unshare --mount-proc mounts it"
	case AppArmor:
		return "an AppArmor profile for bwrap with the rule \"userns,\", as the package apparmor-profiles has one (bwrap-userns-restrict); there is no need to turn the restriction off for all"
	case NoNamespaces:
		return "sysctl -w user.max_user_namespaces=10000, or a bubblewrap that is setuid root"
	case RootOnly:
		return "sysctl -w kernel.unprivileged_userns_clone=1, or a bubblewrap that is setuid root"
	case NotBuilt:
		return "a kernel with CONFIG_USER_NS, or a bubblewrap that is setuid root"
	case Filtered:
		return "run the container with a seccomp profile that allows clone, unshare and mount, or run this outside"
	case NoPrivileges:
		return "a bubblewrap that isn't setuid, or a parent that doesn't set no_new_privs"
	case Refused:
		return "run the container with the rights to mount (a seccomp and an AppArmor profile that allow it), or run this outside"
	}
	return ""
}

// evidence is what tells one cause from another. bwrap's own words are shown,
// and decide nothing: they change from version to version.
type evidence struct {
	proc       bool   // there is a /proc
	root       bool   // the caller is root
	setuid     bool   // bwrap is
	clone      error  // what making a user namespace says
	apparmor   string // kernel.apparmor_restrict_unprivileged_userns
	maxUser    string // user.max_user_namespaces
	unpriv     string // kernel.unprivileged_userns_clone
	seccomp    string // the field of that name in /proc/self/status
	noNewPrivs string // likewise
}

// collect looks at the machine. Whether a user namespace can be made is asked
// by making one, for a program that does nothing.
func collect(s Support, try func() error) evidence {
	e := evidence{root: s.Root, setuid: s.Setuid}
	status, err := os.ReadFile("/proc/self/status")
	e.proc = err == nil
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Seccomp":
			e.seccomp = strings.TrimSpace(value)
		case "NoNewPrivs":
			e.noNewPrivs = strings.TrimSpace(value)
		}
	}
	e.apparmor = sysctl("kernel/apparmor_restrict_unprivileged_userns")
	e.maxUser = sysctl("user/max_user_namespaces")
	e.unpriv = sysctl("kernel/unprivileged_userns_clone")
	e.clone = try()
	return e
}

// sysctl returns a setting, "" if there is none.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// cause decides why a bwrap that runs can't make a sandbox.
func (e evidence) cause() Cause {
	switch {
	case !e.proc:
		return NoProc
	case e.setuid && !e.root && e.noNewPrivs == "1":
		return NoPrivileges
	case errors.Is(e.clone, syscall.ENOSPC), errors.Is(e.clone, syscall.EUSERS):
		return NoNamespaces
	case errors.Is(e.clone, syscall.EINVAL), errors.Is(e.clone, syscall.ENOSYS):
		return NotBuilt
	case errors.Is(e.clone, syscall.EPERM), errors.Is(e.clone, syscall.EACCES):
		switch {
		case e.unpriv == "0" && !e.root:
			return RootOnly
		case e.apparmor == "1" && !e.root && e.seccomp == "0":
			return AppArmor
		case e.seccomp == "2":
			return Filtered
		}
		return Refused
	case e.apparmor == "1" && !e.root:
		return AppArmor
	case e.maxUser == "0":
		return NoNamespaces
	}
	return Refused
}
