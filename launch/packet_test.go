package launch

import (
	"errors"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"golang.org/x/sys/unix"
)

// What the inner stage has sent and nobody has asked for isn't left open.
func TestBoxCloseDrops(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(pair[1]) }()
	inner, words, status := make(chan packet, 2), make(chan string), make(chan bwrap.Status)
	inner <- packet{pidfd: fds[0], other: -1}
	inner <- packet{pidfd: -1, other: fds[1]}
	close(inner)
	close(words)
	close(status)
	b := &Box{inner: inner, words: words, status: status, socket: pair[0], stage: packet{pidfd: -1}}
	b.close()
	for _, fd := range append(fds[:], pair[0]) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("descriptor %d: %v; want it closed", fd, err)
		}
	}
}
