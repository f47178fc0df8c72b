package policy

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// linkLimit bounds the link to a shared index.
const linkLimit = 16 << 20

// indexLink is how an index differs from the shared one that it is based on.
type indexLink struct {
	base              string // hexadecimal
	deleted, replaced bitmap
}

// link decodes the extension; nil if it names no shared index.
func (d *indexDecoder) link(b []byte) (*indexLink, error) {
	if len(b) < d.hash {
		return nil, d.in.bad("the link to a shared index is too short")
	}
	l := &indexLink{base: hex.EncodeToString(b[:d.hash])}
	zero := true
	for _, c := range b[:d.hash] {
		zero = zero && c == 0
	}
	if zero {
		return nil, nil
	}
	b = b[d.hash:]
	if len(b) == 0 {
		return l, nil
	}
	var err error
	if l.deleted, b, err = decodeEWAH(b); err == nil {
		l.replaced, _, err = decodeEWAH(b)
	}
	if err != nil {
		return nil, d.in.bad(err.Error())
	}
	return l, nil
}

// bitmap is a set of small numbers.
type bitmap []uint64

func (m bitmap) has(i int) bool {
	return i>>6 < len(m) && m[i>>6]>>(i&63)&1 != 0
}

// bitmapLimit bounds the numbers in a bitmap.
const bitmapLimit = 1 << 26

var errBitmap = errors.New("a bitmap is damaged")

// decodeEWAH decodes a bitmap compressed as git does, and returns what follows
// it. Source: ewah/ewah_io.c and ewah/ewok.h of git.
func decodeEWAH(b []byte) (bitmap, []byte, error) {
	if len(b) < 8 {
		return nil, nil, errBitmap
	}
	bits, words := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	if bits > bitmapLimit || uint64(len(b)) < uint64(words)*8+4 {
		return nil, nil, errBitmap
	}
	end := int(words) * 8
	body, rest := b[:end], b[end+4:]
	size := int(bits+63) / 64
	m := make(bitmap, 0, size)
	for len(body) > 0 {
		// A marker: one bit that runs, for how many words, and how many words
		// follow as they are.
		marker := binary.BigEndian.Uint64(body)
		body = body[8:]
		run, literal := int(marker>>1&(1<<32-1)), int(marker>>33)
		if run > size-len(m) || literal > size-len(m)-run || literal*8 > len(body) {
			return nil, nil, errBitmap
		}
		fill := -(marker & 1)
		for range run {
			m = append(m, fill)
		}
		for range literal {
			m = append(m, binary.BigEndian.Uint64(body))
			body = body[8:]
		}
	}
	return m, rest, nil
}
