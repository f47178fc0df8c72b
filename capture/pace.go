package capture

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// smallBuffer is what reads get until a stream has been busy for a while.
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
	// busy is how many bytes make a stream worth a larger buffer and a larger
	// pipe.
	busy = 256 << 10
	// largePipe is how large: what a user may have without privileges.
	largePipe = 1 << 20
	// usefulPipe is how large a pipe must be to let something come together in
	// it, without its writer having to wait.
	usefulPipe = 256 << 10
	// again is how many bytes make a stream busy again after a pause in which
	// nothing came.
	again = smallBuffer

	shortestPause = 50 * time.Microsecond
	firstPause    = 200 * time.Microsecond
	longestPause  = time.Millisecond
)

var smallBuffers, largeBuffers = newPool(smallBuffer), newPool(largeBuffer)

func newPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

// pace says how a stream is read. One that isn't busy is read as soon as something
// comes. In a busy pipe much is let come together, since each look at it wakes a
// process or two, which may be in the way of the one that writes. A pause in which
// nothing comes ends that.
type pace struct {
	total int           // bytes so far, as long as it isn't busy
	size  int           // of the pipe, 0 if nothing is to be let come together
	pause time.Duration // aims at a pipe that is between a quarter and a half full
}

func (p *pace) busy() bool { return p.total >= busy }

// buffers are of the size for the next read.
func (p *pace) buffers() *sync.Pool {
	if p.busy() {
		return largeBuffers
	}
	return smallBuffers
}

// came notes that n bytes were read.
func (p *pace) came(n int, conn syscall.RawConn) {
	if p.busy() {
		return
	}
	if p.total += n; p.busy() {
		p.size, p.pause = 0, firstPause
		_ = conn.Control(func(fd uintptr) { p.size = enlarge(int(fd)) }) // it works as it is
		if p.size < usefulPipe {
			p.size = 0
		}
	}
}

// gather returns how much there is to be taken from a busy pipe, after a pause for
// more. It is 0 where the next byte is to be waited for.
func (p *pace) gather(fd int) int {
	if p.size == 0 || !p.busy() {
		return 0
	}
	n := available(fd)
	if n < p.size/4 {
		// The writers' end ends it, and a signal does no harm.
		wait := unix.NsecToTimespec(int64(p.pause))
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(fd)}}, &wait, nil)
		n = available(fd)
	}
	switch {
	case n == 0:
		p.total = busy - again
	case n > p.size/2:
		p.pause = max(p.pause/2, shortestPause)
	case n < p.size/4:
		p.pause = min(2*p.pause, longestPause)
	}
	return n
}

// available is how much can be read from a pipe at once.
func available(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ) // which is FIONREAD
	if err != nil {
		return 0
	}
	return n
}

// enlarge makes a pipe larger, as far as the user's share allows it, and returns
// its size, 0 if it is none.
func enlarge(fd int) int {
	size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return 0
	}
	for want := largePipe; want > size; want /= 2 {
		if got, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, want); err == nil {
			return got
		}
	}
	return size
}
