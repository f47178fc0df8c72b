package capture

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

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

// Drain is [Copy] to the stream.
func (s *Stream) Drain(r *os.File) error { return Copy(s, r) }

// Copy writes to w what comes from r, a pipe or another file that can be waited
// for, until its end, and returns nil then. A deadline set on r, before or
// meanwhile, ends it with [os.ErrDeadlineExceeded]; it can be called again, and
// nothing is lost. A closed terminal is [unix.EIO]. An error of w's ends it and is
// returned as it is. While it waits it holds no buffer. A pipe through which much
// comes is made larger, as far as the user's share allows it. It closes nothing.
func Copy(w io.Writer, r *os.File) error {
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
			if n, readErr = readOnce(int(fd), *buf); !errors.Is(readErr, unix.EAGAIN) {
				return true
			}
			pool.Put(buf)
			buf = nil
			return false
		})
		if err != nil {
			return err
		}
		if n > 0 {
			_, err = w.Write((*buf)[:n])
		}
		pool.Put(buf)
		switch {
		case err != nil:
			return err
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

const (
	// restReads is how many reads empty a pipe of the usual limit, 1 MiB, and
	// a terminal, which gives 4 KiB at a time.
	restReads = 256
	// terminalPause is how long the kernel may take to bring what was written
	// to a terminal to its other end.
	terminalPause = 10 * time.Millisecond
)

// CopyRest writes to w what is in r by now, where [Copy] was ended by a
// deadline. It waits for no process, and takes no more than a pipe can hold a
// few times. It reports whether r has ended with that; otherwise somebody still
// has its other end.
func CopyRest(w io.Writer, r *os.File) (ended bool, err error) {
	conn, err := r.SyscallConn()
	if err != nil {
		return false, err
	}
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	for range restReads {
		var n int
		var readErr error
		if err := conn.Control(func(fd uintptr) { n, readErr = readReady(int(fd), *buf) }); err != nil {
			return false, err
		}
		switch {
		case n > 0:
			if _, err := w.Write((*buf)[:n]); err != nil {
				return false, err
			}
		case errors.Is(readErr, unix.EAGAIN):
			return false, nil
		default: // errors are ends, too
			return true, nil
		}
	}
	return false, nil
}

// readReady reads what is there, and is EAGAIN where nothing is.
func readReady(fd int, buf []byte) (int, error) {
	wait := 0
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err != nil {
		wait = int(terminalPause / time.Millisecond)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, wait); n == 0 && err == nil {
		return 0, unix.EAGAIN
	}
	return readOnce(fd, buf)
}

// readOnce is read(2), whatever signals come.
func readOnce(fd int, buf []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, buf); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

var _ io.Writer = (*Stream)(nil)
