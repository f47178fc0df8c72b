package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// model is the naive copy of a stream: all of its bytes.
type model struct {
	s       *Stream
	all     []byte
	turns   []int // of which write, counted over both streams, each byte is
	cursors []*follower
}

// follower is one of several independent readers.
type follower struct {
	c    Cursor
	lost int64
	got  []byte // zeroes for what was lost
}

func (f *follower) next(limit int) error {
	d, err := f.c.Next(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if want := int64(len(f.got)) + d.Lost; d.From != want {
		return fmt.Errorf("a delta begins at %d; want %d", d.From, want)
	}
	f.lost += d.Lost
	f.got = append(append(f.got, make([]byte, d.Lost)...), d.Text...)
	if f.c.Offset != int64(len(f.got)) {
		return fmt.Errorf("the cursor is at %d after %d bytes", f.c.Offset, len(f.got))
	}
	return err
}

// checkSource compares what a source says with what was written: everything but
// the gap, which must be within [gapFrom, gapTo).
func checkSource(src Source, all []byte, gapFrom, gapTo int64, r *rand.Rand) error {
	size := int64(len(all))
	if src.Size() != size {
		return fmt.Errorf("Size() = %d; want %d", src.Size(), size)
	}
	gap := src.Gap()
	from, to := gap.From, gap.To
	if from != to && (from < gapFrom || to > gapTo) || from > to {
		return fmt.Errorf("Gap() = %+v; want within %d, %d", gap, gapFrom, gapTo)
	}
	if want := int64(bytes.Count(all[from:to], []byte{'\n'})); gap.Lines != want {
		return fmt.Errorf("Gap() = %+v; want %d lines", gap, want)
	}
	for range 8 {
		off := r.Int64N(size + 2)
		p := make([]byte, 1+r.Int64N(size+2))
		n, err := src.ReadAt(p, off)
		wantN, wantErr := int64(len(p)), error(nil)
		inGap := &GapError{}
		switch end := off + wantN; {
		case from < to && off < to && end > from:
			wantN, wantErr = max(0, from-off), &GapError{from, to}
			if !errors.As(err, &inGap) || *inGap != (GapError{from, to}) {
				return fmt.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %v", len(p), off, n, err, wantErr)
			}
		case end > size:
			wantN, wantErr = max(0, size-off), io.EOF
		}
		if int64(n) != wantN || inGap.To == 0 && !errors.Is(err, wantErr) {
			return fmt.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d, %v", len(p), off, n, err, wantN, wantErr)
		}
		if off <= size && !bytes.Equal(p[:n], all[off:][:n]) {
			return fmt.Errorf("ReadAt(%d bytes, %d) reads %q; want %q", len(p), off, p[:n], all[off:][:n])
		}
	}
	return nil
}

// check compares a snapshot with what was written.
func (m *model) check(w Window) error {
	s, size := m.s.Snapshot(), int64(len(m.all))
	if lines := int64(bytes.Count(m.all, []byte{'\n'})); s.Bytes != size ||
		s.Lines != lines && (s.Lines != lines+1 || bytes.HasSuffix(m.all, []byte{'\n'})) ||
		s.Lines == lines && size > 0 && !bytes.HasSuffix(m.all, []byte{'\n'}) {
		return fmt.Errorf("%d bytes, %d lines; want %d, %d", s.Bytes, s.Lines, size, lines)
	}
	if size <= int64(w.Head+w.Tail) {
		if !bytes.Equal(s.Head, m.all) || len(s.Tail) > 0 || s.Omitted != 0 || s.OmittedLines != 0 {
			return fmt.Errorf("%d of %d bytes omitted with a window of %v", s.Omitted, size, w)
		}
		return nil
	}
	from, to := int64(len(s.Head)), size-int64(len(s.Tail))
	omitted := m.all[from:to]
	if !bytes.HasPrefix(m.all, s.Head) || !bytes.HasSuffix(m.all, s.Tail) || s.Omitted != int64(len(omitted)) ||
		s.OmittedLines != int64(bytes.Count(omitted, []byte{'\n'})) {
		return fmt.Errorf("head %q, %d bytes and %d lines omitted, tail %q of %q", s.Head, s.Omitted, s.OmittedLines, s.Tail, m.all)
	}
	if len(s.Head) > w.Head || len(s.Head) < w.Head-max(w.Head/4, 3) || len(s.Tail) > w.Tail || len(s.Tail) < w.Tail-max(w.Tail/4, 3) {
		return fmt.Errorf("head of %d and tail of %d bytes with a window of %v", len(s.Head), len(s.Tail), w)
	}
	// No line is cut where the window had a boundary near.
	if i := bytes.LastIndexByte(m.all[:w.Head], '\n') + 1; i > 0 && w.Head-i <= w.Head/4 && len(s.Head) != i {
		return fmt.Errorf("head %q isn't cut at a line", s.Head)
	}
	start := m.all[size-int64(w.Tail)-1:]
	if i := bytes.IndexByte(start, '\n'); w.Tail > 0 && i >= 0 && i <= w.Tail/4 && len(s.Tail) != w.Tail-i {
		return fmt.Errorf("tail %q isn't cut at a line", s.Tail)
	}
	// No rune is cut.
	for i := 0; i < len(m.all); {
		r, n := utf8.DecodeRune(m.all[i:])
		for _, cut := range []int64{from, to} {
			if r != utf8.RuneError && int64(i) < cut && cut < int64(i+n) {
				return fmt.Errorf("the rune %q at %d is cut at %d", r, i, cut)
			}
		}
		i += n
	}
	return nil
}

// checkMerged compares the merged view with the streams' snapshots and with the
// order of arrival.
func checkMerged(c *Collector, models map[*Stream]*model, exact bool) error {
	got, next, turn := map[*Stream][]byte{}, map[*Stream]int64{}, 0
	for _, p := range c.Merged() {
		m := models[p.Stream]
		snap := m.s.Snapshot()
		if p.Omitted > 0 {
			if p.Omitted != snap.Omitted || p.OmittedLines != snap.OmittedLines || len(p.Text) > 0 || next[p.Stream] != int64(len(snap.Head)) {
				return fmt.Errorf("%d bytes omitted at %d of %s; want %d", p.Omitted, next[p.Stream], p.Stream.Name(), snap.Omitted)
			}
			next[p.Stream] += p.Omitted
			continue
		}
		got[p.Stream] = append(got[p.Stream], p.Text...)
		next[p.Stream] += int64(len(p.Text))
		if len(p.Text) == 0 || next[p.Stream] > int64(len(m.all)) {
			return fmt.Errorf("a piece of %d bytes up to %d of %d", len(p.Text), next[p.Stream], len(m.all))
		}
		// Up to three bytes of a rune may have been left to a later piece.
		end := next[p.Stream]
		if t := m.turns[min(end+2, int64(len(m.all))-1)]; exact && t < turn {
			return fmt.Errorf("a piece of %s written in turn %d comes after one of turn %d", p.Stream.Name(), t, turn)
		}
		turn = max(turn, m.turns[end-1])
	}
	for s, m := range models {
		snap := s.Snapshot()
		if want := append(snap.Head, snap.Tail...); !bytes.Equal(got[s], want) || next[s] != int64(len(m.all)) {
			return fmt.Errorf("merged, %s is %q up to %d; want %q up to %d", s.Name(), got[s], next[s], want, len(m.all))
		}
	}
	return nil
}

// randomText is lines, runes of all lengths, and bytes that are neither.
func randomText(r *rand.Rand, n int) []byte {
	var text []byte
	for len(text) < n {
		switch r.IntN(8) {
		case 0:
			text = append(text, '\n')
		case 1:
			text = append(text, byte(r.IntN(256)))
		case 2:
			text = append(text, 0)
		case 3, 4:
			text = utf8.AppendRune(text, []rune{'é', '€', '😀', '日', '𝄞'}[r.IntN(5)])
		default:
			text = append(text, "word "[:1+r.IntN(5)]...)
		}
	}
	return text
}

// play writes text to the streams in random chunks and checks everything on the
// way. Store may be nil.
func play(t *testing.T, text []byte, r *rand.Rand, store *Store) {
	t.Helper()
	window := func() Window {
		w := Window{r.IntN(40), r.IntN(40)}
		switch r.IntN(6) {
		case 0:
			w.Head = 0
		case 1:
			w.Tail = 0
		}
		if w == (Window{}) {
			w.Head = 1
		}
		return w
	}
	o := Options{Stdout: window(), Stderr: window(), Merged: r.IntN(4) == 0, Store: store}
	c := New(o)
	models := map[*Stream]*model{}
	for _, s := range c.streams() {
		models[s] = &model{s: s, cursors: []*follower{{c: Cursor{Source: s}}, {c: Cursor{Source: s}}, {c: Cursor{Source: s}}}}
	}
	windowOf := func(s *Stream) Window { return s.w.Window }
	check := func() {
		t.Helper()
		for s, m := range models {
			gapFrom, gapTo := s.w.gap()
			if err := m.check(windowOf(s)); err != nil {
				t.Fatal(err)
			}
			if store != nil && s.Snapshot().Omitted > 0 {
				if s.Snapshot().Artifact == "" || s.Snapshot().SpillErr != nil {
					t.Fatalf("no artifact although something is omitted: %v", s.Snapshot().SpillErr)
				}
				gapFrom, gapTo = store.shape.gap(int64(len(m.all)))
			}
			if err := checkSource(s, m.all, gapFrom, gapTo, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkMerged(c, models, true); err != nil {
			t.Fatal(err)
		}
	}
	for turn := 0; len(text) > 0; turn++ {
		n := 1 + r.IntN(min(len(text), 1+r.IntN(60)))
		s := []*Stream{c.Stdout, c.Stderr}[r.IntN(2)]
		if k, err := s.Write(text[:n]); k != n || err != nil {
			t.Fatalf("Write(%d bytes) = %d, %v", n, k, err)
		}
		m := models[s]
		m.all = append(m.all, text[:n]...)
		for range n {
			m.turns = append(m.turns, turn)
		}
		text = text[n:]
		check()
		for _, f := range m.cursors {
			if r.IntN(4) == 0 {
				if err := f.next(1 + r.IntN(50)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c.End()
	check()
	for s, m := range models {
		if s.Live() || s.Snapshot().Live {
			t.Fatal("live after the end")
		}
		_, _ = s.Write([]byte("too late"))
		for _, f := range m.cursors {
			var err error
			for err == nil {
				err = f.next(1 + r.IntN(50))
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			zeroed := int64(0)
			for i, b := range f.got {
				if b != m.all[i] {
					zeroed++
				}
			}
			if len(f.got) != len(m.all) || zeroed > f.lost {
				t.Fatalf("a cursor read %d bytes, %d of them wrong, and lost %d; want %d", len(f.got), zeroed, f.lost, len(m.all))
			}
		}
		if store == nil {
			continue
		}
		if id := s.Snapshot().Artifact; id != "" {
			a, err := store.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			from, to := store.shape.gap(int64(len(m.all)))
			if err := checkSource(a, m.all, from, to, r); err != nil {
				t.Fatal(err)
			}
			info, err := a.Info()
			if err != nil || info.State != Complete || info.Lines != s.Snapshot().Lines {
				t.Fatalf("Info() = %+v, %v", info, err)
			}
			a.Close()
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for s, m := range models {
		gapFrom, gapTo := s.w.gap()
		if err := checkSource(s, m.all, gapFrom, gapTo, r); err != nil {
			t.Fatal(err)
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func TestCollector(t *testing.T) {
	for seed := range uint64(400) {
		r := newRand(seed)
		play(t, randomText(r, 1+r.IntN(600)), r, nil)
	}
}

func TestCollectorWithStore(t *testing.T) {
	testenv.CheckFDs(t)
	store := openStore(t, Limits{})
	for seed := range uint64(200) {
		r := newRand(seed)
		store.shape = shape{Head: -1}
		if seed%2 == 0 {
			store.shape = shape{Head: r.Int64N(100), Tail: 1 + r.Int64N(100), Step: 1 + r.Int64N(50)}
		}
		play(t, randomText(r, 1+r.IntN(600)), r, store)
	}
}

func FuzzCollector(f *testing.F) {
	f.Add([]byte("a\nb\n"), uint64(1))
	f.Add([]byte("😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀"), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		play(t, text[:min(len(text), 4096)], newRand(seed), nil)
	})
}

func FuzzArtifact(f *testing.F) {
	f.Add([]byte("a\nb\n"), uint64(1))
	f.Add(bytes.Repeat([]byte{0, 0x80, '\n'}, 100), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		r := newRand(seed)
		store := openStore(t, Limits{})
		store.shape = shape{Head: r.Int64N(60) - 1, Tail: 1 + r.Int64N(60), Step: 1 + r.Int64N(30)}
		play(t, text[:min(len(text), 512)], r, store)
	})
}
