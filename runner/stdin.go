package runner

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
)

// stdin is a command's standard input, as those who write to it see it.
type stdin struct {
	mu     sync.Mutex
	w      io.WriteCloser
	closed bool
}

// feed begins to write what the spec gives, and then closes the input unless
// it is to stay open. It doesn't wait for the command to read.
func (s *stdin) feed(w io.WriteCloser, data []byte, keep bool) {
	if w == nil {
		return
	}
	s.mu.Lock()
	s.w = w
	if len(data) == 0 {
		defer s.mu.Unlock()
		if !keep {
			s.closed = true
			_ = w.Close()
		}
		return
	}
	go func() { // holding the lock: what is written later comes later
		defer s.mu.Unlock()
		_, _ = w.Write(data) // a command that doesn't read it is none of ours
		if !keep {
			s.closed = true
			_ = w.Close()
		}
	}()
}

func (s *stdin) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil || s.closed {
		return 0, ErrNoStdin
	}
	n, err := s.w.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed) || errors.Is(err, syscall.EIO) {
		return len(b), nil // nobody reads any more
	}
	return n, err
}

func (s *stdin) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil || s.closed {
		return ErrNoStdin
	}
	s.closed = true
	return s.w.Close()
}
