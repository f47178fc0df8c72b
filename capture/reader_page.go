package capture

import (
	"bytes"
	"context"
	"io"
	"slices"
	"unicode/utf8"
)

const (
	// maxReach is how much of a stream a page of a rendered view goes through,
	// and how far away a line's number may be for Tail to look for it, in bytes.
	maxReach = 16 << 20
	// pieceSize is how much is rendered between two looks at the limit, in bytes.
	pieceSize = 4 << 10
)

// excerpt is a part of a stream with some of what is around it.
type excerpt struct {
	buf      []byte
	offset   int64 // of buf[0]
	from, to int   // the part
	secrets  []secret
	last     bool // nothing is kept after the part: the end, or the gap
	cut      bool // it is the gap
}

// excerpt reads n bytes at off, and what is around them as far as it is of use. What
// comes after size isn't there. It reports whether off isn't kept.
func (r *Reader) excerpt(ctx context.Context, off, n, size int64) (x excerpt, lost bool, err error) {
	around := int64(utf8.UTFMax)
	if r.view.Render || r.view.Redact != nil {
		around = maxSecret
	}
	x.offset = max(0, off-around)
	if gap := r.src.Gap(); gap.From < gap.To && off >= gap.To {
		x.offset = max(x.offset, gap.To)
	}
	end := min(size, off+n+around)
	if end <= off {
		x.offset, x.last = off, true
		return x, false, nil
	}
	x.buf = make([]byte, end-x.offset)
	have := 0
	for have < len(x.buf) {
		k, next, err := readKept(ctx, r.src, x.buf[have:], x.offset+int64(have))
		if err != nil {
			return x, false, err
		}
		if k == 0 {
			x.last, x.cut = true, next > x.offset+int64(have)
			if x.offset+int64(have) > off {
				break
			}
			if !x.cut {
				return x, false, io.ErrUnexpectedEOF
			}
			// The gap has grown.
			return x, true, nil
		}
		have += k
	}
	x.buf = x.buf[:have]
	x.from = int(off - x.offset)
	x.to = min(x.from+int(n), have)
	x.last = (x.last || end == size) && x.to == have
	if r.view.Redact != nil {
		x.find(r.view.Redact)
	}
	return x, false, nil
}

// find looks for secrets.
func (x *excerpt) find(d *Redactor) {
	x.secrets, _ = d.keys(x.buf, 0)
	for at := 0; at < len(x.buf); {
		n := bytes.IndexByte(x.buf[at:], '\n') + 1
		if n == 0 {
			n = len(x.buf) - at
		}
		for _, s := range d.in(x.buf[at : at+n]) {
			x.secrets = append(x.secrets, secret{s.from + at, s.to + at, s.kind})
		}
		at += n
	}
	x.secrets = merge(x.secrets)
}

// align moves the beginning back to that of the rune it is in.
func (x *excerpt) align() {
	for i := 1; i < utf8.UTFMax && i <= x.from; i++ {
		if b := x.buf[x.from-i:]; utf8.RuneStart(b[0]) {
			if _, n := utf8.DecodeRune(b); n > i {
				x.from -= i
			}
			return
		}
	}
}

// whole returns the index at or before to that splits no rune. Without live a rune at
// the stream's end can't be completed, and neither can one at the gap.
func (x *excerpt) whole(to int, live bool) int {
	if to == len(x.buf) && x.last && (x.cut || !live) {
		return to
	}
	for i := to - 1; i >= max(x.from, to-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(x.buf[i]) {
			// What follows to doesn't matter: a part of a rune is never full.
			if !utf8.FullRune(x.buf[i:to]) {
				return i
			}
			break
		}
	}
	return to
}

// piece returns where to end a part of a long line, which ends at end. It splits no
// rune and no secret.
func (x *excerpt) piece(at, end int) int {
	to := max(x.whole(at+pieceSize, true), at+1)
	for _, s := range x.secrets {
		if s.from < to && s.to > to {
			to = s.to
		}
	}
	return min(to, end)
}

// pager makes one page.
type pager struct {
	r      *Reader
	page   *Page
	limit  int64
	count  int64   // lines left, or negative
	line   int64   // the number of the line at End, or 0
	inside bool    // End is inside a line
	open   bool    // the last of the lines has no end
	screen *screen // nil unless the view renders
	shown  int64   // bytes of the lines that are done
	text   []byte  // of the line that isn't
}

// page returns what there is from offset on, in lines that begin with number line,
// which is 0 when nobody knows and negative when it is to be found out. With a
// negative count limit alone counts.
func (r *Reader) page(ctx context.Context, offset, limit, count, line int64) (*Page, error) {
	for {
		// Live first: once it is false the size is final.
		p := &Page{Live: r.src.Live(), Size: r.src.Size(), Lines: []Line{}}
		gap := r.src.Gap()
		if gap.From < gap.To && gap.From <= offset && offset <= gap.To {
			p.Before = &gap
			if offset < gap.To {
				if offset = gap.To; line > 0 {
					line = -1
				}
			}
		}
		p.Offset = min(offset, p.Size)
		x, lost, err := r.excerpt(ctx, p.Offset, limit, p.Size)
		if err != nil {
			return nil, err
		}
		x.align()
		x.to = min(x.from+int(limit), len(x.buf))
		p.Offset = x.offset + int64(x.from)
		number := line
		if number < 0 && !lost {
			if number, err = r.index.before(ctx, p.Offset); err != nil {
				return nil, err
			}
			number++
		}
		// What has been lost since has no number.
		if now := r.src.Gap(); lost || now.From <= p.Offset && p.Offset < now.To {
			continue
		}
		pg := &pager{r: r, page: p, limit: limit, count: count, line: number}
		if err := pg.fill(ctx, x); err != nil {
			return nil, err
		}
		return p, nil
	}
}

// fill makes the page, of which x is the beginning.
func (pg *pager) fill(ctx context.Context, x excerpt) error {
	p, v := pg.page, &pg.r.view
	continued := x.from < len(x.buf) && p.Offset > 0 && (x.from == 0 || x.buf[x.from-1] != '\n')
	pg.inside = continued
	if v.Render {
		pg.resume(x)
	}
	for p.End = p.Offset; ; {
		done := pg.feed(x, p.End == p.Offset)
		if done || !v.Render || x.last || p.End-p.Offset >= maxReach {
			break
		}
		var err error
		var lost bool
		if x, lost, err = pg.r.excerpt(ctx, p.End, blockSize, p.Size); err != nil {
			return err
		} else if lost {
			break // the page has an end, though not the one hoped for
		}
	}
	if v.Render {
		pg.screen.close()
		pg.conceal()
	}
	p.Next = p.End
	if gap := pg.r.src.Gap(); gap.From < gap.To && gap.From <= p.End && p.End < gap.To {
		p.Next, p.After = gap.To, &gap
	}
	if n := len(p.Lines); n > 0 {
		p.Lines[0].Continued = continued
		p.Lines[n-1].Unfinished = pg.open && (p.Live || p.End < p.Size)
	}
	if v.Fold {
		p.Lines = foldLines(p.Lines)
	}
	return nil
}

// resume makes the screen, in the middle of a sequence if the page begins in one.
func (pg *pager) resume(x excerpt) {
	v := &pg.r.view
	m := mark{line: pg.line, offset: pg.page.Offset}
	pg.screen = newScreen(v.Screen, m, pg.take)
	if before := x.buf[:x.from]; pg.inside {
		before = before[bytes.LastIndexByte(before, '\n')+1:]
		past := newScreen(v.Screen, mark{}, func([]byte, mark, lineEnd) {})
		past.write(before)
		pg.screen.state, pg.screen.seq = past.state, past.seq
	}
}

// feed adds what there is in x to the page, and reports whether it is full.
func (pg *pager) feed(x excerpt, first bool) (full bool) {
	p := pg.page
	at := x.from
	defer func() {
		p.End = x.offset + int64(at)
		for _, s := range x.secrets {
			if s.from < at && s.to > x.from && (first || s.from >= x.from) {
				p.Redacted++
			}
		}
	}()
	to := x.whole(x.to, p.Live)
	for at < to {
		if pg.count == 0 {
			return true
		}
		end := to
		if n := bytes.IndexByte(x.buf[at:to], '\n'); n >= 0 {
			end = at + n + 1
		}
		if pg.screen != nil && end-at > pieceSize {
			end = x.piece(at, end)
		}
		ended := x.buf[end-1] == '\n'
		pg.add(x, at, end, ended)
		at = end
		if ended {
			pg.count--
		}
		if pg.screen != nil && pg.shown+int64(len(pg.text)+pg.screen.pending()) >= pg.limit {
			return true
		}
	}
	return pg.count == 0
}

// add adds a part of a line, which with ended includes its end.
func (pg *pager) add(x excerpt, from, to int, ended bool) {
	pg.inside = !ended
	offset := x.offset + int64(from)
	if pg.screen != nil {
		b := x.buf[from:to]
		if len(x.secrets) > 0 {
			if ended {
				to--
			}
			b, _ = hide(nil, x.buf, x.secrets, from, to)
			if ended {
				b = append(b, '\n')
			}
		}
		pg.screen.mark.offset = offset
		pg.screen.write(b)
		return
	}
	end := lineOpen
	if ended {
		to, end = to-1, lineDone
	}
	b := x.buf[from:to]
	if len(x.secrets) > 0 {
		b, _ = hide(nil, x.buf, x.secrets, from, to)
	}
	pg.take(b, mark{pg.line, offset}, end)
	if ended && pg.line > 0 {
		pg.line++
	}
}

// take is the sink for the page's lines.
func (pg *pager) take(text []byte, m mark, end lineEnd) {
	pg.text = append(pg.text, text...)
	if end == linePart {
		return
	}
	if pg.line == 0 {
		m.line = 0
	}
	pg.page.Lines = append(pg.page.Lines, Line{Number: m.line, Offset: m.offset, Text: string(pg.text)})
	pg.open = end == lineOpen
	pg.shown += int64(len(pg.text) + 1)
	pg.text = pg.text[:0]
}

// conceal hides the secrets that only rendering has put together.
func (pg *pager) conceal() {
	d := pg.r.view.Redact
	if d == nil {
		return
	}
	for i := range pg.page.Lines {
		l := &pg.page.Lines[i]
		if found := d.in([]byte(l.Text)); len(found) > 0 {
			b, n := hide(nil, []byte(l.Text), found, 0, len(l.Text))
			l.Text = string(b)
			pg.page.Redacted += n
		}
	}
}

// foldLines makes a count of lines that repeat the one before.
func foldLines(lines []Line) []Line {
	kept := lines[:0]
	for i := 0; i < len(lines); {
		l := lines[i]
		n := i + 1
		for n < len(lines) && lines[n].Text == l.Text && !l.Continued && !lines[n].Unfinished && len(l.Text) <= maxFold {
			n++
		}
		if repeats := int64(n - i - 1); foldable(len(l.Text), repeats) {
			l.Repeats = repeats
			kept = append(kept, l)
		} else {
			kept = append(kept, lines[i:n]...)
		}
		i = n
	}
	return slices.Clip(kept)
}
