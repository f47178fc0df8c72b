package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Helpers{"parent": parentHelper, "child": childHelper}))
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	tests := []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"\n \n\t\n", nil},
		{"a\nb\n", []string{"a", "b"}},
		{"a\r\n\n  b  ", []string{"a", "b"}},
		{long[1:] + "\nb\n", []string{long[1:], "b"}},
		{long + "\nb\n" + long + long + "\nc", []string{"too long", "b", "too long", "c"}},
	}
	for _, tt := range tests {
		l := NewLines(strings.NewReader(tt.in))
		var got []string
		for {
			text, err := l.Next(t.Context())
			if errors.Is(err, ErrTooLong) {
				text = []byte("too long")
			} else if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("Next: %v; want EOF", err)
				}
				break
			}
			got = append(got, string(text))
		}
		if strings.Join(got, "|") != strings.Join(tt.want, "|") {
			t.Errorf("lines of %.20q: %.60q; want %.60q", tt.in, got, tt.want)
		}
		l.Stop()
	}
}

func TestLinesEndWithTheContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	l := NewLines(r)
	defer l.Stop()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := l.Next(ctx); !errors.Is(err, cause) {
		t.Errorf("Next: %v; want %v", err, cause)
	}
}

func TestQueue(t *testing.T) {
	var out bytes.Buffer
	q := NewQueue(&out, nil)
	var want strings.Builder
	for i := range 1000 {
		s := strings.Repeat("x", i) + "\n"
		want.WriteString(s)
		if err := q.Put([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Close(t.Context()); err != nil || out.String() != want.String() {
		t.Errorf("Close: %v, %d bytes; want nil, %d", err, out.Len(), want.Len())
	}
	if err := q.Put(nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Put after Close: %v; want ErrClosedPipe", err)
	}
}

// TestQueueUnread: who puts never waits, who can waits, and there is an end to it.
func TestQueueUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := NewQueue(w, nil)
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		if err := q.Put(chunk); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is being written
		put := 1
		for q.Put(chunk) == nil {
			put++
		}
		if want := MaxUnread / len(chunk); put != want {
			t.Errorf("%d messages were taken; want %d", put, want)
		}
		if err := q.Put(chunk); !errors.Is(err, ErrUnread) {
			t.Errorf("Put: %v; want ErrUnread", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close while a write waits: %v; want DeadlineExceeded", err)
		}
		r.Close()
		if err := q.Close(t.Context()); !errors.Is(err, ErrUnread) {
			t.Errorf("Close: %v; want ErrUnread", err)
		}
	})
}

func TestQueueRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := NewQueue(w, nil)
		if err := q.Room(t.Context()); err != nil {
			t.Errorf("Room at first: %v", err)
		}
		if err := q.Put(make([]byte, patience)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Room(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Room when there is none: %v; want DeadlineExceeded", err)
		}
		go func() { _, _ = io.ReadFull(r, make([]byte, patience)) }()
		if err := q.Room(t.Context()); err != nil {
			t.Errorf("Room after a read: %v", err)
		}
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueBroken(t *testing.T) {
	r, w := io.Pipe()
	told := make(chan error, 2)
	q := NewQueue(w, func(err error) { told <- err })
	r.Close()
	if err := q.Put([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Close: %v; want ErrClosedPipe", err)
	}
	if err := <-told; !errors.Is(err, io.ErrClosedPipe) || len(told) > 0 {
		t.Errorf("broken is told %v, and %d more; want ErrClosedPipe", err, len(told))
	}
}

// parentHelper starts the child with its own standard streams, says so, and ends
// when it is told to, so that only the child has them.
func parentHelper([]string) int {
	p, err := os.StartProcess("/proc/self/exe", []string{"child"}, &os.ProcAttr{
		Env:   append(os.Environ(), "SHOFER_TEST_HELPER=child"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 1
	}
	_ = p.Release()
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// childHelper says what its context ended of.
func childHelper([]string) int {
	ctx, cancel := Session(context.Background())
	defer cancel()
	_, _ = os.Stdout.WriteString("ready\n")
	<-ctx.Done()
	_, _ = os.Stdout.WriteString(context.Cause(ctx).Error() + "\n")
	return 0
}

func TestSession(t *testing.T) {
	testenv.Helper(t, "child") // it is used, by the other helper
	cmd := testenv.Helper(t, "parent")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	l := NewLines(r)
	defer l.Stop()
	if got, err := l.Next(t.Context()); string(got) != "ready" {
		t.Fatalf("the child says %q, %v", got, err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Next(t.Context()); string(got) != ErrParent.Error() {
		t.Errorf("the child says %q, %v; want %q", got, err, ErrParent)
	}
}

func TestSessionReleased(t *testing.T) {
	ctx, cancel := Session(t.Context())
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
	cancel()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v; want Canceled", err)
	}
}
