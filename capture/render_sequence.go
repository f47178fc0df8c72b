package capture

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// sequence is a control sequence that is being read.
type sequence struct {
	params  [8]int // -1 where nothing is said
	n       int    // how many have been begun
	private byte
}

func (s *sequence) clear() { *s = sequence{} }

// maxParam bounds a parameter.
const maxParam = 1 << 16

func (s *sequence) add(c byte) {
	if s.n == 0 {
		s.n, s.params[0] = 1, -1
	}
	p := &s.params[s.n-1]
	switch {
	case c >= '0' && c <= '9':
		*p = min(max(*p, 0)*10+int(c-'0'), maxParam)
	case s.n < len(s.params):
		s.params[s.n] = -1
		s.n++
	}
}

// param returns a parameter, or def where it isn't given.
func (s *sequence) param(i, def int) int {
	if i >= s.n || s.params[i] < 0 {
		return def
	}
	return s.params[i]
}

// count returns the first parameter as a number of times, which is at least 1.
func (s *sequence) count() int { return max(1, s.param(0, 1)) }

// isString reports whether in a state bytes are data of a sequence, such as a
// title, up to its terminator.
func isString(s parser.State) bool {
	return s == parser.OscStringState || s >= parser.SosStringState && s <= parser.ApcStringState ||
		s >= parser.DcsEntryState && s <= parser.DcsStringState
}

// advance takes a byte of a sequence.
func (t *screen) advance(c byte) {
	switch {
	case c == '\n':
		t.state = parser.GroundState
		t.mark.offset++
		t.control(c)
		t.mark.offset--
		return
	case c >= utf8.RuneSelf:
		if isString(t.state) {
			return
		}
		t.state = parser.GroundState
		t.part[0], t.parts = c, 1
		if utf8.FullRune(t.part[:1]) {
			t.parts = 0
			t.rune(utf8.RuneError)
		} else {
			t.mark.offset--
		}
		return
	}
	was := t.state
	next, action := parser.Table.Transition(was, c)
	t.state = next
	switch action {
	case parser.ClearAction:
		t.seq.clear()
	case parser.ParamAction:
		t.seq.add(c)
	case parser.PrefixAction:
		t.seq.private = c
	case parser.CollectAction:
		t.seq.private = c // an intermediate makes it another sequence, too
	case parser.ExecuteAction:
		if c != 0x1b && !isString(was) {
			t.control(c)
		}
	case parser.DispatchAction:
		switch was {
		case parser.EscapeState:
			t.escape(c)
		case parser.CsiEntryState, parser.CsiParamState, parser.CsiIntermediateState:
			t.csi(c)
		}
	}
	if next == parser.EscapeState {
		t.seq.clear()
	}
}

// escape does what a sequence of one character after the escape asks for.
func (t *screen) escape(c byte) {
	switch c {
	case '7':
		t.save()
	case '8':
		t.restore()
	case 'D', 'E': // index, next line
		x := t.x
		t.newline(false)
		if c == 'D' {
			t.x = x
		}
	case 'M': // reverse index
		if t.y == 0 {
			t.moveRows(true, 1)
			return
		}
		t.y--
	case 'c': // reset
		t.y, t.x = 0, 0
		t.erase(0, len(t.lines))
	}
}

// csi does what a control sequence asks for.
func (t *screen) csi(final byte) {
	s := &t.seq
	if s.private != 0 {
		return
	}
	switch final {
	case 'A': // up
		t.y = max(0, t.y-s.count())
	case 'B', 'e': // down
		t.y = min(t.y+s.count(), t.rows-1)
	case 'C', 'a': // right
		t.x = max(t.x, t.within(t.x+s.count()))
	case 'D': // left
		t.x = max(0, min(t.x, t.columns-1)-s.count())
	case 'E': // down, at the beginning
		t.y, t.x = min(t.y+s.count(), t.rows-1), 0
	case 'F': // up, at the beginning
		t.y, t.x = max(0, t.y-s.count()), 0
	case 'G', '`': // to a column
		t.x = t.within(s.count() - 1)
	case 'd': // to a row
		t.y = min(s.count(), t.rows) - 1
	case 'H', 'f': // to a row and a column
		t.y = min(s.count(), t.rows) - 1
		t.x = t.within(max(1, s.param(1, 1)) - 1)
	case 's':
		t.save()
	case 'u':
		t.restore()
	case 'J':
		t.eraseScreen(s.param(0, 0))
	case 'L', 'M':
		t.moveRows(final == 'L', s.count())
	default:
		if t.y < len(t.lines) {
			t.csiRow(t.lines[t.y], final)
		}
	}
}

// csiRow does what changes the cursor's row alone.
func (t *screen) csiRow(r *row, final byte) {
	s := &t.seq
	x := min(t.x, t.columns-1)
	switch final {
	case 'K': // erase in the line
		switch s.param(0, 0) {
		case 0:
			r.erase(t.x, t.columns)
		case 1:
			r.erase(0, x+1)
		case 2:
			r.clear()
		}
	case 'X': // erase characters
		r.erase(x, x+s.count())
	case 'P': // delete characters
		r.remove(x, s.count())
	case '@': // insert blanks
		r.insert(x, s.count(), max(t.reach, r.width))
	}
}

// within returns the column to which the cursor can be moved.
func (t *screen) within(x int) int {
	limit := t.reach
	if t.y < len(t.lines) {
		limit = max(limit, t.lines[t.y].width)
	}
	return min(x, limit-1, t.columns-1)
}

func (t *screen) save()    { t.saved.y, t.saved.x = t.y, t.x }
func (t *screen) restore() { t.y, t.x = max(0, t.saved.y), t.saved.x }

// eraseScreen erases from the cursor on, up to it, or all.
func (t *screen) eraseScreen(what int) {
	x := min(t.x, t.columns-1)
	here := t.y < len(t.lines)
	switch what {
	case 0:
		if here && x > 0 {
			t.lines[t.y].erase(t.x, t.columns)
			t.erase(t.y+1, len(t.lines))
			return
		}
		t.erase(t.y, len(t.lines))
	case 1:
		t.erase(0, min(t.y, len(t.lines)))
		if here {
			t.lines[t.y].erase(0, x+1)
		}
	case 2, 3:
		t.erase(0, len(t.lines))
	}
}

// erase empties rows. At the end there are only those that the cursor has passed
// since.
func (t *screen) erase(from, to int) {
	for i := from; i < to; i++ {
		t.lines[i].clear()
		t.lines[i].wrapped, t.lines[i].mark = false, t.mark
		t.lines[i].fed = t.lines[i].fed && i == t.y
	}
}

// moveRows inserts or deletes rows at the cursor.
func (t *screen) moveRows(insert bool, n int) {
	if t.y >= len(t.lines) {
		return
	}
	for range min(n, t.rows-t.y) {
		if !insert {
			gone := t.lines[t.y]
			copy(t.lines[t.y:], t.lines[t.y+1:])
			*gone = row{mark: t.mark, columns: t.columns}
			t.lines[len(t.lines)-1] = gone
			continue
		}
		if len(t.lines) < t.rows {
			t.lines = append(t.lines, nil)
		}
		copy(t.lines[t.y+1:], t.lines[t.y:])
		t.lines[t.y] = &row{mark: t.mark, columns: t.columns}
	}
}

// withoutSequences returns a line without its control sequences, and for each byte of
// that its index in the line.
func withoutSequences(line []byte) (text []byte, at []int) {
	state := parser.GroundState
	for i, c := range line {
		switch {
		case state == parser.GroundState && c != 0x1b, c >= utf8.RuneSelf && !isString(state):
			state = parser.GroundState
			text, at = append(text, c), append(at, i)
		case c < utf8.RuneSelf:
			state, _ = parser.Table.Transition(state, c)
		}
	}
	return text, at
}
