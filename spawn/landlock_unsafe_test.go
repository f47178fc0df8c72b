package spawn_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockRuleset makes a ruleset of the kernel's struct, which begins at attr.
func landlockRuleset(attr *uint64, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
