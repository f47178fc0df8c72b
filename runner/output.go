package runner

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
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
	// from are the streams that are read, files counts those of them that are
	// files, and open says that one of these hadn't ended when it was given up.
	from  Streams
	files sync.WaitGroup
	open  atomic.Bool
}

// file is a stream that can be waited for with a deadline: an [os.File] or a
// [capture.Pipe].
type file interface {
	capture.Input
	SetReadDeadline(t time.Time) error
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
	o.from = s
	var copying atomic.Int32
	copyOne := func(to io.Writer, from io.Reader) {
		if _, ok := from.(file); ok {
			defer o.files.Done()
		}
		defer func() {
			if copying.Add(-1) == 0 {
				close(o.copied)
			}
		}()
		o.copyStream(to, from)
	}
	for _, from := range []io.Reader{s.Stdout, s.Stderr} {
		if _, ok := from.(file); ok {
			o.files.Add(1)
		}
	}
	copying.Store(1)
	if s.Stderr != nil {
		copying.Store(2)
		go copyOne(o.to(o.c.Stderr, spec.Stderr, 0), s.Stderr)
	}
	go copyOne(o.to(o.c.Stdout, spec.Stdout, spec.Lines.Head), s.Stdout)
}

// to is where a stream goes: to what keeps it, behind the caller's writer and a
// limit of lines, where there are these.
func (o *output) to(kept *capture.Stream, caller io.Writer, lines int) (w io.Writer) {
	w = kept
	if caller != nil {
		w = &tee{o: o, caller: caller, kept: kept}
	}
	if lines > 0 {
		w = &head{w: w, left: lines}
	}
	return w
}

// copyStream copies until the stream ends. An error is an end: what a stream
// has is what was read of it. A writer that takes no more closes it, so that a
// command that writes on gets SIGPIPE.
func (o *output) copyStream(to io.Writer, from io.Reader) {
	w := &failure{w: to}
	f, ok := from.(file)
	if !ok {
		_, _ = io.Copy(w, from)
	} else if err := capture.CopyTee(w, w.kept(), w.forward(), f); w.err == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		if ended, err := capture.CopyRest(w, f); err == nil && !ended {
			o.open.Store(true)
		}
	}
	if c, ok := from.(io.Closer); ok && w.err != nil {
		_ = c.Close()
	}
}

// giveUp ends the reading of what hasn't ended, when all that is there has been
// read: a writer of the caller's may be slow, and the command may have ended
// long before it. It reports whether somebody holds a stream open.
func (o *output) giveUp() (open bool) {
	others := o.stop()
	o.files.Wait()
	return o.open.Load() || others && !o.ended()
}

// stop lets files be read to what is there. It reports whether there are others
// than files.
func (o *output) stop() (others bool) {
	for _, from := range []io.Reader{o.from.Stdout, o.from.Stderr} {
		if f, ok := from.(file); ok {
			_ = f.SetReadDeadline(time.Now()) // it fails if it has been closed
		} else if from != nil {
			others = true
		}
	}
	return others
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

// failure is a writer that knows whether it has failed.
type failure struct {
	w   io.Writer
	err error
}

func (f *failure) Write(p []byte) (n int, err error) {
	n, err = f.w.Write(p)
	if err != nil {
		f.err = err
	}
	return n, err
}

// kept is what gets what was forwarded.
func (f *failure) kept() io.Writer {
	if t, ok := f.w.(*tee); ok {
		return t.kept
	}
	return nil
}

// forward is how the kernel writes to the caller's writer by itself; nil if it
// can't.
func (f *failure) forward() func(fd int) (int, error) {
	t, ok := f.w.(*tee)
	if !ok {
		return nil
	}
	pipe, ok := t.caller.(*os.File)
	if !ok || !capture.IsPipe(pipe) {
		return nil
	}
	var first sync.Once
	return func(fd int) (n int, err error) {
		first.Do(func() { capture.Enlarge(pipe) })
		t.o.teeing.Add(1)
		defer t.o.teeing.Add(-1)
		n, err = capture.Tee(pipe, fd)
		f.err = err
		return n, err
	}
}

// tee keeps of a stream what it could write to the caller's writer.
type tee struct {
	o      *output
	caller io.Writer
	kept   *capture.Stream
}

func (t *tee) Write(p []byte) (int, error) {
	t.o.teeing.Add(1)
	n, err := t.caller.Write(p)
	t.o.teeing.Add(-1)
	if err != nil {
		return n, err
	}
	return t.kept.Write(p)
}

// head writes some lines and then fails, as head(1) stops reading.
type head struct {
	w    io.Writer
	left int
}

var errEnough = errors.New("no more lines are wanted")

func (h *head) Write(p []byte) (int, error) {
	end := 0
	for h.left > 0 && end < len(p) {
		i := bytes.IndexByte(p[end:], '\n')
		if i < 0 {
			end = len(p)
			break
		}
		end += i + 1
		h.left--
	}
	n, err := h.w.Write(p[:end])
	if err == nil && h.left == 0 {
		err = errEnough
	}
	return n, err
}

// results puts what is kept into a result.
func (o *output) results(r *Result) {
	if o.merged {
		r.Merged = OutputOf(o.c.Stdout)
		r.Merged.keepLines(o.tail)
		return
	}
	r.Stdout, r.Stderr = OutputOf(o.c.Stdout), OutputOf(o.c.Stderr)
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

// OutputOf says what is in memory of a stream just now.
func OutputOf(s *capture.Stream) *Output {
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
