package capture

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// roomStep is how many bytes are written between two looks at the store's quota
// and the free space.
const roomStep = 16 << 20

// shape says what is kept of a long artifact: the first Head bytes and at least
// the last Tail, between which whole Steps are freed. What an offset in the
// stream is, it is in the file; and as the gap follows from the file's length
// alone, a reader knows it without being told. Head is negative where all is
// kept.
type shape struct {
	Head int64 `json:"head"`
	Tail int64 `json:"tail"`
	Step int64 `json:"step"`
}

// newShape returns the shape that takes at most limit bytes on disk. Its parts
// are whole blocks of any file system.
func newShape(limit int64) shape {
	const block = 64 << 10
	if limit < 0 {
		return shape{Head: -1}
	}
	step := max(block, limit/16/block*block)
	head := limit / 2 / block * block
	return shape{Head: head, Tail: limit - head - 2*step, Step: step}
}

// freed returns how many steps aren't kept of a stream of size bytes.
func (s shape) freed(size int64) int64 {
	if s.Head < 0 || s.Step <= 0 {
		return 0
	}
	return max(0, (size-s.Head-s.Tail)/s.Step)
}

// gap returns what isn't kept of a stream of size bytes, and zeroes when all is.
func (s shape) gap(size int64) (from, to int64) {
	n := s.freed(size)
	if n == 0 {
		return 0, 0
	}
	return s.Head, s.Head + n*s.Step
}

// room returns how many bytes there are until the head or a step is full.
func (s shape) room(size int64) int64 {
	if s.Head < 0 || s.Step <= 0 {
		return math.MaxInt64
	}
	if size < s.Head {
		return s.Head - size
	}
	return s.Step - (size-s.Head)%s.Step
}

// clip takes what lies in the gap off n bytes read at off, when the stream had
// at least size bytes after reading.
func (s shape) clip(n int, off, size int64) (int, error) {
	from, to := s.gap(size)
	if off+int64(n) <= from || off >= to {
		// A read that ended just before the gap finds it next time.
		return n, nil
	}
	return int(max(0, from-off)), &GapError{from, to}
}

// spill is an artifact that its stream writes to. Methods but readAt, gap,
// gone and closed are for one goroutine at a time.
type spill struct {
	store     *Store
	id        ID
	file      *os.File // read and written; locked until the end
	shape     shape
	marks     *os.File // once the head is full
	size      atomic.Int64
	freed     int64 // to where the gap's disk space was given back
	checked   int64 // size at the last look at the room
	shut      atomic.Bool
	discarded atomic.Bool
}

// write appends p, which ends line ends precede. After an error the artifact is
// of no use.
func (a *spill) write(p []byte, ends int64) error {
	for len(p) > 0 {
		size := a.size.Load()
		room := a.shape.room(size)
		part := p[:min(int64(len(p)), room)]
		if _, err := a.file.WriteAt(part, size); err != nil {
			return err
		}
		p = p[len(part):]
		size += int64(len(part))
		a.size.Store(size)
		if int64(len(part)) == room {
			ends += lineEnds(part)
			if err := a.full(size, ends); err != nil {
				return err
			}
		}
		if size-a.checked >= roomStep {
			grown := size - a.checked
			a.checked = size
			if err := errors.Join(a.gone(), a.store.room(grown)); err != nil {
				return err
			}
		}
	}
	return nil
}

// full notes that the head or a step is full: for the readers who will find the
// gap end here, well before it does.
func (a *spill) full(size, ends int64) error {
	if a.marks == nil {
		file, err := a.store.open(string(a.id)+marksSuffix, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
		if err != nil {
			return err
		}
		a.marks = file
	}
	if err := writeMark(a.marks, (size-a.shape.Head)/a.shape.Step, ends); err != nil {
		return err
	}
	return a.free(size)
}

// free gives the gap's disk space back.
func (a *spill) free(size int64) error {
	from, to := a.shape.gap(size)
	from = max(from, a.freed)
	if from >= to {
		return nil
	}
	a.freed = to
	err := withFD(a.file, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	})
	if err != nil {
		return fmt.Errorf("the artifact has its full size and its middle can't be freed: %w", err)
	}
	return nil
}

// readAt reads as [Source] says, but for the end: it returns fewer bytes and nil
// there.
func (a *spill) readAt(p []byte, off int64) (int, error) {
	n, err := a.file.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return a.shape.clip(n, off, a.size.Load())
}

// gap returns what isn't kept so far.
func (a *spill) gap() Gap {
	// Where there is a gap, there has been a file of marks for long.
	return a.shape.gapWithLines(a.size.Load, func() *os.File { return a.marks })
}

// gone returns an error when the artifact isn't in the store any more, although
// its file can still be read.
func (a *spill) gone() error {
	var st unix.Stat_t
	err := withFD(a.file, func(fd int) error { return os.NewSyscallError("fstat", unix.Fstat(fd, &st)) })
	switch {
	case a.discarded.Load():
		return ErrGone
	case a.closed():
		return nil // nobody looks after it any more
	case err == nil && st.Nlink == 0:
		return ErrGone
	}
	return err
}

// finish completes the artifact and gives up the ownership. It fails when the
// artifact isn't there. An entry that can't be completed for want of room is
// left as it is: the stream is whole all the same.
func (a *spill) finish(lines int64) error {
	if err := a.gone(); err != nil {
		return err
	}
	a.store.count(a.size.Load() - a.checked)
	_ = a.store.endEntry(a.id, lines)
	return setLock(a.file, unix.F_UNLCK)
}

// discard removes the artifact from the store, or empties it where that isn't
// allowed. Whoever reads it gets [os.ErrClosed].
func (a *spill) discard() {
	a.discarded.Store(true)
	if err := a.store.remove(a.id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = a.file.Truncate(0)
	}
	_ = a.close()
}

func (a *spill) close() error {
	if a.shut.Swap(true) {
		return nil
	}
	err := a.file.Close()
	if a.marks != nil {
		err = errors.Join(err, a.marks.Close())
	}
	return err
}

func (a *spill) closed() bool { return a.shut.Load() }
