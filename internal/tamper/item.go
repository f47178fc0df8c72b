package tamper

import (
	"bytes"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// item is one protected path as it was.
type item struct {
	policy.Protected
	node
	// files are what is in a folder, by name below it.
	files []file
	// listed says that files is the whole list.
	listed bool
}

// file is an entry of a folder.
type file struct {
	name string
	node
}

// node is what is at a path. The zero value is nothing.
type node struct {
	id ident
	// text is what a file holds, or what a symbolic link says.
	text []byte
	// kept says that text is known.
	kept bool
}

func (n *node) missing() bool { return n.id == ident{} }
func (n *node) typ() uint32   { return n.id.mode & unix.S_IFMT }

// take notes how a path is.
func (s *State) take(p policy.Protected) (item, error) {
	it := item{Protected: p}
	switch p.Kind {
	case policy.Pinned, policy.Reopened:
		var err error
		it.id, err = lstat(p.Path)
		return it, err
	}
	n, err := look(p.Path, min(s.room, contentLimit))
	if err != nil {
		return it, err
	}
	it.node = n
	s.room -= len(n.text)
	if it.typ() == unix.S_IFDIR {
		it.files = s.list(nil, p.Path, "", s.deep(p.Path))
		it.listed = s.entries >= 0
	}
	return it, nil
}

// deep reports whether everything in a folder counts. What is in worktrees and
// modules has pointers and configurations of its own.
func (s *State) deep(path string) bool {
	name := base(path)
	return !s.repos[dir(path)] || name != "worktrees" && name != "modules"
}

// list adds what is in a folder.
func (s *State) list(files []file, top, below string, deep bool) []file {
	for _, name := range names(top + below) {
		if s.entries--; s.entries < 0 {
			break
		}
		path := below + "/" + name
		f := file{name: path}
		switch {
		case !deep: // only the name counts
		case strings.HasSuffix(name, ".sample"):
			// Nothing executes it. Another name for it is another entry.
			f.id = ident{mode: unix.S_IFREG}
		default:
			f.node, _ = look(top+path, min(s.room, contentLimit))
			s.room -= len(f.text)
		}
		files = append(files, f)
		if deep && f.typ() == unix.S_IFDIR {
			files = s.list(files, top, path, deep)
		}
	}
	return files
}

// compare says how a path differs from what it was.
func (s *State) compare(it *item) {
	id, _ := lstat(it.Path)
	now := node{id: id}
	switch it.Kind {
	case policy.Pinned, policy.Reopened:
		if now.typ() != it.typ() || id.dev != it.id.dev || id.ino != it.id.ino {
			s.differs(it.Path, it.Why, &it.node, &now, true)
		}
		return
	case policy.Compared:
		switch base(it.Path) {
		case ".gitmodules":
			s.gitmodules(it, &now)
			return
		case ".git":
			s.submodule(it, &now)
			return
		case "config":
			if s.repos[dir(it.Path)] {
				s.config(it, &now)
				return
			}
		}
	}
	if id == it.id && !s.racy(id) {
		if it.files != nil {
			s.compareFiles(it, false)
		}
		return
	}
	folders := now.typ() == unix.S_IFDIR && it.typ() == unix.S_IFDIR
	// git makes a tracked folder anew.
	if folders && it.Kind == policy.Compared || !s.differs(it.Path, it.Why, &it.node, &now, false) && folders {
		s.compareFiles(it, true)
	}
}

// differs reports a path that differs from what it was. Folder says that a
// folder has to be the same one, not only one.
func (s *State) differs(path, why string, was, now *node, folder bool) bool {
	switch {
	case was.missing() && now.missing():
		return false
	case was.missing():
		s.add(path, Created, why+madeText(path, now))
	case now.missing():
		s.add(path, Removed, why)
	case was.typ() != now.typ():
		s.add(path, Replaced, why+madeText(path, now))
	case now.typ() == unix.S_IFDIR:
		if !folder && was.id.dev == now.id.dev && was.id.ino == now.id.ino {
			return false
		}
		s.add(path, Replaced, why+" is another folder")
	case now.typ() == unix.S_IFREG, now.typ() == unix.S_IFLNK:
		return s.contentDiffers(path, why, was, now)
	default:
		if was.id.ino == now.id.ino && was.id.dev == now.id.dev {
			return false
		}
		s.add(path, Replaced, why)
	}
	return true
}

// contentDiffers is differs for a file or a symbolic link.
func (s *State) contentDiffers(path, why string, was, now *node) bool {
	if was.id == now.id && !s.racy(now.id) {
		return false
	}
	exec := func(n *node) bool { return n.typ() == unix.S_IFREG && n.id.mode&0o111 != 0 }
	if !was.kept {
		if was.id == now.id {
			return false // as much as can be known
		}
		s.add(path, Changed, why)
		return true
	}
	got, _ := look(path, contentLimit)
	switch {
	case !got.kept || !bytes.Equal(got.text, was.text):
		s.add(path, Changed, why+newSettings(path, was.text, got.text))
	case exec(&got) && !exec(was):
		s.add(path, Changed, why+" can be executed now")
	default:
		return false
	}
	return true
}

// madeText says more about something new.
func madeText(path string, now *node) string {
	got, _ := look(path, contentLimit)
	if now.typ() == unix.S_IFLNK {
		return " is a symbolic link to " + quote(string(got.text))
	}
	return newSettings(path, nil, got.text)
}

// compareFiles compares what is in a folder. Anew says that the names may have
// changed, too.
func (s *State) compareFiles(it *item, anew bool) {
	if !s.deep(it.Path) || !it.listed {
		return
	}
	had := make(map[string]bool, len(it.files))
	for i := range it.files {
		f := &it.files[i]
		had[f.name] = true
		anew = anew || f.typ() == unix.S_IFDIR // its names may have
		if !strings.HasSuffix(f.name, ".sample") {
			id, _ := lstat(it.Path + f.name)
			s.differs(it.Path+f.name, it.Why, &f.node, &node{id: id}, false)
		}
	}
	if !anew {
		return
	}
	entries, room := s.entries, s.room
	s.entries, s.room = entryLimit, 0
	now := s.list(nil, it.Path, "", true)
	if s.entries < 0 {
		s.add(it.Path, Changed, it.Why+" has too many entries to compare")
	}
	s.entries, s.room = entries, room
	for i := range now {
		f := &now[i]
		if !had[f.name] && !strings.HasSuffix(f.name, ".sample") && !s.aside[it.Path+f.name] {
			s.add(it.Path+f.name, Created, it.Why+madeText(it.Path+f.name, &f.node))
		}
	}
}
