package runner

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// output is what a command prints: its collector, and those that copy into it.
type output struct {
	c      *capture.Collector
	merged bool
	tail   int // lines of standard output that are wanted; 0 for all
	// copied is closed when the streams have ended.
	copied chan struct{}
	// teeing counts those who write to the caller's writers just now.
	teeing atomic.Int32
}

// tee is a caller's writer, seen by the output.
type tee struct {
	o *output
	w io.Writer
}

func (t tee) Write(p []byte) (int, error) {
	t.o.teeing.Add(1)
	defer t.o.teeing.Add(-1)
	return t.w.Write(p)
}

func (o *output) tee(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return tee{o, w}
}

// newOutput makes the collector of a command. Wrote is called after each piece.
func newOutput(s *Spec, c *Config, wrote func()) *output {
	w := capture.HeadTail(s.Budget)
	switch s.Keep {
	case KeepHead:
		w = capture.Window{Head: s.Budget}
	case KeepTail:
		w = capture.Window{Tail: s.Budget}
	case KeepBoth:
	}
	return &output{
		c: capture.New(capture.Options{
			Stdout: w, Merged: s.Merge, Store: c.Store, All: c.SaveAll, Label: s.Label, Wrote: wrote,
		}),
		merged: s.Merge, tail: s.Lines.Tail, copied: make(chan struct{}),
	}
}

// copyAll copies the streams of a spec until they end.
func (o *output) copyAll(s Streams, spec *Spec) {
	var copying atomic.Int32
	done := func() {
		if copying.Add(-1) == 0 {
			close(o.copied)
		}
	}
	copying.Store(1)
	if s.Stderr != nil {
		copying.Store(2)
		go func() {
			defer done()
			copyStream(o.c.Stderr, o.tee(spec.Stderr), s.Stderr)
		}()
	}
	go func() {
		defer done()
		if lines := spec.Lines.Head; lines > 0 {
			copyLines(o.c.Stdout, o.tee(spec.Stdout), s.Stdout, lines)
		} else {
			copyStream(o.c.Stdout, o.tee(spec.Stdout), s.Stdout)
		}
	}()
}

// ended reports whether the streams have.
func (o *output) ended() bool {
	select {
	case <-o.copied:
		return true
	default:
		return false
	}
}

// copyStream copies until the stream ends. An error is an end: what a stream
// has is what was read of it.
func copyStream(to *capture.Stream, tee io.Writer, from io.Reader) {
	f, ok := from.(*os.File)
	if !ok {
		if copyTee(to, tee, from) != nil {
			hangUp(from)
		}
		return
	}
	// It holds no memory while the command says nothing.
	if to.DrainTee(f, tee) != nil && tee != nil {
		hangUp(from)
	}
}

// copyTee copies until the end, and returns the error of tee.
func copyTee(to *capture.Stream, tee io.Writer, from io.Reader) error {
	if tee == nil {
		_, _ = io.Copy(to, from)
		return nil
	}
	w := &teeWriter{to: to, tee: tee}
	_, _ = io.Copy(w, from)
	return w.err
}

// teeWriter writes to a stream what it could write to another writer.
type teeWriter struct {
	to  *capture.Stream
	tee io.Writer
	err error
}

func (w *teeWriter) Write(p []byte) (int, error) {
	if n, err := w.tee.Write(p); err != nil {
		w.err = err
		return n, err
	}
	return w.to.Write(p)
}

// copyLines copies some lines and then stops reading, which stops a command
// that writes on, as head would.
func copyLines(to *capture.Stream, tee io.Writer, from io.Reader, lines int) {
	in := bufio.NewReader(from)
	for lines > 0 {
		part, err := in.ReadSlice('\n')
		if tee != nil {
			if _, err := tee.Write(part); err != nil {
				break
			}
		}
		_, _ = to.Write(part)
		switch {
		case err == nil:
			lines--
		case !errors.Is(err, bufio.ErrBufferFull):
			return
		}
	}
	hangUp(from)
}

// hangUp closes a stream, so that a command that writes on gets SIGPIPE.
func hangUp(from io.Reader) {
	if c, ok := from.(io.Closer); ok {
		_ = c.Close()
	}
}

// results puts what is kept into a result.
func (o *output) results(r *Result) {
	if o.merged {
		r.Merged = outputOf(o.c.Stdout)
		r.Merged.keepLines(o.tail)
		return
	}
	r.Stdout, r.Stderr = outputOf(o.c.Stdout), outputOf(o.c.Stderr)
	r.Stdout.keepLines(o.tail)
}

// keepLines cuts away all but the last n lines of what is kept, as tail would;
// 0 keeps all.
func (o *Output) keepLines(n int) {
	part := &o.Tail
	if o.Omitted == 0 {
		part = &o.Head
	}
	if n == 0 || len(*part) == 0 {
		return
	}
	at := len(*part) - 1 // of the last line, an end counts as its own
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte((*part)[:at], '\n')
	}
	cut := (*part)[:at+1]
	if at < 0 && o.Omitted == 0 {
		return
	}
	if o.Omitted > 0 {
		cut = append(o.Head, cut...)
		o.Head = nil
	} else {
		o.Tail, o.Head = o.Head, nil
		part = &o.Tail
	}
	o.Omitted += int64(len(cut))
	o.OmittedLines += int64(bytes.Count(cut, []byte{'\n'}))
	o.Tail = (*part)[at+1:]
	o.Truncated = true
}

func outputOf(s *capture.Stream) *Output {
	shot := s.Snapshot()
	return &Output{
		Head: shot.Head, Tail: shot.Tail, Omitted: shot.Omitted, OmittedLines: shot.OmittedLines,
		Bytes: shot.Bytes, Lines: shot.Lines, Truncated: shot.Omitted > 0,
		Artifact: string(shot.Artifact), ArtifactErr: shot.SpillErr,
	}
}

// Output returns the command's streams, for readers: while it runs, and
// afterwards as long as the runner retains it. They are the same if the command
// has one stream.
func (e *Execution) Output() (stdout, stderr *capture.Stream) {
	return e.out.c.Stdout, e.out.c.Stderr
}

// Collector returns what keeps the output.
func (e *Execution) Collector() *capture.Collector { return e.out.c }

// outputEvery is how often "output" is told.
const outputEvery = 100 * time.Millisecond

// printed notes that there was output, now.
func (e *Execution) printed() {
	now := int64(time.Since(e.made))
	e.outAt.Store(now)
	if e.runner.config.Observe == nil {
		return
	}
	last := e.seenAt.Load()
	if (last == 0 || now-last >= int64(outputEvery)) && e.seenAt.CompareAndSwap(last, now) {
		e.emit(e.totals(EventOutput))
	}
}

// totals is an event with the bytes so far.
func (e *Execution) totals(kind EventKind) Event {
	ev := Event{Kind: kind, Stdout: e.out.c.Stdout.Size()}
	if !e.out.merged {
		ev.Stderr = e.out.c.Stderr.Size()
	}
	return ev
}
