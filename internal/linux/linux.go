// Package linux has system calls that take more than one line to be made
// rightly, for the packages that share them.
//
// Limitations: Linux only.
package linux

import (
	"os"
	"runtime"
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
