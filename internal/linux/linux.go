// Package linux has system calls that take more than one line to be made
// rightly, for the packages that share them.
//
// Limitations: Linux only.
package linux

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// StopSelf stops the calling process, as SIGSTOP does, and returns when it has
// been continued. The signal goes to the calling thread, which then stops before
// it goes on: another one might take a signal to the process too late.
func StopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGSTOP) // to oneself it is allowed
}

// OwnProc reports whether the numbers in /proc are those of this process's own
// PID namespace: it isn't so below unshare --pid without --mount-proc, nor where
// there is no /proc.
func OwnProc() bool {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return false
	}
	// By chance the two may be equal: this is a number for each namespace. Where no
	// descriptor is left to read it, or before Linux 4.1, there is none.
	status, _ := os.ReadFile("/proc/self/status")
	_, numbers, _ := bytes.Cut(status, []byte("\nNSpid:"))
	numbers, _, _ = bytes.Cut(numbers, []byte("\n"))
	return len(bytes.Fields(numbers)) <= 1
}
