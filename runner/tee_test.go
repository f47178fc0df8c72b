package runner

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slow takes each piece after a while.
type slow struct {
	bytes.Buffer
	wait time.Duration
}

func (w *slow) Write(p []byte) (int, error) {
	<-time.After(w.wait)
	return w.Buffer.Write(p)
}

// Whoever is slow gets everything nevertheless, however long ago the command
// has ended.
func TestSlowTee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{on: func(c *command) {
			c.mu.Lock()
			c.holds = true // as a pipe that has some left after the end
			c.mu.Unlock()
			go c.end(Exit{Code: 0})
			for range 3 {
				_, _ = c.out.Write([]byte("some\n"))
			}
		}}
		r, _ := fakeRunner(t, f, Config{})
		w := &slow{wait: 20*time.Second + 137*time.Millisecond} // not when a timer of the drain fires
		res, err := r.Run(t.Context(), resolve(t, r, Request{Command: "x", Stdout: w}))
		if err != nil {
			t.Fatal(err)
		}
		const want = "some\nsome\nsome\n"
		if w.String() != want || string(res.Stdout.Text()) != want {
			t.Errorf("the writer has %q, the result %q; want %q", w.String(), res.Stdout.Text(), want)
		}
	})
}

// failing takes one piece.
type failing struct{ bytes.Buffer }

func (w *failing) Write(p []byte) (int, error) {
	if w.Len() > 0 {
		return 0, errors.New("enough")
	}
	return w.Buffer.Write(p)
}

// When the writer has had enough, the command finds its output closed.
func TestFailingTee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan error, 1)
		f := &fake{on: func(c *command) {
			var err error
			for err == nil {
				_, err = c.out.Write([]byte("more\n"))
			}
			refused <- err
			c.end(Exit{Code: 1})
		}}
		r, _ := fakeRunner(t, f, Config{})
		w := &failing{}
		res, err := r.Run(t.Context(), resolve(t, r, Request{Command: "x", Stdout: w}))
		if err != nil || res.ExitCode != 1 {
			t.Fatalf("Run() = %+v, %v", res, err)
		}
		if <-refused == nil || w.String() != "more\n" {
			t.Errorf("the writer has %q", w.String())
		}
	})
}
