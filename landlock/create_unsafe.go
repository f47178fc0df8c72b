package landlock

import (
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opener opens paths for rules. It keeps one buffer for all of them, so that
// opening allocates nothing.
type opener struct {
	path [unix.PathMax]byte
	how  unix.OpenHow
}

// open opens path with O_PATH, which neither waits for the other end of a FIFO
// nor touches a device. It follows symbolic links unless noSymlinks is set.
func (o *opener) open(path string, noSymlinks bool) (int, syscall.Errno) {
	// The kernel would count the NUL, too, and stop at the first one.
	if len(path) >= len(o.path) {
		return -1, syscall.ENAMETOOLONG
	}
	if strings.IndexByte(path, 0) >= 0 {
		return -1, syscall.EINVAL
	}
	n := copy(o.path[:], path)
	o.path[n] = 0
	const flags = unix.O_PATH | unix.O_CLOEXEC
	for {
		var fd uintptr
		var e syscall.Errno
		if noSymlinks {
			o.how = unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
			fd, _, e = syscall.Syscall6(unix.SYS_OPENAT2, atFDCWD, uintptr(unsafe.Pointer(&o.path[0])), uintptr(unsafe.Pointer(&o.how)), unsafe.Sizeof(o.how), 0, 0)
		} else {
			fd, _, e = syscall.Syscall6(unix.SYS_OPENAT, atFDCWD, uintptr(unsafe.Pointer(&o.path[0])), flags, 0, 0, 0)
		}
		runtime.KeepAlive(o)
		switch e {
		case 0:
			return int(fd), 0
		case syscall.EINTR: // from file systems in user space or on a network
		default:
			return -1, e
		}
	}
}

// atFDCWD is AT_FDCWD as an argument.
const atFDCWD = ^uintptr(-unix.AT_FDCWD - 1)
