package launch

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// slots are the folders that the overlays of one command write to. No two
// mounts may write to one, so each is locked until the command has ended.
type slots struct {
	mounts []spawn.Mount
	locks  []int
}

// maxSlots bounds the commands of one cache that run at the same time.
const maxSlots = 256

// takeSlots takes a folder for each overlay of v.
func (v *variant) takeSlots() (*slots, error) {
	s := &slots{}
	if !v.layered() {
		return s, nil
	}
	for _, o := range v.resolved.Overlays {
		if err := s.take(o); err != nil {
			s.release()
			return nil, &SetupError{Stage: StageStart, Err: err}
		}
	}
	return s, nil
}

// take takes the first folder that is free. What others of this cache have
// written shows through.
func (s *slots) take(o policy.Overlay) error {
	for n := range maxSlots {
		dir := o.Dir + "/" + strconv.Itoa(n)
		fd, err := openSlot(dir)
		if err != nil {
			return err
		}
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			_ = unix.Close(fd)
			continue
		}
		s.locks = append(s.locks, fd)
		if err != nil {
			return &os.PathError{Op: "flock", Path: dir, Err: err}
		}
		for _, path := range []string{dir + "/upper", dir + "/work"} {
			if err := makeDir(path); err != nil {
				return err
			}
		}
		s.mounts = append(s.mounts, mountns.Overlay(o.Path, dir+"/upper", dir+"/work", append(others(o, n), o.Lower)))
		return nil
	}
	return &os.PathError{Op: "flock", Path: o.Dir, Err: unix.EBUSY}
}

// others lists what other commands than the nth have written.
func others(o policy.Overlay, n int) (dirs []string) {
	size := 3*len(o.Dir) + len(o.Lower)
	for i := range maxSlots {
		if i == n {
			continue
		}
		dir := o.Dir + "/" + strconv.Itoa(i) + "/upper"
		var st unix.Stat_t
		if size += len(dir) + 1; size > mountns.MaxOverlay || unix.Lstat(dir, &st) != nil {
			break
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// openSlot opens a folder, which is made if it isn't there.
func openSlot(dir string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(dir, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := makeDir(dir); err != nil {
			return -1, err
		}
		fd, err = unix.Open(dir, flags, 0)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return fd, nil
}

func makeDir(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// failed reports whether a start failed since an overlay can't be mounted here.
func (s *slots) failed(err error) bool {
	var e *spawn.Error
	return errors.As(err, &e) && e.Stage == spawn.StageMount && slices.ContainsFunc(s.mounts, func(m spawn.Mount) bool { return m.Target == e.Name })
}

// withoutOverlays replaces the variant v by one whose caches start empty.
func (s *Sandbox) withoutOverlays(v *variant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != v {
		return nil // another start was faster
	}
	s.noOverlays = true
	next, err := s.build(true, nil)
	if err != nil {
		return err
	}
	if err := s.ready(next); err != nil {
		return err
	}
	next.namespaces = v.namespaces
	s.old, s.now = append(s.old, v), next
	return nil
}

// release gives the folders to others, although a guard that is about to end has
// the locks, too.
func (s *slots) release() {
	for _, fd := range s.locks {
		_, _ = unix.Flock(fd, unix.LOCK_UN), unix.Close(fd)
	}
	s.locks = nil
}
