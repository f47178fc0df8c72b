package capture

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Drain is [Copy] to the stream.
func (s *Stream) Drain(r Input) error { return Copy(s, r) }

// Copy writes to w what comes from r, a pipe or another file that can be waited
// for, until its end, and returns nil then. A deadline set on r, before or
// meanwhile, ends it with [os.ErrDeadlineExceeded]; it can be called again, and
// nothing is lost. A closed terminal is [unix.EIO]. An error of w's ends it and is
// returned as it is. While it waits it holds no buffer. A pipe through which much
// comes is made larger, as far as the user's share allows it, and may then be left
// alone for up to a millisecond, for more to come, until nothing comes in that time.
// It closes nothing.
func Copy(w io.Writer, r Input) error { return CopyTee(w, nil, nil, r) }

// CopyTee is Copy for a w that writes to another pipe, and then to kept: where
// much comes the kernel does the first by itself, by tee(2), so that it isn't
// copied for that. Forward does it, given r's descriptor, as [Tee] would, which it
// may call; what it has done goes to kept alone. Nil leaves all to w.
//
// What a program puts into a pipe by vmsplice(2) and changes then may differ
// between the two.
func CopyTee(w, kept io.Writer, forward func(fd int) (int, error), r Input) error {
	conn, err := r.SyscallConn()
	if err != nil {
		return err
	}
	var p pace
	for {
		var n, gathered int
		var readErr error
		var buf *[]byte
		err := conn.Read(func(fd uintptr) bool {
			if gathered = p.gather(int(fd)); gathered > 0 {
				return true
			}
			buf = p.buffers().Get().(*[]byte)
			if n, readErr = readOnce(int(fd), *buf); !errors.Is(readErr, unix.EAGAIN) {
				return true
			}
			p.buffers().Put(buf)
			buf = nil
			return false
		})
		switch {
		case err != nil:
			return err
		case gathered > 0:
			if err := moveBatch(conn, gathered, w, kept, forward); err != nil {
				return err
			}
			continue
		}
		if n > 0 {
			_, err = w.Write((*buf)[:n])
		}
		p.buffers().Put(buf)
		switch {
		case err != nil:
			return err
		case readErr != nil:
			return &os.PathError{Op: "read", Path: r.Name(), Err: readErr}
		case n <= 0:
			return nil
		}
		p.came(n, conn)
	}
}

// Enlarge makes a pipe larger for much to come, as far as the user's share allows
// it.
func Enlarge(pipe *os.File) {
	if conn, err := pipe.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { enlarge(int(fd)) })
	}
}

// moveBatch takes n bytes, which are there, out of a pipe.
func moveBatch(conn syscall.RawConn, n int, w, kept io.Writer, forward func(fd int) (int, error)) (err error) {
	buf := largeBuffers.Get().(*[]byte)
	defer largeBuffers.Put(buf)
	control := conn.Control(func(fd uintptr) {
		if forward != nil {
			w = kept
			if n, err = forward(int(fd)); err != nil {
				return
			}
		}
		for n > 0 && err == nil {
			var m int
			if m, err = readOnce(int(fd), (*buf)[:min(n, len(*buf))]); err == nil {
				n -= m
				_, err = w.Write((*buf)[:m])
			}
		}
	})
	if control != nil {
		return control
	}
	return err
}

// IsPipe reports whether a file is a pipe.
func IsPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// Tee copies to a pipe what can be read from another one at once, which it leaves
// there, and returns how much that was. It waits for room.
func Tee(to *os.File, from int) (n int, err error) {
	conn, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	control := conn.Control(func(fd uintptr) {
		for {
			var m int64
			if m, err = unix.Tee(from, int(fd), largePipe, unix.SPLICE_F_NONBLOCK); err == nil {
				n = int(m)
				return
			}
			if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				err = &os.PathError{Op: "tee", Path: to.Name(), Err: err}
				return
			}
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(fds, -1) // whatever it says, tee says it too
		}
	})
	if control != nil {
		return 0, control
	}
	return n, err
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
func CopyRest(w io.Writer, r Input) (ended bool, err error) {
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
