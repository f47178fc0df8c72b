package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// merged shows pieces in one line.
func merged(c *Collector) string {
	var b strings.Builder
	for _, p := range c.Merged() {
		if p.Omitted > 0 {
			fmt.Fprintf(&b, "%.1s[%d bytes, %d lines]", p.Stream.Name()[3:], p.Omitted, p.OmittedLines)
			continue
		}
		fmt.Fprintf(&b, "%.1s(%s)", p.Stream.Name()[3:], p.Text)
	}
	return b.String()
}

func TestMerged(t *testing.T) {
	for _, tc := range []struct {
		name  string
		o     Options
		turns []string // of stdout and stderr
		want  string
	}{
		{"nothing", Options{}, nil, ""},
		{"in turns", Options{}, []string{"a", "b", "c", "d"}, "o(a)e(b)o(c)e(d)"},
		{"at a stretch", Options{}, []string{"a", "", "b", "", "c", "d"}, "o(abc)e(d)"},
		{"a split rune", Options{}, []string{"a\xe2\x82", "b", "\xac", "d"}, "o(a)e(b)o(€)e(d)"},
		{"an unfinished rune", Options{}, []string{"a\xe2\x82", "b"}, "o(a\xe2\x82)e(b)"},
		{"not a rune", Options{}, []string{"a\xff", "b"}, "o(a\xff)e(b)"},
		{
			"stdout omitted",
			Options{Stdout: HeadTail(4), Stderr: HeadTail(100)},
			[]string{"ab", "1", "\n\n\n", "2", "\n\n\n\n\n", "3", "yz", "4"},
			"o(ab)e(1)o[8 bytes, 8 lines]e(2)e(3)o(yz)e(4)",
		},
		{
			"both omitted",
			Options{Stdout: HeadTail(2)},
			[]string{"ab", "12", "cdefg", "3456", "hi", "78"},
			"o(a)o[7 bytes, 0 lines]e(1)e[6 bytes, 0 lines]o(i)e(8)",
		},
		{"heads", Options{Stdout: Window{Head: 2}}, []string{"ab", "1", "cd", "23"}, "o(ab)e(1)o[2 bytes, 0 lines]e(2)e[1 bytes, 0 lines]"},
		{"heads at their end", Options{Stdout: Window{Head: 2}}, []string{"ab", "12", "cd", "3"}, "o(ab)e(12)o[2 bytes, 0 lines]e[1 bytes, 0 lines]"},
		{"tails", Options{Stdout: Window{Tail: 2}}, []string{"abc", "12", "cd", "3"}, "o[3 bytes, 0 lines]e[1 bytes, 0 lines]e(2)o(cd)e(3)"},
		{"one stream", Options{Merged: true}, []string{"a", "b", "c"}, "p(abc)"},
	} {
		c := New(tc.o)
		for i, text := range tc.turns {
			_, _ = []*Stream{c.Stdout, c.Stderr}[i%2].Write([]byte(text))
		}
		if got := merged(c); got != tc.want {
			t.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
	}
}

// TestMergedTurns: however often the streams take turns, the log is bounded and
// the view has all that the windows have.
func TestMergedTurns(t *testing.T) {
	for _, w := range []Window{HeadTail(Large), {Head: 3}, {Tail: 3}, HeadTail(4000)} {
		c := New(Options{Stdout: w})
		models := map[*Stream]*model{c.Stdout: {s: c.Stdout}, c.Stderr: {s: c.Stderr}}
		for turn := range 30_000 {
			for _, s := range c.streams() {
				m, p := models[s], []byte{byte('a' + turn%26)}
				_, _ = s.Write(p)
				m.all = append(m.all, p...)
				m.turns = append(m.turns, turn)
				if turn < 300 {
					if err := checkMerged(c, models, true); err != nil {
						t.Fatalf("%v after %d turns: %v", w, turn, err)
					}
				}
			}
			if n := cap(c.order.runs); n > 2*maxRuns {
				t.Fatalf("%d runs after %d turns", n, turn)
			}
		}
		if err := checkMerged(c, models, false); err != nil {
			t.Errorf("%v: %v", w, err)
		}
		for _, p := range c.Merged() {
			if len(p.Text) > 256 {
				t.Errorf("%v: %d bytes of one stream at a stretch", w, len(p.Text))
			}
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		got := make(chan error, 4)
		wait := func(ctx context.Context, seen int64) {
			go func() { got <- c.Stdout.Wait(ctx, seen) }()
			synctest.Wait()
		}
		waiting := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := cap(got) - len(got); n != want {
				t.Errorf("%d wait; want %d", n, want)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait(t.Context(), 0)
		wait(t.Context(), 3)
		wait(t.Context(), 4)
		wait(ctx, 4)
		waiting(4)
		_, _ = c.Stderr.Write([]byte("other"))
		waiting(4)
		_, _ = c.Stdout.Write([]byte("abc"))
		waiting(3)
		_, _ = c.Stdout.Write([]byte("d"))
		waiting(2)
		cause := errors.New("cause")
		cancel(cause)
		waiting(1)
		c.End()
		waiting(0)
		errs := []error{<-got, <-got, <-got, <-got}
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], cause) || errs[3] != nil {
			t.Error(errs)
		}
		if err := c.Stdout.Wait(ctx, 100); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestExactlyFull: what the windows hold needs no artifact, and one byte more
// does.
func TestExactlyFull(t *testing.T) {
	for _, w := range []Window{HeadTail(7), {Head: 7}, {Tail: 7}} {
		c := New(Options{Stdout: w, Store: openStore(t, Limits{})})
		for i := range 7 {
			_, _ = c.Stdout.Write([]byte{byte('a' + i)})
		}
		if s := c.Stdout.Snapshot(); string(s.Head) != "abcdefg" || s.Artifact != "" || s.Omitted != 0 {
			t.Errorf("%v: %+v", w, s)
		}
		_, _ = c.Stdout.Write([]byte("h"))
		p := make([]byte, 8)
		if s := c.Stdout.Snapshot(); s.Artifact == "" || s.Omitted != 1 {
			t.Errorf("%v: %+v", w, s)
		}
		if n, err := c.Stdout.ReadAt(p, 0); n != 8 || err != nil || string(p) != "abcdefgh" {
			t.Errorf("%v: ReadAt() = %q, %v", w, p[:n], err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHugeWrite: one write of much more than an artifact may hold takes no more
// room than many small ones, and readers see no gap in what isn't there yet.
func TestHugeWrite(t *testing.T) {
	store := openStore(t, Limits{Artifact: 1 << 20})
	c := New(Options{Store: store})
	p := bytes.Repeat([]byte("0123456\n"), 4<<20)
	_, _ = c.Stdout.Write(p[:2*Medium]) // there is an artifact by now
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.Stdout.Write(p[2*Medium:])
		c.End()
	})
	for c.Stdout.Live() {
		gap := c.Stdout.Gap()
		if size := c.Stdout.Size(); gap.To > size || gap.Lines != (gap.To-gap.From)/8 {
			t.Errorf("gap %+v of %d bytes", gap, size)
		}
	}
	wg.Wait()
	infos, err := store.List()
	if err != nil || len(infos) != 1 || infos[0].Size != int64(len(p)) || infos[0].Disk > 1<<20 {
		t.Errorf("List() = %+v, %v", infos, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestEnd(t *testing.T) {
	c := New(Options{Store: openStore(t, Limits{}), Stdout: Window{Head: 1}})
	_, _ = c.Stdout.Write([]byte("kept"))
	c.End()
	c.End()
	if n, err := c.Stdout.Write([]byte("dropped")); n != 7 || err != nil {
		t.Errorf("Write() after the end = %d, %v", n, err)
	}
	if s := c.Stdout.Snapshot(); s.Bytes != 4 || s.Live || s.Artifact == "" {
		t.Errorf("%+v", s)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if s := c.Stdout.Snapshot(); s.Bytes != 4 || s.Artifact == "" || s.SpillErr != nil {
		t.Errorf("%+v", s)
	}
}

func TestCursor(t *testing.T) {
	c := New(Options{Stdout: Window{Tail: 4}})
	cur := Cursor{Source: c.Stdout}
	for i, tc := range []struct {
		write string
		limit int
		want  Delta
		end   bool
	}{
		{"", 10, Delta{0, 0, nil}, false},
		{"ab", 10, Delta{0, 0, []byte("ab")}, false},
		{"", 10, Delta{0, 2, nil}, false},
		{"c\xe2\x82", 10, Delta{0, 2, []byte("c")}, false},
		{"\xac", 10, Delta{0, 3, []byte("€")}, false},
		{"0123456789", 10, Delta{6, 12, []byte("6789")}, false},
		{"€", 2, Delta{0, 16, []byte("€")}, false}, // at least one rune
		{"\xe2\x82", 10, Delta{0, 19, nil}, false},
		{"end", 10, Delta{0, 19, []byte("\xe2\x82")}, true},
		{"end", 10, Delta{0, 21, nil}, true},
	} {
		if tc.write == "end" {
			c.End()
		} else {
			_, _ = c.Stdout.Write([]byte(tc.write))
		}
		d, err := cur.Next(tc.limit)
		wantErr := error(nil)
		if tc.end && len(tc.want.Text) == 0 {
			wantErr = io.EOF
		}
		if d.Lost != tc.want.Lost || d.From != tc.want.From || !bytes.Equal(d.Text, tc.want.Text) || !errors.Is(err, wantErr) {
			t.Errorf("%d: Next(%d) = %+v, %v; want %+v, %v", i, tc.limit, d, err, tc.want, wantErr)
		}
	}
	// Another reader isn't disturbed, and can begin anywhere.
	other := Cursor{Source: c.Stdout, Offset: 19}
	if d, err := other.Next(10); err != nil || string(d.Text) != "\xe2\x82" || d.Lost != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestConcurrent: readers of every kind read while both streams are written, and
// see nothing that wasn't written.
func TestConcurrent(t *testing.T) {
	for _, withStore := range []bool{false, true} {
		t.Run(fmt.Sprintf("store=%v", withStore), func(t *testing.T) {
			o := Options{Stdout: HeadTail(500)}
			if withStore {
				o.Store = openStore(t, Limits{})
				o.Store.shape = shape{Head: 3000, Tail: 70_000, Step: 3000}
			}
			c := New(o)
			const size = 1 << 19
			all := repeated(writerText(1), size)
			var writers, readers sync.WaitGroup
			for i, s := range c.streams() {
				writers.Go(func() {
					r := newRand(uint64(i))
					for p := all; len(p) > 0; {
						n := min(len(p), 1+r.IntN(5000))
						_, _ = s.Write(p[:n])
						p = p[n:]
					}
				})
				for range 2 {
					readers.Go(func() { follow(t, s, all) })
				}
				readers.Go(func() {
					for s.Live() {
						shot := s.Snapshot()
						if !bytes.HasPrefix(all, shot.Head) || !bytes.HasSuffix(all[:shot.Bytes], shot.Tail) ||
							int64(len(shot.Head)+len(shot.Tail))+shot.Omitted != shot.Bytes {
							t.Errorf("head of %d, tail of %d, %d of %d bytes omitted", len(shot.Head), len(shot.Tail), shot.Omitted, shot.Bytes)
						}
						if withStore && shot.Omitted > 0 && shot.Artifact == "" {
							t.Error("no artifact:", shot.SpillErr)
						}
						gap := s.Gap()
						if want := bytes.Count(all[gap.From:gap.To], []byte{'\n'}); gap.Lines != int64(want) || gap.To > s.Size() {
							t.Errorf("gap %+v with %d lines of %d bytes", gap, want, s.Size())
						}
					}
				})
			}
			readers.Go(func() {
				for c.Stdout.Live() {
					n := map[*Stream]int{}
					for _, p := range c.Merged() {
						n[p.Stream] += len(p.Text)
					}
					if n[c.Stdout] > 500 || n[c.Stderr] > 500 {
						t.Errorf("merged: %v", n)
					}
				}
			})
			writers.Wait()
			c.End()
			readers.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// follow reads a stream to its end, and checks what it gets.
func follow(t *testing.T, src Source, all []byte) {
	cur := Cursor{Source: src}
	for {
		if err := src.Wait(t.Context(), cur.Offset); err != nil {
			t.Error(err)
			return
		}
		d, err := cur.Next(7000)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !bytes.Equal(d.Text, all[d.From:][:len(d.Text)]) {
			t.Errorf("%d bytes at %d: %v", len(d.Text), d.From, err)
			return
		}
	}
	if cur.Offset != int64(len(all)) {
		t.Errorf("followed to %d of %d", cur.Offset, len(all))
	}
}
