package tamper

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// linkLimit bounds the gitlinks that are followed.
const linkLimit = 5000

// walker follows gitlinks from repository to repository, as git status does.
type walker struct {
	s *State
	// found is told what git would execute in a repository that isn't among
	// s.repos, by the name of its .git. Recent says that the way there may have
	// changed.
	found func(dotGit string, d danger, recent bool)
	// failed is told of a list of files that can't be read; it may be nil.
	failed func(path string, err error)
	seen   map[string]bool
	left   int
}

// links follows the gitlinks of the working tree.
func (s *State) links(found func(string, danger, bool), failed func(string, error)) {
	repo := s.r.Repo
	if repo.WorkTree == "" {
		return
	}
	w := walker{s: s, found: found, failed: failed, seen: map[string]bool{}, left: linkLimit}
	w.enter(repo.WorkTree, repo.GitDir, repo.Index())
}

// enter follows the gitlinks of one working tree.
func (w *walker) enter(top, gitDir string, ix policy.GitIndex) {
	if w.seen[gitDir] || w.left < 0 {
		return
	}
	w.seen[gitDir] = true
	id, _ := lstat(gitDir + "/index")
	touched := w.s.indexes[gitDir] != id || w.s.racy(id)
	links, err := ix.Gitlinks()
	if err != nil && w.failed != nil && touched {
		w.failed(gitDir+"/index", err)
	}
	for _, link := range links {
		if w.left--; w.left < 0 {
			if w.failed != nil {
				w.failed(gitDir+"/index", errTooMany)
			}
			return
		}
		w.follow(top, link, touched)
	}
}

// follow looks at one gitlink of the working tree at top.
func (w *walker) follow(top, link string, touched bool) {
	folder := join(top, link)
	gitDir := gitDirAt(folder)
	if gitDir == "" {
		return
	}
	common := commonDir(gitDir)
	if !w.s.repos[common] {
		recent := touched || w.recent(top, link, gitDir, common)
		for _, d := range dangers(gitDir) {
			id, _ := lstat(d.path)
			w.found(join(folder, ".git"), d, recent || w.s.racy(id))
		}
	}
	w.enter(folder, gitDir, (&policy.Repo{GitDir: gitDir, CommonDir: common}).Index())
}

// recent reports whether something on the way to a repository was touched, as
// by a rename.
func (w *walker) recent(top, link, gitDir, common string) bool {
	ways := []string{join(top, link+"/.git"), gitDir, common, common + "/hooks"}
	for ; link != "."; link = path.Dir(link) {
		ways = append(ways, join(top, link))
	}
	for _, way := range ways {
		if id, _ := lstat(way); w.s.racy(id) {
			return true
		}
	}
	return false
}

// nested reports what git would execute in repositories that git status enters
// now.
func (s *State) nested() {
	s.links(func(dotGit string, d danger, recent bool) {
		if s.known != nil && s.known[d] || s.known == nil && !recent {
			return
		}
		s.add(dotGit, Created, "git status enters this repository, in which git would use "+d.text()+" ("+quote(d.path)+")")
	}, func(path string, err error) {
		s.add(path, Changed, "git's list of files can't be read: "+err.Error())
	})
}

// submodule compares the pointer from a submodule's working tree to its
// repository. One that is gone leads nowhere, and a new one is looked at like
// any repository that git status enters.
func (s *State) submodule(it *item, now *node) {
	if now.missing() || it.missing() || now.id == it.id && !s.racy(now.id) {
		return
	}
	was := it.Path
	if it.typ() == unix.S_IFREG {
		was = filepath.Clean(join(dir(it.Path), strings.TrimPrefix(pointer(it.text), "gitdir: ")))
	}
	leads := gitDirAt(dir(it.Path))
	if leads == was && now.typ() == it.typ() || s.repos[commonDir(leads)] {
		return
	}
	s.add(it.Path, Replaced, it.Why+" leads to "+quote(leads)+" instead of "+quote(was))
}

// config compares the configuration of a submodule, which git writes when it
// updates it: what counts is what it makes git execute or follow.
func (s *State) config(it *item, now *node) {
	if now.missing() || now.id == it.id && !s.racy(now.id) {
		return
	}
	if now.typ() != it.typ() {
		s.differs(it.Path, it.Why, &it.node, now, false)
		return
	}
	got, _ := look(it.Path, contentLimit)
	if !got.kept || !it.kept {
		s.add(it.Path, Changed, it.Why)
		return
	}
	why := newSettings(it.Path, it.text, got.text)
	if tree := coreWorktree(got.text); tree != coreWorktree(it.text) && !beneath(filepath.Clean(join(dir(it.Path), tree)), s.r.Repo.WorkTree) {
		why += " says that its working tree is " + quote(tree)
	}
	if why != "" {
		s.add(it.Path, Changed, it.Why+why)
	}
}

// coreWorktree returns where a configuration says that the working tree is.
func coreWorktree(text []byte) (tree string) {
	// What git can't read it doesn't follow.
	_ = policy.EachGitSetting(text, func(key, value string) {
		if key == "core.worktree" {
			tree = value
		}
	})
	return tree
}

// gitmodules reports what is bad in the list of submodules and wasn't before.
func (s *State) gitmodules(it *item, now *node) {
	if now.missing() || now.id == it.id && !s.racy(now.id) {
		return
	}
	if now.typ() != unix.S_IFREG {
		if now.typ() != it.typ() {
			s.add(it.Path, Replaced, it.Why+madeText(it.Path, now))
		}
		return
	}
	top := dir(it.Path)
	was := map[string]bool{}
	for _, bad := range badModules(it.text, top) {
		was[bad] = true
	}
	got, _ := look(it.Path, contentLimit)
	for _, bad := range badModules(got.text, top) {
		if !was[bad] {
			s.add(it.Path, Changed, it.Why+" has "+bad)
			return
		}
	}
}

// badModules returns what is bad in a list of submodules of the working tree at
// top.
func badModules(text []byte, top string) (list []string) {
	// What git can't read it doesn't follow.
	_ = policy.EachGitSetting(text, func(key, value string) {
		bad := false
		switch key {
		case `submodule".path`:
			bad = leadsOut(top, value)
		case `submodule".url`:
			bad = oddURL(value)
		case `submodule".update`:
			bad = strings.HasPrefix(value, "!")
		}
		if bad && len(list) < 100 {
			list = append(list, strings.TrimPrefix(key, `submodule".`)+" = "+quote(value))
		}
	})
	return list
}

// leadsOut reports whether a path in the working tree at top leads out of it,
// or into git's own folder, or through a symbolic link.
func leadsOut(top, name string) bool {
	if strings.HasPrefix(name, "/") || strings.HasPrefix(name, "-") {
		return true
	}
	way := top
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return true
		}
		if part == "" || part == "." {
			continue
		}
		way = join(way, part)
		if id, _ := lstat(way); id.mode&unix.S_IFMT == unix.S_IFLNK {
			return true
		}
	}
	return false
}
