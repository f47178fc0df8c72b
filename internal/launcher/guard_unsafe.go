package launcher

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidOf returns si_pid, which is the first of what a siginfo_t has for a signal
// of its own: behind three numbers, and aligned for a pointer.
func pidOf(info *unix.Siginfo) int {
	const offset = 16
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}
