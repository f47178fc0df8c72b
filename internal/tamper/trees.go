package tamper

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// worktrees looks at the pointers of the repository's other worktrees: those
// made since, those that a command could change because nothing was mounted,
// and those of which the other end lies in a grant.
func (s *State) worktrees() {
	repo := s.r.Repo
	trees := repo.CommonDir + "/worktrees"
	if !s.repos[repo.CommonDir] {
		return // it couldn't be written to
	}
	before := map[string]bool{}
	for i := range s.items {
		if it := &s.items[i]; it.Path == trees {
			for _, f := range it.files {
				before[f.name] = true
			}
		}
	}
	for _, name := range names(trees) {
		path := trees + "/" + name
		if path == repo.GitDir {
			continue
		}
		what, look := Created, true
		if before["/"+name] {
			what, look = Changed, s.touched(path)
		}
		if !look {
			continue
		}
		if odd := oddWorktree(path, repo.CommonDir); odd != "" {
			s.add(path, what, "a worktree "+odd)
		}
	}
}

// touched reports whether the pointers of a worktree that was there may have
// changed.
func (s *State) touched(path string) bool {
	var files []string
	if dotGit := pointer(readFile(path + "/gitdir")); s.writable(dotGit) {
		files = append(files, dotGit, dir(dotGit))
	}
	if !s.enforced {
		files = append(files, path, path+"/gitdir", path+"/commondir", path+"/config.worktree")
	}
	for _, file := range files {
		if id, _ := lstat(file); s.racy(id) {
			return true
		}
	}
	return false
}

// writable reports whether a path lies in a grant.
func (s *State) writable(path string) bool {
	for i := range s.r.Grants {
		if g := &s.r.Grants[i]; g.Access&policy.Write != 0 && beneath(path, g.Path) {
			return true
		}
	}
	return false
}

// oddWorktree says what is wrong with git's folder for a worktree, "" if
// nothing is. A worktree that was removed by hand is not odd.
func oddWorktree(path, common string) string {
	if id, _ := lstat(path); id.mode&unix.S_IFMT != unix.S_IFDIR {
		return "is no folder"
	}
	if text := pointer(readFile(path + "/commondir")); text != "" && !same(join(path, text), common) {
		return "names another repository: " + quote(text)
	}
	for _, t := range settings(readFile(path + "/config.worktree")) {
		return "sets " + t.String()
	}
	text := pointer(readFile(path + "/gitdir"))
	dotGit := join(path, text)
	if text == "" {
		return ""
	}
	if base(dotGit) != ".git" {
		return "is said to be at " + quote(text)
	}
	id, _ := lstat(dotGit)
	if id == (ident{}) {
		return ""
	}
	leads := gitDirAt(strings.TrimSuffix(dotGit, "/.git"))
	if leads == "" || !same(leads, path) {
		return "at " + quote(dir(dotGit)) + " has a .git that leads elsewhere"
	}
	return ""
}
