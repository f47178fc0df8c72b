package capture

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

const (
	// indexStride is how far apart marks are at first, in bytes.
	indexStride = 64 << 10
	// indexMarks is how many marks there may be. Then every other one goes.
	indexMarks = 1 << 14
)

// index knows how many line ends lie before some offsets of a stream, and finds
// lines in constant memory and, once it has looked at the stream, in constant
// time. It looks little further than it is asked to, and never twice.
type index struct {
	src Source
	// lock has room for one token. Whoever waits for it can give up.
	lock   chan struct{}
	stride int64
	marks  []int64 // marks[i] is how many line ends lie before (i+1)*stride
	end    int64   // what lies before has been looked at
	ends   int64   // line ends before end
}

func newIndex(src Source) *index {
	return &index{src: src, lock: make(chan struct{}, 1), stride: indexStride}
}

func (x *index) acquire(ctx context.Context) error {
	select {
	case x.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *index) release() { <-x.lock }

// before returns how many line ends lie before off, which is at most the
// stream's size.
func (x *index) before(ctx context.Context, off int64) (int64, error) {
	if err := x.acquire(ctx); err != nil {
		return 0, err
	}
	defer x.release()
	if err := x.extend(ctx, off); err != nil {
		return 0, err
	}
	return x.at(ctx, off)
}

// near reports whether the line ends before off can be counted without going through
// much of the stream.
func (x *index) near(ctx context.Context, off int64) (bool, error) {
	if err := x.acquire(ctx); err != nil {
		return false, err
	}
	defer x.release()
	return off-x.end <= maxReach, nil
}

// line returns the offset at which line n begins, the first being 1. Where the
// gap has swallowed the line's beginning that is the gap's end, and where there
// are fewer lines the stream's present end.
func (x *index) line(ctx context.Context, n int64) (int64, error) {
	if n <= 1 {
		return 0, nil
	}
	if err := x.acquire(ctx); err != nil {
		return 0, err
	}
	defer x.release()
	for x.ends < n-1 {
		was := x.end
		if err := x.extend(ctx, x.end+x.stride); err != nil {
			return 0, err
		}
		if x.end == was {
			return x.end, nil
		}
	}
	return x.find(ctx, n-1)
}

// extend looks at the stream up to the offset to, or to the present end.
func (x *index) extend(ctx context.Context, to int64) error {
	if x.end >= to {
		return nil
	}
	buf := getBlock()
	defer putBlock(buf)
	for x.end < to {
		n, next, err := readKept(ctx, x.src, buf[:], x.end)
		switch {
		case err != nil:
			return err
		case n > 0:
			x.look(buf[:n])
		case next == x.end:
			return nil
		default:
			// The stream may have got another gap since.
			gap := x.src.Gap()
			if gap.To <= x.end {
				continue
			}
			before, err := x.at(ctx, gap.From)
			if err != nil {
				return err
			}
			x.ends = before + gap.Lines
			x.advance(gap.To)
		}
	}
	return nil
}

// look counts the line ends in what follows end.
func (x *index) look(b []byte) {
	for len(b) > 0 {
		mark := int64(len(x.marks)+1) * x.stride
		n := min(mark-x.end, int64(len(b)))
		x.ends += lineEnds(b[:n])
		x.advance(x.end + n)
		b = b[n:]
	}
}

// advance moves end and sets the marks up to it.
func (x *index) advance(end int64) {
	for x.end = end; int64(len(x.marks)+1)*x.stride <= end; {
		if len(x.marks) == indexMarks {
			for i := range indexMarks / 2 {
				x.marks[i] = x.marks[2*i+1]
			}
			x.marks = x.marks[:indexMarks/2]
			x.stride *= 2
			continue
		}
		x.marks = append(x.marks, x.ends)
	}
}

// base returns a known place from which off can be reached without the gap.
func (x *index) base(ctx context.Context, off int64) (from, ends int64, err error) {
	if i := min(off/x.stride, int64(len(x.marks))); i > 0 {
		from, ends = i*x.stride, x.marks[i-1]
	}
	if gap := x.src.Gap(); gap.From < gap.To && from < gap.To && off >= gap.To {
		ends, err = x.at(ctx, gap.From)
		return gap.To, ends + gap.Lines, err
	}
	return from, ends, nil
}

// at returns how many line ends lie before off, which has been looked at.
func (x *index) at(ctx context.Context, off int64) (int64, error) {
	buf := getBlock()
	defer putBlock(buf)
again:
	from, ends, err := x.base(ctx, off)
	if err != nil {
		return 0, err
	}
	for from < off {
		n, next, err := readKept(ctx, x.src, buf[:min(off-from, int64(len(buf)))], from)
		if err != nil {
			return 0, err
		}
		switch {
		case n > 0:
		case next == from:
			return 0, io.ErrUnexpectedEOF
		case next >= off:
			// What isn't kept has no place of its own.
			return ends, nil
		default:
			// The gap has grown since.
			goto again
		}
		ends += lineEnds(buf[:n])
		from = next
	}
	return ends, nil
}

// find returns the offset after the n-th line end, which has been looked at.
func (x *index) find(ctx context.Context, n int64) (int64, error) {
	buf := getBlock()
	defer putBlock(buf)
again:
	// The last mark with fewer line ends before it.
	lo, hi := 0, len(x.marks)
	for lo < hi {
		if mid := (lo + hi) / 2; x.marks[mid] < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	var from, ends int64
	if lo > 0 {
		from, ends = int64(lo)*x.stride, x.marks[lo-1]
	}
	if gap := x.src.Gap(); gap.From < gap.To && from < gap.To {
		before, err := x.at(ctx, gap.From)
		if err != nil {
			return 0, err
		}
		switch {
		case n <= before:
		case n <= before+gap.Lines:
			return gap.To, nil
		default:
			from, ends = gap.To, before+gap.Lines
		}
	}
	for {
		k, next, err := readKept(ctx, x.src, buf[:indexStride], from)
		if err != nil {
			return 0, err
		}
		if k == 0 {
			if next == from {
				return from, nil
			}
			goto again
		}
		if m := lineEnds(buf[:k]); ends+m < n {
			ends += m
			from = next
			continue
		}
		return from + int64(afterNth(buf[:k], n-ends)), nil
	}
}

// afterNth returns the index after the n-th line end in b, which has as many.
func afterNth(b []byte, n int64) int {
	i := 0
	for ; n > 0; n-- {
		i += bytes.IndexByte(b[i:], '\n') + 1
	}
	return i
}

// blockSize is how much is read at once.
const blockSize = 256 << 10

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

func getBlock() *[blockSize]byte  { return blocks.Get().(*[blockSize]byte) }
func putBlock(b *[blockSize]byte) { blocks.Put(b) }

// readKept reads what is kept from off on, and returns where to go on: after what
// it read, after the gap where off lies in it, or at off at the present end.
func readKept(ctx context.Context, src Source, p []byte, off int64) (n int, next int64, err error) {
	if ctx.Err() != nil {
		return 0, off, context.Cause(ctx)
	}
	n, err = src.ReadAt(p, off)
	if n > 0 {
		return n, off + int64(n), nil
	}
	var gap *GapError
	if errors.As(err, &gap) {
		return 0, gap.To, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return 0, off, err
}
