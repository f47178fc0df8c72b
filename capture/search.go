package capture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxContext is the most lines of context that a search shows before and after a match.
const MaxContext = 100

// maxPattern is how long a pattern may be, in bytes.
const maxPattern = 64 << 10

// ErrPattern is matched by the error for a pattern that is too long.
var ErrPattern = errors.New("pattern too long")

// Query is what to look for in a stream.
type Query struct {
	// Pattern is a regular expression of RE2's syntax, in which capital and
	// small letters are the same. What isn't one is searched for as it is. The
	// empty pattern matches each line.
	Pattern string
	// Before and After are how many lines of context to show around each match,
	// at most [MaxContext]. Those farther than 64 KiB before aren't.
	Before, After int
	// Limit is how many bytes of text to show; see [Reader.Page]. The first match is
	// shown at least.
	Limit int64
	// From is where to begin: the Next of an earlier result. The zero value is
	// the stream's beginning.
	From Place
}

// Place is where a search goes on. It has a form as text, for those who want to hand
// it out as one word.
type Place struct {
	// Offset is where a line begins.
	Offset int64
	// Lines and Matches are how many lie before.
	Lines, Matches int64
}

// MarshalText returns the place as a word.
func (p Place) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d.%d", p.Offset, p.Lines, p.Matches), nil
}

// ErrPlace is matched by the error for a text that is no [Place].
var ErrPlace = errors.New("not a place to go on at")

// UnmarshalText is the inverse of MarshalText. The empty text is the zero Place.
func (p *Place) UnmarshalText(b []byte) error {
	*p = Place{}
	if len(b) == 0 {
		return nil
	}
	words := strings.Split(string(b), ".")
	if len(words) != 3 {
		return fmt.Errorf("%w: %.60q", ErrPlace, b)
	}
	var n [3]int64
	for i, w := range words {
		var err error
		if n[i], err = strconv.ParseInt(w, 10, 64); err != nil || n[i] < 0 {
			return fmt.Errorf("%w: %.60q", ErrPlace, b)
		}
	}
	*p = Place{n[0], n[1], n[2]}
	return nil
}

// Matches is what a search has found.
type Matches struct {
	// Pattern is what was looked for. Invalid is why it isn't a regular
	// expression, if it isn't: then it was looked for as it is.
	Pattern string `json:"pattern"`
	Invalid string `json:"invalid,omitempty"`
	// Lines are the lines that match, and those around them, by number and each
	// once. Of a long line there is the part around the first match in it.
	Lines []Line `json:"lines"`
	// Total is how many lines match in the whole stream, those before the place
	// where the search began included, and not only those that are shown.
	Total int64 `json:"total"`
	// First is the number of the first match that is shown, counted from 1, and
	// Shown how many are.
	First int64 `json:"first"`
	Shown int64 `json:"shown"`
	// Next is where the next search goes on: at the first match that isn't
	// shown, or at the end. While the stream is live, that is where its
	// last line begins if it has no end yet, although its part was looked at.
	Next Place `json:"next"`
	// Size is how many bytes the stream had, and Live whether more may come.
	Size int64 `json:"size"`
	Live bool  `json:"live"`
	// Gap is the part that isn't kept and thus wasn't looked at.
	Gap *Gap `json:"gap,omitempty"`
	// Redacted is how many secrets were hidden in Lines.
	Redacted int `json:"redacted,omitempty"`
}

// Complete reports whether all matches are shown up to the present end.
func (m *Matches) Complete() bool { return m.First+m.Shown > m.Total }

// Search looks for the lines that match. It goes through the stream once, up to what
// is its end at the beginning, in memory that doesn't depend on it, and in a time that
// is linear in its size whatever the pattern.
//
// A line is matched as the view shows it, without its end, a carriage return there
// included. A line of more than 256 KiB is matched in parts of that size that overlap by
// 16 KiB and are cut beside a word's end where there is one: a match that is longer
// than the overlap can be missed. Where a line is cut by the gap, ^ and $ don't match
// at the cut. When the view renders, each line is rendered by itself.
//
// A search on a live stream can go on at Next when there is more; see
// [Source].Wait.
func (r *Reader) Search(ctx context.Context, q Query) (*Matches, error) {
	if len(q.Pattern) > maxPattern {
		return nil, fmt.Errorf("%w: %d bytes", ErrPattern, len(q.Pattern))
	}
	if q.From.Offset < 0 || q.From.Lines < 0 || q.From.Matches < 0 {
		return nil, fmt.Errorf("%w: %+v", ErrPlace, q.From)
	}
	p, invalid, err := compile(q.Pattern, r.view.Render)
	if err != nil {
		return nil, err
	}
	q.Before, q.After = min(max(0, q.Before), MaxContext), min(max(0, q.After), MaxContext)
	s := &searcher{r: r, ctx: ctx, q: q, p: p, budget: limitOf(q.Limit)}
	s.m = &Matches{
		Pattern: q.Pattern, Invalid: invalid, Lines: []Line{}, Total: q.From.Matches, First: q.From.Matches + 1,
		Live: r.src.Live(), Size: r.src.Size(),
	}
	return s.m, s.run()
}
