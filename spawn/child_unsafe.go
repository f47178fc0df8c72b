package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Everything in this file runs between clone and exec, on the parent's stack
// and in its memory, while the parent's other threads go on. So it may not
// allocate, take a lock, grow the stack, write a pointer or call anything that
// does: only raw system calls, on memory that compile has laid out. Each
// function is nosplit for that, and norace since the race detector's hooks are
// calls too.

// numSignals is the highest signal number, the kernel's _NSIG.
const numSignals = 64

// sigaction is the kernel's struct, the same size on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer, mask uintptr
}

const (
	sigDfl = 0
	sigIgn = 1
)

// run carries the program out, up to the exec. It returns only when a step has
// failed, and says in g.report which.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) run(forked bool) {
	if (g.mounted || g.mapIDs()) && g.session() && g.signals(forked) && g.enter() && g.descriptors() && g.follow() && g.restrict() {
		_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(g.path)), uintptr(unsafe.Pointer(&g.argv[0])), uintptr(unsafe.Pointer(&g.env[0])))
		g.fail(StageExec, 0, e)
	}
}

//go:nosplit
//go:norace
func (g *program) fail(s Stage, index int, e syscall.Errno) bool {
	g.report.stage, g.report.index, g.report.errno = uint32(s), uint32(index), uint32(e)
	return false
}

// session makes the session or the process group. The terminal's foreground
// group is set while all signals are blocked, lest SIGTTOU stops us.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) session() bool {
	p := g.plan
	if p.NewSession {
		if _, _, e := syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
			return g.fail(StageSession, 0, e)
		}
	}
	if p.NewGroup || p.Group != 0 {
		if _, _, e := syscall.RawSyscall(unix.SYS_SETPGID, 0, uintptr(p.Group), 0); e != 0 {
			return g.fail(StageSession, 0, e)
		}
	}
	if p.Foreground {
		pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		pgrp := int32(pid)
		if _, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(p.Terminal), unix.TIOCSPGRP, uintptr(unsafe.Pointer(&pgrp))); e != 0 {
			return g.fail(StageForeground, 0, e)
		}
	}
	return true
}

// signals ignores those to ignore, gives other ignored signals their default
// disposition, except those to keep, and blocks none. A child shares the memory
// that the runtime's handlers would write to, so they go at once, by the call
// that each signal takes anyway; otherwise the exec removes them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) signals(forked bool) bool {
	var act, dfl, ign sigaction
	ign.handler = sigIgn
	for s := uintptr(1); s <= numSignals; s++ {
		if s == uintptr(syscall.SIGKILL) || s == uintptr(syscall.SIGSTOP) {
			continue
		}
		keep := g.keepIgnored&(1<<(s-1)) != 0
		set := &dfl
		if g.ignore&(1<<(s-1)) != 0 {
			set = &ign
		} else if keep || !forked {
			if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&act)), unsafe.Sizeof(act.mask), 0, 0); e != 0 {
				return g.fail(StageSignals, int(s), e)
			}
			if ignored := act.handler == sigIgn; ignored == keep || !ignored && !forked {
				continue
			}
		}
		if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(set)), 0, unsafe.Sizeof(act.mask), 0, 0); e != 0 {
			return g.fail(StageSignals, int(s), e)
		}
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&dfl.mask)), 0, unsafe.Sizeof(dfl.mask), 0, 0); e != 0 {
		return g.fail(StageSignals, 0, e)
	}
	return true
}

// follow has the program end with its guard, if it has one.
//
//go:nosplit
//go:norace
func (g *program) follow() bool {
	if g.guard != nil && !g.guard.follow() {
		return g.fail(StageGuard, 0, syscall.ECANCELED)
	}
	return true
}

// rank says how the process stands against others.
//
//go:nosplit
//go:norace
func (g *program) rank() bool {
	if g.plan.Nice != 0 {
		// The call returns 20 less the niceness.
		now, _, e := syscall.RawSyscall(unix.SYS_GETPRIORITY, unix.PRIO_PROCESS, 0, 0)
		if e == 0 {
			_, _, e = syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(20-int(now)+g.plan.Nice))
		}
		if e != 0 {
			return g.fail(StageNice, 0, e)
		}
	}
	return g.writeFiles(g.proc, g.oomScoreAdj, StageOOMScoreAdj)
}

// enter moves the process to where it belongs: control groups, mounts and
// folder.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) enter() bool {
	self := [1]byte{'0'}
	if !g.rank() {
		return false
	}
	for i := 0; i < len(g.plan.JoinFDs); i++ {
		if _, _, e := syscall.RawSyscall(unix.SYS_WRITE, uintptr(g.plan.JoinFDs[i]), uintptr(unsafe.Pointer(&self)), 1); e != 0 {
			return g.fail(StageCgroup, i, e)
		}
	}
	if len(g.mounts) > 0 && !g.mounted && !g.mountAll() {
		return false
	}
	if g.dir != nil {
		if _, _, e := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(g.dir)), 0, 0); e != 0 {
			return g.fail(StageDir, 0, e)
		}
	}
	return true
}

// descriptors puts each descriptor in its place and marks the rest to be
// closed by the exec. Marking, unlike closing, leaves our own usable until
// then.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) descriptors() bool {
	n := len(g.files)

	// Move up what the second pass would write over.
	if !g.moveUp(&g.pipe, n) || !g.moveUp(&g.socket, n) || !g.moveUp(&g.ruleset, n) {
		return false
	}
	for i := 0; i < n; i++ {
		if g.files[i] < i && !g.moveUp(&g.files[i], n) {
			return false
		}
	}

	for i := 0; i < n; i++ {
		var e syscall.Errno
		switch g.files[i] {
		case -1:
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(i), 0, 0)
		case i: // dup3 refuses to make a copy onto itself
			_, _, e = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0)
		default:
			_, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(g.files[i]), uintptr(i), 0)
		}
		if e != 0 {
			return g.fail(StageFiles, i, e)
		}
	}
	for ; n < 3; n++ {
		syscall.RawSyscall(unix.SYS_CLOSE, uintptr(n), 0, 0)
	}

	if !g.closeOnExec(n) {
		return false
	}
	for i := 0; i < len(g.plan.Inherit); i++ {
		if _, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(g.plan.Inherit[i]), unix.F_SETFD, 0); e != 0 {
			return g.fail(StageFiles, g.plan.Inherit[i], e)
		}
	}
	if g.plan.ControllingTerminal {
		if _, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(g.plan.Terminal), unix.TIOCSCTTY, 0); e != 0 {
			return g.fail(StageTerminal, 0, e)
		}
	}
	return true
}

// moveUp makes *fd n or more, if it is open at all.
//
//go:nosplit
//go:norace
func (g *program) moveUp(fd *int, n int) bool {
	if *fd < 0 || *fd >= n || fd == &g.ruleset && *fd == 0 {
		return true
	}
	r, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(*fd), unix.F_DUPFD_CLOEXEC, uintptr(n))
	if e != 0 {
		return g.fail(StageFiles, *fd, e)
	}
	*fd = int(r)
	return true
}

// closeOnExec marks all descriptors from n on. CLOSE_RANGE_CLOEXEC came with
// Linux 5.11; before, those that /proc lists are marked, or, without it, each
// possible number, of which there can be a thousand million.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) closeOnExec(n int) bool {
	_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(n), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	switch e {
	case 0:
		return true
	case syscall.ENOSYS, syscall.EINVAL, syscall.EPERM: // EPERM: old container runtimes, for unknown calls
	default:
		return g.fail(StageFiles, n, e)
	}
	if g.markListed(n) {
		return true
	}
	var lim unix.Rlimit
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&lim)), 0, 0); e != 0 {
		return g.fail(StageFiles, n, e)
	}
	for fd := uint64(n); fd < lim.Cur; fd++ {
		syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	return true
}

// markListed marks the descriptors from n on that /proc lists. It reports false if
// that isn't to be relied on.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) markListed(n int) (all bool) {
	list, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, atFdCwd, uintptr(unsafe.Pointer(g.fdList)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return false
	}
	for {
		size, _, e := syscall.RawSyscall(unix.SYS_GETDENTS64, list, uintptr(unsafe.Pointer(&g.dents[0])), unsafe.Sizeof(g.dents))
		if e != 0 || size == 0 || size > unsafe.Sizeof(g.dents) {
			all = all && e == 0
			break
		}
		// A struct linux_dirent64: its length is at 16, and the name at 19, with NUL.
		for at := uintptr(0); at < size; at += uintptr(g.dents[at+16]) | uintptr(g.dents[at+17])<<8 {
			fd := 0
			for i := at + 19; g.dents[i] != 0; i++ {
				if fd = 10*fd + int(g.dents[i]-'0'); g.dents[i] == '.' {
					fd = -1 // the folder itself, or its parent
					break
				}
			}
			all = all || uintptr(fd) == list // else it is another process's, or no list
			if fd >= n {
				syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
			}
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, list, 0, 0)
	return all
}

// restrict takes rights away, the ones that the next steps need last.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) restrict() bool {
	for i := 0; i < len(g.rlimits); i++ {
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(g.rlimits[i].resource), uintptr(unsafe.Pointer(&g.rlimits[i].Rlimit)), 0, 0, 0); e != 0 {
			return g.fail(StageRlimit, i, e)
		}
	}
	if g.umask >= 0 {
		syscall.RawSyscall(unix.SYS_UMASK, uintptr(g.umask), 0, 0)
	}
	if g.hasCaps && !g.dropCaps() {
		return false
	}
	if g.plan.NoNewPrivs {
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
			return g.fail(StageNoNewPrivs, 0, e)
		}
	}
	if len(g.rules) > 0 && !g.addRules() {
		return false
	}
	if g.ruleset != 0 {
		if _, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(g.ruleset), uintptr(g.plan.RestrictFlags), 0); e != 0 {
			return g.fail(StageLandlock, 0, e)
		}
	}
	// A filter of ours is no reason to slow the program down by mitigations
	// for programs that run strangers' code, as kernels before 5.16 do.
	for i := 0; i < len(g.filters); i++ {
		if _, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&g.filters[i]))); e != 0 {
			return g.fail(StageSeccomp, i, e)
		}
	}
	return len(g.witness) == 0 || g.listen()
}

// dropCaps gives up all capabilities but those to keep. The bounding set is
// reduced too, as far as that is allowed, unless no_new_privs makes it moot: a
// program can't gain what the process doesn't have then. The kernel says EINVAL
// for the first capability that it doesn't know.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) dropCaps() bool {
	for c := 0; c < 64 && !g.plan.NoNewPrivs; c++ {
		if g.caps.data[c>>5].Permitted&(1<<(c&31)) != 0 {
			continue
		}
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0, 0); e != 0 {
			break
		}
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&g.caps.head)), uintptr(unsafe.Pointer(&g.caps.data[0])), 0); e != 0 {
		return g.fail(StageCaps, 0, e)
	}
	return true
}
