package seccomp

import (
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioUring makes a ring.
func ioUring() error {
	var params [120]byte // struct io_uring_params
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		return e
	}
	return unix.Close(int(fd))
}

// terminal is a new terminal that is the controlling one of this process, and
// stays open.
var terminal = sync.OnceValues(func() (*os.File, error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	s, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := unix.Setsid(); err != nil {
		return nil, err
	}
	return s, unix.IoctlSetInt(int(s.Fd()), unix.TIOCSCTTY, 0)
})

// onTerminal makes an ioctl on the terminal.
func onTerminal(cmd uintptr, b byte) error {
	s, err := terminal()
	if err != nil {
		return err
	}
	buf := [64]byte{b}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, s.Fd(), cmd, uintptr(unsafe.Pointer(&buf)))
	return errnoErr(e)
}

// send sends a byte to a port of the loopback by the named call.
func send(fd int, call string, flags uintptr, msgFlags int32, port int) error {
	addr := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port>>8 | port<<8), Addr: [4]byte{127, 0, 0, 1}}
	data := [1]byte{'x'}
	iov := unix.Iovec{Base: &data[0], Len: 1}
	type message struct {
		unix.Msghdr
		n uint32
	}
	msg := message{Msghdr: unix.Msghdr{Name: (*byte)(unsafe.Pointer(&addr)), Namelen: unix.SizeofSockaddrInet4, Iov: &iov, Iovlen: 1, Flags: msgFlags}}
	var e unix.Errno
	switch call {
	case "sendto":
		_, _, e = unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&data)), 1, flags, uintptr(unsafe.Pointer(&addr)), unix.SizeofSockaddrInet4)
	case "sendmsg":
		_, _, e = unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
	case "sendmmsg":
		_, _, e = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 1, flags, 0, 0)
	default:
		panic(call)
	}
	return errnoErr(e)
}

func init() {
	operations["fsopen"] = func(a []string) error {
		fd, err := unix.Fsopen(a[0], unix.FSOPEN_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	operations["folder-ioctl"] = func(a []string) error {
		return withFile("/", unix.O_RDONLY, func(fd int) error {
			var buf [4096]byte
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number(a[0])), uintptr(unsafe.Pointer(&buf)))
			return errnoErr(e)
		})
	}
	operations["get-limit"] = func(a []string) error {
		var lim unix.Rlimit
		return unix.Prlimit(int(number(a[0])), unix.RLIMIT_CORE, nil, &lim)
	}
	operations["set-limit"] = func(a []string) error {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil {
			return err
		}
		return unix.Prlimit(int(number(a[0])), unix.RLIMIT_CORE, &lim, nil)
	}
	// Like set-limit, from an address whose lower half is zero.
	operations["set-limit-at-zero"] = func(a []string) error {
		const at = 7 << 32
		if _, _, e := unix.Syscall6(unix.SYS_MMAP, at, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0); e != 0 {
			return e
		}
		if err := prlimit("0", 0, at); err != nil {
			return err
		}
		return prlimit(a[0], at, 0)
	}
}

func prlimit(pid string, set, get uintptr) error {
	_, _, e := unix.Syscall6(unix.SYS_PRLIMIT64, uintptr(number(pid)), unix.RLIMIT_CORE, set, get, 0, 0)
	return errnoErr(e)
}
