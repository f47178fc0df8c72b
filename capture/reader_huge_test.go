package capture

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// huge is a source that is made up as it is read, and counts what is read of it.
type huge struct {
	size int64
	// unit is repeated, and at says what is in its place at some offsets.
	unit []byte
	at   map[int64]string
	read atomic.Int64
}

func (s *huge) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(0, s.size-off)))
	for i := 0; i < n; {
		i += copy(p[i:n], s.unit[(off+int64(i))%int64(len(s.unit)):])
	}
	for at, text := range s.at {
		for i := range len(text) {
			if j := at + int64(i) - off; j >= 0 && j < int64(n) {
				p[j] = text[i]
			}
		}
	}
	s.read.Add(int64(n))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (s *huge) Size() int64                       { return s.size }
func (s *huge) Gap() Gap                          { return Gap{} }
func (s *huge) Live() bool                        { return false }
func (s *huge) Wait(context.Context, int64) error { return nil }

// allocated returns how much memory f takes and gives back, all together.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHugeLine reads and searches a stream of 1 GiB that is a single line.
func TestHugeLine(t *testing.T) {
	const size, needle = 1 << 30, 700_000_000
	src := &huge{size: size, unit: bytes.Repeat([]byte("all on a single line, "), 20000), at: map[int64]string{needle: " NEEDLE all", size - 5: ", end"}}
	for _, v := range []View{{}, {Render: true, Redact: NewRedactor(nil, true)}} {
		r := NewReader(src).With(v)
		patterns := []string{"n[e]+dle .l", ", end$"}
		if v.Render {
			patterns = []string{"needle"}
		}
		taken := allocated(func() {
			for _, off := range []int64{0, size / 2, -100} {
				p, err := r.Page(t.Context(), off, 0)
				if err != nil {
					t.Fatal(err)
				}
				if l := p.Lines[0]; len(p.Lines) != 1 || l.Number != 1 || l.Continued != (off != 0) || l.Unfinished != (off >= 0) {
					t.Errorf("page at %d: %d lines, number %d", off, len(p.Lines), l.Number)
				}
			}
			for _, pattern := range patterns {
				m, err := r.Search(t.Context(), Query{Pattern: pattern, Before: 1, After: 1})
				if err != nil {
					t.Fatal(err)
				}
				if m.Total != 1 || len(m.Lines) != 1 || m.Lines[0].Number != 1 || len(m.Lines[0].Text) > maxText {
					t.Errorf("search for %q: %d", pattern, m.Total)
				}
			}
			if p, err := r.Tail(t.Context(), 3, 0); err != nil || len(p.Lines) != 1 || !strings.HasSuffix(p.Lines[0].Text, "end") {
				t.Errorf("the last lines: %d, %v", len(p.Lines), err)
			}
		})
		if taken > 16<<20 {
			t.Errorf("%d bytes of memory", taken)
		}
	}
}

// TestFarPage shows that a page at the end of 1 GiB reads as little as the first once
// the lines have been counted, and the last lines even before.
func TestFarPage(t *testing.T) {
	const size = 1 << 30
	src := &huge{size: size, unit: []byte("0123456789abcde\n")}
	r := NewReader(src)
	read := func(f func() (*Page, error)) (n int64) {
		t.Helper()
		src.read.Store(0)
		p, err := f()
		if err != nil {
			t.Fatal(err)
		}
		if want := p.Offset/16 + 1; p.Lines[0].Number != want && p.Lines[0].Number != 0 {
			t.Errorf("page at %d begins with line %d; want %d", p.Offset, p.Lines[0].Number, want)
		}
		return src.read.Load()
	}
	first := func() (*Page, error) { return r.Page(t.Context(), 0, 0) }
	last := func() (*Page, error) { return r.Page(t.Context(), -DefaultLimit, 0) }
	lines := func() (*Page, error) { return r.Lines(t.Context(), size/16-100, 100, 0) }
	end := func() (*Page, error) { return r.Tail(t.Context(), 100, 0) }

	if n := read(end); n > 1<<20 {
		t.Errorf("the last lines read %d bytes", n)
	}
	if n := read(first); n > 1<<20 {
		t.Errorf("the first page reads %d bytes", n)
	}
	if n := read(last); n < size*99/100 || n > size*101/100 {
		t.Errorf("the last page reads %d bytes before the lines are counted", n)
	}
	for name, f := range map[string]func() (*Page, error){"the last page": last, "the last lines by number": lines, "the first page": first, "the last lines": end} {
		// A page, and as much as between two marks of the index, twice.
		if n := read(f); n > DefaultLimit+3*indexStride {
			t.Errorf("%s reads %d bytes", name, n)
		}
	}
	if n := len(r.index.marks) * 8; n > 128<<10 {
		t.Errorf("the index takes %d bytes", n)
	}
}

// TestReadArtifacts reads what a collector has stored, with a gap that grows while it is
// read.
func TestReadArtifacts(t *testing.T) {
	store := openStore(t, Limits{Artifact: 1 << 20})
	c := New(Options{Store: store, Stdout: HeadTail(4 << 10)})
	t.Cleanup(func() { _ = c.Close() })
	line := func(i int64) string { return fmt.Sprintf("line %d %s", i, strings.Repeat("é", int(i%40))) }
	check := func(src Source) {
		t.Helper()
		r := NewReader(src)
		size := src.Size()
		whole := func(lines []Line) {
			t.Helper()
			for _, l := range lines {
				if !l.Continued && !l.Unfinished && l.Text != line(l.Number) {
					t.Fatalf("of %d bytes, gap %+v: line %d is %q", size, src.Gap(), l.Number, l.Text)
				}
			}
		}
		for at := int64(0); ; {
			p, err := r.Page(t.Context(), at, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			whole(p.Lines)
			if at = p.Next; p.Complete() {
				break
			}
		}
		p, err := r.Tail(t.Context(), 5, 0)
		if err != nil {
			t.Fatal(err)
		}
		if whole(p.Lines); len(p.Lines) != 5 || p.Lines[4].Number == 0 {
			t.Errorf("the last lines of %d bytes: %q", size, listed(p.Lines))
		}
		m, err := r.Search(t.Context(), Query{Pattern: "line [0-9]+7 ", Limit: MaxLimit})
		if err != nil {
			t.Fatal(err)
		}
		whole(m.Lines)
		last := p.Lines[4].Number
		if p, err = r.Lines(t.Context(), last-2, 2, 0); err != nil || len(p.Lines) != 2 || p.Lines[0].Number != last-2 {
			t.Errorf("lines %d and on of %d bytes: %q, %v", last-2, size, listed(p.Lines), err)
		}
		whole(p.Lines)
	}
	n := int64(0)
	for c.Stdout.Size() < 5<<20 {
		for range 5000 {
			n++
			fmt.Fprintln(c.Stdout, line(n))
		}
		check(c.Stdout)
	}
	c.End()
	check(c.Stdout)
	id := c.Stdout.Snapshot().Artifact
	a, err := store.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	check(a)
	p, err := NewReader(a).Tail(t.Context(), 1, 0)
	if err != nil || p.Lines[0].Number != n {
		t.Errorf("the last line: %q, %v; want number %d", listed(p.Lines), err, n)
	}
	m, err := NewReader(a).Search(t.Context(), Query{Pattern: "line", Limit: 4})
	if err != nil || m.Gap == nil || m.Total >= n || m.Total < n/20 {
		t.Errorf("a search over the gap: %+v, %v", m, err)
	}
	if got := slices.Index([]bool{m.Gap.Lines > 0, m.Gap.To > m.Gap.From}, false); got >= 0 {
		t.Errorf("gap %+v", m.Gap)
	}
}

// TestReadWhileGapGrows reads an artifact at its cap while it is written to.
func TestReadWhileGapGrows(t *testing.T) {
	store := openStore(t, Limits{Artifact: 1 << 20})
	c := New(Options{Store: store, Stdout: HeadTail(4 << 10)})
	t.Cleanup(func() { _ = c.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200_000 {
			fmt.Fprintf(c.Stdout, "line %d\n", i+1)
		}
		c.End()
	}()
	r := NewReader(c.Stdout)
	for live := true; live; {
		select {
		case <-done:
			live = false
		default:
		}
		p, err := r.Tail(t.Context(), 20, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Search(t.Context(), Query{Pattern: "line [0-9]*99$"})
		if err != nil {
			t.Fatal(err)
		}
		q, err := r.Page(t.Context(), c.Stdout.Gap().To, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range slices.Concat(p.Lines, m.Lines, q.Lines) {
			if want := fmt.Sprintf("line %d", l.Number); !l.Continued && !l.Unfinished && l.Text != want {
				t.Fatalf("line %d is %q (gap %+v)", l.Number, l.Text, c.Stdout.Gap())
			}
		}
	}
}
