package capture

import (
	"bytes"
	"crypto/sha256"
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

// inputs are the kinds of pipes that are copied from.
var inputs = map[string]func(t *testing.T) (r testInput, w *os.File){
	"file": func(t *testing.T) (testInput, *os.File) { return testPipe(t) },
	"Pipe": func(t *testing.T) (testInput, *os.File) { return newTestPipe(t) },
}

type testInput interface {
	Input
	SetReadDeadline(t time.Time) error
}

// What comes through a pipe reaches the other one and what is kept, each byte
// once and in order, however readers and writers take their time.
func TestCopyTee(t *testing.T) {
	for name, pipe := range inputs {
		t.Run(name, func(t *testing.T) {
			in, command := pipe(t)
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
			// How much depends on who has a processor when.
			t.Logf("%d of %d bytes were forwarded", forwarded, len(want))
		})
	}
}

// What is in a busy pipe is forwarded, and isn't written.
func TestCopyTeeForwards(t *testing.T) {
	for name, pipe := range inputs {
		t.Run(name, func(t *testing.T) {
			in, command := pipe(t)
			reader, out := testPipe(t)
			first := make([]byte, busy) // which makes it busy
			go func() {
				_, _ = command.Write(first)
				for p := make([]byte, 4096); ; { // until it is closed
					if _, err := command.Write(p); err != nil {
						return
					}
				}
			}()
			go func() { _, _ = io.Copy(io.Discard, reader) }()
			enough := errors.New("enough")
			var forwarded int
			both := &toBoth{to: out}
			err := CopyTee(both, &both.kept, func(fd int) (int, error) {
				if forwarded > 0 {
					return 0, enough
				}
				var err error
				forwarded, err = Tee(out, fd)
				return forwarded, err
			}, in)
			if !errors.Is(err, enough) || both.kept.Len() < busy+forwarded {
				t.Errorf("%v after %d bytes, %d of them forwarded", err, both.kept.Len(), forwarded)
			}
		})
	}
}

// A quarter of a gibibyte comes through whole, to a reader that is quick and to one
// that isn't, and is in the artifact whole.
func TestCopyTeeWhole(t *testing.T) {
	size := 256 << 20
	if testing.Short() {
		size = 32 << 20
	}
	for name, slow := range map[string]bool{"quick": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			store, err := OpenStore(t.TempDir()+"/store", Limits{Free: -1, Total: -1, Artifact: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			c := New(Options{Store: store})
			defer c.Close()
			in, command := newTestPipe(t)
			reader, out := testPipe(t)

			written, ends := sha256.New(), int64(0)
			go func() {
				random, buf := rand.NewChaCha8([32]byte{1}), make([]byte, 100_000)
				for left := size; left > 0; {
					p := buf[:min(len(buf), left)]
					_, _ = random.Read(p)
					ends += int64(bytes.Count(p, []byte{'\n'}))
					_, _ = written.Write(p)
					_, _ = command.Write(p)
					left -= len(p)
				}
				_ = command.Close()
			}()
			read, readErr := sha256.New(), make(chan error)
			go func() {
				var err error
				for err == nil {
					if _, err = io.CopyN(read, reader, 2<<20); slow {
						time.Sleep(time.Millisecond)
					}
				}
				readErr <- err
			}()
			both := io.MultiWriter(out, c.Stdout)
			forward := func(fd int) (int, error) { return Tee(out, fd) }
			if err := CopyTee(both, c.Stdout, forward, in); err != nil {
				t.Fatal(err)
			}
			c.End()
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			if err := <-readErr; !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			kept := sha256.New()
			if _, err := io.Copy(kept, io.NewSectionReader(c.Stdout, 0, int64(size))); err != nil {
				t.Error(err)
			}
			want := written.Sum(nil)
			if !bytes.Equal(read.Sum(nil), want) {
				t.Error("the reader didn't get what was written")
			}
			if !bytes.Equal(kept.Sum(nil), want) {
				t.Error("the artifact isn't what was written")
			}
			if s := c.Stdout.Snapshot(); s.Bytes != int64(size) || s.Lines < ends || s.Lines > ends+1 || s.SpillErr != nil {
				t.Errorf("%d bytes, %d lines, %v; want %d and %d", s.Bytes, s.Lines, s.SpillErr, size, ends)
			}
		})
	}
}

// A reader that goes away ends it, and what it wasn't given isn't kept.
func TestCopyTeeClosed(t *testing.T) {
	for name, pipe := range inputs {
		t.Run(name, func(t *testing.T) { testCopyTeeClosed(t, pipe) })
	}
}

func testCopyTeeClosed(t *testing.T, pipe func(t *testing.T) (testInput, *os.File)) {
	in, command := pipe(t)
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
	for name, pipe := range inputs {
		t.Run(name, func(t *testing.T) { testCopyTeeDeadline(t, pipe) })
	}
}

func testCopyTeeDeadline(t *testing.T, pipe func(t *testing.T) (testInput, *os.File)) {
	in, command := pipe(t)
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
