package capture

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// Limits bound what a [Store] keeps. For each, zero is the default given here,
// and less than zero is no limit.
type Limits struct {
	// Artifact is how many bytes one artifact may take on disk: 1 GiB. At
	// least 1 MiB is taken. A longer stream keeps its beginning, about half of
	// it, and its end. On a file system that can't free the middle of a file
	// (ext4, XFS, Btrfs and tmpfs can) such an artifact is given up.
	Artifact int64
	// Total is how many bytes all artifacts may take: 8 GiB.
	Total int64
	// Free is how many bytes are left free on the file system: 1 GiB.
	Free int64
	// Age is how long an artifact is kept after it was last written to: 7 days.
	Age time.Duration
}

// ErrNotPrivate is matched by the error of [OpenStore] for a folder that other
// users can get at.
var ErrNotPrivate = errors.New("not a private folder of this user's")

// ErrNoRoom is matched by the reason for which there is no artifact, when it is
// the store's quota or the floor of free space and nothing old was left to
// remove.
var ErrNoRoom = errors.New("no room in the store")

// ErrGone is matched by the reason for which there is no artifact, when
// somebody has removed it from the store.
var ErrGone = errors.New("the artifact was removed from the store")

// maxLabel bounds an entry's label, in bytes.
const maxLabel = 4 << 10

// Store is a folder with artifacts. Several stores, of several processes, can
// use the same folder. All methods may be called at the same time.
//
// An artifact is a file with the stream's bytes, named by its id, and beside it
// its entry, id.json. What was written to an artifact is
// there also when the process is killed; only a crash of the machine can take what
// the kernel hadn't written yet. Who owns a live artifact holds a lock on it,
// which ends with the process: locks must work on the file system.
type Store struct {
	path   string
	limits Limits
	shape  shape // of new artifacts

	mu  sync.Mutex
	dir *os.File

	used   int64 // bytes on disk as counted at the last scan, and ours since
	scanAt int64 // used at which to count again
}

// OpenStore opens the folder at path, and makes it, with mode 0700 as those above
// it, when there is none. A folder that belongs to another user, or that others
// may enter, is refused with [ErrNotPrivate]; so is a symlink. Those that are to
// write nothing in it shouldn't be able to write to what is above either: see
// [Store.Check].
func OpenStore(path string, limits Limits) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, limits: limits.filled()}
	s.shape = newShape(s.limits.Artifact)
	s.dir, err = openPrivate(path)
	return s, err
}

func (l Limits) filled() Limits {
	fill := func(v *int64, zero, least int64) {
		if *v == 0 {
			*v = zero
		} else if *v > 0 {
			*v = max(*v, least)
		}
	}
	fill(&l.Artifact, 1<<30, 1<<20)
	fill(&l.Total, 8<<30, 0)
	fill(&l.Free, 1<<30, 0)
	if l.Age == 0 {
		l.Age = 7 * 24 * time.Hour
	}
	return l
}

// openPrivate opens a folder of this user's alone, and makes it.
func openPrivate(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, errors.Join(&os.PathError{Op: "stat", Path: path, Err: err}, dir.Close())
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 {
		return nil, errors.Join(fmt.Errorf("%s: %w: uid %d, mode %#o", path, ErrNotPrivate, st.Uid, st.Mode&0o7777), dir.Close())
	}
	return dir, nil
}

// Path returns the store's folder, as an absolute path.
func (s *Store) Path() string { return s.path }

// Close closes the folder. Artifacts that are open or written stay so.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir.Close()
}

// GrantError is returned by [Store.Check] and [CheckOutside].
type GrantError struct{ Store, Grant string }

func (e *GrantError) Error() string {
	return fmt.Sprintf("what may write to %s could change what is kept in %s", e.Grant, e.Store)
}

// Check returns a [*GrantError] for the first of the paths that is the store's
// folder, is above it or lies inside it, by whatever name: a confined command
// that may write there could change what others read. Paths that don't exist
// are judged by the nearest folder above that does. A folder that shows the
// store elsewhere below it by a mount isn't found.
func (s *Store) Check(writable ...string) error { return CheckOutside(s.path, writable...) }

// CheckOutside is [Store.Check] for any folder.
func CheckOutside(path string, writable ...string) error {
	inStore, err := chain(path)
	if err != nil {
		return err
	}
	for _, grant := range writable {
		if grant, err = filepath.Abs(grant); err != nil {
			return err
		}
		st, err := os.Stat(grant)
		if err == nil && contains(inStore, st) {
			return &GrantError{path, grant}
		}
		above, err := chain(grant)
		if err != nil {
			return err
		}
		if contains(above, inStore[0]) {
			return &GrantError{path, grant}
		}
	}
	return nil
}

// chain describes the folder at path and all above it, after links, beginning
// with the nearest that exists.
func chain(path string) (infos []fs.FileInfo, err error) {
	real, err := filepath.EvalSymlinks(path)
	for errors.Is(err, fs.ErrNotExist) && path != "/" {
		path = filepath.Dir(path)
		real, err = filepath.EvalSymlinks(path)
	}
	for err == nil {
		var st fs.FileInfo
		if st, err = os.Stat(real); err == nil {
			infos = append(infos, st)
		}
		if real == "/" {
			break
		}
		real = filepath.Dir(real)
	}
	return infos, err
}

func contains(infos []fs.FileInfo, st fs.FileInfo) bool {
	for _, i := range infos {
		if os.SameFile(i, st) {
			return true
		}
	}
	return false
}

// entry is what the store notes of an artifact: a line of JSON when it is made,
// and a second one with Ended and Lines when it is complete. What doesn't end in
// a newline isn't written yet.
type entry struct {
	Label   string    `json:"label,omitempty"`
	Stream  string    `json:"stream,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Shape   shape     `json:"shape,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Lines   int64     `json:"lines,omitempty"`
}

// errBadEntry is for an entry that a crash of the machine left behind.
var errBadEntry = errors.New("not an artifact's entry")

// Suffixes to an artifact's id of the files beside it.
const (
	entrySuffix = ".json"
	marksSuffix = ".lines"
)

// create makes an artifact, which is live.
func (s *Store) create(stream, label string) (*spill, error) {
	if err := s.room(0); err != nil {
		return nil, err
	}
	number, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil {
		return nil, err
	}
	id := ID(number.String())
	file, err := s.open(string(id), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody removed the folder.
		if err = s.reopen(); err == nil {
			file, err = s.open(string(id), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
		}
	}
	if err != nil {
		return nil, err
	}
	a := &spill{store: s, id: id, file: file, shape: s.shape}
	if err = lock(file); err == nil {
		err = s.newEntry(id, entry{
			Label:   strings.ToValidUTF8(label[:min(len(label), maxLabel)], "\ufffd"),
			Stream:  stream,
			Created: time.Now(),
			Shape:   a.shape,
		})
	}
	if err != nil {
		a.discard()
		return nil, err
	}
	return a, nil
}

func (s *Store) reopen() error {
	dir, err := openPrivate(s.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.dir
	s.dir = dir
	return old.Close()
}

// withDir calls f with the folder's descriptor.
func (s *Store) withDir(f func(fd int) error) error {
	s.mu.Lock()
	dir := s.dir
	s.mu.Unlock()
	return withFD(dir, f)
}

// withFD calls f with the file's descriptor, which stays open meanwhile.
func withFD(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// open opens a file of the folder. It follows no link and waits for nothing; a
// file that is created is this user's alone.
func (s *Store) open(name string, flags int) (*os.File, error) {
	var file *os.File
	err := s.withDir(func(dir int) error {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return &os.PathError{Op: "open", Path: s.pathOf(name), Err: err}
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			unix.Close(fd)
			return &os.PathError{Op: "open", Path: s.pathOf(name), Err: errors.Join(err, fs.ErrInvalid)}
		}
		file = os.NewFile(uintptr(fd), s.pathOf(name))
		return nil
	})
	return file, err
}

func (s *Store) pathOf(name string) string { return filepath.Join(s.path, name) }

// newEntry makes an artifact's entry.
func (s *Store) newEntry(id ID, e entry) error {
	return s.addToEntry(id, unix.O_CREAT|unix.O_EXCL, e)
}

// endEntry says in an artifact's entry that it is complete.
func (s *Store) endEntry(id ID, lines int64) error {
	return s.addToEntry(id, 0, entry{Ended: time.Now(), Lines: lines})
}

func (s *Store) addToEntry(id ID, flags int, e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file, err := s.open(string(id)+entrySuffix, flags|unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// getEntry reads an artifact's entry.
func (s *Store) getEntry(id ID) (e entry, err error) {
	if isForeign(string(id)) {
		return entry{Shape: shape{Head: -1}}, nil
	}
	file, err := s.open(string(id)+entrySuffix, unix.O_RDONLY)
	if err != nil {
		return e, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return e, err
	}
	if !bytes.Contains(text, []byte{'\n'}) {
		return e, &os.PathError{Op: "read", Path: file.Name(), Err: fs.ErrNotExist} // not yet
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			break
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return e, fmt.Errorf("%s: %w: %w", file.Name(), errBadEntry, err)
		}
	}
	return e, nil
}

func (s *Store) unlink(name string) error {
	return s.withDir(func(dir int) error {
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return &os.PathError{Op: "unlink", Path: s.pathOf(name), Err: err}
		}
		return nil
	})
}

// remove unlinks an artifact, of which no process may be the owner but this one.
// The entry goes last: what is left after a kill is an entry of nothing.
func (s *Store) remove(id ID) error {
	err := s.unlink(string(id))
	if isForeign(string(id)) {
		return err
	}
	for _, suffix := range []string{marksSuffix, entrySuffix} {
		if e := s.unlink(string(id) + suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// lock marks the file as owned, as long as it is open. It fails when somebody
// else owns it.
func lock(file *os.File) error {
	return setLock(file, unix.F_WRLCK)
}

func setLock(file *os.File, kind int16) error {
	return withFD(file, func(fd int) error {
		return os.NewSyscallError("lock", unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind}))
	})
}

// owned reports whether somebody else has locked the file.
func owned(file *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK}
	err := withFD(file, func(fd int) error {
		return os.NewSyscallError("lock", unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l))
	})
	return err == nil && l.Type != unix.F_UNLCK, err
}
