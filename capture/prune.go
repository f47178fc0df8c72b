package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLive is matched by the error of [Store.Remove] for an artifact that a
// living process writes.
var ErrLive = errors.New("the artifact is live")

// Pruned says what was removed from a store.
type Pruned struct {
	IDs   []ID
	Bytes int64 // on disk
}

// Prune removes artifacts past their age, then the oldest while the store takes
// more than its quota or leaves less free than it should. Live artifacts stay,
// whoever's they are, and what the limits don't ask for isn't touched. Remains of
// processes that were killed go too. A store prunes itself as it is written to.
func (s *Store) Prune() (Pruned, error) {
	p, _, err := s.prune()
	return p, err
}

// Clear removes all artifacts that aren't live, but those to keep.
func (s *Store) Clear(keep ...ID) (Pruned, error) {
	files, err := s.scan()
	if err != nil {
		return Pruned{}, err
	}
	var p Pruned
	var errs []error
	for _, f := range files {
		if !slices.Contains(keep, f.id) {
			_, err := s.removeInto(&p, f)
			errs = append(errs, err)
		}
	}
	return p, errors.Join(errs...)
}

// Remove removes an artifact. The error matches [ErrLive], [ErrBadID] or
// [fs.ErrNotExist].
func (s *Store) Remove(id ID) error {
	if _, err := ParseID(string(id)); err != nil {
		return err
	}
	return s.removeUnowned(id)
}

// removeUnowned removes an artifact unless a process owns it.
func (s *Store) removeUnowned(id ID) error {
	file, err := s.open(string(id), unix.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	// Owners of new artifacts lock them too, and find them gone at the latest
	// when they are done.
	if err := lock(file); errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w", id, ErrLive)
	} else if err != nil {
		return err
	}
	return s.remove(id)
}

// removeInto removes an artifact that isn't live, and notes it in p. It reports
// whether its space is free now.
func (s *Store) removeInto(p *Pruned, f stored) (bool, error) {
	switch err := s.removeUnowned(f.id); {
	case err == nil:
		p.IDs = append(p.IDs, f.id)
		p.Bytes += f.disk
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, ErrLive):
		return false, nil
	default:
		return false, err
	}
}

// stored is an artifact's file as it is found in the folder.
type stored struct {
	id      ID
	disk    int64
	written time.Time
}

// scan finds the artifacts, the oldest first, and removes entries of none.
func (s *Store) scan() ([]stored, error) {
	var names []string
	err := s.withDir(func(fd int) error {
		again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: s.path, Err: err}
		}
		dir := os.NewFile(uintptr(again), s.path)
		defer dir.Close()
		names, err = dir.Readdirnames(-1)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // somebody removed the folder
	} else if err != nil {
		return nil, err
	}
	var files []stored
	for _, name := range names {
		base, isEntry := strings.CutSuffix(name, entrySuffix)
		base, isMarks := strings.CutSuffix(base, marksSuffix)
		id, err := ParseID(base)
		if err != nil {
			continue // not ours
		}
		f, err := s.stat(id)
		switch {
		case err == nil && !isEntry && !isMarks:
			files = append(files, f)
		case errors.Is(err, fs.ErrNotExist) && isULID(base):
			// The artifact's file is made before and removed before these.
			_ = s.unlink(name)
		}
	}
	slices.SortFunc(files, func(a, b stored) int {
		return cmp.Or(a.written.Compare(b.written), strings.Compare(string(a.id), string(b.id)))
	})
	return files, nil
}

func (s *Store) stat(id ID) (stored, error) {
	var st unix.Stat_t
	err := s.withDir(func(dir int) error {
		if err := unix.Fstatat(dir, string(id), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return fs.ErrInvalid
		}
		return nil
	})
	return stored{id, st.Blocks * 512, time.Unix(st.Mtim.Unix())}, err
}

// prune is Prune, and returns what the store takes afterwards.
func (s *Store) prune() (p Pruned, used int64, err error) {
	files, err := s.scan()
	if err != nil {
		return p, 0, err
	}
	for _, f := range files {
		used += f.disk
	}
	var errs []error
	for _, f := range files {
		old := s.limits.Age > 0 && time.Since(f.written) > s.limits.Age
		full := s.limits.Total > 0 && used > s.limits.Total
		if !old && !full {
			if short, err := s.short(); err != nil || !short {
				errs = append(errs, err)
				break
			}
		}
		freed, err := s.removeInto(&p, f)
		errs = append(errs, err)
		if freed {
			used -= f.disk
		}
	}
	return p, used, errors.Join(errs...)
}

// short reports whether less is free than should be.
func (s *Store) short() (bool, error) {
	if s.limits.Free < 0 {
		return false, nil
	}
	var st unix.Statfs_t
	err := s.withDir(func(dir int) error { return os.NewSyscallError("statfs", unix.Fstatfs(dir, &st)) })
	return err == nil && int64(st.Bavail)*st.Bsize < s.limits.Free, err
}

// room returns nil if the store may take more, after making room where that is
// needed. It adds what an artifact has grown by to what is known to be used.
func (s *Store) room(grown int64) error {
	s.mu.Lock()
	s.used += grown
	due := s.used >= s.scanAt || s.limits.Total > 0 && s.used > s.limits.Total
	s.mu.Unlock()
	short, err := s.short()
	if err != nil || !due && !short {
		return err
	}
	// What can't be removed matters only if there is no room.
	_, used, err := s.prune()
	s.mu.Lock()
	// Other processes add to it too, and count only their own.
	again := int64(64 << 20)
	if s.limits.Total > 0 {
		again = min(again, max(256<<10, s.limits.Total/16))
	}
	s.used, s.scanAt = used, used+again
	s.mu.Unlock()
	if s.limits.Total > 0 && used > s.limits.Total {
		return errors.Join(fmt.Errorf("%w: its quota of %d bytes is used up", ErrNoRoom, s.limits.Total), err)
	}
	if short, statErr := s.short(); statErr != nil || short {
		return errors.Join(fmt.Errorf("%w: less than %d bytes are free", ErrNoRoom, s.limits.Free), err, statErr)
	}
	return nil
}

// count adds to what is known to be used.
func (s *Store) count(grown int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += grown
}
