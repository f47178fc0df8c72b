// Command vmrun runs a command on another Linux kernel: it boots a small Debian
// guest in QEMU, copies files in, runs the command there as root, as an ordinary
// user or in a login session, passes its output on, and exits as it did.
//
//	vmrun prepare [-suite NAME] [KERNEL...]
//	vmrun kernels
//	vmrun run [flags] -- command [arg...]
//
// Kernels and the guest's image come from Debian, by package name, through this
// machine's own apt and from the archives that it is set up for; they are kept
// in the user's cache folder. Nothing needs root. The guest has no network but
// its loopback, and its disk is thrown away.
//
// The same static binary is the program on the host, the guest's first process
// (from an initramfs) and, in the guest, the agent that runs the command.
//
// # Limitations
//
// Hosts and guests are x86-64. The command gets no standard input. Regular
// files, folders and symbolic links are copied in; links are not copied out.
// Without a usable /dev/kvm the processor is emulated: a loop takes about 12
// times as long as on the host, fork and exec up to 35 times.
package main

import (
	"os"
	"path/filepath"
	"runtime"
)

// init keeps the main goroutine on its thread: the kernel kills QEMU when the
// thread that started it ends.
func init() { runtime.LockOSThread() }

func main() {
	switch {
	case os.Getpid() == 1 && os.Args[0] == "/init": // what the kernel calls it
		initMain()
	case filepath.Base(os.Args[0]) == agentName:
		say("agent: %v", agentMain())
	default:
		os.Exit(hostMain(os.Args[1:]))
	}
}
