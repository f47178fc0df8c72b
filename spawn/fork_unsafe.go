package spawn

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's hooks around fork and exec, which package syscall uses and
// which the runtime keeps open to others that fork by themselves.

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeBeforeExec syscall.runtime_BeforeExec
func runtimeBeforeExec()

//go:linkname runtimeAfterExec syscall.runtime_AfterExec
func runtimeAfterExec()

// vforkSyscall makes the system call trap in a way that lets the child return
// on the stack that it shares with the parent.
func vforkSyscall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)

// noClonePidFD remembers that the kernel can't make the child and its pidfd in
// one step, which emulators don't know.
var noClonePidFD atomic.Bool

// errStillborn says that the child was killed before its first instruction.
var errStillborn = &Error{Stage: StageClone, Errno: syscall.ECANCELED}

// start makes the child in its group, or, where clone3(2) is refused, as the
// filters of container engines do, has it join that. So it does where the child
// is stillborn: Linux kills what is made in a group when something was killed by
// cgroup.kill in that group before, or in the caller's, and not as often in the
// other one.
func (g *program) start() (*Process, error) {
	p, err := g.startInside()
	var e *Error
	if g.plan.CgroupFD == 0 || !errors.As(err, &e) || e.Stage != StageClone ||
		e.Errno != syscall.ENOSYS && e.Errno != syscall.EPERM && e.Errno != syscall.ECANCELED {
		return p, err
	}
	procs, err := unix.Openat(g.plan.CgroupFD, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Stage: StageCgroup, Errno: err.(syscall.Errno), Name: "cgroup.procs"}
	}
	defer func() { _ = unix.Close(procs) }()
	joining := *g.plan
	joining.CgroupFD, joining.JoinFDs = 0, append(slices.Clone(joining.JoinFDs), procs)
	prog, err := compile(&joining)
	if err != nil {
		return nil, err
	}
	return prog.startInside()
}

func (g *program) startInside() (*Process, error) {
	if !noClonePidFD.Load() {
		p, err := g.startWith(unix.CLONE_PIDFD)
		var e *Error
		if !errors.As(err, &e) || e.Stage != StageClone || e.Errno != syscall.EINVAL {
			return p, err
		}
	}
	p, err := g.startWith(0)
	if err != nil {
		return nil, err
	}
	noClonePidFD.Store(true)
	if p.Guarded == nil {
		// The child isn't reaped, so its number is its own.
		if p.PidFD, err = unix.PidfdOpen(p.Pid, 0); err != nil {
			p.PidFD = -1
		}
	}
	return p, nil
}

func (g *program) startWith(pidfdFlag uintptr) (*Process, error) {
	flags := unix.CLONE_VFORK | unix.CLONE_VM | pidfdFlag | g.plan.Namespaces&^g.guard.inside()
	if fd := g.plan.CgroupFD; fd != 0 {
		g.clone = cloneArgs{
			flags:      uint64(flags) | unix.CLONE_INTO_CGROUP,
			exitSignal: uint64(syscall.SIGCHLD),
			pidfd:      uint64(uintptr(unsafe.Pointer(&g.pidfd))),
			cgroup:     uint64(fd),
		}
	}

	guarded, err := g.openGuard()
	if err != nil {
		return nil, err
	}
	// The lock keeps descriptors that others are about to mark close-on-exec
	// out of the child.
	syscall.ForkLock.Lock()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		syscall.ForkLock.Unlock()
		guarded.drop()
		g.forked()
		return nil, &Error{Stage: StageClone, Errno: err.(syscall.Errno), Name: "pipe"}
	}
	g.pipe = pipe[1]
	listener, err := g.openSocket()
	if err != nil {
		syscall.ForkLock.Unlock()
		guarded.drop()
		g.forked()
		_, _ = unix.Close(pipe[0]), unix.Close(pipe[1])
		return nil, err
	}
	defer listener.close()
	pid, errno := g.fork(flags | uintptr(syscall.SIGCHLD))
	runtimeAfterFork()
	// Before another start's guard is made, which would hold a copy.
	_ = unix.Close(pipe[1])
	g.forked()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(g)

	defer func() { _ = unix.Close(pipe[0]) }()
	started := false
	if guarded != nil {
		g.pidfd = -1 // it is the guard's
		defer func() {
			if !started {
				guarded.drop()
			}
		}()
	}
	if errno != 0 {
		return nil, &Error{Stage: StageClone, Errno: syscall.Errno(errno)}
	}

	if guarded == nil && g.clone.flags != 0 && !g.alive {
		_ = unix.Close(int(g.pidfd))
		reap(int(pid))
		return nil, errStillborn
	}
	var r report
	n := readFull(pipe[0], unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
	if guarded != nil {
		if n == 0 {
			_ = unix.Close(int(g.pidfd))
			reap(int(pid))
			if g.clone.flags == 0 { // there is a guard, and was no child
				return nil, g.failed(report{stage: uint32(StageGuard), errno: uint32(syscall.ECANCELED)})
			}
			return nil, errStillborn
		}
		if r.stage == 0 { // else it is the guard that says so, and why not
			n = readFull(pipe[0], unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
		}
	}
	if n == 0 && guarded == nil && g.report.stage != 0 {
		// A pipe takes memory, of which a group may be allowed none.
		r, n = g.report, int(unsafe.Sizeof(r))
	}
	if n == 0 && (guarded == nil || guarded.begun()) { // closed by the exec
		fd, errno := listener.receive()
		if errno == 0 {
			started = true
			return &Process{Pid: int(pid), PidFD: int(g.pidfd), Listener: fd, Guarded: guarded}, nil
		}
		// Nobody would answer its calls.
		_ = unix.Kill(int(pid), syscall.SIGKILL)
		r, n = report{stage: uint32(StageWitness), errno: uint32(errno)}, int(unsafe.Sizeof(r))
	}
	if pidfdFlag != 0 {
		_ = unix.Close(int(g.pidfd))
	}
	reap(int(pid))
	if n != int(unsafe.Sizeof(r)) { // nobody is left to say anything
		r = report{stage: uint32(StageGuard), errno: uint32(syscall.EPIPE)}
	}
	return nil, g.failed(r)
}

// fork makes the child, in which it doesn't return, or the guard, which makes the
// child and doesn't return either. It has a stack frame of its own, since the
// child writes to it: the parent leaves it at once, and a guard goes on with what
// isn't there.
//
//go:noinline
//go:norace
//go:nocheckptr
func (g *program) fork(flags uintptr) (pid, errno uintptr) {
	forking = g
	runtimeBeforeFork()
	if g.guard != nil {
		pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD)|g.guard.namespaces, 0, 0, 0, 0, 0)
		if e != 0 || pid != 0 {
			return pid, uintptr(e)
		}
		g.guard.prepare(g)
	}
	if g.clone.flags != 0 {
		pid, errno = vforkSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&g.clone)), unsafe.Sizeof(g.clone), 0)
	} else {
		pid, errno = vforkSyscall(unix.SYS_CLONE, flags, 0, uintptr(unsafe.Pointer(&g.pidfd)))
	}
	if errno != 0 || pid != 0 {
		if forking.guard != nil {
			forking.guard.watch(pid, errno)
		}
		return
	}
	g.child()
	return
}

// forking is what is being made, under [syscall.ForkLock].
var forking *program

// child runs the program in the child and never returns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) child() {
	g.alive = true
	if g.guard != nil { // whose memory nobody else sees
		syscall.RawSyscall(unix.SYS_WRITE, uintptr(g.pipe), uintptr(unsafe.Pointer(&g.report)), unsafe.Sizeof(g.report))
	}
	if len(g.joins) == 0 {
		g.run(true)
	} else if g.joinAll() && g.mountEach() {
		for {
			syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
	}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(g.pipe), uintptr(unsafe.Pointer(&g.report)), unsafe.Sizeof(g.report))
	for {
		syscall.RawSyscall(unix.SYS_EXIT, 253, 0, 0)
	}
}

func (g *program) exec() error {
	runtimeBeforeExec()
	g.run(false)
	runtimeAfterExec()
	runtime.KeepAlive(g)
	return g.failed(g.report)
}

// readFull reads until b is full or the pipe ends.
func readFull(fd int, b []byte) (n int) {
	for n < len(b) {
		m, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m <= 0 {
			return n
		}
		n += m
	}
	return n
}

// reap waits for a child that became no program, and returns its status.
func reap(pid int) (ws unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			return ws
		}
	}
}
