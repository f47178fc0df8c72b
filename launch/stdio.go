package launch

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stdio is what a Cmd opens for its standard streams.
type stdio struct {
	child  []*os.File // closed when the command has them
	parent []*os.File // closed when it has ended
	copies []func() error
	copied bool // there was nothing to copy

	copying sync.WaitGroup
	mu      sync.Mutex
	err     error // of the first copy that failed
	stopped bool  // further failures are our own doing
}

// input opens what the command reads.
func (s *stdio) input(r io.Reader) (*os.File, error) {
	if r == nil {
		return s.null(os.O_RDONLY)
	}
	if f, ok := r.(*os.File); ok {
		return f, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.child, s.parent = append(s.child, pr), append(s.parent, pw)
	s.copies = append(s.copies, func() error {
		_, err := io.Copy(pw, r)
		if errors.Is(err, syscall.EPIPE) {
			err = nil // a command needn't read what it is given
		}
		return errors.Join(err, ignoreClosed(pw.Close()))
	})
	return pr, nil
}

// output opens what the command writes to.
func (s *stdio) output(w io.Writer) (*os.File, error) {
	if w == nil {
		return s.null(os.O_WRONLY)
	}
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.child, s.parent = append(s.child, pw), append(s.parent, pr)
	s.copies = append(s.copies, func() error {
		_, err := io.Copy(w, pr)
		return errors.Join(err, ignoreClosed(pr.Close()))
	})
	return pw, nil
}

// null opens the null device, which there is no point in having package os try
// to wait for.
func (s *stdio) null(flag int) (*os.File, error) {
	fd, err := unix.Open(os.DevNull, flag|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	f := os.NewFile(uintptr(fd), os.DevNull)
	s.child = append(s.child, f)
	return f, nil
}

// start begins to copy.
func (s *stdio) start() {
	s.copied = len(s.copies) == 0
	for _, copyStream := range s.copies {
		s.copying.Go(func() {
			err := copyStream()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err == nil && !s.stopped {
				s.err = err
			}
		})
	}
	s.copies = nil
}

// wait waits until all is copied, or for delay if that isn't zero. Then the
// pipes are closed under those who copy.
func (s *stdio) wait(delay time.Duration) error {
	if s.copied {
		return nil
	}
	copied := make(chan struct{})
	go func() { s.copying.Wait(); close(copied) }()
	if delay <= 0 {
		<-copied
		return s.err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-copied:
		return s.err
	case <-timer.C:
	}
	s.mu.Lock()
	s.stopped = true
	err := s.err
	s.mu.Unlock()
	s.closeParent()
	if err == nil {
		err = exec.ErrWaitDelay
	}
	return err
}

func (s *stdio) closeChild()  { closeAll(&s.child) }
func (s *stdio) closeParent() { closeAll(&s.parent) }

func closeAll(files *[]*os.File) {
	for _, f := range *files {
		_ = f.Close() // a second time is harmless
	}
	*files = nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// sameWriter reports whether two writers are one.
func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// StdinPipe returns a pipe to the command's standard input. Wait closes it.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, errors.New("launch: Stdin already set")
	}
	pr, pw, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = pr
	c.io.child, c.io.parent = append(c.io.child, pr), append(c.io.parent, pw)
	return pw, nil
}

// StdoutPipe returns a pipe from the command's standard output. Wait closes
// it, so everything must be read before Wait is called.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stdout) }

// StderrPipe is like [Cmd.StdoutPipe], for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stderr) }

func (c *Cmd) outputPipe(to *io.Writer) (io.ReadCloser, error) {
	if *to != nil {
		return nil, errors.New("launch: output already set")
	}
	pr, pw, err := c.pipe()
	if err != nil {
		return nil, err
	}
	*to = pw
	c.io.child, c.io.parent = append(c.io.child, pw), append(c.io.parent, pr)
	return pr, nil
}

func (c *Cmd) pipe() (r, w *os.File, err error) {
	if c.done {
		return nil, nil, errors.New("launch: pipe asked for after the command was started")
	}
	return os.Pipe()
}

// descriptor returns the number behind f. As in os/exec, f becomes blocking:
// few commands cope with another kind of standard stream.
func descriptor(f *os.File) (int, error) {
	fd := int(f.Fd())
	if fd < 0 {
		return -1, &fs.PathError{Op: "start", Path: f.Name(), Err: fs.ErrClosed}
	}
	return fd, nil
}

// kill kills the command, with its group if it leads one.
func (c *Cmd) kill() error {
	if c.guarded() {
		c.EndAll()
		return nil
	}
	if (c.NewSession || c.NewGroup) && c.started.Box == nil {
		// The leader isn't reaped while the context is watched, so the number
		// of the group can't be another's.
		if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	return c.Process.Kill()
}

// excerpt keeps the first and the last of what is written to it.
type excerpt struct {
	head, tail []byte
	skipped    int64
}

const excerptHalf = 32 << 10 // bytes of the head, and of the tail

func (e *excerpt) Write(p []byte) (int, error) {
	n := len(p)
	if room := excerptHalf - len(e.head); room > 0 {
		k := min(room, len(p))
		e.head, p = append(e.head, p[:k]...), p[k:]
	}
	e.tail = append(e.tail, p...)
	if over := len(e.tail) - excerptHalf; over > excerptHalf {
		e.skipped += int64(over)
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	return n, nil
}

func (e *excerpt) bytes() []byte {
	tail, skipped := e.tail, e.skipped
	if over := len(tail) - excerptHalf; over > 0 {
		tail, skipped = tail[over:], skipped+int64(over)
	}
	if skipped == 0 {
		return append(e.head, tail...)
	}
	return append(append(e.head, "\n... omitting "+strconv.FormatInt(skipped, 10)+" bytes ...\n"...), tail...)
}
