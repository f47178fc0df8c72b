package capture

import (
	"bytes"
	"context"
	"io"
	"unicode/utf8"
)

// Limits of what is read at once, in bytes.
const (
	// DefaultLimit is how much a page or a search shows when nothing is said.
	DefaultLimit = 40 << 10
	// MaxLimit is the most that it shows.
	MaxLimit = 16 << 20
)

// Reader reads a [Source] in pages, by lines, from its end, and by searching, in
// memory that doesn't depend on the source's size. It may be used by several
// goroutines at the same time.
//
// An offset counts bytes of the stream from its beginning, also beyond a gap, and a
// line's number counts all lines from 1, also those that aren't kept.
type Reader struct {
	src   Source
	view  View
	index *index
}

// NewReader returns a reader of src, which shows its bytes as they are. Nothing is
// read before something is asked for, and closing src stays with the caller.
func NewReader(src Source) *Reader { return &Reader{src: src, index: newIndex(src)} }

// With returns a reader of the same source that shows it in another way. The two
// share what they know about it.
func (r *Reader) With(v View) *Reader { return &Reader{src: r.src, view: v, index: r.index} }

// Line is a line or, at a page's edges and beside a gap, a part of one.
type Line struct {
	// Number is the line's, counted from 1. It is 0 where nobody knows it; see
	// [Reader.Tail].
	Number int64 `json:"number"`
	// Offset is where in the stream Text begins, or what Text was made of.
	Offset int64 `json:"offset"`
	// Text is the line without its end. Unless the view renders it can be of
	// any bytes.
	Text string `json:"text"`
	// Continued is set where the line begins before Text does.
	Continued bool `json:"continued,omitempty"`
	// Unfinished is set where the line goes on after Text, or may do so since
	// the stream is live.
	Unfinished bool `json:"unfinished,omitempty"`
	// Repeats is how many more lines follow that are the same, and aren't listed.
	Repeats int64 `json:"repeats,omitempty"`
	// Match is set on the lines that a search is for, and not on those around.
	Match bool `json:"match,omitempty"`
}

// Page is a part of a stream.
type Page struct {
	// The page shows the bytes Offset ≤ i < End of the stream. The next page
	// begins at Next, which is End unless a gap follows.
	Offset int64 `json:"offset"`
	End    int64 `json:"end"`
	Next   int64 `json:"next"`
	// Size is how many bytes the stream has had, and Live whether more may come.
	Size int64 `json:"size"`
	Live bool  `json:"live"`
	// Lines are the page's. An empty stream has none, and where the stream's
	// last line has an end no empty one comes after it.
	Lines []Line `json:"lines"`
	// Before and After are the gap where it lies right before or right after the
	// page. A page never reaches across.
	Before *Gap `json:"before,omitempty"`
	After  *Gap `json:"after,omitempty"`
	// Redacted is how many secrets were hidden.
	Redacted int `json:"redacted,omitempty"`
}

// Complete reports whether nothing follows the page at the moment.
func (p *Page) Complete() bool { return p.Next >= p.Size }

// limitOf returns how many bytes to show.
func limitOf(limit int64) int64 {
	if limit <= 0 {
		return DefaultLimit
	}
	// A rune must fit, or nothing would ever move.
	return min(max(limit, utf8.UTFMax), MaxLimit)
}

// Page returns the part of the stream that begins at offset and has at most limit
// bytes. With limit 0 it is [DefaultLimit], and it is at most [MaxLimit]. A negative
// offset counts from the present end. An offset at the end or after it gives an
// empty page and no error. An offset in the gap moves to its end.
//
// A page splits no rune: its beginning moves back, and its end too, by at most three
// bytes. What isn't UTF-8 counts as runes of one byte each. The pages from
// offset 0 on, each from the Next before, are the whole stream.
//
// Where the view renders, limit is of what is shown. As many bytes of the stream as
// that takes are gone through, up to a bound.
//
// The first page with a high offset takes the time to count the lines before; from
// then on each page takes the same.
func (r *Reader) Page(ctx context.Context, offset, limit int64) (*Page, error) {
	size := r.src.Size()
	if offset < 0 {
		offset = max(0, size+offset)
	}
	return r.page(ctx, offset, limitOf(limit), -1, -1)
}

// Lines returns count lines from line number first on, or as many of them as fit
// into limit bytes. With count 0 limit alone counts. Lines before 1 aren't there, and
// after the last the page is empty. What [Reader.Page] says holds here too.
func (r *Reader) Lines(ctx context.Context, first, count, limit int64) (*Page, error) {
	offset, err := r.index.line(ctx, first)
	if err != nil {
		return nil, err
	}
	if count <= 0 {
		count = -1
	}
	return r.page(ctx, offset, limitOf(limit), count, -1)
}

// Tail returns the last lines of the stream, or as many of them as fit into limit bytes.
// With lines 0 limit alone counts. It reads from the end on backwards, and so takes
// the same time whatever the stream's size. The lines are numbered if the source is
// one of this package that knows how many there are, or if not much lies before
// that wasn't looked at. What [Reader.Page] says holds here too.
func (r *Reader) Tail(ctx context.Context, lines, limit int64) (*Page, error) {
	limit = limitOf(limit)
	for {
		size, all, known := int64(0), int64(0), false
		if c, ok := r.src.(counted); ok {
			size, all, known = c.totals()
		}
		if !known {
			size = r.src.Size()
		}
		from := max(0, size-limit)
		if gap := r.src.Gap(); gap.From < gap.To {
			from = max(from, gap.To)
		}
		t, lost, err := r.last(ctx, min(from, size), size, lines)
		if err != nil {
			return nil, err
		}
		if lost {
			continue
		}
		if known {
			return r.page(ctx, t.from, limit, -1, all-t.lines+1)
		}
		near, err := r.index.near(ctx, t.from)
		if err != nil {
			return nil, err
		}
		if near {
			return r.page(ctx, t.from, limit, -1, -1)
		}
		return r.page(ctx, t.from, limit, -1, 0)
	}
}

// tail is the end of a stream: so many lines from an offset on. The first of them may
// begin before.
type tail struct{ from, lines int64 }

// last returns the last lines before size, but none that lie before from. With lines 0
// it returns all that lie after. It reports whether from isn't kept any more.
func (r *Reader) last(ctx context.Context, from, size, lines int64) (t tail, lost bool, err error) {
	buf := getBlock()
	defer putBlock(buf)
	for to := size; to > from; {
		start := max(from, to-int64(len(buf)))
		b := buf[:to-start]
		for have := 0; have < len(b); {
			n, next, err := readKept(ctx, r.src, b[have:], start+int64(have))
			if err != nil {
				return t, false, err
			}
			if n == 0 && next == start+int64(have) {
				return t, false, io.ErrUnexpectedEOF
			}
			if n == 0 {
				return t, true, nil
			}
			have += n
		}
		i := len(b)
		if to == size {
			// The end of the last line doesn't begin another.
			i--
			t.lines++
		}
		for {
			if i = bytes.LastIndexByte(b[:i], '\n'); i < 0 {
				break
			}
			if t.lines == lines {
				t.from = start + int64(i) + 1
				return t, false, nil
			}
			t.lines++
		}
		to = start
	}
	t.from = from
	return t, false, nil
}

// Follow yields pages from offset on as the stream grows, until it is no longer live
// and all is read, or until ctx ends, whose cause is the last error. No page is empty.
// Each page is rendered by itself; a stream that is to be shown as one, as it comes,
// is for [Renderer].
func (r *Reader) Follow(ctx context.Context, offset, limit int64) func(yield func(*Page, error) bool) {
	return func(yield func(*Page, error) bool) {
		for {
			live := r.src.Live()
			p, err := r.Page(ctx, offset, limit)
			if err != nil {
				yield(nil, err)
				return
			}
			if p.Next > p.Offset && !yield(p, nil) {
				return
			}
			offset = p.Next
			if p.Next < p.Size && p.Next > p.Offset {
				continue
			}
			if !live {
				return
			}
			if err := r.src.Wait(ctx, p.Size); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
