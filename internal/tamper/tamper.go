// Package tamper finds out what a command changed of that which git executes
// or follows.
//
// [Snapshot] notes how the paths that a policy protects are before a command runs,
// and [State.Compare] says afterwards what became of them. That is all there is
// where nothing can be mounted, and the rest of it where something can: names
// that didn't exist, files whose mounts went away because somebody outside
// replaced them, repositories inside the worktree that git status enters.
// [State.Restore] puts things back. [Verify] looks at a worktree at any time,
// with nothing to compare it with.
//
// # Limitations
//
// It can't tell who changed something: the user's own git config looks like a
// command's. It counts only when the command, and everything it left, has ended
// or can't reach what is looked at.
//
// A file whose content is the same as before counts as unchanged, whatever
// happened to it meanwhile. Of files over 1 MiB, and of more than 16 MiB in
// all, only the identity is known: device, inode, size and times. Folders are
// looked at up to 10,000 entries.
//
// Compare doesn't search the worktree. A repository that was planted in it is
// found if a gitlink leads there, as git status would; Verify finds others.
package tamper

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Change is something that is not as it was.
type Change struct {
	// Path is what changed.
	Path policy.Path `json:"path"`
	// What says how.
	What What `json:"what"`
	// Why says what it is and what it can do, on one line.
	Why string `json:"why"`
}

func (c Change) String() string { return c.Path.String() + ": " + string(c.What) + ": " + c.Why }

// What is a way to change.
type What string

const (
	// Created: a name is there that wasn't.
	Created What = "created"
	// Changed: the content of a file, or what a symbolic link says, or whether
	// a file can be executed.
	Changed What = "changed"
	// Removed: a name isn't there any more.
	Removed What = "removed"
	// Replaced: something of another type, or another folder, has the name.
	Replaced What = "replaced"
)

// State is how protected paths were.
type State struct {
	r     *policy.Resolved
	at    int64 // when, in nanoseconds
	items []item
	// git says that a repository is among what is looked at.
	git bool
	// repos are repositories whose configuration and hooks are in items.
	repos map[string]bool
	// indexes are the identities of their lists of tracked files.
	indexes map[string]ident
	// known are the dangers in repositories that git status enters; nil if they
	// were not looked at.
	known map[danger]bool
	// odd says what was wrong with worktrees before.
	odd map[string]string
	// enforced says that mounts held what they could.
	enforced bool
	// room is how much content may still be kept.
	room int
	// entries is how many entries of folders may still be looked at.
	entries int
	// aside are names that Restore made.
	aside map[string]bool
	// found are what Compare found.
	found []Change
}

// Bounds of what is kept.
const (
	contentLimit = 1 << 20
	contentTotal = 16 << 20
	entryLimit   = 10_000
)

// Snapshot notes the state of what r protects, or would protect if there were
// mounts. It changes nothing. Where there is nothing to protect, nothing is
// compared later. The error is an [*os.PathError] about a path that can't be
// looked at.
func Snapshot(r *policy.Resolved) (*State, error) {
	s := &State{
		r: r, at: time.Now().UnixNano(), enforced: len(r.Protect) > 0,
		git:   !r.Policy.NoProtect && r.Repo != nil && (r.Repo.Trusted || r.Repo.Kind == policy.RepoMain),
		repos: map[string]bool{}, odd: map[string]string{}, indexes: map[string]ident{}, room: contentTotal, entries: entryLimit,
	}
	list := r.Protect
	if !s.enforced {
		list = r.Watched(os.Environ())
	}
	s.findRepos(list)
	s.items = make([]item, 0, len(list))
	for _, p := range list {
		it, err := s.take(p)
		if err != nil {
			return nil, &os.PathError{Op: "lstat", Path: p.Path, Err: err}
		}
		s.items = append(s.items, it)
	}
	if !s.git {
		return s, nil
	}
	s.oddBefore()
	size := s.index(r.Repo.GitDir)
	for repo := range s.repos {
		if repo != r.Repo.CommonDir {
			size += s.index(repo)
		}
	}
	if size <= scanLimit {
		s.known = map[danger]bool{}
		s.links(func(_ string, d danger, _ bool) { s.known[d] = true }, nil)
	}
	return s, nil
}

// findRepos finds the repositories of which the configuration and what goes
// with it is in the list.
func (s *State) findRepos(list []policy.Protected) {
	pointers := map[string]bool{}
	for _, p := range list {
		if base(p.Path) == "commondir" {
			pointers[dir(p.Path)] = true
		}
	}
	for _, p := range list {
		if base(p.Path) == "config" && (p.Kind == policy.Frozen || p.Kind == policy.Compared) && pointers[dir(p.Path)] {
			s.repos[dir(p.Path)] = true
		}
	}
}

// scanLimit bounds the lists of files that are read beforehand, lest a start
// wait for it.
const scanLimit = 64 << 10

// index notes the identity of a list of tracked files, and returns its size.
func (s *State) index(gitDir string) int64 {
	id, _ := lstat(gitDir + "/index")
	s.indexes[gitDir] = id
	return id.size
}

// Compare says what is not as it was when s was taken, in the order of paths.
// Nil is nothing. It may be called again.
func (s *State) Compare() []Change {
	s.found = nil
	for i := range s.items {
		s.compare(&s.items[i])
	}
	if s.git {
		s.nested()
		s.worktrees()
	}
	slices.SortStableFunc(s.found, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	s.found = slices.CompactFunc(s.found, func(a, b Change) bool { return a.Path == b.Path && a.What == b.What })
	s.found = slices.DeleteFunc(s.found, goesWithout(s.found))
	if len(s.found) == 0 {
		return nil
	}
	return s.found
}

// goesWithout returns what tells that a change is a matter of course: what was
// in a folder is gone because the folder is. The list is in order.
func goesWithout(list []Change) func(Change) bool {
	var folders []string
	for _, c := range list {
		if c.What == Removed || c.What == Replaced {
			folders = append(folders, string(c.Path))
		}
	}
	return func(c Change) bool {
		return c.What == Removed && slices.ContainsFunc(folders, func(f string) bool {
			return string(c.Path) != f && beneath(string(c.Path), f)
		})
	}
}

func (s *State) add(path string, what What, why string) {
	s.found = append(s.found, Change{Path: policy.Path(path), What: what, Why: oneLine(why)})
}

// racy reports whether a file was touched so shortly before s was taken, or
// after it, that another change need not have changed its times: a kernel's
// clock for files ticks every few milliseconds.
func (s *State) racy(id ident) bool { return id.ctime > s.at-int64(raceTime) }

const raceTime = 100 * time.Millisecond

var errTooMany = errors.New("too many gitlinks to look at")
