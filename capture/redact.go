package capture

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Redactor finds secrets in text that is shown. It may be used by several
// goroutines at the same time. The zero value finds nothing.
//
// It looks at one line at a time, and at private keys as a whole. It doesn't find a
// secret that is written in parts other than colours make, encoded or compressed, or in
// a form that it doesn't know; a secret longer than 16 KiB it finds by its first 16 KiB only.
// Whoever can read the artifact can read the secret.
type Redactor struct {
	values [][]byte
	shapes []credential
	finder *finder // nil when each line has to be looked at
}

// minValue is how long a value must be to be hidden, in bytes. Shorter ones, such as
// a 1, are in every text.
const minValue = 4

// maxSecret is how far a secret is looked for beyond the edge of what is shown, in
// bytes.
const maxSecret = 16 << 10

// NewRedactor returns a redactor of values, and with shapes of what looks like
// a credential: keys and tokens of well-known services, private keys, JSON web
// tokens, and what stands behind Bearer, Basic and a user's name in a URL.
//
// Values are found as they are and percent-encoded. Of one with several lines each
// line counts. Lines of less than four bytes are ignored.
func NewRedactor(values []string, shapes bool) *Redactor {
	d := &Redactor{}
	for _, v := range values {
		for line := range strings.Lines(v) {
			line = strings.TrimRight(line, "\r\n")
			for _, form := range []string{line, url.QueryEscape(line), strings.ReplaceAll(url.QueryEscape(line), "+", "%20")} {
				if b := []byte(form); len(b) >= minValue && !slices.ContainsFunc(d.values, func(x []byte) bool { return bytes.Equal(x, b) }) {
					d.values = append(d.values, b)
				}
			}
		}
	}
	// The longest first, so that of two that begin alike none is left in part.
	slices.SortStableFunc(d.values, func(a, b []byte) int { return len(b) - len(a) })
	var need []string
	for _, v := range d.values {
		need = append(need, foldPart(v))
	}
	if shapes {
		d.shapes = knownShapes()
		for _, s := range d.shapes {
			need = append(need, s.needs...)
		}
	}
	d.finder = newFinder(literals{set: need})
	return d
}

// foldPart returns the longest part of b that is UTF-8, as a finder wants it.
func foldPart(b []byte) string {
	var longest, part []byte
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		if r == utf8.RuneError {
			part = nil
			continue
		}
		part = utf8.AppendRune(part, foldRune(r))
		if len(part) > len(longest) {
			longest = part
		}
	}
	return string(longest)
}

// secret is a part of a text that must not be shown.
type secret struct {
	from, to int
	kind     string // empty for a given value
}

// in returns the secrets of a line, in order and apart. Colours don't hide them.
func (d *Redactor) in(line []byte) []secret {
	found := d.find(line)
	if bytes.IndexByte(line, 0x1b) >= 0 {
		text, at := withoutSequences(line)
		for _, s := range d.find(text) {
			found = append(found, secret{at[s.from], at[s.to-1] + 1, s.kind})
		}
	}
	return merge(found)
}

// find returns the secrets of a line as it is.
func (d *Redactor) find(line []byte) []secret {
	if d.finder != nil && !d.finder.has(line) {
		return nil
	}
	var found []secret
	for _, v := range d.values {
		for i := 0; ; {
			n := bytes.Index(line[i:], v)
			if n < 0 {
				break
			}
			found = append(found, secret{i + n, i + n + len(v), ""})
			i += n + len(v)
		}
	}
	if len(d.shapes) > 0 {
		lower := small(line)
		for _, s := range d.shapes {
			found = s.find(found, line, lower)
		}
	}
	return found
}

// merge sorts secrets and makes one of those that overlap.
func merge(found []secret) []secret {
	slices.SortStableFunc(found, func(a, b secret) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	apart := found[:0]
	for _, s := range found {
		if n := len(apart); n > 0 && s.from < apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, s.to)
			continue
		}
		apart = append(apart, s)
	}
	return apart
}

// hide appends to dst the part from ≤ i < to of a text, with marks in place of its
// secrets, and returns how many of them begin in the part, or before the text.
func hide(dst, text []byte, secrets []secret, from, to int) ([]byte, int) {
	n := 0
	for _, s := range secrets {
		if s.to <= from || s.from >= to {
			continue
		}
		if s.from > from {
			dst = append(dst, text[from:s.from]...)
		}
		dst = append(dst, "[redacted"...)
		if s.kind != "" {
			dst = append(append(dst, ' '), s.kind...)
		}
		dst = append(dst, ']')
		n++
		from = min(s.to, to)
	}
	return append(dst, text[from:to]...), n
}

const privateKey = "private-key"

var (
	keyBegin = []byte("-----BEGIN ")
	keyEnd   = []byte("-----END ")
	dashes   = []byte("-----")
)

// keys returns where private keys are in a text of any number of lines, of which a
// key can be left open at the beginning: left is how many bytes more may belong to
// it. It returns the same for what follows the text.
func (d *Redactor) keys(b []byte, left int) (found []secret, after int) {
	if len(d.shapes) == 0 {
		return nil, 0
	}
	at := 0
	if left > 0 {
		n, closed := keyLength(b[:min(left, len(b))])
		found = append(found, secret{0, n, privateKey})
		if !closed && n == len(b) {
			return found, left - n
		}
		at = n
	}
	for {
		n := bytes.Index(b[at:], keyBegin)
		if n < 0 {
			return found, 0
		}
		at += n
		title, _, ok := bytes.Cut(b[at+len(keyBegin):min(at+len(keyBegin)+64, len(b))], dashes)
		if !ok || !bytes.Contains(title, []byte("PRIVATE KEY")) {
			at += len(keyBegin)
			continue
		}
		n, closed := keyLength(b[at:min(at+maxSecret, len(b))])
		found = append(found, secret{at, at + n, privateKey})
		at += n
		if !closed && at == len(b) {
			return found, maxSecret - n
		}
	}
}

// keyLength returns how much of b belongs to a key that has begun, and whether its
// end is among it.
func keyLength(b []byte) (n int, closed bool) {
	i := bytes.Index(b, keyEnd)
	if i < 0 {
		return len(b), false
	}
	i += len(keyEnd)
	if j := bytes.Index(b[i:min(i+64, len(b))], dashes); j >= 0 {
		return i + j + len(dashes), true
	}
	return i, true
}
