package tamper

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// nested looks at a repository in the worktree.
func (v *verifier) nested(gitDir, text string) {
	if v.seen[gitDir] || v.seen[commonDir(gitDir)] {
		return // looked at; or a worktree's, whose folder was looked at
	}
	v.seen[gitDir] = true
	for _, d := range dangers(gitDir) {
		s := Warning
		if d.key != "" {
			s = d.severity(v.top)
		}
		v.add(s, d.path, d.key, text+d.text(), show(d.path))
	}
}

// walkLimit bounds the entries of the worktree that are looked at.
const walkLimit = 500_000

// walk looks for repositories in a folder that git would find by itself in
// there.
func (v *verifier) walk(top string) {
	left := walkLimit
	v.walkFolder(top, &left, 0)
	if left < 0 {
		v.add(Note, top, "", "only "+strconv.Itoa(walkLimit)+" files were searched for repositories", SafeGit(top)+" status")
	}
}

func (v *verifier) walkFolder(folder string, left *int, depth int) {
	if depth > 256 {
		return
	}
	list := names(folder)
	bare := slices.Contains(list, "HEAD") && slices.Contains(list, "objects") && slices.Contains(list, "refs")
	if bare && folder != v.top {
		v.nested(folder, "git in this folder would use ")
	}
	for _, name := range list {
		if *left--; *left < 0 {
			return
		}
		path := join(folder, name)
		if name == ".git" {
			if gitDir := gitDirAt(folder); folder != v.top && gitDir != "" {
				v.nested(gitDir, "git in this folder would use ")
			}
			continue
		}
		if id, _ := lstat(path); id.mode&unix.S_IFMT == unix.S_IFDIR && !bare {
			v.walkFolder(path, left, depth+1)
		}
	}
}
