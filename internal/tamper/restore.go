package tamper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Restored is what [State.Restore] did about a change.
type Restored struct {
	Change
	// Aside is where that is now which was found; empty if nothing was.
	Aside policy.Path `json:"aside,omitempty"`
	// Err says what could not be done; nil if everything was.
	Err error `json:"-"`
}

func (r Restored) String() string {
	text := r.Path.String() + ": is as it was"
	if r.Err != nil {
		text = r.Path.String() + ": " + r.Err.Error()
	}
	if r.Aside != "" {
		text += "; what was there is in " + r.Aside.String()
	}
	return text
}

// Reasons why something can't be put back.
var (
	errNotKept = errors.New("can't be put back: its content is not known")
	errGone    = errors.New("can't be put back: the folder is gone")
	errIndex   = errors.New("can't be put back: git reset makes a new list of files")
	errElse    = errors.New("can't be put back: look at it")
)

// Restore puts back what [State.Compare] found, change by change in its order:
// files and symbolic links as they were, folders that were renamed within the
// same folder. What is found in their place, and what wasn't there before, is
// given another name beside it, of which git takes no notice; nothing is
// deleted. The command, and everything it left, must have ended.
//
// It undoes what others changed meanwhile, too.
func (s *State) Restore(changes []Change) []Restored {
	if s.aside == nil {
		s.aside = map[string]bool{}
	}
	list := make([]Restored, 0, len(changes))
	for _, c := range changes {
		r := Restored{Change: c}
		aside, err := s.restore(string(c.Path), c.What)
		r.Aside, r.Err = policy.Path(aside), err
		list = append(list, r)
	}
	return list
}

// restore puts one path back.
func (s *State) restore(path string, what What) (aside string, err error) {
	was, it := s.was(path)
	trees := ""
	if s.git {
		trees = s.r.Repo.CommonDir + "/worktrees"
	}
	switch {
	case was == nil && what != Created && base(path) == "index":
		return "", errIndex
	case was == nil && what != Created, what == Changed && was != nil && was.typ() == unix.S_IFDIR:
		return "", errElse
	case was != nil && !was.missing() && was.typ() != unix.S_IFDIR && !was.kept:
		return "", errNotKept
	}
	p, err := openParent(path)
	if err != nil {
		return "", err
	}
	defer p.close()
	var made string
	if was != nil && (was.typ() == unix.S_IFREG || was.typ() == unix.S_IFLNK) {
		if made, err = p.make(was); err != nil {
			return "", err
		}
	}
	away := p
	name := p.name + ".tampered-"
	if dir(path) == trees {
		// Under any name it would be a worktree there.
		if away, err = openParent(dir(trees) + "/tampered-worktree-" + p.name + "-"); err != nil {
			return "", err
		}
		defer away.close()
		name = away.name
	}
	if id, err := lstat(path); err == nil && id != (ident{}) {
		to, err := p.moveTo(away, name)
		if err != nil {
			return "", errors.Join(err, p.unmake(made))
		}
		aside = dir(away.path) + "/" + to
		s.aside[aside] = true
	}
	switch {
	case was == nil || was.missing():
		return aside, nil
	case made != "":
		return aside, p.rename(made, p.name)
	case was.typ() == unix.S_IFDIR:
		return aside, s.restoreFolder(p, was, it)
	}
	return aside, errElse
}

// was returns what was at a path; nil if that was not looked at. For a path that
// was looked at with all that is in it, it returns that, too.
func (s *State) was(path string) (*node, *item) {
	for i := range s.items {
		it := &s.items[i]
		if it.Path == path {
			if it.listed && s.deep(path) {
				return &it.node, it
			}
			return &it.node, nil
		}
		rest, ok := strings.CutPrefix(path, it.Path+"/")
		if !ok || !s.deep(it.Path) || !it.listed {
			continue
		}
		for j := range it.files {
			if it.files[j].name == "/"+rest {
				return &it.files[j].node, nil
			}
		}
		if it.typ() == unix.S_IFDIR {
			return &node{}, nil
		}
	}
	return nil, nil
}

// restoreFolder puts back a folder: the same one, if it still lies beside,
// else a new one with the files that are known.
func (s *State) restoreFolder(p *parent, was *node, it *item) error {
	for _, name := range names(dir(p.path)) {
		if id, _ := lstat(dir(p.path) + "/" + name); id.dev == was.id.dev && id.ino == was.id.ino {
			return p.rename(name, p.name)
		}
	}
	if it == nil {
		return errGone
	}
	if err := unix.Mkdirat(p.fd, p.name, was.id.mode&0o7777); err != nil {
		return &os.PathError{Op: "mkdir", Path: p.path, Err: err}
	}
	p.own(p.name, was)
	it.id, _ = lstat(p.path) // this one counts from now on
	var errs []error
	for i := range it.files {
		f := &it.files[i]
		if strings.HasSuffix(f.name, ".sample") || f.typ() == unix.S_IFDIR {
			continue
		}
		if _, err := s.restore(p.path+f.name, Removed); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name[1:], err))
		}
	}
	return errors.Join(errs...)
}

// parent is an open folder in which something is put back. No symbolic link
// leads to it: those could have been planted, too.
type parent struct {
	fd         int
	path, name string // of what is in it
}

// openParent opens the folder that holds a path.
func openParent(path string) (*parent, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	for part := range strings.SplitSeq(dir(path), "/") {
		if part == "" {
			continue
		}
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: dir(path), Err: err}
		}
		fd = next
	}
	return &parent{fd: fd, path: path, name: base(path)}, nil
}

func (p *parent) close() { _ = unix.Close(p.fd) }

// rename gives a name in the folder to something else in it.
func (p *parent) rename(from, to string) error {
	if err := renameNew(p.fd, from, p.fd, to); err != nil {
		return &os.PathError{Op: "rename", Path: p.path, Err: err}
	}
	return nil
}

// renameNew renames, unless the new name is taken.
func renameNew(fromFD int, from string, toFD int, to string) error {
	err := unix.Renameat2(fromFD, from, toFD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// Some file systems can't.
		var st unix.Stat_t
		if unix.Fstatat(toFD, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return unix.EEXIST
		}
		return unix.Renameat(fromFD, from, toFD, to)
	}
	return err
}

// moveTo moves what is there into another folder, by a new name that begins as
// given, which it returns.
func (p *parent) moveTo(away *parent, begin string) (string, error) {
	begin += time.Now().UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		name := begin
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
		err := renameNew(p.fd, p.name, away.fd, name)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, unix.EEXIST) || n == 1000 {
			return "", &os.PathError{Op: "rename", Path: p.path, Err: err}
		}
	}
}

// make makes a file or symbolic link as it was, by a name that it returns.
func (p *parent) make(was *node) (string, error) {
	name := ".restore-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	var err error
	if was.typ() == unix.S_IFLNK {
		err = unix.Symlinkat(string(was.text), p.fd, name)
	} else {
		err = p.write(name, was)
	}
	if err != nil {
		return "", &os.PathError{Op: "write", Path: p.path, Err: err}
	}
	p.own(name, was)
	return name, nil
}

func (p *parent) write(name string, was *node) error {
	fd, err := unix.Openat(p.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(was.text)
	return errors.Join(err, unix.Fchmod(fd, was.id.mode&0o7777), f.Close())
}

// own gives something made anew to its old owner. Only root can, and it need
// not succeed.
func (p *parent) own(name string, was *node) {
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(p.fd, name, int(was.id.uid), int(was.id.gid), unix.AT_SYMLINK_NOFOLLOW)
	}
}

// unmake removes what make has made.
func (p *parent) unmake(name string) error {
	if name == "" {
		return nil
	}
	return unix.Unlinkat(p.fd, name, 0)
}
