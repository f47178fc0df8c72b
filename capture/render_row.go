package capture

import (
	"slices"
	"unicode/utf8"
)

// row is one row of a screen. As long as it is only added to, it is text; once
// something else happens to it, it is cells.
type row struct {
	text  []byte
	cells []cell // nil while it is text
	width int    // columns in use
	mark  mark   // where the row's line began
	// columns is the screen's width.
	columns int
	// wrapped is set when the row goes on with the line of the row above.
	wrapped bool
	// fed is set when a line feed led here: the row is there even when it is
	// empty.
	fed bool
	// extra are the combining characters of cells.
	extra []string
}

// cell is one column.
type cell struct {
	// r is the character, 0 where nothing was written, and covered where the
	// character to the left takes this column too.
	r rune
	// extra is an index into the row's, plus 1, or 0.
	extra int32
}

const covered = -1

// maxCombining is how many bytes of combining characters a cell keeps.
const maxCombining = 64

func (r *row) empty() bool { return r.width == 0 && len(r.text) == 0 }

// edit makes cells of text.
func (r *row) edit() {
	if r.cells != nil {
		return
	}
	r.cells = make([]cell, 0, max(r.width, 80))
	text := r.text
	r.text, r.width = r.text[:0], 0
	for len(text) > 0 {
		c, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case c == '\t':
			r.put(r.width, c, min(8-r.width%8, r.columns-r.width))
		case c < utf8.RuneSelf:
			r.put(r.width, c, 1)
		default:
			if w := columnsOf(c); w > 0 {
				r.put(r.width, c, w)
			} else {
				r.combine(r.width, c)
			}
		}
	}
}

// put writes a character of w columns at column x.
func (r *row) put(x int, c rune, w int) {
	for len(r.cells) < x+w {
		r.cells = append(r.cells, cell{})
	}
	r.uncover(x)
	r.uncover(x + w)
	r.cells[x] = cell{r: c}
	for i := x + 1; i < x+w; i++ {
		r.cells[i] = cell{r: covered}
	}
	r.width = len(r.cells)
}

// uncover makes blanks of a character that takes the columns to both sides of x's
// left edge, for one half of it is going to be something else.
func (r *row) uncover(x int) {
	if x >= len(r.cells) || r.cells[x].r != covered {
		return
	}
	for i := x; i < len(r.cells) && r.cells[i].r == covered; i++ {
		r.cells[i] = cell{r: ' '}
	}
	for i := x - 1; i >= 0; i-- {
		was := r.cells[i].r
		r.cells[i] = cell{r: ' '}
		if was != covered {
			return
		}
	}
}

// combine adds a combining character to the one left of column x.
func (r *row) combine(x int, c rune) {
	if r.cells == nil {
		if x == r.width {
			r.text = utf8.AppendRune(r.text, c)
			return
		}
		r.edit()
	}
	x = min(x, len(r.cells)) - 1
	for x > 0 && r.cells[x].r == covered {
		x--
	}
	if x < 0 {
		return
	}
	at := &r.cells[x]
	if at.extra == 0 {
		r.extra = append(r.extra, "")
		at.extra = int32(len(r.extra))
	}
	if e := &r.extra[at.extra-1]; len(*e) < maxCombining {
		*e += string(c)
	}
}

// erase makes blanks of the columns from ≤ x < to.
func (r *row) erase(from, to int) {
	if from >= r.width {
		return
	}
	if from == 0 && to >= r.width {
		r.clear()
		return
	}
	r.edit()
	r.uncover(from)
	if to >= len(r.cells) {
		r.cells = r.cells[:from]
		r.width = from
		return
	}
	r.uncover(to)
	clear(r.cells[from:to])
}

// clear empties the row.
func (r *row) clear() {
	r.text, r.cells, r.extra, r.width = r.text[:0], nil, nil, 0
}

// insert moves what is right of x by n blank columns, up to a right edge.
func (r *row) insert(x, n, edge int) {
	if x >= r.width {
		return
	}
	r.edit()
	r.uncover(x)
	n = min(n, edge-x)
	r.cells = slices.Insert(r.cells, x, make([]cell, n)...)
	r.cells = r.cells[:min(len(r.cells), edge)]
	r.width = len(r.cells)
}

// remove takes n columns at x away.
func (r *row) remove(x, n int) {
	if x >= r.width {
		return
	}
	r.edit()
	n = min(n, len(r.cells)-x)
	r.uncover(x)
	r.uncover(x + n)
	r.cells = append(r.cells[:x], r.cells[x+n:]...)
	r.width = len(r.cells)
}

// append adds the row's text. Blanks at its end that nobody wrote are left out,
// unless the line goes on.
func (r *row) append(b []byte, more bool) []byte {
	if r.cells == nil {
		return append(b, r.text...)
	}
	cells := r.cells
	for !more && len(cells) > 0 && cells[len(cells)-1].r == 0 {
		cells = cells[:len(cells)-1]
	}
	for _, c := range cells {
		switch c.r {
		case covered:
		case 0:
			b = append(b, ' ')
		default:
			b = utf8.AppendRune(b, c.r)
		}
		if c.extra > 0 {
			b = append(b, r.extra[c.extra-1]...)
		}
	}
	return b
}
