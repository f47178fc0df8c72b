package attack

import (
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// acct asks the kernel to write a record of each process that ends to a file in
// dir, and to stop that again.
func acct(dir string) error {
	path := cstring(filepath.Join(dir, "open-wronly", "file"))
	_, _, e := syscall.Syscall(unix.SYS_ACCT, uintptr(unsafe.Pointer(path)), 0, 0)
	runtime.KeepAlive(path)
	if e != 0 {
		return e
	}
	_, _, _ = syscall.Syscall(unix.SYS_ACCT, 0, 0, 0)
	return nil
}

// canary is what attacks on a child write to: it has the same address there.
var canary [8]byte

func canaryAddr() uintptr { return uintptr(unsafe.Pointer(&canary)) }

// remote describes memory of another process.
func remote(addr uintptr) []unix.RemoteIovec {
	return []unix.RemoteIovec{{Base: addr, Len: 4}}
}

// queue queues a signal to a process, as sigqueue(3) does, or to a thread.
func queue(pid, tid int, sig syscall.Signal) error {
	// struct siginfo: signo, errno, code = SI_QUEUE, then pid and uid.
	info := [32]int32{int32(sig), 0, -1, 0, int32(unix.Getpid()), int32(unix.Getuid())}
	p := uintptr(unsafe.Pointer(&info))
	var e syscall.Errno
	if tid == 0 {
		_, _, e = syscall.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig), p)
	} else {
		_, _, e = syscall.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(tid), uintptr(sig), p, 0, 0)
	}
	runtime.KeepAlive(&info)
	if e != 0 {
		return e
	}
	return nil
}

// Numbers of linux/btrfs.h.
const (
	btrfsSubvolCreate = 0x5000940e
	btrfsSnapCreate   = 0x50009401
)

// btrfsArgs is struct btrfs_ioctl_vol_args.
type btrfsArgs struct {
	fd   int64
	name [4088]byte
}

func btrfsIoctl(dir int, request uintptr, args *btrfsArgs) error {
	if _, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(dir), request, uintptr(unsafe.Pointer(args))); e != 0 {
		return e
	}
	return nil
}

// btrfsSubvolume makes a subvolume called name in dir.
func btrfsSubvolume(dir int, name string) error {
	var args btrfsArgs
	copy(args.name[:], name)
	return btrfsIoctl(dir, btrfsSubvolCreate, &args)
}

// btrfsSnapshot makes a snapshot of from, called name, in dir.
func btrfsSnapshot(dir, from int, name string) error {
	args := btrfsArgs{fd: int64(from)}
	copy(args.name[:], name)
	return btrfsIoctl(dir, btrfsSnapCreate, &args)
}
