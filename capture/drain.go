package capture

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// smallBuffer is what reads get until a stream has been busy for a while.
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
	// busy is how many bytes make a stream worth a larger buffer and a larger
	// pipe.
	busy = 1 << 20
)

var smallBuffers, largeBuffers = newPool(smallBuffer), newPool(largeBuffer)

func newPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

// Drain writes to s what comes from r, a pipe or another file that can be
// waited for, until its end, and returns nil then. A deadline set on r, before
// or meanwhile, ends it with [os.ErrDeadlineExceeded]; it can be called again. A
// closed terminal is [unix.EIO]. While it waits it holds no buffer. A pipe through
// which much comes is made larger, as far as the user's share allows it. It closes
// nothing.
func (s *Stream) Drain(r *os.File) error { return s.DrainTee(r, nil) }

// DrainTee is Drain with a copy for tee, which gets each piece before the stream
// has it. An error of tee's ends it, and what tee was given then isn't kept.
func (s *Stream) DrainTee(r *os.File, tee io.Writer) error {
	conn, err := r.SyscallConn()
	if err != nil {
		return err
	}
	pool, total := smallBuffers, 0
	for {
		var n int
		var readErr error
		var buf *[]byte
		err := conn.Read(func(fd uintptr) bool {
			buf = pool.Get().(*[]byte)
			for {
				n, readErr = unix.Read(int(fd), *buf)
				if !errors.Is(readErr, unix.EINTR) {
					break
				}
			}
			if !errors.Is(readErr, unix.EAGAIN) {
				return true
			}
			pool.Put(buf)
			buf = nil
			return false
		})
		var teeErr error
		if buf != nil {
			if n > 0 && tee != nil {
				_, teeErr = tee.Write((*buf)[:n])
			}
			if n > 0 && teeErr == nil {
				_, _ = s.Write((*buf)[:n])
			}
			pool.Put(buf)
		}
		switch {
		case err != nil:
			return err
		case teeErr != nil:
			return teeErr
		case readErr != nil:
			return &os.PathError{Op: "read", Path: r.Name(), Err: readErr}
		case n <= 0:
			return nil
		}
		if total < busy {
			if total += n; total >= busy {
				pool = largeBuffers
				_ = conn.Control(func(fd uintptr) {
					_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, largeBuffer)
				})
			}
		}
	}
}

var _ io.Writer = (*Stream)(nil)
