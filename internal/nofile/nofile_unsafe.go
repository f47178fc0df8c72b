// Package nofile remembers the soft limit on open files that the process was
// started with.
//
// Go raises that limit for itself when package syscall initialises, and puts
// it back only in children that it starts itself. Whoever starts children
// another way has to put it back too, and so must know it. The package imports
// nothing that initialises: Go initialises packages in the order of their
// import paths as their imports become ready, so this one comes before
// syscall.
package nofile

import "unsafe"

// From the kernel's include/uapi/asm-generic/resource.h.
const rlimitNofile = 7

type rlimit struct{ cur, max uint64 }

//go:linkname rawSyscall6 syscall.RawSyscall6
//go:noescape
func rawSyscall6(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)

var original = read()

// Original returns the limit that the process was started with, in numbers of
// descriptors, and whether it could be read.
func Original() (soft, hard uint64, ok bool) {
	return original.cur, original.max, original.max > 0
}

func read() rlimit {
	var l rlimit
	if _, _, errno := rawSyscall6(sysPrlimit64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&l)), 0, 0); errno != 0 {
		return rlimit{}
	}
	return l
}
