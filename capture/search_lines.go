package capture

import (
	"bytes"
	"context"
)

const (
	// maxWhole is how long a line is matched as a whole, in bytes.
	maxWhole = 256 << 10
	// overlap is how much of a longer line two parts have in common.
	overlap = maxSecret
	// maxBack is how far back there is context, in bytes.
	maxBack = 64 << 10
)

// searcher carries out one search.
type searcher struct {
	r      *Reader
	ctx    context.Context
	q      Query
	p      *pattern
	m      *Matches
	budget int64 // bytes that may still be shown
	full   bool  // nothing more is shown

	buf     []byte
	base    int64 // where in the stream buf begins
	bol     bool  // buf begins with a line
	at      int   // where in buf the first line begins that wasn't looked at
	lines   int64 // how many line ends are before counted
	counted int   // an index into buf
	cut     bool  // the line at at begins before, in the gap
	ended   bool  // what follows buf isn't kept
	gap     *Gap  // it is the gap

	after  int   // lines of context to show
	shown  int   // the lines before this index of buf are shown, or won't be
	number int64 // the number of the line at shown
	last   int64 // where the last line begins
	hit    int64 // where the last line begins that matched
	keys   []secret
	keysTo int // the keys before this index of buf are known
	left   int // how much of one may come after; see Redactor.keys
}

// run goes through the stream.
func (s *searcher) run() error {
	if err := s.begin(); err != nil {
		return err
	}
	for {
		if err := s.fill(); err != nil {
			return err
		}
		to := bytes.LastIndexByte(s.buf, '\n') + 1
		if s.ended && len(s.buf)-max(to, s.at) <= maxWhole {
			to = len(s.buf)
		}
		if to > s.at {
			s.whole(to)
		}
		if len(s.buf)-s.at > maxWhole {
			if err := s.long(); err != nil {
				return err
			}
		}
		if !s.ended || s.at < len(s.buf) {
			continue
		}
		if s.gap == nil {
			break
		}
		if err := s.jump(); err != nil {
			return err
		}
	}
	if !s.full {
		s.m.Next = s.end()
	}
	return nil
}

// begin finds out what there is before the beginning.
func (s *searcher) begin() error {
	s.buf = make([]byte, 0, maxBack+2*maxWhole)
	s.base, s.lines, s.bol, s.hit = s.q.From.Offset, s.q.From.Lines, true, -1
	s.last = s.base
	if s.r.view.Redact == nil || s.base == 0 || s.base >= s.m.Size {
		return nil
	}
	x, lost, err := s.r.excerpt(s.ctx, s.base, 0, s.m.Size)
	if err == nil && !lost {
		_, s.left = s.r.view.Redact.keys(x.buf[:x.from], 0)
	}
	return err
}

// end returns where to go on when all has been looked at.
func (s *searcher) end() Place {
	p := Place{s.base + int64(s.at), s.lineOf(s.at) - 1, s.m.Total}
	if s.m.Live && s.last < p.Offset && s.at > 0 && s.buf[s.at-1] != '\n' {
		p.Offset = s.last
		if s.hit == s.last {
			p.Matches--
		}
	}
	return p
}

// lineOf returns the number of the line at an index of buf at or after counted, and
// counts up to there.
func (s *searcher) lineOf(i int) int64 {
	s.lines += lineEnds(s.buf[s.counted:i])
	s.counted = i
	return s.lines + 1
}

// fill makes room and reads on.
func (s *searcher) fill() error {
	keep := 0
	if s.q.Before > 0 && !s.full {
		keep = maxBack
	}
	if drop := s.at - keep; drop > 0 {
		s.lineOf(s.at)
		s.bol = s.buf[drop-1] == '\n'
		s.buf = s.buf[:copy(s.buf, s.buf[drop:])]
		s.base += int64(drop)
		s.at, s.counted, s.shown = s.at-drop, s.counted-drop, max(0, s.shown-drop)
		s.keysTo = max(0, s.keysTo-drop)
		for len(s.keys) > 0 && s.keys[0].to <= drop {
			s.keys = s.keys[1:]
		}
		for i := range s.keys {
			s.keys[i].from, s.keys[i].to = max(0, s.keys[i].from-drop), s.keys[i].to-drop
		}
	}
	for !s.ended && len(s.buf) < cap(s.buf) {
		off := s.base + int64(len(s.buf))
		room := s.buf[len(s.buf):cap(s.buf)]
		room = room[:min(int64(len(room)), max(0, s.m.Size-off))]
		if len(room) == 0 {
			s.ended = true
			return nil
		}
		n, next, err := readKept(s.ctx, s.r.src, room, off)
		if err != nil {
			return err
		}
		s.buf = s.buf[:len(s.buf)+n]
		if n == 0 {
			s.ended = true
			if gap := s.r.src.Gap(); next > off && gap.To > off {
				s.gap = &gap
			}
		}
	}
	return nil
}

// jump goes on after the gap.
func (s *searcher) jump() error {
	gap := *s.gap
	if s.base+int64(s.at) == gap.From {
		s.lines = s.lineOf(s.at) - 1 + gap.Lines
	} else {
		// The gap has grown over what was to come next, and may do so again.
		for done := false; !done; {
			n, err := s.r.index.before(s.ctx, gap.To)
			if err != nil {
				return err
			}
			now := s.r.src.Gap()
			s.lines, done, gap = n, now.To == gap.To, now
		}
	}
	s.m.Gap = &gap
	s.buf, s.base = s.buf[:0], gap.To
	s.at, s.counted, s.shown, s.after = 0, 0, 0, 0
	s.bol, s.cut, s.ended, s.gap = false, true, false, nil
	s.keys, s.keysTo, s.left = nil, 0, 0
	s.last = s.base
	return nil
}

// whole looks at the lines up to an index, of which only the last can be without an
// end.
func (s *searcher) whole(to int) {
	b := s.buf[:to]
	s.findKeys(to)
	var h *hits
	if s.p.finder != nil {
		h = s.p.finder.in(b)
	}
	for at := s.at; at < to; {
		from, hit, sure := at, at, false
		if h != nil {
			if hit, sure = s.candidate(h, at); hit < 0 {
				break
			}
			from = at + bytes.LastIndexByte(b[at:hit], '\n') + 1
		}
		end := to
		if n := bytes.IndexByte(b[hit:], '\n'); n >= 0 {
			end = hit + n
		}
		s.line(from, end, sure)
		at = end + 1
	}
	s.context(to)
	s.last = s.base + int64(bytes.LastIndexByte(b[:max(0, to-1)], '\n')+1)
	s.at, s.cut = to, false
}

// candidate returns the next place where a match may be.
func (s *searcher) candidate(h *hits, at int) (hit int, sure bool) {
	for {
		hit, sure = h.next(at)
		// A carriage return at a line's end is no reason to look.
		if hit < 0 || h.b[hit] != '\r' || hit+1 < len(h.b) && h.b[hit+1] != '\n' {
			return hit, sure
		}
		at = hit + 1
	}
}

// line looks at one line, which ends before an index of buf. With sure it matches as
// it is.
func (s *searcher) line(from, to int, sure bool) {
	p := part{from: from, to: to, begin: !s.cut || from > s.at, end: to < len(s.buf) || s.gap == nil}
	if to-from > maxWhole {
		if t, ok, _ := s.parts(p, true); ok {
			s.show(t, from, to)
		}
		return
	}
	if !sure && s.p.hopeless(s.buf[from:to]) {
		return
	}
	if t := s.look(p); sure && !t.changed || s.matches(&t) {
		s.show(t, from, to)
	}
}
