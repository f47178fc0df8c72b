package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Bounds of one seeding.
const (
	seedEntries = 200_000
	seedBytes   = 256 << 20
	seedFile    = 8 << 20
)

var errSeedBound = errors.New("there is too much of it")

// stamp returns a text that changes when something is added to the folders:
// their times of change. It is empty if none is there.
func stamp(dirs ...string) string {
	var b []byte
	found := false
	for _, dir := range dirs {
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) == nil {
			found = true
			b = strconv.AppendInt(b, st.Mtim.Sec, 36)
			b = append(b, '.')
			b = strconv.AppendInt(b, st.Mtim.Nsec, 36)
		}
		b = append(b, ' ')
	}
	if !found {
		return ""
	}
	return string(b)
}

// seed fills a tool's folder in ours from the user's own with work, once, and
// again when now, the stamp of the user's, has changed since. The mark lies
// beside our folder, where the command can't change it: it is a symbolic link
// whose target is the stamp, so that the usual start pays one call for it.
//
// Two starts at once do the work one after the other, and the second finds it
// done.
func (c *cache) seed(tool, now string, work func(s *seeding) error) {
	mark := c.dir + "." + tool
	if now == "" || c.o.DryRun || seeded(mark, now) {
		return
	}
	err := c.locked(func() error {
		if seeded(mark, now) {
			return nil
		}
		root, err := os.OpenRoot(c.dir)
		if err != nil {
			return err
		}
		defer root.Close()
		s := &seeding{root: root, entries: seedEntries, bytes: seedBytes}
		err = work(s)
		if err != nil && !errors.Is(err, errSeedBound) {
			return err
		}
		if err == nil {
			err = s.left
		}
		if err != nil {
			c.note("cache-partial", "not all of the user's "+tool+" cache is at hand: "+err.Error(), "")
		}
		return setMark(mark, now)
	})
	if err != nil {
		c.note("cache-partial", "the user's "+tool+" cache is not at hand: "+err.Error(), "")
	}
}

func seeded(mark, now string) bool {
	var buf [512]byte
	n, err := syscall.Readlink(mark, buf[:])
	return err == nil && string(buf[:n]) == now
}

func setMark(mark, now string) error {
	next := mark + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(now, next); err != nil {
		return err
	}
	return os.Rename(next, mark)
}

// locked runs work while no other start seeds the same folder. The lock lies
// outside the folder, so that no command can hold it for ever; where the user
// has put the cache into a place that is granted, one could, and then this
// start doesn't wait.
func (c *cache) locked(work func() error) error {
	path := c.dir + ".lock"
	fd, err := openFile(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_NOFOLLOW)
	if err != nil {
		return cacheError{display(path), err}
	}
	defer syscall.Close(fd)
	how := syscall.LOCK_EX
	if c.writable(path) {
		how |= syscall.LOCK_NB
	}
	for {
		if err = syscall.Flock(fd, how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return cacheError{display(path), err}
	}
	return work()
}

// seeding is one filling of our folder. Everything is written through root: a
// command that has the folder could put a symbolic link anywhere in it, and
// must not steer this process, which is not confined. For the same reason
// nothing in it is trusted to be a plain file.
type seeding struct {
	root    *os.Root
	entries int
	bytes   int64
	// left is why the first entry was left out that could not be had.
	left error
}

// leave goes on without an entry, unless no other could be had either.
func (s *seeding) leave(err error) error {
	for _, full := range [...]error{errSeedBound, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, full) {
			return err
		}
	}
	if s.left == nil {
		s.left = err
	}
	return nil
}

// action is what to do with a file of the user's.
type action uint8

const (
	skip action = iota
	// link makes a symbolic link to it: for what is never changed in place.
	link
	// copied makes a copy. Never a hard link: by one the command could change
	// the user's own file.
	copied
	// merged adds the lines that are missing to ours.
	merged
	// enter goes into a folder.
	enter
)

// tree does what choose says for each entry of the folder src and those
// beneath, with names below dst in ours. A src that isn't there is no error.
func (s *seeding) tree(src, dst string, choose func(rel string, e fs.DirEntry) action) error {
	return s.walk(src, dst, "", choose)
}

// allFiles does the same with every file, however deep.
func allFiles(do action) func(string, fs.DirEntry) action {
	return func(_ string, e fs.DirEntry) action {
		switch {
		case e.IsDir():
			return enter
		case e.Type().IsRegular():
			return do
		}
		return skip
	}
}

func (s *seeding) walk(src, dst, rel string, choose func(rel string, e fs.DirEntry) action) error {
	entries, err := os.ReadDir(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.leave(err)
	}
	made := false
	for _, e := range entries {
		name := rel + e.Name()
		do := choose(name, e)
		if do == skip {
			continue
		}
		if s.entries--; s.entries < 0 {
			return errSeedBound
		}
		if !made && do != enter {
			if err := s.root.MkdirAll(dst, 0o777); err != nil {
				return s.leave(err)
			}
			made = true
		}
		from, to := src+"/"+e.Name(), dst+"/"+e.Name()
		switch do {
		case enter:
			err = s.walk(from, to, name+"/", choose)
		case link:
			err = s.link(from, to)
		case copied:
			err = s.copy(from, to)
		case merged:
			err = s.merge(from, to)
		}
		if err == nil {
			continue
		}
		if err := s.leave(err); err != nil {
			return err
		}
	}
	return nil
}

// link makes a symbolic link unless something of that name is there.
func (s *seeding) link(from, to string) error {
	err := s.root.Symlink(from, to)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// copy copies a file unless something of that name is there.
func (s *seeding) copy(from, to string) error {
	if _, err := s.root.Lstat(to); err == nil {
		return nil
	}
	text, err := s.readTheirs(from)
	if err != nil || text == nil {
		return err
	}
	return s.put(to, text)
}

// merge adds to ours the lines of theirs that it lacks.
func (s *seeding) merge(from, to string) error {
	text, err := s.readTheirs(from)
	if err != nil || text == nil {
		return err
	}
	ours, err := s.readOurs(to)
	if errors.Is(err, fs.ErrNotExist) {
		return s.put(to, text)
	}
	if err != nil {
		return err
	}
	out := ours
	for line := range strings.SplitSeq(string(text), "\n") {
		if line != "" && !strings.Contains(string(ours), line) {
			out = append(append(out, '\n'), line...)
		}
	}
	if len(out) == len(ours) {
		return nil
	}
	return s.put(to, out)
}

// readTheirs reads a file of the user's, nil if it is too large or not there
// any more.
func (s *seeding) readTheirs(path string) ([]byte, error) {
	text, err := readFollow(path, seedFile)
	switch {
	case errors.Is(err, errTooLarge) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if s.bytes -= int64(len(text)); s.bytes < 0 {
		return nil, errSeedBound
	}
	return text, nil
}

// readOurs reads a file that the command may have made.
func (s *seeding) readOurs(name string) ([]byte, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	text, err := io.ReadAll(io.LimitReader(f, seedFile+1))
	if err == nil && len(text) > seedFile {
		err = &fs.PathError{Op: "read", Path: name, Err: errTooLarge}
	}
	return text, err
}

// put writes a file whole under another name, then gives it its own: a tool
// that runs at the same time sees the old one or the new one.
func (s *seeding) put(name string, text []byte) error {
	next := name + ".seed"
	f, err := s.root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		// Left by a start that was killed: the lock is ours.
		if err := s.root.Remove(next); err != nil {
			return err
		}
		f, err = s.root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.root.Rename(next, name)
}
