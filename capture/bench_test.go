package capture

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkFixed is what a command costs that prints little: the streams, the
// first reads, the end and a snapshot.
func BenchmarkFixed(b *testing.B) {
	line := []byte("a line of an ordinary length that a command prints, so to say\n")
	b.ReportAllocs()
	for b.Loop() {
		c := New(Options{})
		_, _ = c.Stdout.Write(line)
		_, _ = c.Stderr.Write(line)
		c.End()
		_ = c.Stdout.Snapshot()
		_ = c.Stderr.Snapshot()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFixedDrains is the same from two pipes, which are made and filled too.
func BenchmarkFixedDrains(b *testing.B) {
	line := []byte("a line of an ordinary length that a command prints, so to say\n")
	b.ReportAllocs()
	for b.Loop() {
		c := New(Options{})
		done := make(chan error, 2)
		for _, s := range c.streams() {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				err := s.Drain(r)
				done <- errors.Join(err, r.Close())
			}()
			if _, err := w.Write(line); err != nil {
				b.Fatal(err)
			}
			w.Close()
		}
		if err := errors.Join(<-done, <-done, c.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite is a chatty command: one line at a time.
func BenchmarkWrite(b *testing.B) {
	line := []byte("a line of an ordinary length that a command prints, so to say\n")
	for _, spill := range []bool{false, true} {
		b.Run(fmt.Sprintf("spill=%v", spill), func(b *testing.B) {
			o := Options{}
			if spill {
				o.Store = openStore(b, Limits{})
			}
			c := New(o)
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				_, _ = c.Stdout.Write(line)
			}
			if err := c.Stdout.Snapshot().SpillErr; err != nil {
				b.Fatal(err)
			}
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkDrain takes 1 GiB from a pipe, as cat does beside it.
func BenchmarkDrain(b *testing.B) {
	const size = 1 << 30
	produce := func(b *testing.B, w *os.File) *exec.Cmd {
		b.Helper()
		cmd := exec.Command("head", "-c", fmt.Sprint(size), "/dev/zero")
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		w.Close()
		return cmd
	}
	store := openStore(b, Limits{Artifact: -1})
	file := filepath.Join(b.TempDir(), "file")
	for _, bc := range []struct {
		name string
		f    func(r *os.File) error
	}{
		{"cat", func(r *os.File) error {
			cmd := exec.Command("cat")
			cmd.Stdin = r
			return cmd.Run()
		}},
		{"windows", func(r *os.File) error {
			c := New(Options{})
			if err := c.Stdout.Drain(r); err != nil {
				return err
			}
			return c.Close()
		}},
		{"cat-to-file", func(r *os.File) error {
			f, err := os.Create(file)
			if err != nil {
				return err
			}
			defer f.Close()
			cmd := exec.Command("cat")
			cmd.Stdin, cmd.Stdout = r, f
			return cmd.Run()
		}},
		{"spill", func(r *os.File) error {
			c := New(Options{Store: store})
			if err := c.Stdout.Drain(r); err != nil {
				return err
			}
			if err := c.Stdout.Snapshot().SpillErr; err != nil {
				return err
			}
			return c.Close()
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				r, w, err := os.Pipe()
				if err != nil {
					b.Fatal(err)
				}
				cmd := produce(b, w)
				if err := bc.f(r); err != nil {
					b.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
				r.Close()
				b.StopTimer()
				_ = os.Remove(file)
				if _, err := store.Clear(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkSpilled is what a command costs whose output is just too long for
// the windows.
func BenchmarkSpilled(b *testing.B) {
	store := openStore(b, Limits{})
	text := make([]byte, Medium+1)
	for b.Loop() {
		c := New(Options{Store: store})
		_, _ = c.Stdout.Write(text)
		c.End()
		if err := c.Stdout.Snapshot().SpillErr; err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
