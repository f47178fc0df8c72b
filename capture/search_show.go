package capture

import (
	"bytes"
	"unicode/utf8"
)

const (
	// maxText is how much of a line a search shows, in bytes, and leadText how much
	// of that comes before the match.
	maxText  = 2 << 10
	leadText = 512
	// lineCost is what a line costs besides its text.
	lineCost = 8
)

// shownLine is a line with the number of secrets hidden in it.
type shownLine struct {
	Line
	hidden int
}

// show shows a match in the line from an index of buf to another.
func (s *searcher) show(t viewed, from, to int) {
	s.hit = s.base + int64(from)
	s.m.Total++
	if s.full {
		return
	}
	number := s.lineOf(from)
	s.context(from)
	s.add(t, s.hit, number, s.before(from, number))
	s.shown, s.number = min(to+1, len(s.buf)), number+1
}

// showAt shows a match in a long line that begins at an offset of the stream, of which
// buf may no longer have the beginning.
func (s *searcher) showAt(t viewed, start, number int64, before []shownLine) {
	s.hit = start
	s.m.Total++
	if !s.full {
		s.add(t, start, number, before)
	}
}

// add adds a match and the lines before it, if there is room.
func (s *searcher) add(t viewed, start, number int64, before []shownLine) {
	at := 0
	if len(t.text) > maxText {
		if loc := s.p.part(t.begin, t.end).FindIndex(t.line()); loc != nil {
			at = loc[0]
		}
	}
	l := s.clip(t, number, at)
	l.Match = true
	lines := append(before, l)
	cost := int64(0)
	for _, l := range lines {
		cost += int64(len(l.Text)) + lineCost
	}
	if cost > s.budget && s.m.Shown > 0 {
		s.full = true
		s.m.Next = Place{start, number - 1, s.m.Total - 1}
		return
	}
	s.budget -= cost
	for _, l := range lines {
		s.m.Lines = append(s.m.Lines, l.Line)
		s.m.Redacted += l.hidden
	}
	s.m.Shown++
	s.after = s.q.After
}

// context shows what is wanted of the lines after the last match, up to an index of
// buf.
func (s *searcher) context(to int) {
	for s.after > 0 && !s.full && s.shown < to {
		end := s.shown + bytes.IndexByte(s.buf[s.shown:], '\n')
		if end < s.shown {
			end = len(s.buf)
		}
		l := s.contextLine(s.shown, end, s.number)
		if s.budget -= int64(len(l.Text)) + lineCost; s.budget < 0 {
			s.after = 0
			return
		}
		s.m.Lines = append(s.m.Lines, l.Line)
		s.m.Redacted += l.hidden
		s.after--
		s.shown, s.number = min(end+1, len(s.buf)), s.number+1
	}
}

// before returns what is wanted of the lines before the one with a number at an index
// of buf.
func (s *searcher) before(from int, number int64) []shownLine {
	if s.full {
		return nil
	}
	var lines []shownLine
	for range s.q.Before {
		end := from - 1
		if end < s.shown {
			break
		}
		start := bytes.LastIndexByte(s.buf[:end], '\n') + 1
		if start == 0 && !s.bol {
			break
		}
		number--
		lines = append(lines, s.contextLine(start, end, number))
		from = start
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

// contextLine returns a line that isn't a match.
func (s *searcher) contextLine(from, to int, number int64) shownLine {
	p := part{from, to, true, to < len(s.buf) || s.gap == nil}
	return s.clip(s.look(p), number, 0)
}

// clip returns what is shown of a part, around an index of its text.
func (s *searcher) clip(t viewed, number int64, at int) shownLine {
	from, to := 0, len(t.text)
	if to > maxText {
		if at > leadText {
			from = wholeTo(t.text, min(at-leadText, to-maxText))
		}
		to = wholeTo(t.text, min(to, from+maxText))
	}
	l := Line{Number: number, Offset: s.base + int64(t.from), Text: string(t.text[from:to])}
	if !t.changed {
		l.Offset += int64(from)
	}
	l.Continued = from > 0 || !t.begin
	live := t.to == len(s.buf) && s.m.Live
	l.Unfinished = to < len(t.text) || !t.end || live
	return shownLine{l, t.hidden}
}

// wholeTo returns the index of the rune that i is in.
func wholeTo(b []byte, i int) int {
	for j := i; j > i-utf8.UTFMax && j > 0 && j < len(b); j-- {
		if utf8.RuneStart(b[j]) {
			return j
		}
	}
	return i
}
