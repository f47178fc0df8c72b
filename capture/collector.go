package capture

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// Options say how a [Collector] keeps what it gets.
type Options struct {
	// Stdout and Stderr are the windows of the streams. A zero Stderr is like
	// Stdout.
	Stdout, Stderr Window
	// Merged makes one stream of both, in the order in which they arrive. Only
	// a command that has one pipe for both shows its own order.
	Merged bool
	// Store gets the complete stream, as an artifact, as soon as the windows
	// don't hold it. With nil there are the windows only.
	Store *Store
	// All makes an artifact of each stream as soon as it has a byte, so that
	// what was written is there also when this process is killed.
	All bool
	// Label is what the artifacts' entries in the store say, for people: the
	// command, say. Bytes that aren't UTF-8 are replaced, and at most 4 KiB are
	// kept.
	Label string
	// Wrote, if not nil, is called after each write that isn't empty, by the
	// goroutine that writes: the stream then has it. It may read the stream,
	// and must not write to it.
	Wrote func()
}

// Collector holds the output of one command. Its memory is that of its windows
// and of a log of the order in which they were filled, however much is written.
// All methods may be called at the same time by several goroutines.
type Collector struct {
	// Stdout and Stderr are the streams, and the same one where they are
	// merged.
	Stdout, Stderr *Stream

	opts  Options
	mu    sync.Mutex // what streams have in memory; never held while a disk is used
	order order
}

// New returns a collector. Nothing needs to be closed before an artifact is
// made; see [Collector.Close].
func New(o Options) *Collector {
	if o.Stderr == (Window{}) {
		o.Stderr = o.Stdout
	}
	c := &Collector{opts: o}
	if o.Merged {
		c.Stdout = &Stream{c: c, name: "output", w: newWindow(o.Stdout)}
		c.Stderr = c.Stdout
		return c
	}
	c.Stdout = &Stream{c: c, name: "stdout", w: newWindow(o.Stdout)}
	c.Stderr = &Stream{c: c, name: "stderr", w: newWindow(o.Stderr)}
	return c
}

// streams returns each stream once.
func (c *Collector) streams() []*Stream {
	if c.Stdout == c.Stderr {
		return []*Stream{c.Stdout}
	}
	return []*Stream{c.Stdout, c.Stderr}
}

// End says that no more comes: the streams aren't live any longer, their
// artifacts are complete, and what is written later is dropped. Everything can
// still be read. It waits for writes that are under way. A second call does
// nothing.
func (c *Collector) End() {
	for _, s := range c.streams() {
		s.end()
	}
}

// Close calls End and closes the artifacts' files. Afterwards only the windows
// are read; the artifacts stay in their store.
func (c *Collector) Close() error {
	c.End()
	var errs []error
	for _, s := range c.streams() {
		if a := s.artifact(); a != nil {
			errs = append(errs, a.close())
		}
	}
	return errors.Join(errs...)
}

// Stream is one stream of a [Collector]: a writer, and a [Source] for readers.
type Stream struct {
	c    *Collector
	name string

	writing sync.Mutex // a writer, or the end; held while the disk is used

	// What follows changes under both writing and c.mu.
	w        window
	spill    *spill // nil as long as the windows hold all, and after a failure
	spillErr error
	ended    bool
	wake     chan struct{} // under c.mu; closed at the next change
}

// Name returns "stdout", "stderr", or "output" for a merged stream.
func (s *Stream) Name() string { return s.name }

// Write keeps p and returns its length and nil, whatever becomes of the
// artifact.
func (s *Stream) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.ended {
		// The artifact is ahead of what readers are told. It mustn't be so
		// far ahead that its end, as they know it, is freed.
		for part := range slices.Chunk(p, largeBuffer) {
			s.write(part)
		}
		if s.c.opts.Wrote != nil && len(p) > 0 {
			s.c.opts.Wrote()
		}
	}
	return len(p), nil
}

func (s *Stream) write(p []byte) {
	a, err := s.toDisk(p)

	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.spill, s.spillErr = a, err
	s.c.order.add(s, s.w.size, len(p))
	s.w.write(p)
	s.changed()
}

// toDisk adds p to the artifact, which it makes when the windows overflow, and
// returns it, or why there is none.
func (s *Stream) toDisk(p []byte) (*spill, error) {
	store, a := s.c.opts.Store, s.spill
	if store == nil || s.spillErr != nil || a == nil && !s.c.opts.All && s.w.fits(len(p)) {
		return nil, s.spillErr
	}
	var err error
	if a == nil {
		if a, err = store.create(s.name, s.c.opts.Label); err != nil {
			return nil, err
		}
		err = a.write(s.w.bytes(0, s.w.size), 0)
	}
	if err == nil {
		err = a.write(p, s.w.ends)
	}
	if err != nil {
		if gone := a.gone(); gone != nil {
			err = gone // what failed is a consequence
		}
		a.discard()
		return nil, err
	}
	return a, nil
}

// changed tells those who wait. c.mu is held.
func (s *Stream) changed() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

func (s *Stream) end() {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.ended {
		return
	}
	a, err := s.spill, s.spillErr
	if a != nil {
		if err = a.finish(s.w.lines()); err != nil {
			a.discard()
			a = nil
		}
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.spill, s.spillErr, s.ended = a, err, true
	s.changed()
}

// artifact returns the spill, or nil.
func (s *Stream) artifact() *spill {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.spill
}

// Snapshot returns what is in memory now. It doesn't wait for writers.
func (s *Stream) Snapshot() Snapshot {
	s.c.mu.Lock()
	shot := s.w.snapshot()
	shot.Live = !s.ended
	shot.SpillErr = s.spillErr
	a := s.spill
	s.c.mu.Unlock()
	if a != nil {
		if shot.SpillErr = a.gone(); shot.SpillErr == nil {
			shot.Artifact = a.id
		}
	}
	return shot
}

// Size returns how many bytes were written so far.
func (s *Stream) Size() int64 {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.w.size
}

// Live reports whether the stream hasn't ended.
func (s *Stream) Live() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return !s.ended
}

// Gap returns the bytes that are kept neither on disk nor in memory.
func (s *Stream) Gap() Gap {
	if a := s.artifact(); a != nil && !a.closed() {
		return a.gap()
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.w.keptGap()
}

// ReadAt reads the artifact, or the windows where there is none: see [Source].
func (s *Stream) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	s.c.mu.Lock()
	a, size := s.spill, s.w.size
	if a == nil || a.closed() {
		defer s.c.mu.Unlock()
		return s.readWindow(p, off)
	}
	s.c.mu.Unlock()

	n, err := a.readAt(p[:min(int64(len(p)), max(0, size-off))], off)
	switch {
	case errors.Is(err, fs.ErrClosed) || a.discarded.Load():
		// It was given up meanwhile.
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		return s.readWindow(p, off)
	case err == nil && n < len(p):
		return n, io.EOF
	}
	return n, err
}

// readWindow is ReadAt without an artifact. c.mu is held.
func (s *Stream) readWindow(p []byte, off int64) (int, error) {
	n := s.w.readAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if from, to := s.w.gap(); from <= off+int64(n) && off+int64(n) < to {
		return n, &GapError{from, to}
	}
	return n, io.EOF
}

// Wait waits for more than seen bytes: see [Source].
func (s *Stream) Wait(ctx context.Context, seen int64) error {
	for {
		s.c.mu.Lock()
		if s.w.size > seen || s.ended {
			s.c.mu.Unlock()
			return nil
		}
		if s.wake == nil {
			s.wake = make(chan struct{})
		}
		wake := s.wake
		s.c.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
