package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notif is struct seccomp_notif.
type notif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// notifResp is struct seccomp_notif_resp.
type notifResp struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// idValid is SECCOMP_IOCTL_NOTIF_ID_VALID.
const idValid = 0x40082102

// install puts the program on the calling thread and what it starts. With
// notify, calls that the program hands on are answered by decide, from another
// thread, as long as this process lives.
func install(prog []unix.SockFilter, notify bool, decide func(*notif, func() error) answer) error {
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	set := func(flags uintptr) (uintptr, syscall.Errno) {
		fd, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		return fd, e
	}
	if !notify {
		if _, e := set(0); e != 0 {
			return e
		}
		runtime.KeepAlive(prog)
		return nil
	}
	// Without WAIT_KILLABLE_RECV, from Linux 5.19, a signal to the caller makes
	// it ask again.
	fd, e := set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if e == syscall.EINVAL {
		fd, e = set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	if e != 0 {
		return e
	}
	runtime.KeepAlive(prog)
	unix.CloseOnExec(int(fd))
	go serve(fd, decide)
	return nil
}

func serve(fd uintptr, decide func(*notif, func() error) answer) {
	for {
		var n notif
		if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOENT) {
				continue // the caller is gone
			}
			return
		}
		id := n.id
		a := decide(&n, func() error { return ioctl(fd, idValid, unsafe.Pointer(&id)) })
		resp := notifResp{id: n.id, val: a.val, errno: -int32(a.errno)}
		if !a.mine {
			resp = notifResp{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		}
		_ = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&resp)) // ENOENT: the caller is gone
	}
}

func ioctl(fd, req uintptr, p unsafe.Pointer) error {
	if _, _, e := syscall.Syscall(unix.SYS_IOCTL, fd, req, uintptr(p)); e != 0 {
		return e
	}
	return nil
}
