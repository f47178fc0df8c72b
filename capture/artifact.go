package capture

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// State is what an artifact is like.
type State string

const (
	// Live artifacts are being written by a process that lives.
	Live State = "live"
	// Complete artifacts hold all of their stream but what lies in the gap.
	Complete State = "complete"
	// Abandoned artifacts were left by a process that ended without saying
	// that the stream was complete. What it had written is there.
	Abandoned State = "abandoned"
)

// Info describes an artifact.
type Info struct {
	ID      ID        `json:"id"`
	Label   string    `json:"label"`
	Stream  string    `json:"stream"` // stdout, stderr, or output for both
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	Written time.Time `json:"written"` // when bytes were added last
	// Size is how many bytes the stream had, and Disk how many the artifact
	// takes.
	Size int64 `json:"size"`
	Disk int64 `json:"disk"`
	Gap  Gap   `json:"gap"`
	// Lines counts the lines of a complete artifact; it is 0 for others.
	Lines int64 `json:"lines"`
}

// Artifact is an open artifact of a [Store]: a [Source] that must be closed. What
// is removed from the store meanwhile can be read on.
type Artifact struct {
	store *Store
	id    ID
	file  *os.File
	shape shape
	dead  atomic.Bool

	mu    sync.Mutex
	marks *os.File // when there was a gap to ask for
}

// pollEvery is how often an artifact of another process is looked at by those
// who wait for more.
const pollEvery = 50 * time.Millisecond

// Open opens an artifact. The error matches [ErrBadID] for what can't be an id,
// and [fs.ErrNotExist] where there is no such artifact.
func (s *Store) Open(id ID) (*Artifact, error) {
	if _, err := ParseID(string(id)); err != nil {
		return nil, err
	}
	e, err := s.getEntry(id)
	if err != nil {
		return nil, err
	}
	file, err := s.open(string(id), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &Artifact{store: s, id: id, file: file, shape: e.Shape}, nil
}

// ID returns the artifact's id.
func (a *Artifact) ID() ID { return a.id }

// Close closes the artifact.
func (a *Artifact) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.file.Close()
	if a.marks != nil {
		err = errors.Join(err, a.marks.Close())
	}
	return err
}

// ReadAt reads bytes of the stream: see [Source].
func (a *Artifact) ReadAt(p []byte, off int64) (int, error) {
	n, err := a.file.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	st, statErr := a.file.Stat()
	if statErr != nil {
		return 0, statErr
	}
	kept, gap := a.shape.clip(n, off, st.Size())
	if gap != nil {
		return kept, gap
	}
	return n, err
}

// Size returns how many bytes the stream has had so far. It is 0 when the
// artifact is closed.
func (a *Artifact) Size() int64 {
	st, err := a.file.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// Gap returns the bytes that aren't kept: see [Source]. It doesn't know the Lines
// of an artifact that was removed from the store before Gap was first asked for.
func (a *Artifact) Gap() Gap {
	return a.shape.gapWithLines(a.Size, func() *os.File {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.marks == nil {
			a.marks, _ = a.store.open(string(a.id)+marksSuffix, unix.O_RDONLY)
		}
		return a.marks
	})
}

// Live reports whether a process that lives may write more.
func (a *Artifact) Live() bool {
	if a.dead.Load() {
		return false
	}
	is, err := owned(a.file)
	if err != nil || !is {
		a.dead.Store(true)
		return false
	}
	return true
}

// Wait waits for more than seen bytes: see [Source]. It looks several times a
// second.
func (a *Artifact) Wait(ctx context.Context, seen int64) error {
	var tick *time.Ticker
	for {
		if live := a.Live(); a.Size() > seen || !live {
			return nil
		}
		if tick == nil {
			tick = time.NewTicker(pollEvery)
			defer tick.Stop()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Info describes the artifact as it is now.
func (a *Artifact) Info() (Info, error) {
	live := a.Live() // first, since the entry is completed before
	e, err := a.store.getEntry(a.id)
	if err != nil {
		return Info{}, err
	}
	var st unix.Stat_t
	err = withFD(a.file, func(fd int) error { return os.NewSyscallError("fstat", unix.Fstat(fd, &st)) })
	if err != nil {
		return Info{}, err
	}
	i := Info{
		ID: a.id, Label: e.Label, Stream: e.Stream, Created: e.Created, Lines: e.Lines,
		Size: st.Size, Disk: st.Blocks * 512, Written: time.Unix(st.Mtim.Unix()), State: Abandoned,
	}
	if i.Created.IsZero() {
		i.Created = i.Written
	}
	switch {
	case live:
		i.State = Live
	case !e.Ended.IsZero() || isForeign(string(a.id)):
		i.State = Complete
	}
	i.Gap = a.Gap()
	return i, nil
}

// List describes the store's artifacts, the oldest first. What is removed
// meanwhile is left out.
func (s *Store) List() ([]Info, error) {
	files, err := s.scan()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(files))
	for _, f := range files {
		i, err := s.info(f.id)
		switch {
		case err == nil:
			infos = append(infos, i)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBadEntry):
			return infos, err
		}
	}
	return infos, nil
}

func (s *Store) info(id ID) (Info, error) {
	a, err := s.Open(id)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = a.Close() }()
	return a.Info()
}
