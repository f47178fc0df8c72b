package capture

import (
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
	"golang.org/x/text/width"
)

// Screen is the size of a terminal without a display. What scrolls off its top can
// no longer be reached by what is written, as on any terminal, and that is what
// bounds the memory.
//
// Cursor movement, erasing, inserting, deleting, tabs, carriage returns and
// backspaces do what they do on a terminal, wide and combining characters too.
// Colours, titles, links, images, bells and all other sequences leave nothing. The
// alternate screen is the same screen, so that what a program drew there stays to
// be seen. Characters that aren't UTF-8 become U+FFFD. Line-drawing character sets
// and scrolling regions aren't known.
//
// A line feed is the end of a line, with or without a carriage return before. It
// also ends an unfinished sequence, so that a stray escape character costs no more
// than the rest of its line.
type Screen struct {
	// Rows is how many rows can be reached; 0 stands for 64.
	Rows int `json:"rows,omitempty"`
	// Columns is after how many a line goes on in the next row; 0 stands for
	// 4096, of which the cursor can be moved to the first 256 and as far as there
	// is text. The line stays one line. It matters for what a carriage return
	// goes back to, so take that of the terminal if there was one.
	Columns int `json:"columns,omitempty"`
}

const (
	defaultRows    = 64
	defaultColumns = 4096
	// defaultReach is how far the cursor can be moved by default. Without a limit
	// a few bytes would make thousands of blanks.
	defaultReach = 256
	// maxScreen bounds both.
	maxScreen = 16 << 10
)

// size returns the size with its defaults.
func (s Screen) size() (rows, columns int) {
	rows, columns = s.Rows, s.Columns
	if rows <= 0 {
		rows = defaultRows
	}
	if columns <= 0 {
		columns = defaultColumns
	}
	return min(rows, maxScreen), min(max(columns, 2), maxScreen)
}

// screen is a terminal that gives away what scrolls off its top.
type screen struct {
	rows, columns int
	reach         int // how far the cursor can be moved where there is no text
	emit          lineSink

	// mark is where in the stream the next byte is. Whoever writes may set it.
	mark mark

	lines []*row // from the top
	y, x  int    // the cursor; y may be below the last line
	saved struct{ y, x int }
	part  [utf8.UTFMax]byte // a rune that isn't complete
	parts int
	state parser.State
	seq   sequence
	spare []*row
	out   []byte // for emit
	bol   mark   // the mark of the line that goes on
	goes  bool   // whether one goes on
	wraps bool   // the row to come goes on with the line of the last
}

// lineSink takes a line, or a part of one, with the mark at which the line began.
// The text is valid during the call.
type lineSink func(text []byte, m mark, end lineEnd)

// lineEnd says what comes after a text.
type lineEnd int

const (
	lineDone lineEnd = iota // the line has an end
	linePart                // the line goes on in the next call
	lineOpen                // the line is the last and has no end
)

// mark is a place in a stream.
type mark struct{ line, offset int64 }

// newScreen returns a screen of a size. Lines begin at mark.
func newScreen(s Screen, m mark, emit lineSink) *screen {
	t := &screen{mark: m, emit: emit}
	t.rows, t.columns = s.size()
	if t.reach = t.columns; s.Columns <= 0 {
		t.reach = defaultReach
	}
	return t
}

// write changes the screen as a terminal would.
func (t *screen) write(p []byte) {
	for len(p) > 0 {
		if t.parts > 0 {
			p = t.complete(p)
			continue
		}
		if t.state != parser.GroundState {
			t.advance(p[0])
			t.mark.offset++
			p = p[1:]
			continue
		}
		if n := printable(p); n > 0 {
			t.print(p[:n])
			t.mark.offset += int64(n)
			p = p[n:]
			continue
		}
		if c := p[0]; c < utf8.RuneSelf {
			t.mark.offset++
			t.control(c)
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			t.parts = copy(t.part[:], p)
			return
		}
		r, n := utf8.DecodeRune(p)
		t.rune(r)
		t.mark.offset += int64(n)
		p = p[n:]
	}
}

// complete adds to the rune that the last write broke off in.
func (t *screen) complete(p []byte) []byte {
	n := copy(t.part[t.parts:], p)
	whole := t.part[:t.parts+n]
	if !utf8.FullRune(whole) {
		t.parts += n
		return nil
	}
	r, size := utf8.DecodeRune(whole)
	t.rune(r)
	t.mark.offset += int64(size)
	was := t.parts
	t.parts = 0
	if size >= was {
		return p[size-was:]
	}
	// What turned out not to be a rune is shorter than what there was.
	rest := t.part
	t.write(rest[size:was])
	return p
}

// printable returns how many bytes at the beginning are printable ASCII.
func printable(p []byte) int {
	for i, c := range p {
		if c < ' ' || c >= 0x7f {
			return i
		}
	}
	return len(p)
}

// control does what a control character asks for.
func (t *screen) control(c byte) {
	switch c {
	case '\n', '\v', '\f':
		t.newline(c == '\n')
	case '\r':
		t.x = 0
	case '\b':
		t.x = max(0, min(t.x, t.columns-1)-1)
	case '\t':
		t.tab()
	case 0x1b:
		t.state = parser.EscapeState
		t.seq.clear()
	}
}

// newline goes to the beginning of the next row. Only a line feed ends a line of
// the stream.
func (t *screen) newline(feed bool) {
	if feed {
		t.mark.line++
	}
	t.row() // the one that ends
	t.y++
	t.x = 0
	r := t.row()
	if r.empty() && t.y == len(t.lines)-1 {
		r.mark = t.mark
	}
	r.fed = true
}

// row returns the cursor's, and makes it and those above when they aren't there.
func (t *screen) row() *row {
	for t.y >= len(t.lines) {
		if len(t.lines) == t.rows {
			t.scroll()
			continue
		}
		t.lines = append(t.lines, t.blank())
	}
	return t.lines[t.y]
}

// blank returns an empty row.
func (t *screen) blank() *row {
	if n := len(t.spare); n > 0 {
		r := t.spare[n-1]
		t.spare = t.spare[:n-1]
		*r = row{text: r.text[:0], mark: t.mark, columns: t.columns}
		return r
	}
	return &row{mark: t.mark, columns: t.columns}
}

// scroll gives the top row away.
func (t *screen) scroll() {
	top := t.lines[0]
	t.lines = append(t.lines[:0], t.lines[1:]...)
	t.y--
	t.saved.y--
	end := lineDone
	if len(t.lines) > 0 && t.lines[0].wrapped || len(t.lines) == 0 && t.wraps {
		end = linePart
	}
	t.give(top, end)
	if cap(top.text) <= 4*defaultColumns {
		t.spare = append(t.spare, top)
	}
}

// give emits a row.
func (t *screen) give(r *row, end lineEnd) {
	if !t.goes {
		t.bol = r.mark
	}
	t.out = r.append(t.out[:0], end == linePart)
	if end != lineOpen || t.goes || len(t.out) > 0 {
		t.emit(t.out, t.bol, end)
	}
	t.goes = end == linePart
}

// close emits what is left. The last line has an end only if a row after it was
// begun.
func (t *screen) close() {
	for range t.parts {
		t.rune(utf8.RuneError)
	}
	t.parts = 0
	n := len(t.lines)
	for n > 0 && !t.lines[n-1].fed && !t.lines[n-1].wrapped && len(t.lines[n-1].append(nil, false)) == 0 {
		n--
	}
	for i, r := range t.lines[:n] {
		switch {
		case i+1 == n:
			t.give(r, lineOpen)
		case t.lines[i+1].wrapped:
			t.give(r, linePart)
		default:
			t.give(r, lineDone)
		}
	}
	t.lines = nil
}

// pending returns how many bytes of text there are that weren't emitted.
func (t *screen) pending() int {
	n := 0
	for _, r := range t.lines {
		n += max(len(r.text), len(r.cells)) + 1
	}
	return n
}

// print writes printable ASCII at the cursor.
func (t *screen) print(p []byte) {
	for len(p) > 0 {
		if t.x >= t.columns {
			t.wrap()
		}
		r := t.row()
		n := min(len(p), t.columns-t.x)
		if r.cells == nil && t.x == r.width {
			r.text = append(r.text, p[:n]...)
			r.width += n
		} else {
			r.edit()
			for i, c := range p[:n] {
				r.put(t.x+i, rune(c), 1)
			}
		}
		t.x += n
		p = p[n:]
	}
}

// rune writes any other character at the cursor.
func (t *screen) rune(c rune) {
	if c < 0xa0 {
		return // a control character of the second set
	}
	w := columnsOf(c)
	if w == 0 {
		t.row().combine(t.x, c)
		return
	}
	if t.x+w > t.columns {
		t.wrap()
	}
	r := t.row()
	if r.cells == nil && t.x == r.width {
		r.text = utf8.AppendRune(r.text, c)
		r.width += w
	} else {
		r.edit()
		r.put(t.x, c, w)
	}
	t.x += w
}

// wrap goes on in the next row, which belongs to the same line.
func (t *screen) wrap() {
	m := t.row().mark
	t.y++
	t.x = 0
	t.wraps = true
	r := t.row()
	t.wraps = false
	if r.empty() && !r.fed {
		r.wrapped, r.mark = true, m
	}
}

// tab goes to the next multiple of eight, and stays a tab where nothing is to the
// right.
func (t *screen) tab() {
	if t.x >= t.columns {
		t.wrap()
	}
	to := min(t.x/8*8+8, t.columns)
	r := t.row()
	switch {
	case t.x < r.width:
	case r.cells == nil && t.x == r.width:
		r.text = append(r.text, '\t')
		r.width = to
	default:
		r.edit()
		r.put(t.x, '\t', to-t.x)
	}
	t.x = to
}

// columnsOf returns how many columns a character that isn't ASCII takes.
func columnsOf(c rune) int {
	switch {
	case c < 0x300: // a soft hyphen is shown, too
		return 1
	case unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(c).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
