package seccomp

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notify is struct seccomp_notif.
type notify struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// oldIDValid is SECCOMP_IOCTL_NOTIF_ID_VALID before Linux 5.9.
const oldIDValid = 0x80082102

func ioctlPointer(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

func receiveNotify(fd int) (n notify, err error) {
	err = ioctlPointer(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n, err
}

func waitsNotify(fd int, id uint64) bool {
	err := ioctlPointer(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	if errors.Is(err, unix.EINVAL) {
		err = ioctlPointer(fd, oldIDValid, unsafe.Pointer(&id))
	}
	return err == nil
}

func continueNotify(fd int, id uint64) error {
	a := answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	for {
		if err := ioctlPointer(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func setNotifyFlags(fd int, flags uintptr) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); e != 0 {
		return e
	}
	return nil
}
