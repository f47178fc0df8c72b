package session

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stream passes on what comes out of a pipe to the writer of the command that
// runs. What comes while none does is dropped.
type stream struct {
	r        *os.File
	eof      chan struct{} // closed when the pipe has no writer any more
	activity chan struct{} // has one when something came

	mu    sync.Mutex
	w     io.Writer
	err   error  // of the writer
	fence []byte // where the command's output ends; nil before the end is known
	held  []byte // what may be the beginning of the fence
	seen  chan struct{}
	first []byte // what came before the first command
	began bool
}

// maxSaid bounds what is kept of what came before the first command.
const maxSaid = 4 << 10

func newStream(r *os.File) *stream {
	return &stream{r: r, eof: make(chan struct{}), activity: make(chan struct{}, 1)}
}

func (s *stream) loop() {
	defer close(s.eof)
	raw, err := s.r.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 16<<10)
	for more := true; more; {
		if raw.Read(func(fd uintptr) (read bool) {
			read, more = s.read(int(fd), buf)
			return read
		}) != nil {
			return // it was closed
		}
		select {
		case s.activity <- struct{}{}:
		default:
		}
	}
}

// read reads a piece if there is one, and passes it on. It reports whether there
// was something to read, be it the end, and whether there may be more.
func (s *stream) read(fd int, buf []byte) (read, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch n, err := unix.Read(fd, buf); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false, true
		case n <= 0:
			return true, false
		default:
			s.take(buf[:n])
			return true, true
		}
	}
}

// quiet reports whether all that was written is passed on.
func (s *stream) quiet() bool {
	if !s.mu.TryLock() {
		return false // it is being passed on
	}
	defer s.mu.Unlock()
	raw, err := s.r.SyscallConn()
	if err != nil {
		return true
	}
	unread := 0
	_ = raw.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // nothing if it was closed
	return unread == 0
}

// take passes on a piece, up to the fence. The caller holds s.mu.
func (s *stream) take(p []byte) {
	if s.fence == nil {
		s.write(p)
		return
	}
	if len(s.held) > 0 {
		p = append(s.held, p...)
		s.held = nil
	}
	if i := bytes.Index(p, s.fence); i >= 0 {
		s.write(p[:i])
		fence := len(s.fence)
		s.fence = nil
		close(s.seen)
		s.write(p[i+fence:])
		return
	}
	keep := overlap(p, s.fence)
	s.write(p[:len(p)-keep])
	s.held = append([]byte(nil), p[len(p)-keep:]...)
}

// overlap is the length of the longest end of p that begins the fence.
func overlap(p, fence []byte) int {
	for n := min(len(p), len(fence)-1); n > 0; n-- {
		if bytes.HasSuffix(p, fence[:n]) {
			return n
		}
	}
	return 0
}

func (s *stream) write(p []byte) {
	if !s.began {
		s.first = append(s.first, p[:min(len(p), maxSaid-len(s.first))]...)
	}
	if s.w == nil || s.err != nil || len(p) == 0 {
		return
	}
	_, s.err = s.w.Write(p)
}

// attach gives the stream a writer; nil drops what comes.
func (s *stream) attach(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w, s.err, s.began, s.first = w, nil, true, nil
}

// detach takes the writer away, and returns its first error. Nothing is written
// to it afterwards.
func (s *stream) detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.held) // the fence didn't come
	s.w, s.fence, s.held = nil, nil, nil
	return s.err
}

// arm says where the command's output ends. The result is closed when all of
// it is passed on.
func (s *stream) arm(fence string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence, s.seen = []byte(fence), make(chan struct{})
	return s.seen
}

// said is what came before the first command. Who holds the pipe open is waited
// for, though not for ever.
func (s *stream) said() string {
	timer := time.NewTimer(drainMax)
	defer timer.Stop()
	select {
	case <-s.eof:
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.first))
}
