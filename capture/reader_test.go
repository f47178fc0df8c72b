package capture

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// text is a source in memory, with a gap if one is asked for.
type text struct {
	mu      sync.Mutex
	all     []byte
	gap     Gap
	live    bool
	changed chan struct{}
}

func newText(all []byte) *text { return &text{all: all, changed: make(chan struct{})} }

// without makes a gap.
func (s *text) without(from, to int) *text {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gap = Gap{int64(from), int64(to), lineEnds(s.all[from:to])}
	return s
}

func (s *text) add(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, b...)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *text) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = false
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *text) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := int64(len(s.all))
	if s.gap.From < s.gap.To {
		if off >= s.gap.From && off < s.gap.To {
			return 0, &GapError{s.gap.From, s.gap.To}
		}
		if off < s.gap.From {
			end = s.gap.From
		}
	}
	if off >= end {
		return 0, io.EOF
	}
	n := copy(p, s.all[off:end])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (s *text) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.all))
}

func (s *text) Gap() Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gap
}

func (s *text) Live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

func (s *text) Wait(ctx context.Context, seen int64) error {
	for {
		s.mu.Lock()
		more, changed := int64(len(s.all)) > seen || !s.live, s.changed
		s.mu.Unlock()
		if more {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bytesOf puts together what the lines of a page of a plain view stand for.
func bytesOf(p *Page, all []byte) []byte {
	var b []byte
	for i, l := range p.Lines {
		b = append(b, l.Text...)
		at := p.Offset + int64(len(b))
		if i < len(p.Lines)-1 || at < p.End && all[at] == '\n' {
			b = append(b, '\n')
		}
	}
	return b
}

// checkPage compares a page with the stream.
func checkPage(p *Page, all []byte) error {
	want := all[p.Offset:p.End]
	if got := bytesOf(p, all); !bytes.Equal(got, want) {
		return fmt.Errorf("shows %q; want %q", got, want)
	}
	number, at := lineEnds(all[:p.Offset])+1, p.Offset
	for i, l := range p.Lines {
		if l.Number != number || l.Offset != at {
			return fmt.Errorf("line %d has number %d and offset %d; want %d and %d", i, l.Number, l.Offset, number, at)
		}
		if continued := at > 0 && all[at-1] != '\n'; l.Continued != continued {
			return fmt.Errorf("line %d: continued = %v; want %v", number, l.Continued, continued)
		}
		end := at + int64(len(l.Text))
		if unfinished := end < int64(len(all)) && (end == p.End || all[end] != '\n'); l.Unfinished != unfinished {
			return fmt.Errorf("line %d: unfinished = %v; want %v", number, l.Unfinished, unfinished)
		}
		number, at = number+1, end+1
	}
	return nil
}

// splitsRune reports whether a rune is on both sides of an offset.
func splitsRune(all []byte, off int64) bool {
	for i := int64(1); i < utf8.UTFMax && i <= off; i++ {
		if r, n := utf8.DecodeRune(all[off-i:]); r != utf8.RuneError && int64(n) > i {
			return true
		}
	}
	return false
}

func checkPages(all []byte, limit int64) error {
	ctx := context.Background()
	r := NewReader(newText(all))
	for offset := int64(0); ; {
		p, err := r.Page(ctx, offset, limit)
		if err != nil {
			return err
		}
		if p.Offset != offset || p.End-p.Offset > max(limit, utf8.UTFMax) || p.Next != p.End || splitsRune(all, p.End) {
			return fmt.Errorf("page at %d of %d bytes: %d to %d, next %d", offset, limit, p.Offset, p.End, p.Next)
		}
		if err := checkPage(p, all); err != nil {
			return fmt.Errorf("page at %d of %d bytes: %w", offset, limit, err)
		}
		if p.Complete() {
			if p.End != int64(len(all)) {
				return fmt.Errorf("the last page ends at %d; want %d", p.End, len(all))
			}
			return nil
		}
		if p.Next <= offset {
			return fmt.Errorf("page at %d of %d bytes: no way on", offset, limit)
		}
		offset = p.Next
	}
}

func TestPages(t *testing.T) {
	r := newRand(1)
	for range 300 {
		all := randomLines(r, r.IntN(3000))
		if err := checkPages(all, 1+r.Int64N(200)); err != nil {
			t.Fatalf("%v of %q", err, all)
		}
	}
}

func FuzzPages(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\xf0\x9f\x98\x80\n"), 5)
	f.Add([]byte("\xf0\x9f\x98"), 1)
	f.Fuzz(func(t *testing.T, all []byte, limit int) {
		if err := checkPages(all, max(1, int64(limit)&0xff)); err != nil {
			t.Error(err)
		}
	})
}

// TestPageAnywhere asks for pages that begin inside runes and lines.
func TestPageAnywhere(t *testing.T) {
	all := []byte(strings.Repeat("a😀b€\né\n", 40))
	rd := NewReader(newText(all))
	for off := range int64(len(all)) {
		for limit := int64(1); limit < 12; limit++ {
			p, err := rd.Page(t.Context(), off, limit)
			if err != nil {
				t.Fatal(err)
			}
			if p.Offset > off || p.Offset < off-3 || splitsRune(all, p.Offset) || splitsRune(all, p.End) || p.End <= off {
				t.Fatalf("Page(%d, %d) is %d to %d", off, limit, p.Offset, p.End)
			}
			if err := checkPage(p, all); err != nil {
				t.Fatalf("Page(%d, %d): %v", off, limit, err)
			}
		}
	}
}

func TestPageEdges(t *testing.T) {
	for _, tc := range []struct {
		all           string
		offset, limit int64
		from, to      int64
		complete      bool
	}{
		{"", 0, 0, 0, 0, true},
		{"", 5, 0, 0, 0, true},
		{"", -5, 0, 0, 0, true},
		{"abc\n", 4, 0, 4, 4, true},
		{"abc\n", 99, 0, 4, 4, true},
		{"abc\n", -2, 0, 2, 4, true},
		{"abc\n", -99, 0, 0, 4, true},
		{"abcdefgh\n", 0, 4, 0, 4, false},
		{"abcdefgh\n", 0, -1, 0, 9, true},
		{strings.Repeat("x", DefaultLimit+1), 0, 0, 0, DefaultLimit, false},
	} {
		p, err := NewReader(newText([]byte(tc.all))).Page(t.Context(), tc.offset, tc.limit)
		if err != nil || p.Offset != tc.from || p.End != tc.to || p.Complete() != tc.complete {
			t.Errorf("Page(%.20q, %d, %d) = %+v, %v; want %d to %d, complete %v", tc.all, tc.offset, tc.limit, p, err, tc.from, tc.to, tc.complete)
		}
	}
}

func TestLines(t *testing.T) {
	all := []byte("one\ntwo\n\nfour\nfive")
	r := NewReader(newText(all))
	for _, tc := range []struct {
		first, count int64
		want         string
	}{
		{1, 1, "1:one"},
		{0, 2, "1:one 2:two"},
		{2, 3, "2:two 3: 4:four"},
		{5, 9, "5:five"},
		{6, 1, ""},
		{99, 1, ""},
		{4, 0, "4:four 5:five"},
	} {
		p, err := r.Lines(t.Context(), tc.first, tc.count, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(p.Lines); got != tc.want {
			t.Errorf("Lines(%d, %d) = %q; want %q", tc.first, tc.count, got, tc.want)
		}
	}
}

// listed writes lines in a short form.
func listed(lines []Line) string {
	var w []string
	for _, l := range lines {
		s := fmt.Sprintf("%d:%s", l.Number, l.Text)
		if l.Continued {
			s = "<" + s
		}
		if l.Unfinished {
			s += ">"
		}
		if l.Match {
			s += "!"
		}
		if l.Repeats > 0 {
			s += fmt.Sprintf("x%d", l.Repeats+1)
		}
		w = append(w, s)
	}
	return strings.Join(w, " ")
}

func TestTail(t *testing.T) {
	for _, tc := range []struct {
		all          string
		lines, limit int64
		want         string
	}{
		{"one\ntwo\nthree\n", 2, 0, "2:two 3:three"},
		{"one\ntwo\nthree", 2, 0, "2:two 3:three"},
		{"one\ntwo\n\n", 1, 0, "3:"},
		{"one\ntwo\n", 9, 0, "1:one 2:two"},
		{"one\ntwo\n", 0, 6, "<1:e 2:two"},
		{"one\ntwo\n", 2, 6, "<1:e 2:two"},
		{"", 3, 0, ""},
		{"\n", 3, 0, "1:"},
	} {
		p, err := NewReader(newText([]byte(tc.all))).Tail(t.Context(), tc.lines, tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(p.Lines); got != tc.want || !p.Complete() {
			t.Errorf("Tail(%q, %d, %d) = %q; want %q", tc.all, tc.lines, tc.limit, got, tc.want)
		}
	}
}

// TestTailModel compares with the end of a list of lines.
func TestTailModel(t *testing.T) {
	r := newRand(2)
	for range 200 {
		all := randomLines(r, r.IntN(600<<10))
		n := 1 + r.Int64N(2000)
		p, err := NewReader(newText(all)).Tail(t.Context(), n, MaxLimit)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(all, []byte{'\n'})
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		want := bytes.Join(lines[max(0, len(lines)-int(n)):], nil)
		if p.End != int64(len(all)) || !bytes.Equal(all[p.Offset:], want) {
			t.Fatalf("the last %d of %d lines begin at %d; want %d", n, len(lines), p.Offset, len(all)-len(want))
		}
	}
}

// TestGap reads pages and lines of a stream with a gap.
func TestGap(t *testing.T) {
	all := []byte("one\ntwo\nthree\nfour\nfive\nsix\n")
	src := newText(all).without(6, 20) // tw | o, three, four, f | ive
	r := NewReader(src)
	gap := &Gap{6, 20, 3}
	for _, tc := range []struct {
		name          string
		page          func() (*Page, error)
		want          string
		next          int64
		before, after bool
	}{
		{"from the beginning", func() (*Page, error) { return r.Page(t.Context(), 0, 0) }, "1:one 2:tw>", 20, false, true},
		{"in the gap", func() (*Page, error) { return r.Page(t.Context(), 9, 0) }, "<5:ive 6:six", 28, true, false},
		{"after the gap", func() (*Page, error) { return r.Page(t.Context(), 22, 0) }, "<5:e 6:six", 28, false, false},
		{"the line cut", func() (*Page, error) { return r.Lines(t.Context(), 2, 1, 0) }, "2:tw>", 20, false, true},
		{"a line in the gap", func() (*Page, error) { return r.Lines(t.Context(), 3, 1, 0) }, "<5:ive", 24, true, false},
		{"a line after", func() (*Page, error) { return r.Lines(t.Context(), 6, 1, 0) }, "6:six", 28, false, false},
		{"the end", func() (*Page, error) { return r.Tail(t.Context(), 1, 0) }, "6:six", 28, false, false},
		{"more than the end", func() (*Page, error) { return r.Tail(t.Context(), 9, 0) }, "<5:ive 6:six", 28, true, false},
	} {
		p, err := tc.page()
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(p.Lines); got != tc.want || p.Next != tc.next || (p.Before != nil) != tc.before || (p.After != nil) != tc.after {
			t.Errorf("%s: %q, next %d, %v, %v; want %q, %d", tc.name, got, p.Next, p.Before, p.After, tc.want, tc.next)
		}
		for _, g := range []*Gap{p.Before, p.After} {
			if g != nil && *g != *gap {
				t.Errorf("%s: gap %+v; want %+v", tc.name, *g, *gap)
			}
		}
	}
}

// TestGapInRune shows that a page comes to its end where a live stream's gap cuts a
// rune.
func TestGapInRune(t *testing.T) {
	src := newText([]byte("aé and é")).without(2, 8)
	src.live = true
	r := NewReader(src)
	for _, tc := range []struct{ offset, from, end, next int64 }{{0, 0, 2, 8}, {1, 1, 2, 8}, {2, 8, 10, 10}} {
		p, err := r.Page(t.Context(), tc.offset, 0)
		if err != nil || p.Offset != tc.from || p.End != tc.end || p.Next != tc.next {
			t.Errorf("page at %d: %d to %d, next %d, %v; want %d to %d, next %d", tc.offset, p.Offset, p.End, p.Next, err, tc.from, tc.end, tc.next)
		}
	}
}

// TestLinesModel compares line numbers with those counted, with gaps and when the
// index is forced to thin out its marks.
func TestLinesModel(t *testing.T) {
	r := newRand(3)
	for range 60 {
		all := randomLines(r, r.IntN(100<<10))
		src := newText(all)
		if r.IntN(2) == 0 && len(all) > 0 {
			from := r.IntN(len(all))
			src.without(from, from+r.IntN(len(all)-from))
		}
		gap := src.gap
		rd := NewReader(src)
		rd.index.stride = 1 << (2 + r.IntN(12))
		for range 50 {
			off := r.Int64N(int64(len(all)) + 1)
			if off >= gap.From && off < gap.To {
				off = gap.To
			}
			n, err := rd.index.before(t.Context(), off)
			if want := lineEnds(all[:off]); err != nil || n != want {
				t.Fatalf("before(%d) = %d, %v; want %d (gap %+v)", off, n, err, want, gap)
			}
			line := r.Int64N(lineEnds(all) + 3)
			at, err := rd.index.line(t.Context(), line)
			want := int64(len(all))
			if i := afterLines(all, line-1); i >= 0 {
				want = int64(i)
			}
			if want > gap.From && want <= gap.To {
				want = gap.To
			}
			if err != nil || at != want {
				t.Fatalf("line(%d) = %d, %v; want %d (gap %+v)", line, at, err, want, gap)
			}
		}
	}
}

// afterLines returns the index after n line ends, or -1.
func afterLines(all []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(all[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}

func TestIndexThins(t *testing.T) {
	all := bytes.Repeat([]byte("line\n"), 1<<16)
	rd := NewReader(newText(all))
	rd.index.stride = 4
	for _, off := range []int64{1, 5, 1000, int64(len(all)), 77777, 4} {
		if n, err := rd.index.before(t.Context(), off); err != nil || n != off/5 {
			t.Errorf("before(%d) = %d, %v; want %d", off, n, err, off/5)
		}
	}
	if n := len(rd.index.marks); n > indexMarks {
		t.Errorf("%d marks; want at most %d", n, indexMarks)
	}
}
