package seccomp

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Call is a system call whose caller waits.
type Call struct {
	// Thread is who makes it, by its number here; 0 if it has none here. The
	// number is its own for as long as [Listener.Waits].
	Thread int
	// Name is the call's, as "openat".
	Name string
	Args [6]uint64

	id uint64
}

// Listener is where the calls come that a [Witness] shows. It may be used by one
// goroutine at a time.
type Listener struct{ fd int }

// NewListener takes a listener's descriptor, and closes it at the end.
func NewListener(fd int) *Listener {
	// From Linux 6.6 on, caller and listener can take turns on a processor.
	_ = setNotifyFlags(fd, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return &Listener{fd}
}

// Close closes the listener. Callers that wait, and those to come, then get
// ENOSYS: it is to be called when [Listener.Next] has failed.
func (l *Listener) Close() error { return os.NewSyscallError("close", unix.Close(l.fd)) }

// Next waits for the next call. Its error is [io.EOF] when the last process that
// the witness is in has ended (Linux 5.9; before, it waits for ever).
func (l *Listener) Next() (*Call, error) {
	for {
		// Asked without that there is one, some kernels would wait for ever.
		poll := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return nil, os.NewSyscallError("poll", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil, io.EOF
		}
		n, err := receiveNotify(l.fd)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // ENOENT: the caller was killed
			continue
		case err != nil:
			return nil, os.NewSyscallError("ioctl", err)
		}
		c := &Call{Thread: int(n.pid), Args: n.args, id: n.id}
		if known, ok := callIn(n.arch, uint32(n.nr)); ok {
			c.Name = callNames[known]
		}
		return c, nil
	}
}

// Waits reports whether the caller still waits, so that what was read of it
// since was its own.
func (l *Listener) Waits(c *Call) bool { return waitsNotify(l.fd, c.id) }

// Continue lets the kernel carry the call out. It can't fail, but for the
// caller having been killed.
func (l *Listener) Continue(c *Call) { _ = continueNotify(l.fd, c.id) }
