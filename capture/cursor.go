package capture

import (
	"errors"
	"io"
)

// Cursor reads a stream bit by bit and delivers no byte twice. Each reader has
// its own, and they don't disturb each other. A Cursor is for one goroutine.
type Cursor struct {
	Source Source
	// Offset is that of the next byte. Zero is the stream's beginning; with
	// another cursor's Offset a reader goes on where that one is.
	Offset int64
}

// Delta is what came since the last read.
type Delta struct {
	// Lost is how many bytes before Text were never delivered and aren't kept
	// any longer.
	Lost int64
	// From is the offset of Text's first byte.
	From int64
	Text []byte
}

// Next returns what there is from the offset on, at most limit bytes but at least
// one rune, up to the gap or the present end. It doesn't wait: at the end Text is
// empty, with nil while more may come and [io.EOF] afterwards. An incomplete rune is
// delivered only where the rest will never come.
func (c *Cursor) Next(limit int) (Delta, error) {
	live := c.Source.Live() // before reading, so that the end is the end
	d := Delta{From: c.Offset}
	p := make([]byte, max(4, min(int64(limit), c.Source.Size()-c.Offset)))
	for {
		n, err := c.Source.ReadAt(p, d.From)
		if gap := (*GapError)(nil); errors.As(err, &gap) && n == 0 {
			d.Lost += gap.To - d.From
			d.From = gap.To
			continue
		} else if err != nil && gap == nil && !errors.Is(err, io.EOF) {
			return Delta{From: c.Offset}, err
		} else if err == nil || live && gap == nil {
			n = wholeRunes(p[:n])
		}
		d.Text = p[:n]
		c.Offset = d.From + int64(n)
		if n == 0 && !live && errors.Is(err, io.EOF) {
			return d, io.EOF
		}
		return d, nil
	}
}
