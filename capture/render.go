package capture

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// NoOutput is what is shown for a command that printed nothing.
const NoOutput = "(no output)"

const (
	// maxFold is how long a line can be to be compared with the one before.
	maxFold = 4 << 10
	// renderStep is how much is rendered before it is written, in bytes.
	renderStep = 256 << 10
	// maxHeld is how much of a line is held back to look for secrets in it.
	maxHeld = 64 << 10
)

// View says how a stream is shown. The zero value shows its bytes as they are. A
// view never changes what is kept.
type View struct {
	// Render shows text as a terminal would after it was written to it; see
	// [Screen]. An offset still counts bytes of the stream, and a line's number
	// is the one that it has there.
	Render bool
	// Screen is the terminal's size when Render is set.
	Screen Screen
	// Fold shows lines that are the same as the one before as a count, where
	// that is shorter.
	Fold bool
	// Redact hides secrets. Nil hides nothing.
	Redact *Redactor
}

// Renderer writes to another writer what a view shows of the bytes that are written
// to it, in bounded memory: at most the screen, and the line that is being written as
// far as it may hold a secret. It isn't safe for use by several goroutines.
//
// What can still change is written only by Close, which has to be called: the rows
// that are on the screen, a line that may be repeated, one that may hold a secret. A
// zero View holds nothing back.
type Renderer struct {
	w      io.Writer
	in     interface{ write([]byte) }
	done   func()
	redact *redaction
	out    []byte
	err    error
}

// NewRenderer returns a renderer that writes to w, which stays the caller's.
func NewRenderer(w io.Writer, v View) *Renderer {
	r := &Renderer{w: w, done: func() {}}
	if !v.Render && !v.Fold && v.Redact == nil {
		r.in = through{r}
		return r
	}
	sink := lineSink(func(text []byte, _ mark, end lineEnd) {
		r.out = append(r.out, text...)
		if end == lineDone {
			r.out = append(r.out, '\n')
		}
	})
	flush := func() {}
	if v.Fold {
		sink, flush = folding(sink)
	}
	if v.Redact != nil {
		r.redact = &redaction{d: v.Redact, next: sink}
		sink = r.redact.line
	}
	if v.Render {
		s := newScreen(v.Screen, mark{}, sink)
		r.in, r.done = s, func() { s.close(); flush() }
	} else {
		s := &splitter{emit: sink}
		r.in, r.done = s, func() { s.close(); flush() }
	}
	return r
}

// Write takes bytes. An error is that of the writer below, and final. As long as
// there is none, n is len(p).
func (r *Renderer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && r.err == nil {
		// So that out stays small.
		k := min(len(p), renderStep)
		r.in.write(p[:k])
		r.flush()
		n += k
		p = p[k:]
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, nil
}

// Close writes what is left. It doesn't close the writer below. Nothing may be
// written after it.
func (r *Renderer) Close() error {
	if r.done != nil && r.err == nil {
		r.done()
		r.flush()
	}
	r.done = nil
	return r.err
}

// Redacted returns how many secrets have been hidden so far.
func (r *Renderer) Redacted() int {
	if r.redact == nil {
		return 0
	}
	return r.redact.n
}

func (r *Renderer) flush() {
	if len(r.out) > 0 {
		_, r.err = r.w.Write(r.out)
		r.out = r.out[:0]
	}
}

// Show returns what the view shows of a text, and how many secrets it hides.
func (v View) Show(text []byte) (string, int) {
	if v == (View{}) {
		return string(text), 0
	}
	var b strings.Builder
	r := NewRenderer(&b, v)
	_, _ = r.Write(text) // a Builder takes everything
	_ = r.Close()
	return b.String(), r.Redacted()
}

// through passes bytes on as they are.
type through struct{ r *Renderer }

func (t through) write(p []byte) { t.r.out = append(t.r.out, p...) }

// splitter cuts bytes into lines, and long ones into parts.
type splitter struct {
	emit lineSink
	line []byte
	goes bool // a part of the line was emitted
}

func (s *splitter) write(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		if len(s.line) > 0 {
			s.line = append(s.line, p[:i]...)
			s.emit(s.line, mark{}, lineDone)
			s.line = s.line[:0]
		} else {
			s.emit(p[:i], mark{}, lineDone)
		}
		s.goes = false
		p = p[i+1:]
	}
	s.line = append(s.line, p...)
	if len(s.line) >= maxFold {
		s.emit(s.line, mark{}, linePart)
		s.line, s.goes = s.line[:0], true
	}
}

func (s *splitter) close() {
	if len(s.line) > 0 || s.goes {
		s.emit(s.line, mark{}, lineOpen)
	}
}

// folding returns a sink that passes lines on to another, with a count in place of
// those that repeat the one before. Parts of lines and very long ones it leaves
// alone. At the end flush has to be called.
func folding(next lineSink) (sink lineSink, flush func()) {
	var (
		last    []byte
		valid   bool // last is a line
		repeats int64
		inside  bool // the line has begun in an earlier call
	)
	flush = func() {
		if message := repeatedLine(repeats); foldable(len(last), repeats) {
			next([]byte(message), mark{}, lineDone)
		} else {
			for range repeats {
				next(last, mark{}, lineDone)
			}
		}
		repeats = 0
	}
	sink = func(text []byte, m mark, end lineEnd) {
		whole := !inside && end == lineDone && len(text) <= maxFold
		if whole && valid && bytes.Equal(text, last) {
			repeats++
			return
		}
		flush()
		if valid = whole; whole {
			last = append(last[:0], text...)
		}
		inside = end == linePart
		next(text, m, end)
	}
	return sink, flush
}

// repeatedLine is the text for repeated lines.
func repeatedLine(n int64) string {
	return fmt.Sprintf("<previous line repeated %d additional times>", n)
}

// foldable reports whether a count is shorter than the lines it stands for.
func foldable(length int, repeats int64) bool {
	return repeats > 0 && int64(len(repeatedLine(repeats))+1) < repeats*int64(length+1)
}

// redaction hides secrets in a stream of lines. It holds back the parts of a line that
// aren't its end.
type redaction struct {
	d    *Redactor
	next lineSink
	n    int // secrets hidden
	left int // see Redactor.keys

	held  []byte
	mark  mark
	begun bool // something of the line was passed on
	out   []byte
}

func (r *redaction) line(text []byte, m mark, end lineEnd) {
	if len(r.held) == 0 && !r.begun {
		r.mark = m
	}
	if end != linePart && len(r.held) == 0 {
		r.pass(text, len(text), end)
		r.begun = false
		return
	}
	r.held = append(r.held, text...)
	switch {
	case end != linePart:
		r.pass(r.held, len(r.held), end)
		r.held, r.begun = r.held[:0], false
	case len(r.held) >= maxHeld:
		n := r.pass(r.held, len(r.held)-maxSecret, linePart)
		r.held = r.held[:copy(r.held, r.held[n:])]
		r.begun = true
	}
}

// pass hides what there is in a text and passes at least its first n bytes on, and
// what belongs to a secret that begins among them. It returns how many it was.
func (r *redaction) pass(text []byte, n int, end lineEnd) int {
	continued := r.left > 0
	keys, left := r.d.keys(text, r.left)
	found := merge(append(keys, r.d.in(text)...))
	for _, s := range found {
		if s.from < n && s.to > n {
			n = s.to
		}
	}
	if n < len(text) {
		// The key that is open after text may have begun in what stays.
		_, left = r.d.keys(text[:n], r.left)
	}
	if r.left = left; left > 0 && end == lineDone {
		r.left = max(0, left-1)
	}
	if len(found) == 0 {
		r.next(text[:n], r.mark, end)
		return n
	}
	var hidden int
	r.out, hidden = hide(r.out[:0], text, found, 0, n)
	if r.n += hidden; continued && keys[0].to > 0 {
		r.n-- // counted where it began
	}
	r.next(r.out, r.mark, end)
	return n
}
