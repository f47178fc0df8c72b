package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"golang.org/x/sys/unix"
)

// Reader reads a stream of a command bit by bit. What has been taken under its
// name once doesn't come again, in this process or a later one, and two
// processes that read under one name share the output between them.
type Reader struct {
	c     *Command
	store *capture.Store
	name  string // of the stream
	file  *os.File
	src   *capture.Artifact
	at    offset
}

// offset is what a reader's file has.
type offset struct {
	Offset int64 `json:"offset"`
}

// NewReader returns the reader of that name. Only one process can have it at a
// time; others wait for it until ctx ends. The caller closes it.
func (c *Command) NewReader(ctx context.Context, store *capture.Store, stream, name string) (_ *Reader, err error) {
	if !slices.Contains(c.Streams, stream) {
		return nil, fmt.Errorf("the command has no stream %q: one of %q", stream, c.Streams)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(c.dir, readersDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name+"."+stream), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	r := &Reader{c: c, store: store, name: stream, file: f}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	for setLock(f, unix.F_WRLCK, false) != nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &r.at); err != nil || r.at.Offset < 0 {
			r.at = offset{} // a crash of the machine
		}
	}
	return r, nil
}

// Close closes the reader. It stays where it is for the next one of its name.
func (r *Reader) Close() error {
	var err error
	if r.src != nil {
		err = r.src.Close()
	}
	return errors.Join(err, r.file.Close())
}

// open opens what the command has printed. It reports false if that is nothing
// yet.
func (r *Reader) open() (bool, error) {
	if r.src != nil {
		return true, nil
	}
	id := r.c.Output[r.name]
	if id == "" && !r.c.Final() {
		if err := r.c.Refresh(); err != nil {
			return false, err
		}
		id = r.c.Output[r.name]
	}
	if id == "" {
		return false, nil
	}
	var err error
	r.src, err = r.store.Open(id)
	return err == nil, err
}

// Next returns what has come since the last time, at most limit bytes. Empty
// means that there is nothing more for now, and [io.EOF] that nothing will come
// any more. What it returns comes again if [Reader.Took] isn't called.
func (r *Reader) Next(limit int) (capture.Delta, error) {
	final := r.c.Final()
	ok, err := r.open()
	if err != nil {
		return capture.Delta{}, err
	}
	if !ok {
		if final {
			return capture.Delta{}, io.EOF
		}
		return capture.Delta{}, nil
	}
	cur := capture.Cursor{Source: r.src, Offset: r.at.Offset}
	return cur.Next(limit)
}

// Took says that what Next returned was taken.
func (r *Reader) Took(d capture.Delta) error {
	r.at.Offset = d.From + int64(len(d.Text))
	text, err := json.Marshal(r.at)
	if err != nil {
		return err
	}
	// In place: the lock is this file's. Offsets only grow, and so does the
	// text; a crash can leave an older one.
	_, err = r.file.WriteAt(append(text, '\n'), 0)
	return err
}

// Wait waits until there may be more, or ctx ends.
func (r *Reader) Wait(ctx context.Context) error {
	if r.src != nil {
		return r.src.Wait(ctx, r.at.Offset)
	}
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
