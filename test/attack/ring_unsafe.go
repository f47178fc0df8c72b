package attack

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/io_uring.h.
const (
	ringOpOpenat    = 18
	ringOpRenameat  = 35
	ringOpUnlinkat  = 36
	ringOpMkdirat   = 37
	ringOpSymlinkat = 38
	ringOpLinkat    = 39

	ringOffSQ   = 0
	ringOffCQ   = 0x8000000
	ringOffSQEs = 0x10000000

	ringEnterGetEvents = 1
	ringSQEAsync       = 1 << 4 // hand the call to a worker thread of the kernel's
)

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     struct {
		head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
		_                                                           uint64
	}
	cq struct {
		head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
		_                                                           uint64
	}
}

// ringSQE is struct io_uring_sqe.
type ringSQE struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	addr2         uint64
	addr          uint64
	len           uint32
	opFlags       uint32
	userData      uint64
	_             [3]uint64
}

// ringAttacks make calls through io_uring, which does them in the kernel, with
// or without a worker thread.
var ringAttacks = []fileAttack{
	{"uring-openat", func(p place) error { return ringOpen(p.at("file"), unix.O_WRONLY, 0) }},
	{"uring-openat-async", func(p place) error { return ringOpen(p.at("file"), unix.O_WRONLY, ringSQEAsync) }},
	{"uring-openat-creat", func(p place) error { return ringOpen(p.at("new"), unix.O_WRONLY|unix.O_CREAT, 0) }},
	{"uring-renameat", func(p place) error { return ringTwo(ringOpRenameat, p.at("file"), p.at("new")) }},
	{"uring-linkat", func(p place) error { return ringTwo(ringOpLinkat, p.at("file"), p.at("new")) }},
	{"uring-symlinkat", func(p place) error {
		from, to := cstring("file"), cstring(p.at("new"))
		_, err := ring(ringSQE{opcode: ringOpSymlinkat, fd: unix.AT_FDCWD, addr: addr(from), addr2: addr(to)})
		runtime.KeepAlive([]*byte{from, to})
		return do("symlinkat", err)
	}},
	{"uring-unlinkat", func(p place) error {
		path := cstring(p.at("file"))
		_, err := ring(ringSQE{opcode: ringOpUnlinkat, fd: unix.AT_FDCWD, addr: addr(path)})
		runtime.KeepAlive(path)
		return do("unlinkat", err)
	}},
	{"uring-mkdirat", func(p place) error {
		path := cstring(p.at("new"))
		_, err := ring(ringSQE{opcode: ringOpMkdirat, fd: unix.AT_FDCWD, addr: addr(path), len: 0o755})
		runtime.KeepAlive(path)
		return do("mkdirat", err)
	}},
}

func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

func addr(p *byte) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func ringOpen(path string, flags uint32, sqeFlags uint8) error {
	p := cstring(path)
	fd, err := ring(ringSQE{
		opcode: ringOpOpenat, flags: sqeFlags, fd: unix.AT_FDCWD,
		addr: addr(p), len: 0o644, opFlags: flags | unix.O_CLOEXEC,
	})
	runtime.KeepAlive(p)
	if err != nil {
		return do("openat", err)
	}
	defer unix.Close(fd)
	return write(fd)
}

func ringTwo(opcode uint8, from, to string) error {
	f, t := cstring(from), cstring(to)
	cwd := int32(unix.AT_FDCWD)
	_, err := ring(ringSQE{opcode: opcode, fd: cwd, addr: addr(f), len: uint32(cwd), addr2: addr(t)})
	runtime.KeepAlive([]*byte{f, t})
	return do("two paths", err)
}

// ring sets a ring up, lets it do one call, and returns what that returned.
func ring(sqe ringSQE) (int, error) {
	var p ringParams
	r, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	switch e {
	case 0:
	case syscall.ENOSYS, syscall.EPERM:
		return 0, skipError("no io_uring: " + e.Error())
	default:
		return 0, os.NewSyscallError("io_uring_setup", e)
	}
	fd := int(r)
	defer unix.Close(fd)
	mmap := func(off int64, size uint32) ([]byte, error) {
		return unix.Mmap(fd, off, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	sq, err := mmap(ringOffSQ, p.sq.array+p.sqEntries*4)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(sq)
	cq, err := mmap(ringOffCQ, p.cq.cqes+p.cqEntries*16)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(cq)
	sqes, err := mmap(ringOffSQEs, p.sqEntries*uint32(unsafe.Sizeof(sqe)))
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(sqes)
	word := func(b []byte, off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[off])) }

	*(*ringSQE)(unsafe.Pointer(&sqes[0])) = sqe
	*word(sq, p.sq.array) = 0
	atomic.AddUint32(word(sq, p.sq.tail), 1)
	for {
		_, _, e = syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), 1, 1, ringEnterGetEvents, 0, 0)
		if e != syscall.EINTR {
			break
		}
	}
	if e != 0 {
		return 0, os.NewSyscallError("io_uring_enter", e)
	}
	if atomic.LoadUint32(word(cq, p.cq.tail)) == 0 {
		return 0, syscall.EAGAIN
	}
	res := int32(*word(cq, p.cq.cqes+8))
	if res < 0 {
		return 0, syscall.Errno(-res)
	}
	return int(res), nil
}
