package capture

import (
	"bytes"
	"unicode/utf8"
)

// part is a line or a part of one, by indices of the searcher's buf.
type part struct {
	from, to int
	// begin and end are set where the part has the line's.
	begin, end bool
}

// viewed is a part as it is shown.
type viewed struct {
	part
	text    []byte
	changed bool // text isn't what is in the stream
	hidden  int  // secrets
}

// parts looks for a match in the parts of a long line. Without final there is more of
// it to come. It returns the part that has it, or where to go on.
func (s *searcher) parts(p part, final bool) (t viewed, ok bool, next int) {
	for {
		q := p
		next = p.to
		if p.to-p.from > maxWhole {
			end, again := cutLine(s.buf[p.from:p.to])
			q.to, q.end, next = p.from+end, false, p.from+again
		} else if !final {
			return t, false, p.from
		}
		if b := s.buf[q.from:q.to]; (s.p.finder == nil || s.p.finder.has(b)) && !s.p.hopeless(b) {
			if t = s.look(q); s.matches(&t) {
				return t, true, p.to
			}
		}
		if next == p.to {
			return t, false, next
		}
		p.from, p.begin = next, false
	}
}

// cutLine returns where the first part of a line of more than maxWhole bytes ends and
// where the next begins: beside a word's end if there is one near, and in any case
// not in a rune.
func cutLine(b []byte) (end, next int) {
	end = cutBefore(b, maxWhole, func(i int) bool { return !isWord(b[i]) })
	return end, cutBefore(b, end-overlap, func(i int) bool { return !isWord(b[i-1]) })
}

// cutBefore returns the last index up to i that is good, or else one between runes.
func cutBefore(b []byte, i int, good func(int) bool) int {
	between := 0
	for j := i; j > i-1024; j-- {
		if !utf8.RuneStart(b[j]) {
			continue
		}
		if good(j) {
			return j
		}
		if between == 0 {
			between = j
		}
	}
	if between == 0 {
		return i
	}
	return between
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// long looks at a line that is longer than what can be held, and is at at.
func (s *searcher) long() error {
	start := s.base + int64(s.at)
	number := s.lineOf(s.at)
	before := s.before(s.at, number)
	p := part{begin: !s.cut}
	found := false
	for {
		p.from, p.to = s.at, len(s.buf)
		n := bytes.IndexByte(s.buf[s.at:], '\n')
		if n >= 0 {
			p.to = s.at + n
		}
		final := n >= 0 || s.ended
		p.end = n >= 0 || s.ended && s.gap == nil
		s.findKeys(p.to)
		next := p.to
		if !found {
			var t viewed
			if t, found, next = s.parts(p, final); found {
				s.showAt(t, start, number, before)
				next = p.to
			}
			p.begin = p.begin && next == p.from
		}
		s.at = next
		if final {
			break
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
	s.cut, s.last = false, start
	if s.at < len(s.buf) {
		s.at++ // the line's end
	}
	s.shown, s.number = max(s.shown, s.at), number+1
	return nil
}

// look returns a part as it is shown.
func (s *searcher) look(p part) viewed {
	t := viewed{part: p, text: s.buf[p.from:p.to]}
	v := &s.r.view
	if v.Redact != nil {
		found := v.Redact.in(t.text)
		for _, k := range s.keys {
			if k.from < p.to && k.to > p.from {
				found = append(found, secret{max(0, k.from-p.from), min(k.to-p.from, len(t.text)), k.kind})
			}
		}
		t.hide(merge(found))
	}
	if v.Render && !plain(t.text) {
		t.text, t.changed = renderLine(t.text), true
		if v.Redact != nil {
			t.hide(v.Redact.in(t.text))
		}
	}
	return t
}

// hide takes secrets out.
func (t *viewed) hide(found []secret) {
	if len(found) == 0 {
		return
	}
	var n int
	t.text, n = hide(nil, t.text, found, 0, len(t.text))
	t.hidden += n
	t.changed = true
}

// plain reports whether rendering leaves a text as it is.
func plain(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}

// renderLine renders a line by itself.
func renderLine(b []byte) (text []byte) {
	t := newScreen(Screen{Rows: 1, Columns: maxScreen}, mark{}, func(part []byte, _ mark, _ lineEnd) {
		text = append(text, part...)
	})
	t.write(b)
	t.close()
	return text
}

// matches reports whether a part matches.
func (s *searcher) matches(t *viewed) bool {
	return s.p.match(t.line(), t.begin, t.end)
}

// line returns the text without what belongs to the line's end.
func (t *viewed) line() []byte {
	if t.end {
		return bytes.TrimSuffix(t.text, []byte{'\r'})
	}
	return t.text
}

// findKeys looks for private keys up to an index of buf.
func (s *searcher) findKeys(to int) {
	d := s.r.view.Redact
	if d == nil || to <= s.keysTo {
		return
	}
	keys, left := d.keys(s.buf[s.keysTo:to], s.left)
	for _, k := range keys {
		s.keys = append(s.keys, secret{k.from + s.keysTo, k.to + s.keysTo, k.kind})
	}
	s.keysTo, s.left = to, left
}
