package capture

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// finder finds places where one of some literals may be, in any case. It reports
// each place where one is.
//
// It is the algorithm of Wu and Manber, which looks at pairs of bytes and skips
// what can't be part of a literal, with a first loop of loads that don't wait for
// one another: as long as no pair at hand is part of any literal, the next pairs to
// look at are a fixed distance away.
type finder struct {
	// width is how many bytes of each literal are looked for: all have as many.
	width int
	// skip is for each pair of bytes how far the end of the nearest literal
	// that has this pair can be, and width-1 for pairs that none has.
	skip []uint8
	// ending are the literals by the last pair of their first width bytes.
	ending *[256][]ending
	// rare are sequences that are looked for one by one.
	rare []rareSequence
	// pure is set when nothing else than a literal is ever reported, except for
	// what is rare.
	pure bool
}

// rareSequence is a sequence that is a literal if it is sure.
type rareSequence struct {
	seq  []byte
	sure bool
}

// ending is a literal with the pair that it is found by.
type ending struct {
	pair uint16
	literal
}

// slot returns where a pair's literals are.
func slot(pair uint16) uint8 { return uint8(pair>>8)*31 + uint8(pair) }

// literal is a sequence of bytes of which each may be one of two.
type literal struct{ a, b []byte }

func (l literal) at(b []byte) bool {
	if len(b) < len(l.a) {
		return false
	}
	b = b[:len(l.a)]
	for i, c := range b {
		if c != l.a[i] && c != l.b[i] {
			return false
		}
	}
	return true
}

// maxRare is how many sequences are worth looking for one by one.
const maxRare = 6

// newFinder returns a finder of literals, or nil where it would be no help.
func newFinder(need literals) *finder {
	if !useful(need.set) {
		return nil
	}
	f := &finder{pure: need.pure, width: 255}
	var lits []literal
	for _, s := range need.set {
		l, whole := encodings(s)
		f.pure = f.pure && whole
		switch len(l.a) {
		case 0:
			return nil
		case 1:
			f.alone(l.a, true)
			f.alone(l.b, true)
		default:
			lits = append(lits, l)
			f.width = min(f.width, len(l.a))
		}
		// Two runes that aren't ASCII are a small k and a small s.
		if strings.Contains(s, "k") {
			f.alone([]byte("\u212a"), false)
		}
		if strings.Contains(s, "s") {
			f.alone([]byte("\u017f"), false)
		}
	}
	if len(f.rare) > maxRare {
		return nil
	}
	if len(lits) > 0 {
		f.build(lits)
	}
	return f
}

// alone adds a sequence to look for by itself.
func (f *finder) alone(seq []byte, sure bool) {
	for _, have := range f.rare {
		if bytes.Equal(have.seq, seq) {
			return
		}
	}
	f.rare = append(f.rare, rareSequence{seq, sure})
}

func (f *finder) build(lits []literal) {
	f.skip = bytes.Repeat([]byte{uint8(f.width - 1)}, 1<<16)
	f.ending = new([256][]ending)
	for _, l := range lits {
		for i := range f.width - 1 {
			for _, x := range [2]byte{l.a[i], l.b[i]} {
				for _, y := range [2]byte{l.a[i+1], l.b[i+1]} {
					p := uint16(x) | uint16(y)<<8
					f.skip[p] = min(f.skip[p], uint8(f.width-2-i))
					if i == f.width-2 {
						f.add(ending{p, l})
					}
				}
			}
		}
	}
}

// add adds a literal, if it isn't there because its bytes have but one form.
func (f *finder) add(e ending) {
	at := &f.ending[slot(e.pair)]
	for _, have := range *at {
		if have.pair == e.pair && bytes.Equal(have.a, e.a) && bytes.Equal(have.b, e.b) {
			return
		}
	}
	*at = append(*at, e)
}

// next returns the first place from which on a literal is in b, or -1.
func (f *finder) next(b []byte, from int) int {
	if f.skip == nil {
		return -1
	}
	var (
		skip = (*[1 << 16]uint8)(f.skip)
		far  = f.width - 1
		none = uint8(far)
		i    = from + far - 1 // the pair to look at
	)
	for i+1 < len(b) {
		n := skip[uint(b[i])|uint(b[i+1])<<8]
		switch {
		case n == none:
			i += far
			// The common case, four at a time.
			for i+3*far+1 < len(b) {
				x := b[i : i+3*far+2]
				if skip[uint(x[0])|uint(x[1])<<8]&
					skip[uint(x[far])|uint(x[far+1])<<8]&
					skip[uint(x[2*far])|uint(x[2*far+1])<<8]&
					skip[uint(x[3*far])|uint(x[3*far+1])<<8] != none {
					break
				}
				i += 4 * far
			}
		case n > 0:
			i += int(n)
		default:
			at := i - (far - 1)
			pair := uint16(b[i]) | uint16(b[i+1])<<8
			for _, e := range f.ending[slot(pair)] {
				if e.pair == pair && e.at(b[at:]) {
					return at
				}
			}
			i++
		}
	}
	return -1
}

// hits are the places in one block.
type hits struct {
	f    *finder
	b    []byte
	at   int   // the next literal, or len(b)
	rare []int // the next of each rare sequence, or len(b)
}

func (f *finder) in(b []byte) *hits {
	h := &hits{f: f, b: b, at: -1, rare: make([]int, len(f.rare))}
	for i := range h.rare {
		h.rare[i] = -1
	}
	return h
}

// has reports whether something is in b.
func (f *finder) has(b []byte) bool {
	at, _ := f.in(b).next(0)
	return at >= 0
}

// next returns the first place from which on something is, or -1. With sure it is a
// literal, and the literals are pure.
func (h *hits) next(from int) (at int, sure bool) {
	if h.at < from {
		if h.at = h.f.next(h.b, from); h.at < 0 {
			h.at = len(h.b)
		}
	}
	at, sure = h.at, h.f.pure
	for i, r := range h.f.rare {
		if h.rare[i] < from {
			n := bytes.Index(h.b[from:], r.seq)
			if n < 0 {
				n = len(h.b) - from
			}
			h.rare[i] = from + n
		}
		if h.rare[i] < at {
			at, sure = h.rare[i], h.f.pure && r.sure
		}
	}
	if at == len(h.b) {
		return -1, false
	}
	return at, sure
}

// encodings returns the longest part of a string that has, in any case, an
// encoding of the same length and at most two bytes at each place, and whether that
// is all of it and all of its encodings but for two runes that newFinder adds.
func encodings(s string) (longest literal, whole bool) {
	var l literal
	for _, r := range s {
		a, b, ok := encoding(r)
		if !ok {
			l = literal{}
			continue
		}
		l = literal{append(l.a[:len(l.a):len(l.a)], a...), append(l.b[:len(l.b):len(l.b)], b...)}
		if len(l.a) > len(longest.a) {
			longest = l
		}
	}
	return longest, len(longest.a) == len(s) && len(s) == utf8.RuneCountInString(s)
}

// encoding returns the bytes of a rune in any case, if they have at most two forms
// at each place. For k and s it leaves out a form that isn't ASCII.
func encoding(r rune) (a, b []byte, ok bool) {
	a = utf8.AppendRune(nil, r)
	b = bytes.Clone(a)
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		if o == '\u212a' || o == '\u017f' {
			continue
		}
		c := utf8.AppendRune(nil, o)
		if len(c) != len(a) {
			return nil, nil, false
		}
		for i := range c {
			switch {
			case c[i] == a[i] || c[i] == b[i]:
			case a[i] == b[i]:
				b[i] = c[i]
			default:
				return nil, nil, false
			}
		}
	}
	return a, b, true
}
