package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A guard is a copy of the calling process with one thread, all signals blocked,
// and a runtime that thinks it has others: what is said of the child of a vfork
// holds here too, but that the memory is its own.

// guardian is what a guard works with, in memory that is there before the fork.
type guardian struct {
	domain   int
	linger   int64 // in nanoseconds
	lifeline int
	status   int
	// The caller's ends, which the guard must not hold open.
	ourLife, ourStatus int

	children, root *byte
	name           *byte // of the process
	record         guardRecord
	poll           [2]unix.PollFd
	now, pause     unix.Timespec
	wait           uint32
	used           syscall.Rusage
	buf            [4096]byte
}

// exit ends the process.
//
//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// refuse says why there is no program, and ends the guard.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) refuse(s Stage, e syscall.Errno) {
	g.fail(s, 0, e)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(g.pipe), uintptr(unsafe.Pointer(&g.report)), unsafe.Sizeof(g.report))
	exit(253)
}

// prepare makes this process one that nothing gets away from.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) prepare(g *program) {
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(w.ourLife), 0, 0)
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(w.ourStatus), 0, 0)
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(w.name)), 0)
	g.pidfd = -1
	if _, _, e := syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		g.refuse(StageSession, e)
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0); e != 0 {
		g.refuse(StageSession, e)
	}
	if w.domain == 0 {
		return
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		g.refuse(StageNoNewPrivs, e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(w.domain), 0, 0); e != 0 {
		g.refuse(StageLandlock, e)
	}
}

// watch says that the program was executed, or has failed, and stays until
// nothing is left of it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) watch(pid, errno uintptr) {
	if errno != 0 {
		forking.refuse(StageClone, syscall.Errno(errno))
	}
	w.record.pid = int32(pid)
	w.tell()
	w.pause.Sec = 1 << 30
	n := uintptr(2)
	if !w.letGo(forking.pidfd) {
		n, w.pause = 1, unix.Timespec{Nsec: pollEvery}
	}
	for w.awaits(n) {
		if got, _ := w.wait4(int(pid)); got != 0 {
			w.outlive()
			break
		}
	}
	w.endAll()
	w.tell()
	code := uintptr(w.record.status >> 8 & 0xff)
	if s := uintptr(w.record.status & 0x7f); s != 0 {
		code = 128 + s
	}
	exit(code)
}

// pollEvery is how often is looked what can't be waited for, in nanoseconds.
const pollEvery = 5_000_000

// Descriptors of a guard.
const (
	guardLife = iota
	guardStatus
	guardPidFD
	guardEnd
)

// letGo closes all descriptors but a guard's own, and leaves the folder. It
// reports whether there is one of the program, the given one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) letGo(pidfd int32) bool {
	const above = 1 << 6
	life, _, _ := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(w.lifeline), unix.F_DUPFD_CLOEXEC, above)
	status, _, _ := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(w.status), unix.F_DUPFD_CLOEXEC, above)
	process, _, none := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(pidfd), unix.F_DUPFD_CLOEXEC, above)
	syscall.RawSyscall(unix.SYS_DUP3, life, guardLife, unix.O_CLOEXEC)
	syscall.RawSyscall(unix.SYS_DUP3, status, guardStatus, unix.O_CLOEXEC)
	if none == 0 {
		syscall.RawSyscall(unix.SYS_DUP3, process, guardPidFD, unix.O_CLOEXEC)
	}
	w.status = guardStatus
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, guardEnd, ^uintptr(0)>>32, 0)
	syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(w.root)), 0, 0)
	return none == 0
}

// awaits waits for the program's end, if n is 2, or for w.pause. It reports false
// when everything is to end.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) awaits(n uintptr) bool {
	w.poll[0] = unix.PollFd{Fd: guardLife, Events: unix.POLLIN}
	w.poll[1] = unix.PollFd{Fd: guardPidFD, Events: unix.POLLIN}
	w.now = w.pause // which the call may change
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.poll[0])), n, uintptr(unsafe.Pointer(&w.now)), 0, 0, 0)
	return w.poll[0].Revents == 0
}

// wait4 reaps a child, and notes how the program has ended if it is that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) wait4(pid int) (got int32, e syscall.Errno) {
	r, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&w.wait)), unix.WNOHANG, uintptr(unsafe.Pointer(&w.used)), 0, 0)
	if e != 0 {
		return -1, e
	}
	if got = int32(r); got == w.record.pid {
		w.record.status, w.record.rusage = w.wait, w.used
	}
	return got, 0
}

// outlive waits for what the program has left, as long as that may take.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) outlive() {
	over := w.clock() + w.linger
	w.pause = unix.Timespec{Nsec: pollEvery / 5}
	for w.clock() < over {
		got, e := w.wait4(-1)
		if e != 0 {
			return // there are none
		}
		if got == 0 && !w.awaits(1) {
			return
		}
	}
}

// clock is the time, in nanoseconds.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) clock() int64 {
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&w.now)), 0)
	return w.now.Sec*1e9 + w.now.Nsec
}

// endAll kills until no child is left. It goes round faster than anything forks,
// so that nothing outruns it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) endAll() {
	const patience = 1000 // rounds without anything that ended
	for idle := 0; ; {
		// First, so that none is killed where none is.
		got, e := w.wait4(-1)
		switch {
		case e != 0:
			return
		case got > 0:
			idle = 0
		default:
			if idle++; idle > patience {
				w.now = unix.Timespec{Nsec: pollEvery / 5}
				syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&w.now)), 0, 0, 0)
			}
		}
		w.kill()
	}
}

// kill kills everything in the guard's domain, or else its children.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) kill() {
	if w.domain != 0 {
		syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		return
	}
	at := unix.AT_FDCWD
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(w.children)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return
	}
	pid := uintptr(0)
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.buf[0])), unsafe.Sizeof(w.buf))
		if e != 0 || n == 0 || n > unsafe.Sizeof(w.buf) {
			break
		}
		for i := uintptr(0); i < n; i++ {
			c := w.buf[i]
			if c >= '0' && c <= '9' {
				pid = 10*pid + uintptr(c-'0')
				continue
			}
			if pid > 1 { // a child isn't reaped, so the number is its own
				syscall.RawSyscall(unix.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
			}
			pid = 0
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// tell writes the record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) tell() {
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.status), uintptr(unsafe.Pointer(&w.record)), unsafe.Sizeof(w.record))
}
