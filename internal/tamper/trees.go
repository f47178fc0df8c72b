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
	for _, f := range s.filesOf(trees) {
		before[f.name] = true
	}
	fd, err := open(trees, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	for _, name := range names(trees) {
		path := trees + "/" + name
		if path == repo.GitDir {
			continue
		}
		what, look := Created, true
		if before["/"+name] {
			what, look = Changed, s.touched(path, readAt(fd, name+"/gitdir", buf))
		}
		if !look {
			continue
		}
		if odd := oddWorktree(path, repo.CommonDir); odd != "" && odd != s.odd[path] {
			s.add(path, what, "a worktree "+odd)
		}
	}
}

// filesOf returns what is in a folder that was looked at.
func (s *State) filesOf(path string) []file {
	for i := range s.items {
		if s.items[i].Path == path {
			return s.items[i].files
		}
	}
	return nil
}

// oddBefore notes what is wrong with worktrees that were touched just now, so
// that it isn't taken for a change. With hundreds of them it isn't looked for.
func (s *State) oddBefore() {
	trees := s.r.Repo.CommonDir + "/worktrees"
	files := s.filesOf(trees)
	if s.enforced || len(files) == 0 || len(files) > oddLimit {
		return
	}
	fd, err := open(trees, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	for _, f := range files {
		path := trees + f.name
		if !s.touched(path, readAt(fd, f.name[1:]+"/gitdir", buf)) {
			continue
		}
		if odd := oddWorktree(path, s.r.Repo.CommonDir); odd != "" {
			s.odd[path] = odd
		}
	}
}

const oddLimit = 32

// readAt returns the beginning of a file below a folder. There may be hundreds.
func readAt(fd int, name string, buf []byte) []byte {
	file, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(file)
	n, err := unix.Read(file, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// touched reports whether the pointers of a worktree that was there may have
// changed. Gitdir is the one that says where it is.
func (s *State) touched(path string, gitdir []byte) bool {
	var files []string
	if dotGit := pointer(gitdir); s.writable(dotGit) {
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
