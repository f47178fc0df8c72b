package spawn

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rights is a message that takes a descriptor along.
type rights struct {
	header unix.Msghdr
	data   unix.Iovec
	word   [1]byte
	right  struct {
		unix.Cmsghdr
		fd int32
		_  int32
	}
}

func newRights() *rights {
	m := &rights{}
	m.data.Base = &m.word[0]
	m.data.SetLen(len(m.word))
	m.header.Iov, m.header.Iovlen = &m.data, 1
	m.right.Level, m.right.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	m.right.SetLen(unix.CmsgLen(int(unsafe.Sizeof(m.right.fd))))
	m.header.Control = (*byte)(unsafe.Pointer(&m.right))
	m.header.SetControllen(int(unsafe.Sizeof(m.right)))
	return m
}

// listen installs the witness and sends its listener to the parent. The witness
// isn't shown anything that comes after it until the exec, and the exec isn't
// either: there is nobody yet who would let it go on.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) listen() bool {
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	// A signal doesn't begin a call anew that somebody looks at (Linux 5.19).
	fd, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&g.witness[0])))
	if e == syscall.EINVAL {
		fd, _, e = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&g.witness[0])))
	}
	if e != 0 {
		return g.fail(StageWitness, 0, e)
	}
	g.message.right.fd = int32(fd)
	if _, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(g.socket), uintptr(unsafe.Pointer(&g.message.header)), 0); e != 0 {
		return g.fail(StageWitness, 0, e)
	}
	return true
}

// listenerSocket is where the listener of a child comes; nil where none does.
type listenerSocket struct{ ours, theirs int }

func (g *program) openSocket() (*listenerSocket, error) {
	if len(g.witness) == 0 {
		return nil, nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Stage: StageWitness, Errno: err.(syscall.Errno), Name: "socketpair"}
	}
	g.socket = pair[1]
	return &listenerSocket{pair[0], pair[1]}, nil
}

func (s *listenerSocket) close() {
	if s != nil {
		_, _ = unix.Close(s.ours), unix.Close(s.theirs)
	}
}

// receive returns the descriptor that the child has sent before its exec, -1 if
// it hasn't: then it was killed. One that there was no room for is an error.
func (s *listenerSocket) receive() (int, syscall.Errno) {
	if s == nil {
		return -1, 0
	}
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		_, n, flags, _, err := unix.Recvmsg(s.ours, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return -1, 0
		case flags&unix.MSG_CTRUNC != 0:
			return -1, syscall.EMFILE
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(msgs) != 1 {
			return -1, syscall.EBADMSG
		}
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil || len(fds) != 1 {
			return -1, syscall.EBADMSG
		}
		return fds[0], 0
	}
}
