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
	domain int
	flags  uintptr // of the domain
	// namespaces are those that the guard itself is made in, and makes the mounts
	// of, since in its domain nobody could.
	namespaces uintptr
	linger     int64 // in nanoseconds
	// Descriptors: an eventfd by which the caller ends everything, a pidfd of the
	// caller's, the end of a pipe for records, and a signalfd for SIGCHLD. A copy
	// that somebody else holds of one keeps nothing from being seen.
	end, host, status, signals int32

	hold      []int32 // other descriptors to keep
	inSession bool    // it has no session of its own
	waits     uintptr // how it waits for children

	children, self, root *byte
	name                 *byte // of the process
	pid                  uintptr
	record               guardRecord
	poll                 [3]unix.PollFd
	now, pause           unix.Timespec
	wait                 uint32
	used                 syscall.Rusage
	chld                 uint64
	dfl                  sigaction
	buf                  [4096]byte
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

// inside are the namespaces that a guard, if there is one, is in with the program.
func (w *guardian) inside() uintptr {
	if w == nil {
		return 0
	}
	return w.namespaces
}

// refuse says why there is no program, and ends the guard.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) refuse(s Stage, e syscall.Errno) {
	g.fail(s, 0, e)
	g.abandon()
}

// abandon ends the guard when a step has failed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) abandon() {
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(g.pipe), uintptr(unsafe.Pointer(&g.report)), unsafe.Sizeof(g.report))
	exit(253)
}

// prepare makes this process one that nothing gets away from.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) prepare(g *program) {
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(w.name)), 0)
	g.pidfd = -1
	w.pid, _, _ = syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	alone := uintptr(unix.SYS_SETSID)
	if w.inSession {
		alone = unix.SYS_SETPGID
	}
	if _, _, e := syscall.RawSyscall(alone, 0, 0, 0); e != 0 {
		g.refuse(StageSession, e)
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0); e != 0 {
		g.refuse(StageSession, e)
	}
	// Where the caller ignores SIGCHLD, nothing would be left to be waited for.
	if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&w.dfl)), 0, unsafe.Sizeof(w.dfl.mask), 0, 0); e != 0 {
		g.refuse(StageSignals, e)
	}
	none := -1
	w.chld = 1 << (syscall.SIGCHLD - 1)
	fd, _, e := syscall.RawSyscall6(unix.SYS_SIGNALFD4, uintptr(none), uintptr(unsafe.Pointer(&w.chld)), unsafe.Sizeof(w.chld), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if e != 0 {
		g.refuse(StageSignals, e)
	}
	w.signals = int32(fd)
	if w.domain == 0 {
		if !w.seesChildren() {
			g.refuse(StageSession, syscall.ESRCH)
		}
		return
	}
	if w.namespaces != 0 {
		if !g.mapIDs() || !g.mountAll() {
			g.abandon()
		}
		g.mounted = true
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		g.refuse(StageNoNewPrivs, e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(w.domain), w.flags, 0); e != 0 {
		g.refuse(StageLandlock, e)
	}
	// Who kills everything that it may kill must be sure of what that is.
	outside, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	if _, _, e := syscall.RawSyscall(unix.SYS_KILL, outside, 0, 0); e != syscall.EPERM {
		g.refuse(StageLandlock, syscall.EINVAL)
	}
}

// seesChildren reports whether /proc shows this process's children, by numbers
// that mean the same here: that of another pid namespace may be mounted, and old
// kernels can be built without it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) seesChildren() bool {
	at := unix.AT_FDCWD
	n, _, e := syscall.RawSyscall6(unix.SYS_READLINKAT, uintptr(at), uintptr(unsafe.Pointer(w.self)), uintptr(unsafe.Pointer(&w.buf[0])), unsafe.Sizeof(w.buf), 0, 0)
	if e != 0 || n > unsafe.Sizeof(w.buf) {
		return false
	}
	pid := uintptr(0)
	for i := uintptr(0); i < n; i++ {
		pid = 10*pid + uintptr(w.buf[i]-'0')
	}
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(w.children)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return false
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return pid == w.pid
}

// follow has the program end with its guard, in the program. It reports false if
// there is no guard any more.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) follow() bool {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	return parent == w.pid
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
	w.letGo()
	w.pause.Sec = 1 << 30
	for w.awaits() {
		if w.reap(); w.record.seen {
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
const pollEvery = 1_000_000

// letGo closes all descriptors but those to keep, and leaves the folder.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) letGo() {
	own := [...]int32{w.end, w.host, w.status, w.signals}
	next := uintptr(0) // to close
	for range len(own) + len(w.hold) {
		least := int32(1<<31 - 1)
		for _, fd := range own {
			if uintptr(fd) >= next && fd < least {
				least = fd
			}
		}
		for _, fd := range w.hold {
			if uintptr(fd) >= next && fd < least {
				least = fd
			}
		}
		if uintptr(least) > next {
			syscall.RawSyscall(unix.SYS_CLOSE_RANGE, next, uintptr(least)-1, 0)
		}
		next = uintptr(least) + 1
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, next, ^uintptr(0)>>32, 0)
	syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(w.root)), 0, 0)
}

// awaits waits for a child's end, or for w.pause. It reports false when everything
// is to end.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) awaits() bool {
	w.poll[0] = unix.PollFd{Fd: w.end, Events: unix.POLLIN}
	w.poll[1] = unix.PollFd{Fd: w.host, Events: unix.POLLIN}
	w.poll[2] = unix.PollFd{Fd: w.signals, Events: unix.POLLIN}
	w.now = w.pause // which the call may change
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.poll[0])), uintptr(len(w.poll)), uintptr(unsafe.Pointer(&w.now)), 0, 0, 0)
	return w.poll[0].Revents == 0 && w.poll[1].Revents == 0
}

// reap takes what has ended, orphans that became children too. It reports how
// many those were, negative if there are no children any more.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) reap() (n int) {
	syscall.RawSyscall(unix.SYS_READ, uintptr(w.signals), uintptr(unsafe.Pointer(&w.buf[0])), unsafe.Sizeof(w.buf))
	for {
		none := -1
		r, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(none), uintptr(unsafe.Pointer(&w.wait)), w.waits, uintptr(unsafe.Pointer(&w.used)), 0, 0)
		program := int32(r) == w.record.pid && !w.record.seen
		switch {
		case e != 0:
			return -1
		case r == 0:
			return n
		case w.wait&0xff == 0x7f:
			if program {
				w.tellStop()
			}
			continue
		case program:
			w.record.status, w.record.rusage, w.record.seen = w.wait, w.used, true
		}
		n++
	}
}

// tellStop says that the program has stopped, unless so much is unread that it would
// have to wait.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) tellStop() {
	w.poll[0] = unix.PollFd{Fd: w.status, Events: unix.POLLOUT}
	w.now = unix.Timespec{}
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.poll[0])), 1, uintptr(unsafe.Pointer(&w.now)), 0, 0, 0)
	if w.poll[0].Revents&unix.POLLOUT != 0 {
		w.tell()
	}
}

// outlive waits for what the program has left, as long as that may take.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (w *guardian) outlive() {
	over := w.clock() + w.linger
	w.pause = unix.Timespec{Nsec: pollEvery}
	for w.clock() < over {
		if w.reap() < 0 || !w.awaits() {
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
		switch n := w.reap(); {
		case n < 0:
			return
		case n > 0:
			idle = 0
		default:
			if idle++; idle > patience {
				w.now = unix.Timespec{Nsec: pollEvery}
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
