package capture

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
)

// toBoth writes to a file, and then to what is kept.
type toBoth struct {
	to   *os.File
	kept bytes.Buffer
}

func (b *toBoth) Write(p []byte) (int, error) {
	if n, err := b.to.Write(p); err != nil {
		return n, err
	}
	return b.kept.Write(p)
}

func testPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// What comes through a pipe reaches the other one and what is kept, each byte
// once and in order, however readers and writers take their time.
func TestCopyTee(t *testing.T) {
	in, command := testPipe(t)
	reader, out := testPipe(t)
	random := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 6<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	go func() {
		for left := want; len(left) > 0; {
			n := min(1+random.IntN(200_000), len(left))
			_, _ = command.Write(left[:n])
			left = left[n:]
		}
		_ = command.Close()
	}()
	seen := make(chan []byte)
	go func() {
		var all bytes.Buffer
		for n := 1; ; n++ {
			if _, err := io.CopyN(&all, reader, 70_000); err != nil {
				break
			}
			if n%16 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		seen <- all.Bytes()
	}()
	both, forwarded := &toBoth{to: out}, 0
	forward := func(fd int) (int, error) {
		n, err := Tee(out, fd)
		forwarded += n
		return n, err
	}
	if err := CopyTee(both, &both.kept, forward, in); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if got := <-seen; !bytes.Equal(got, want) {
		t.Errorf("the reader got %d bytes, which aren't the %d written", len(got), len(want))
	}
	if !bytes.Equal(both.kept.Bytes(), want) {
		t.Errorf("%d bytes are kept, which aren't the %d written", both.kept.Len(), len(want))
	}
	if forwarded < len(want)/2 {
		t.Errorf("%d of %d bytes were forwarded; want most", forwarded, len(want))
	}
}

// A reader that goes away ends it, and what it wasn't given isn't kept.
func TestCopyTeeClosed(t *testing.T) {
	in, command := testPipe(t)
	reader, out := testPipe(t)
	go func() {
		for err := error(nil); err == nil; {
			_, err = command.Write(make([]byte, 100_000))
		}
	}()
	const seen = 2 << 20
	go func() {
		_, _ = io.CopyN(io.Discard, reader, seen)
		_ = reader.Close()
	}()
	both := &toBoth{to: out}
	err := CopyTee(both, &both.kept, func(fd int) (int, error) { return Tee(out, fd) }, in)
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v; want EPIPE", err)
	}
	if n := both.kept.Len(); n < seen || n > seen+2*largePipe {
		t.Errorf("%d bytes are kept of %d that were read", n, seen)
	}
}

// A deadline loses nothing, and doubles nothing.
func TestCopyTeeDeadline(t *testing.T) {
	in, command := testPipe(t)
	reader, out := testPipe(t)
	const size = 2 << 20
	go func() {
		_, _ = command.Write(make([]byte, size))
		_ = in.SetReadDeadline(time.Now())
	}()
	seen := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, reader)
		seen <- n
	}()
	both := &toBoth{to: out}
	forward := func(fd int) (int, error) { return Tee(out, fd) }
	if err := CopyTee(both, &both.kept, forward, in); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v; want the deadline", err)
	}
	if _, err := CopyRest(both, in); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	if n := <-seen; n != size || both.kept.Len() != size {
		t.Errorf("%d bytes seen, %d kept; want %d", n, both.kept.Len(), size)
	}
}
