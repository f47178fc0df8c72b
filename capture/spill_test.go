package capture

import (
	"os"
	"testing"
)

func TestShape(t *testing.T) {
	for _, limit := range []int64{1 << 20, 3_000_000, 1 << 30, 1 << 40} {
		s := newShape(limit)
		if s.Head+s.Tail+2*s.Step > limit || s.Tail < largeBuffer || s.Head < limit/3 || s.Head%(64<<10) != 0 || s.Step%(64<<10) != 0 {
			t.Errorf("newShape(%d) = %+v", limit, s)
		}
	}
	s := shape{Head: 10, Tail: 5, Step: 4}
	for _, tc := range []struct{ size, from, to, room int64 }{
		{0, 0, 0, 10},
		{9, 0, 0, 1},
		{10, 0, 0, 4},
		{13, 0, 0, 1},
		{18, 0, 0, 4},
		{19, 10, 14, 3},
		{22, 10, 14, 4},
		{23, 10, 18, 3},
	} {
		if from, to := s.gap(tc.size); from != tc.from || to != tc.to || s.room(tc.size) != tc.room {
			t.Errorf("of %d bytes: gap %d to %d, room %d; want %+v", tc.size, from, to, s.room(tc.size), tc)
		}
	}
	if from, to := (shape{Head: -1}).gap(1 << 50); from != to {
		t.Errorf("a gap from %d to %d without a limit", from, to)
	}
}

// TestMarks: a reader who is so late that a mark's place was used again asks for
// a newer one.
func TestMarks(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/marks")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := shape{Head: 10, Tail: 5, Step: 4}
	sizeAt := func(n int64) int64 { return s.Head + s.Tail + n*s.Step }
	if err := writeMark(file, 0, 3); err != nil {
		t.Fatal(err)
	}
	for n := range int64(3000) {
		if err := writeMark(file, n+1, 3+10*(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := file.Stat(); err != nil || st.Size() != (1+marksKept)*markSize {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
	sizes := []int64{sizeAt(1500), sizeAt(3000), sizeAt(3000), sizeAt(3000)}
	got := s.gapWithLines(func() int64 {
		size := sizes[0]
		sizes = sizes[1:]
		return size
	}, func() *os.File { return file })
	if want := (Gap{10, 10 + 4*3000, 30_000}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	for _, n := range []int64{2999, 3000, 3000 - marksKept + 1} {
		got := s.gapWithLines(func() int64 { return sizeAt(n) }, func() *os.File { return file })
		if want := (Gap{10, 10 + 4*n, 10 * n}); got != want {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
}
