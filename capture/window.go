package capture

import (
	"bytes"
	"unicode/utf8"
)

// Sizes of windows, in bytes, that go by a name.
const (
	Small  = 5 << 10
	Medium = 10 << 10
	Large  = 20 << 10
)

// Window is how much of a stream stays in memory, in bytes: its first Head and
// its last Tail. The zero value is HeadTail(Medium). With Head alone the end of a
// longer stream isn't there, with Tail alone its beginning.
type Window struct{ Head, Tail int }

// HeadTail returns a window that gives half of the budget to each end.
func HeadTail(budget int) Window { return Window{budget - budget/2, budget / 2} }

// window holds what is in memory of a stream. It isn't safe for use by several
// goroutines.
type window struct {
	Window
	size int64 // bytes so far
	ends int64 // line ends among them
	last byte  // the last byte

	head []byte
	ring []byte // what came after head, the last Tail bytes of it
	at   int    // the oldest byte of a full ring
	prev byte   // the byte before the ring's oldest, when one was dropped
}

func newWindow(w Window) window {
	if w == (Window{}) {
		w = HeadTail(Medium)
	}
	return window{Window: Window{max(0, w.Head), max(0, w.Tail)}}
}

// fits reports whether n bytes more would still all be kept.
func (w *window) fits(n int) bool { return w.size+int64(n) <= int64(w.Head)+int64(w.Tail) }

func (w *window) write(p []byte) {
	if len(p) == 0 {
		return
	}
	w.size += int64(len(p))
	w.ends += int64(bytes.Count(p, []byte{'\n'}))
	w.last = p[len(p)-1]
	if n := min(w.Head-len(w.head), len(p)); n > 0 {
		w.head = append(w.head, p[:n]...)
		p = p[n:]
	}
	if w.Tail == 0 {
		return
	}
	if n := len(p) - w.Tail; n >= 0 {
		// All that the ring holds goes.
		if n > 0 {
			w.prev = p[n-1]
		} else if len(w.ring) > 0 {
			w.prev = w.ring[(w.at+len(w.ring)-1)%len(w.ring)]
		}
		w.ring, w.at = append(w.ring[:0], p[n:]...), 0
		return
	}
	if n := min(w.Tail-len(w.ring), len(p)); n > 0 {
		w.ring = append(w.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := min(len(w.ring)-w.at, len(p))
		w.prev = w.ring[w.at+n-1]
		copy(w.ring[w.at:], p[:n])
		w.at = (w.at + n) % len(w.ring)
		p = p[n:]
	}
}

// gap returns the bytes that aren't kept.
func (w *window) gap() (from, to int64) {
	return int64(len(w.head)), w.size - int64(len(w.ring))
}

// keptGap is gap with its lines.
func (w *window) keptGap() Gap {
	from, to := w.gap()
	if from == to {
		return Gap{}
	}
	return Gap{from, to, w.ends - lineEnds(w.head) - lineEnds(w.ring)}
}

// readAt copies kept bytes from off on, up to the gap or the end.
func (w *window) readAt(p []byte, off int64) (n int) {
	from, to := w.gap()
	if off < from {
		n = copy(p, w.head[off:])
		off += int64(n)
	}
	if off < to {
		return n
	}
	older := w.ring[w.at:]
	if i := off - to; i < int64(len(older)) {
		k := copy(p[n:], older[i:])
		n, off = n+k, off+int64(k)
	}
	if i := off - to - int64(len(older)); i >= 0 && i < int64(w.at) {
		n += copy(p[n:], w.ring[i:w.at])
	}
	return n
}

// bytes returns a copy of what is kept from ≤ offset < to, which the gap mustn't
// touch.
func (w *window) bytes(from, to int64) []byte {
	if from == to {
		return nil
	}
	p := make([]byte, to-from)
	return p[:w.readAt(p, from)]
}

// cuts returns the gap as it is shown: widened to the boundaries of lines, where
// that costs at most a quarter of a window, else of runes.
func (w *window) cuts() (from, to int64) {
	from, to = w.gap()
	if from == to {
		return from, to
	}
	if n := bytes.LastIndexByte(w.head, '\n') + 1; n > 0 && len(w.head)-n <= len(w.head)/4 {
		from = int64(n)
	} else {
		from = int64(wholeRunes(w.head))
	}
	if w.prev == '\n' {
		return from, to
	}
	start := w.bytes(to, to+int64(len(w.ring)/4))
	if n := bytes.IndexByte(start, '\n') + 1; n > 0 {
		return from, to + int64(n)
	}
	return from, to + int64(partialRune(w.bytes(to, min(to+utf8.UTFMax-1, w.size))))
}

// snapshot fills in what the window knows.
func (w *window) snapshot() Snapshot {
	s := Snapshot{Bytes: w.size, Lines: w.lines()}
	from, to := w.cuts()
	if from == to {
		s.Head = w.bytes(0, w.size)
		return s
	}
	s.Head, s.Tail = w.bytes(0, from), w.bytes(to, w.size)
	s.Omitted, s.OmittedLines = to-from, w.ends-lineEnds(s.Head)-lineEnds(s.Tail)
	return s
}

// lines counts lines, one that hasn't ended yet too.
func (w *window) lines() int64 {
	if w.size > 0 && w.last != '\n' {
		return w.ends + 1
	}
	return w.ends
}

func lineEnds(p []byte) int64 { return int64(bytes.Count(p, []byte{'\n'})) }

// wholeRunes returns the length of p without a rune at its end that isn't
// complete. What isn't UTF-8 is complete.
func wholeRunes(p []byte) int {
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// partialRune returns how many bytes at the beginning of p can only belong to a
// rune that began before.
func partialRune(p []byte) int {
	n := 0
	for n < min(len(p), utf8.UTFMax-1) && !utf8.RuneStart(p[n]) {
		n++
	}
	return n
}
