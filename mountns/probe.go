package mountns

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Unsupported reports whether a start failed because this machine doesn't let
// this user have a mount namespace, or is too old for what is done in it.
func Unsupported(err error) bool {
	var e *spawn.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Stage {
	case spawn.StageClone:
		switch e.Errno {
		case syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EUSERS, syscall.EINVAL, syscall.ENOSYS:
			return true
		}
	case spawn.StageIDMap:
		return true
	case spawn.StageMount:
		switch e.Errno {
		case syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS:
			return true
		}
	}
	return false
}

// Probe finds out whether a mount layer works, by making one for a program
// that does nothing. Privileged says that no user namespace is needed. The
// error is a [*MissingError].
func Probe(privileged bool) error {
	flags := uintptr(unix.CLONE_NEWNS)
	if !privileged {
		flags |= unix.CLONE_NEWUSER
	}
	p := &spawn.Plan{
		// The last step fails, so that nothing runs: everything before it is
		// what is asked for.
		Path: "/proc/self/nothing", Argv: []string{""}, Files: []int{-1, -1, -1}, Dir: "/",
		Namespaces: flags, NoNewPrivs: true,
		Mounts: []spawn.Mount{
			{Op: spawn.MountNew, Source: "/", Target: "/", Flags: unix.MS_BIND | unix.MS_REC},
			{Op: spawn.MountAttr, Target: "/", Set: unix.MOUNT_ATTR_RDONLY},
		},
	}
	child, err := spawn.Start(p)
	if err == nil { // somebody killed it before it could fail, and a command's start will tell
		_ = unix.Close(child.PidFD)
		if process, err := os.FindProcess(child.Pid); err == nil {
			_, _ = process.Wait()
		}
		return nil
	}
	if Unsupported(err) {
		if privileged {
			return Probe(false)
		}
		return Reason(err)
	}
	return nil
}

// MissingError says why there is no mount layer.
type MissingError struct {
	// Why says it in words, and Mend what would help; that may be empty.
	Why, Mend string
	Err       error
}

func (e *MissingError) Error() string { return e.Why }

// Unwrap returns the error of the start that failed.
func (e *MissingError) Unwrap() error { return e.Err }

// Reason says in words why a start failed for want of a mount layer.
func Reason(err error) *MissingError {
	why, mend := reason(err)
	return &MissingError{Why: why, Mend: mend, Err: err}
}

func reason(err error) (why, mend string) {
	var e *spawn.Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	switch {
	case e.Errno == syscall.ENOSPC || e.Errno == syscall.EUSERS:
		return "user namespaces are turned off here (user.max_user_namespaces is 0 or used up)",
			"sysctl -w user.max_user_namespaces=10000"
	case e.Stage == spawn.StageMount && (e.Errno == syscall.ENOSYS || e.Errno == syscall.EINVAL):
		return "the kernel can't make a mount read-only by itself (Linux before 5.12)", "a newer kernel"
	case restrictedBy("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "AppArmor gives programs without a profile no rights in a user namespace",
			"an AppArmor profile for this program with the rule \"userns,\" (rather than turning the restriction off for all)"
	case restrictedBy("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		return "user namespaces are for root only here (kernel.unprivileged_userns_clone is 0)",
			"sysctl -w kernel.unprivileged_userns_clone=1"
	case e.Stage == spawn.StageClone && e.Errno == syscall.EINVAL:
		return "the kernel was built without user or mount namespaces", ""
	case e.Stage == spawn.StageIDMap:
		return "the user can't be mapped in a new user namespace (" + e.Errno.Error() + "); is /proc mounted and writable?", ""
	}
	return "a user namespace with mounts of its own is forbidden here (" + e.Error() + "), as a container's seccomp filter does",
		"run the container with a seccomp profile that allows unshare and mount, or as root with CAP_SYS_ADMIN"
}

func restrictedBy(sysctl, value string) bool {
	b, err := os.ReadFile(sysctl)
	return err == nil && strings.TrimSpace(string(b)) == value
}

// Feature returns the feature f, which Landlock alone can't have, as it is with
// or without a mount layer. Missing says why there is none although it was
// wanted; else it is nil. Features that a mount layer doesn't change are returned as they are.
func Feature(f policy.Feature, r *policy.Resolved, layered bool, missing *MissingError) policy.Feature {
	p := &r.Policy
	switch f.Promise {
	case policy.PromiseProtect:
	case policy.PromiseHide, policy.PromisePrivateTmp, policy.PromiseMetadata:
		if !p.Asks(f.Promise) {
			if f.Promise == policy.PromiseMetadata && f.State == policy.Absent && p.Mode != policy.Unconfined {
				f.Mend = "--strict-metadata, which takes a mount layer (user namespaces, or root)"
			}
			return f
		}
	default:
		return f
	}
	if name := p.UndoingCap(); layered && name != "" && os.Geteuid() == 0 {
		return policy.Feature{
			Promise: f.Promise, State: policy.Absent,
			Why: "with the capability " + name + " a command can get around mounts", Mend: "leave it out of --caps",
		}
	}
	if layered {
		return policy.Feature{Promise: f.Promise, State: policy.Enforced, By: Name}
	}
	if missing != nil && f.State == policy.Absent {
		f.Why = "there is no mount layer: " + missing.Why
		if missing.Mend != "" {
			f.Mend = missing.Mend
		}
	}
	return f
}
