package capture

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// patience is how long what must come may take on a machine with much to do.
const patience = time.Minute

func newTestPipe(t *testing.T) (*Pipe, *os.File) {
	t.Helper()
	r, w, err := NewPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// A reader is woken for each piece, and for the end, whether it waits or comes later.
func TestPipe(t *testing.T) {
	testenv.CheckFDs(t)
	r, w := newTestPipe(t)
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const pieces = 3000
	taken := make(chan struct{}, 1)
	go func() {
		for i := range pieces {
			_, _ = w.Write([]byte{byte(i)})
			if i%3 > 0 { // it may come while nobody waits, and before the next piece
				<-taken
			}
		}
		_ = w.Close()
	}()
	var got []byte
	buf := make([]byte, 1)
	for {
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v after %d bytes", err, len(got))
		}
		if (len(got)-1)%3 > 0 {
			taken <- struct{}{}
		}
	}
	if len(got) != pieces {
		t.Fatalf("%d bytes; want %d", len(got), pieces)
	}
	for i, b := range got {
		if b != byte(i) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a second Close() = %v", err)
	}
	if _, err := r.Read(buf); err == nil {
		t.Error("a closed pipe can be read")
	}
}

// While nobody waits for it, nothing is told of what comes.
func TestPipeUnwatched(t *testing.T) {
	r, w := newTestPipe(t)
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	told := func() (n int) {
		err := r.conn.Control(func(epoll uintptr) {
			var err error
			if n, err = unix.EpollWait(int(epoll), make([]unix.EpollEvent, 1), 0); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	read := make(chan error)
	go func() {
		_, err := r.Read(make([]byte, 1))
		read <- err
	}()
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if n := told(); n != 0 {
		t.Errorf("%d events after a read", n)
	}
	// Whoever was waiting until a deadline isn't in the way.
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read() = %v; want the deadline", err)
	}
}

// A deadline and a close end a read that waits.
func TestPipeEnds(t *testing.T) {
	for name, end := range map[string]func(r *Pipe) error{
		"deadline": func(r *Pipe) error { return r.SetReadDeadline(time.Now()) },
		"close":    (*Pipe).Close,
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newTestPipe(t)
			c := New(Options{})
			done := make(chan error)
			go func() { done <- Copy(c.Stdout, r) }()
			if _, err := w.WriteString("x"); err != nil {
				t.Fatal(err)
			}
			if err := c.Stdout.Wait(t.Context(), 0); err != nil { // it reads then
				t.Fatal(err)
			}
			if err := end(r); err != nil {
				t.Error(err)
			}
			if err := <-done; err == nil || name == "deadline" != errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Copy() = %v", err)
			}
			if name == "close" {
				return
			}
			// It goes on where it was.
			if err := r.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			go func() { done <- Copy(c.Stdout, r) }()
			if _, err := w.WriteString("y"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Close(), <-done); err != nil {
				t.Error(err)
			}
			if got := c.Stdout.Snapshot(); string(got.Head) != "xy" {
				t.Errorf("%q; want %q", got.Head, "xy")
			}
		})
	}
}

// What comes in small pieces is there before more does, also after a pipe has been
// busy.
func TestCopyAtOnce(t *testing.T) {
	r, w := newTestPipe(t)
	c := New(Options{})
	done := make(chan error)
	go func() { done <- Copy(c.Stdout, r) }()
	size, burst := int64(0), bytes.Repeat([]byte("some\n"), busy/2)
	write := func(p []byte) {
		t.Helper()
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		for seen := size; seen < size+int64(len(p)); seen = c.Stdout.Size() {
			if err := c.Stdout.Wait(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
		}
		size += int64(len(p))
	}
	for range 20 {
		write(burst)
		for range 20 {
			write([]byte("piece\n"))
		}
	}
	if err := errors.Join(w.Close(), <-done); err != nil {
		t.Error(err)
	}
	lines := int64(20 * (strings.Count(string(burst), "\n") + 20))
	if s := c.Stdout.Snapshot(); s.Bytes != size || s.Lines != lines {
		t.Errorf("%d bytes, %d lines; want %d, %d", s.Bytes, s.Lines, size, lines)
	}
}

// A busy pipe that is emptied isn't waited for with pauses, and one that is hardly
// ever empty is made larger and let come together.
func TestPace(t *testing.T) {
	r, w := testPipe(t)
	conn, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := int(r.Fd())
	var p pace
	write := func(n int) {
		t.Helper()
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write(10)
	if n := p.gather(fd); n != 0 {
		t.Errorf("gather() = %d of a pipe that isn't busy", n)
	}
	p.came(busy-1, conn)
	if p.busy() || p.size != 0 || p.buffers() != smallBuffers {
		t.Errorf("%+v before it is busy", p)
	}
	p.came(1, conn)
	if !p.busy() || p.buffers() != largeBuffers {
		t.Errorf("%+v when it is busy", p)
	}
	if p.size == 0 { // this user has no share of memory for pipes left
		p.size = 64 << 10 // as it is from the start
	}
	if n := p.gather(fd); n != 10 || p.pause != 2*firstPause {
		t.Errorf("gather() = %d, a pause of %v; want 10 and more of a pause", n, p.pause)
	}
	write(p.size/2 + 1)
	if n := p.gather(fd); n != p.size/2+11 || p.pause != firstPause {
		t.Errorf("gather() = %d, a pause of %v; want all and less of a pause", n, p.pause)
	}
	if _, err := io.CopyN(io.Discard, r, int64(p.size/2+11)); err != nil {
		t.Fatal(err)
	}
	if n := p.gather(fd); n != 0 || p.busy() {
		t.Errorf("gather() = %d of an empty pipe, %+v", n, p)
	}
	write(10)
	if n := p.gather(fd); n != 0 {
		t.Errorf("gather() = %d after a pause in which nothing came", n)
	}
	if p.came(again, conn); !p.busy() {
		t.Errorf("%+v when it is busy again", p)
	}
}
