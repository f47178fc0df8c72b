// Package pty gives a command a terminal of its own, and its host the other
// end: what a person would type, see and resize.
//
// A [Terminal] has two ends. The child's end, [Terminal.Child], becomes the
// standard streams of one command, which should lead a new session with it as
// controlling terminal. The host reads the command's output from the Terminal
// and writes keys to it.
//
// Limitations: a terminal is one stream; what the command writes to standard
// output and to standard error can't be told apart. Unless it is raw, the
// kernel edits what passes: input is echoed, output lines end in "\r\n", and of
// an input line without end everything after 4,095 bytes is lost. The number of
// terminals of a machine is bounded (/proc/sys/kernel/pty/max).
package pty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Size is that of a terminal, in character cells. The zero value stands for 24
// rows and 80 columns.
type Size struct {
	Rows, Cols uint16
}

func (s Size) winsize() *unix.Winsize {
	if s == (Size{}) {
		s = Size{Rows: 24, Cols: 80}
	}
	return &unix.Winsize{Row: s.Rows, Col: s.Cols}
}

// Options says what a terminal is like. The zero value is what a person would
// have.
type Options struct {
	Size Size
	// Raw makes bytes pass unchanged in both directions: nothing is echoed, a
	// line doesn't end in "\r\n", and control characters send no signals. A
	// command can change that.
	Raw bool
}

// Terminal is a terminal as its host sees it. Its methods may be called by
// several goroutines at once.
type Terminal struct {
	host *os.File

	mu    sync.Mutex
	child *os.File // nil once it is closed
}

// Open makes a terminal. The caller calls [Terminal.CloseChild] once the
// command has been started, or couldn't be, and [Terminal.Close] in the end.
// Where the machine has no terminal left the error matches [syscall.ENOSPC].
func Open(o Options) (_ *Terminal, err error) {
	host, child, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	t := &Terminal{host: host, child: child}
	defer func() {
		if err != nil {
			_ = t.Close()
			err = fmt.Errorf("make a terminal: %w", err)
		}
	}()
	// Asking it for its number has made the file one that blocks: a read would
	// take a thread, and closing wouldn't end it.
	if t.host, err = pollable(host); err != nil {
		t.host = host
		return nil, err
	}
	if o.Raw {
		if err := makeRaw(child); err != nil {
			return nil, err
		}
	}
	// Commands expect a descriptor that blocks.
	if err := unix.SetNonblock(int(child.Fd()), false); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return t, t.Resize(o.Size)
}

// pollable replaces a file by one that the runtime waits for without a thread.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	_ = f.Close()
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// makeRaw does what cfmakeraw(3) does.
func makeRaw(f *os.File) error {
	fd := int(f.Fd())
	m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return os.NewSyscallError("ioctl", err)
	}
	m.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	m.Oflag &^= unix.OPOST
	m.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	m.Cflag = m.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	m.Cc[unix.VMIN], m.Cc[unix.VTIME] = 1, 0
	return os.NewSyscallError("ioctl", unix.IoctlSetTermios(fd, unix.TCSETS, m))
}

// Child returns the end that a command gets as its standard input, output and
// error. It is the Terminal's, and nil once it is closed.
func (t *Terminal) Child() *os.File {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.child
}

// Host returns the host's end, for those who wait for many files: they find
// [syscall.EIO] where Read has [io.EOF]. It is the Terminal's.
func (t *Terminal) Host() *os.File { return t.host }

// CloseChild closes the child's end in this process. As long as it is open,
// reading doesn't come to an end. A second call does nothing.
func (t *Terminal) CloseChild() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.child == nil {
		return nil
	}
	f := t.child
	t.child = nil
	return f.Close()
}

// Read reads what the command writes. The result is [io.EOF] when all of it is
// read and no process has the terminal open any more; it isn't final if one
// opens it by its name later.
func (t *Terminal) Read(p []byte) (int, error) {
	n, err := t.host.Read(p)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// Write types: bytes as a keyboard would send them, which [Key] names. It waits
// while the command doesn't read, and what is written when nobody has the
// terminal open is lost.
func (t *Terminal) Write(p []byte) (int, error) {
	return t.host.Write(p)
}

// Resize changes the size, which the command's foreground processes are told by
// SIGWINCH.
func (t *Terminal) Resize(s Size) error {
	return t.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, s.winsize())
	})
}

// Size returns the size as it is now; the command can change it too.
func (t *Terminal) Size() (s Size, err error) {
	err = t.control(func(fd int) error {
		w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			s = Size{Rows: w.Row, Cols: w.Col}
		}
		return err
	})
	return s, err
}

// control calls f with the host's descriptor, which stays pollable.
func (t *Terminal) control(f func(fd int) error) error {
	conn, err := t.host.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError("ioctl", inner)
}

// SetReadDeadline bounds reads: later ones fail with [os.ErrDeadlineExceeded].
// The zero time is no bound.
func (t *Terminal) SetReadDeadline(at time.Time) error { return t.host.SetReadDeadline(at) }

// SetWriteDeadline is like [Terminal.SetReadDeadline], for writes.
func (t *Terminal) SetWriteDeadline(at time.Time) error { return t.host.SetWriteDeadline(at) }

// Close closes both ends; reads and writes that wait fail with [os.ErrClosed].
// Processes that still have the terminal lose it: their session gets SIGHUP,
// their reads end and their writes fail. A second call fails and does no harm.
func (t *Terminal) Close() error {
	return errors.Join(t.CloseChild(), t.host.Close())
}
