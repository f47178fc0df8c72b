package runner

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner/pty"
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
		w := &slow{wait: 20 * time.Second} // just when a timer of the drain fires
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

// gate lets writers through when it is opened.
type gate struct {
	bytes.Buffer
	began chan struct{}
	once  sync.Once
	open  chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.began) })
	<-g.open
	return g.Buffer.Write(p)
}

// What is in a pipe or a terminal when it is given up is read all the same.
func TestGiveUp(t *testing.T) {
	makePipe := func(t *testing.T) (ours, theirs *os.File) {
		ours, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return ours, theirs
	}
	makeTerminal := func(t *testing.T) (ours, theirs *os.File) {
		term, err := pty.Open(pty.Options{Raw: true})
		if err != nil {
			t.Fatal(err)
		}
		return term.Host(), term.Child()
	}
	for _, tt := range []struct {
		name  string
		open  func(*testing.T) (ours, theirs *os.File)
		size  int
		holds bool // somebody holds it open
	}{
		{"pipe", makePipe, 60_000, false},
		{"pipe, held", makePipe, 60_000, true},
		{"empty pipe, held", makePipe, 1, true},
		{"terminal", makeTerminal, 7_000, false},
		{"terminal, held", makeTerminal, 7_000, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := tt.open(t)
			defer func() { _ = ours.Close() }()
			defer func() { _ = theirs.Close() }()
			g := &gate{began: make(chan struct{}), open: make(chan struct{})}
			spec := &Spec{Merge: true, Budget: 1 << 20, Stdout: g}
			o := newOutput(spec, &Config{}, nil)
			o.copyAll(Streams{Stdout: ours}, spec)
			want := bytes.Repeat([]byte{'x'}, tt.size)
			for _, part := range [][]byte{want[:1], want[1:]} {
				if _, err := theirs.Write(part); err != nil {
					t.Fatal(err)
				}
				<-g.began // the rest comes when the writer is at it
			}
			if !tt.holds {
				_ = theirs.Close()
			}
			o.stop()
			close(g.open)
			if got := o.giveUp(); got != tt.holds {
				t.Errorf("giveUp() = %v; want %v", got, tt.holds)
			}
			if !bytes.Equal(g.Bytes(), want) || o.c.Stdout.Size() != int64(tt.size) {
				t.Errorf("the writer has %d bytes, what is kept %d; want %d", g.Len(), o.c.Stdout.Size(), tt.size)
			}
		})
	}
}
