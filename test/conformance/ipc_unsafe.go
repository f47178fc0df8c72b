package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addrOf is where b lies. It is on the heap, where nothing moves.
func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// semSetVal is SETVAL of linux/sem.h.
const semSetVal = 16

func errno(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func semget(key int) (int, error) {
	id, _, e := syscall.Syscall(unix.SYS_SEMGET, uintptr(key), 1, unix.IPC_CREAT|0o600)
	return int(id), errno(e)
}

func semctl(id, cmd, value int) error {
	_, _, e := syscall.Syscall6(unix.SYS_SEMCTL, uintptr(id), 0, uintptr(cmd), uintptr(value), 0, 0)
	return errno(e)
}

func msgget(key int) (int, error) {
	id, _, e := syscall.Syscall(unix.SYS_MSGGET, uintptr(key), unix.IPC_CREAT|0o600, 0)
	return int(id), errno(e)
}

func msgctl(id, cmd int) error {
	_, _, e := syscall.Syscall(unix.SYS_MSGCTL, uintptr(id), uintptr(cmd), 0)
	return errno(e)
}

// msgsnd sends a message of four bytes.
func msgsnd(id int) error {
	msg := struct {
		kind int64
		text [8]byte
	}{kind: 1}
	_, _, e := syscall.Syscall6(unix.SYS_MSGSND, uintptr(id), uintptr(unsafe.Pointer(&msg)), 4, unix.IPC_NOWAIT, 0, 0)
	runtime.KeepAlive(&msg)
	return errno(e)
}

// openQueue opens a POSIX message queue and closes it.
func openQueue(name string, flags int) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	fd, _, e := syscall.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), uintptr(flags|unix.O_CLOEXEC), 0o600, 0, 0, 0)
	runtime.KeepAlive(p)
	if e != 0 {
		return e
	}
	return unix.Close(int(fd))
}

func unlinkQueue(name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0)
	runtime.KeepAlive(p)
	return errno(e)
}

// ioctl makes a request with a pointer to a byte; above its 32 bits the kernel
// looks at none.
func ioctl(fd int, request uint64, b *byte) error {
	_, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(b)))
	return errno(e)
}
