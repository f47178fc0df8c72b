package spawn

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Guard puts a process between the caller and the program: a copy of the caller
// that executes nothing, adopts every orphan of the program's, and kills all that
// the program has started when the program has ended, when it is told to
// ([Guarded.End]), and when the caller is gone, however that came. It leads a
// session of its own and heeds no signal but SIGKILL and SIGSTOP. Where it is killed
// the program is, too, and what that has started is left. See [CanGuard].
type Guard struct {
	// DomainFD, if not zero, is a Landlock ruleset that the guard enforces upon
	// itself, and so upon the program. It must keep signals in: all processes
	// in it but the guard are then killed by one call; one that doesn't is refused.
	// Nothing that forks outruns that: who is about to be killed can't fork. Mounts
	// are made before, which domains forbid, in namespaces that the guard is in, too.
	//
	// Without it the guard kills its children until it has none; those of them it
	// finds by /proc, and refuses where that shows others (ESRCH).
	DomainFD int
	// RestrictFlags are passed to landlock_restrict_self(2) with DomainFD.
	RestrictFlags uint32
	// Linger is how long what the program has left may go on when the program
	// has ended.
	Linger time.Duration
	// InSession has the guard lead a process group of the caller's session in place
	// of a session of its own, so that the program can be in the caller's group.
	InSession bool
	// Stops has the guard say that the program has stopped: [Guarded.Stopped].
	Stops bool
	// Hold are descriptors of the caller's that the guard keeps open to its end.
	Hold []int
}

// Guarded is a program that was started below a [Guard].
type Guarded struct {
	// Pid is the program's id. It isn't the caller's child, and its number can
	// become another's as soon as it has ended.
	Pid    int
	end    int // an eventfd; writing to it ends everything
	ended  sync.Once
	status int      // where the guard says what becomes of the program
	file   *os.File // of status, once it is read by the poller
	last   guardRecord
	over   bool // nothing follows last
}

// Ending is how a guarded program ended.
type Ending struct {
	Status syscall.WaitStatus
	Rusage syscall.Rusage
}

// guardName is what a guard is called, lest whoever kills the caller by its name
// kills the guard, too.
const guardName = "shofer-guard"

// CanGuard reports whether the kernel has what a guard needs, which is
// close_range(2) of Linux 5.9, and pidfd_open(2).
func CanGuard() bool {
	const last = ^uint32(0)
	if unix.CloseRange(uint(last), uint(last), 0) != nil {
		return false
	}
	fd, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// End has everything killed that the program has started, the program itself
// included. It returns at once: the guard's end is the end of all. It may be
// called more than once, and by several goroutines.
func (g *Guarded) End() {
	g.ended.Do(func() {
		_, _ = unix.Write(g.end, binary.NativeEndian.AppendUint64(nil, 1)) // the counter is at 0
		_ = unix.Close(g.end)
	})
}

// Stopped waits until the program stops, which it reports, or nothing is left: then
// [Guarded.Ending] doesn't wait. Only with [Guard.Stops] anybody learns of a stop. It
// and Ending are called by one goroutine.
func (g *Guarded) Stopped() bool {
	g.next()
	return !g.over
}

// Ending waits until nothing is left, and returns how the program ended; false if
// the guard was killed, and the program with it. The guard is about to end then.
// It is called once, and releases what belongs to g.
func (g *Guarded) Ending() (e Ending, ok bool) {
	for !g.over {
		g.next()
	}
	_ = g.file.Close()
	g.End()
	return Ending{syscall.WaitStatus(g.last.status), g.last.rusage}, g.last.seen
}

// next waits for what the guard says next.
func (g *Guarded) next() {
	if g.over {
		return
	}
	if g.file == nil {
		// No thread waits where there is a poller.
		_ = unix.SetNonblock(g.status, true)
		g.file = os.NewFile(uintptr(g.status), "guard")
	}
	_, err := io.ReadFull(g.file, g.last.bytes())
	g.over = err != nil || g.last.seen
}

// guardRecord is what a guard says: once when the program runs, when it stops, and
// once when it has ended.
type guardRecord struct {
	pid    int32
	status uint32
	seen   bool // status and rusage are the program's
	rusage syscall.Rusage
}

func (r *guardRecord) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

// openGuard makes what the guard and its caller reach each other by, if there is
// to be one, and what the program needs that can't find it below the guard.
func (g *program) openGuard() (*Guarded, error) {
	w := g.guard
	if w == nil {
		return nil, nil
	}
	var fds []int
	fail := func(name string, err error) (*Guarded, error) {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, &Error{Stage: StageClone, Errno: err.(syscall.Errno), Name: name}
	}
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fail("eventfd", err)
	}
	fds = append(fds, end)
	host, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err != nil {
		return fail("pidfd", err)
	}
	fds = append(fds, host)
	if w.inside() != 0 && len(g.oomScoreAdj) > 0 {
		proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail("/proc", err)
		}
		fds = append(fds, proc)
		g.proc = uintptr(proc)
	}
	var status [2]int
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return fail("pipe", err)
	}
	w.end, w.host, w.status = int32(end), int32(host), int32(status[1])
	return &Guarded{end: end, status: status[0]}, nil
}

// forked closes in the caller what is the guard's and the program's.
func (g *program) forked() {
	if w := g.guard; w != nil {
		_, _ = unix.Close(int(w.host)), unix.Close(int(w.status))
		if g.proc != atFdCwd {
			_ = unix.Close(int(g.proc))
		}
	}
}

// drop closes what is the caller's, when nothing was started.
func (g *Guarded) drop() {
	if g != nil {
		_, _ = unix.Close(g.end), unix.Close(g.status)
	}
}

// begun reads the program's id.
func (g *Guarded) begun() bool {
	var r guardRecord
	if readFull(g.status, r.bytes()) != len(r.bytes()) {
		return false
	}
	g.Pid = int(r.pid)
	return true
}

// newGuardian lays out what a guard needs.
func newGuardian(p *Plan) *guardian {
	w := &guardian{domain: p.Guard.DomainFD, flags: uintptr(p.Guard.RestrictFlags), linger: int64(p.Guard.Linger), inSession: p.Guard.InSession, waits: unix.WNOHANG}
	if p.Guard.Stops {
		w.waits |= unix.WUNTRACED
	}
	for _, fd := range p.Guard.Hold {
		w.hold = append(w.hold, int32(fd))
	}
	if w.domain != 0 && p.Namespaces&unix.CLONE_NEWNS != 0 {
		w.namespaces = p.Namespaces & (unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
	}
	w.children, _ = syscall.BytePtrFromString("/proc/thread-self/children")
	w.self, _ = syscall.BytePtrFromString("/proc/self")
	w.root, _ = syscall.BytePtrFromString("/")
	w.name, _ = syscall.BytePtrFromString(guardName)
	return w
}
