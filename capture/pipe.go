package capture

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Input is what [Copy] copies: an [*os.File] or a [*Pipe].
type Input interface {
	syscall.Conn
	Name() string
}

// Pipe is the reading end of a pipe for much to come. The poller of the Go runtime
// has each write to an os.File's pipe wake this process, also while nobody waits
// for it, and that is most of what a fast writer's writes cost. A Pipe is only
// watched while it is waited for. It has one more descriptor for that. Its methods
// may be called at the same time by several goroutines.
type Pipe struct {
	fd int
	// watch is an epoll(7) that has the pipe while it is waited for; the
	// runtime's poller has that one. It guards fd: who uses it is in a call of
	// its RawConn.
	watch   *os.File
	conn    syscall.RawConn
	watched bool // for whoever reads
	once    sync.Once
}

var _ Input = (*Pipe)(nil)

// NewPipe makes a pipe. The caller closes both ends. The writing one waits for
// room, as a command expects it, and both are closed by an exec.
func NewPipe() (_ *Pipe, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	p := &Pipe{fd: fds[0]}
	defer func() {
		if err != nil {
			_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		}
	}()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := errors.Join(unix.SetNonblock(p.fd, true), unix.SetNonblock(epoll, true)); err != nil {
		_ = unix.Close(epoll)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	p.watch = os.NewFile(uintptr(epoll), "|0")
	// It fails where the runtime can't wait for it.
	if err = p.watch.SetReadDeadline(time.Time{}); err == nil {
		p.conn, err = p.watch.SyscallConn()
	}
	if err != nil {
		_ = p.watch.Close()
		return nil, nil, err
	}
	return p, os.NewFile(uintptr(fds[1]), "|1"), nil
}

// Name returns what errors call it.
func (p *Pipe) Name() string { return p.watch.Name() }

// SetReadDeadline is that of an [os.File].
func (p *Pipe) SetReadDeadline(t time.Time) error { return p.watch.SetReadDeadline(t) }

// Read reads what is there, and waits for something if that is nothing.
func (p *Pipe) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	var readErr error
	err = pipeConn{p}.Read(func(fd uintptr) bool {
		n, readErr = readOnce(int(fd), b)
		return !errors.Is(readErr, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return 0, err
	case readErr != nil:
		return 0, &os.PathError{Op: "read", Path: p.Name(), Err: readErr}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close closes it. Reads that wait return an error. A second call is
// [os.ErrClosed].
func (p *Pipe) Close() error {
	err := fs.ErrClosed
	p.once.Do(func() {
		// It returns when nobody uses the descriptors any more.
		err = errors.Join(p.watch.Close(), os.NewSyscallError("close", unix.Close(p.fd)))
	})
	return err
}

// SyscallConn gives access to the descriptor. Its Read waits for the pipe as that
// of an [os.File] would; its Write isn't supported.
func (p *Pipe) SyscallConn() (syscall.RawConn, error) { return pipeConn{p}, nil }

type pipeConn struct{ p *Pipe }

func (c pipeConn) Control(f func(fd uintptr)) error {
	return c.p.conn.Control(func(uintptr) { f(uintptr(c.p.fd)) })
}

func (c pipeConn) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

func (c pipeConn) Read(f func(fd uintptr) bool) error {
	var watchErr error
	err := c.p.conn.Read(func(epoll uintptr) bool {
		if watchErr = c.p.setWatched(int(epoll), false); watchErr != nil {
			return true
		}
		if f(uintptr(c.p.fd)) {
			return true
		}
		// What came meanwhile is told at once.
		watchErr = c.p.setWatched(int(epoll), true)
		return watchErr != nil
	})
	if watchErr != nil {
		return watchErr
	}
	return err
}

// setWatched says whether the pipe wakes this process. Only who reads calls it.
func (p *Pipe) setWatched(epoll int, on bool) error {
	if p.watched == on {
		return nil
	}
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	err := unix.EpollCtl(epoll, op, p.fd, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err == nil {
		p.watched = on
	}
	return os.NewSyscallError("epoll_ctl", err)
}
