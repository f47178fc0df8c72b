package policy

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Op is something that a command does to a path.
type Op string

// The operations. All but the first three and the last need that the path, or
// the folder that it lies in, is writable.
const (
	OpRead    Op = "read"
	OpExecute Op = "execute"
	OpConnect Op = "connect" // to a socket on the file system
	OpWrite   Op = "write"   // to a file that is there, or that is made
	OpCreate  Op = "create"
	OpMkdir   Op = "mkdir"
	OpRemove  Op = "remove"
	OpRename  Op = "rename" // from or to the path, links included
)

// Ops lists the operations.
func Ops() []Op {
	return []Op{OpRead, OpExecute, OpWrite, OpCreate, OpMkdir, OpRemove, OpRename, OpConnect}
}

// Changes reports whether the operation changes something.
func (o Op) Changes() bool { return o != OpRead && o != OpExecute && o != OpConnect }

// inFolder reports whether what the operation changes is the folder: a symbolic
// link is then not followed.
func (o Op) inFolder() bool { return o == OpMkdir || o == OpRemove || o == OpRename }

// Reason is why a policy allows something or doesn't.
type Reason string

// The reasons. The first three allow.
const (
	// ReasonUnconfined: the policy confines nothing.
	ReasonUnconfined Reason = "unconfined"
	// ReasonUnlimited: the policy doesn't limit such operations.
	ReasonUnlimited Reason = "unlimited"
	// ReasonGranted: a grant allows it.
	ReasonGranted Reason = "granted"
	// ReasonNotGranted: no grant does.
	ReasonNotGranted Reason = "not-granted"
	// ReasonProtected: a grant does, and the path is to stay as it is.
	ReasonProtected Reason = "protected"
	// ReasonHidden: the path looks empty.
	ReasonHidden Reason = "hidden"
	// ReasonMasked: the socket is covered.
	ReasonMasked Reason = "masked"
)

// Verdict is what a resolved policy says about one path and one operation.
type Verdict struct {
	// Real is the path with symbolic links followed, as far as it exists. For
	// operations that change the folder the last part isn't followed.
	Real   string
	Exists bool
	Reason Reason
	// Grant allows it; nil without one.
	Grant *Grant
	// Protected is why it is to stay as it is, or what it is compared as
	// afterwards; nil if it may be changed.
	Protected *Protected
	// Covered says that mounts hold what is protected.
	Covered bool
	// InRepo says that the path is among the worktree's git metadata.
	InRepo bool
}

// Allows reports whether the policy allows the operation. Whether a machine
// holds the opposite is another question.
func (v *Verdict) Allows() bool {
	return v.Reason == ReasonUnconfined || v.Reason == ReasonUnlimited || v.Reason == ReasonGranted
}

// Judge says whether the policy allows an operation on a path, which is
// absolute, and why. It looks at the file system as the caller sees it, and
// changes nothing. What a file's own permissions say is left out. Environ is the
// caller's environment.
func (r *Resolved) Judge(path string, op Op, environ []string) Verdict {
	real, exists := realEnd(filepath.Clean(path), !op.inFolder())
	return r.Judging(environ).At(real, exists, op)
}

// Judging is a resolved policy that judges many paths: it has looked once at what
// is granted and protected, and may be used by several goroutines.
type Judging struct {
	r       *Resolved
	grants  []realGrant
	watched func() []Protected
}

// realGrant is a grant, and where it leads.
type realGrant struct {
	*Grant
	real string
}

// Judging returns what judges. It looks at the file system as it is now. Environ
// is the caller's environment.
func (r *Resolved) Judging(environ []string) *Judging {
	j := &Judging{r: r, watched: sync.OnceValue(func() []Protected { return r.Watched(environ) })}
	for i := range r.Grants {
		g := &r.Grants[i]
		dir, exists := g.Path, true
		if !g.NoSymlinks {
			dir, exists = realEnd(filepath.Clean(dir), true)
		}
		if exists || !g.Optional {
			j.grants = append(j.grants, realGrant{g, dir})
		}
	}
	return j
}

// At is like [Resolved.Judge], about a path without symbolic links, which is
// there or isn't.
func (j *Judging) At(real string, exists bool, op Op) Verdict {
	r := j.r
	v := Verdict{Real: real, Exists: exists, InRepo: r.inRepo(real)}
	switch {
	case r.Policy.Mode == Unconfined:
		v.Reason = ReasonUnconfined
		return v
	case slices.ContainsFunc(r.Hide, func(h Hidden) bool { return beneath(v.Real, h.Path) }):
		v.Reason = ReasonHidden
		return v
	case op == OpConnect && slices.ContainsFunc(r.Mask, func(m Masked) bool { return beneath(v.Real, m.Path) }):
		v.Reason = ReasonMasked
		return v
	}
	need := Write
	switch {
	case op == OpConnect:
		need = Connect
	case !op.Changes() && r.Policy.Read == nil:
		v.Reason = ReasonUnlimited
		return v
	case !op.Changes():
		need = Read | Write
	}
	v.Grant = j.grantFor(v.Real, need)
	if v.Reason = ReasonNotGranted; v.Grant != nil {
		v.Reason = ReasonGranted
	}
	if v.Grant == nil || !op.Changes() {
		return v
	}
	v.Covered = len(r.Protect) > 0
	v.Protected = protectedAt(j.watched(), v.Real)
	if v.Protected != nil && v.Covered && v.Protected.Kind == Frozen {
		v.Reason = ReasonProtected
	}
	return v
}

// grantFor returns the narrowest grant of any access in need that a real path
// lies in, nil if there is none.
func (j *Judging) grantFor(real string, need Access) (found *Grant) {
	length := -1
	for _, g := range j.grants {
		if g.Access&need != 0 && beneath(real, g.real) && len(g.real) > length {
			found, length = g.Grant, len(g.real)
		}
	}
	return found
}

// protectedAt returns what a list says about a real path, nil if nothing.
func protectedAt(list []Protected, real string) (found *Protected) {
	for i := range list {
		p := &list[i]
		switch p.Kind {
		case Frozen, Reopened:
			if !beneath(real, p.Path) {
				continue
			}
		default:
			if real != p.Path {
				continue
			}
		}
		if found == nil || len(p.Path) >= len(found.Path) {
			found = p
		}
	}
	if found != nil && (found.Kind == Reopened || found.Kind == Pinned) {
		return nil
	}
	return found
}

// inRepo reports whether a real path is among the worktree's git metadata.
func (r *Resolved) inRepo(real string) bool {
	if r.Repo == nil {
		return false
	}
	for _, dir := range []string{r.Repo.CommonDir, r.Repo.GitDir} {
		if dir != "" && beneath(real, dir) {
			return true
		}
	}
	return r.Worktree != "" && real == join(r.Worktree, ".git")
}

// CheckWrite says why a path could not be among p's writable ones: it is what
// [Resolve] would say. Create is for WriteCreate.
func CheckWrite(p Policy, path string, create bool, environ []string) error {
	w := userWrites{resolver: &resolver{p: &p, o: &Options{DryRun: true}, out: &Resolved{}, home: homeDir(environ)}}
	if !p.AllowBroad {
		w.prepare()
	}
	if err := w.add(path, create); err != nil {
		return err
	}
	return nil
}

// symlinkLimit bounds the symbolic links that are followed, as the kernel does.
const symlinkLimit = 40

// realEnd follows the symbolic links in a clean absolute path as far as it
// exists, one that leads nowhere included, and, unless last is set, not one in
// its last part. It reports whether the path exists.
func realEnd(path string, last bool) (real string, exists bool) {
	real, rest := "/", strings.TrimPrefix(path, "/")
	for links := 0; rest != ""; {
		name, after, _ := strings.Cut(rest, "/")
		rest = after
		switch name {
		case "", ".":
			continue
		case "..":
			real = parentDir(real)
			continue
		}
		next := join(real, name)
		var st syscall.Stat_t
		if syscall.Lstat(next, &st) != nil {
			return filepath.Clean(join(next, rest)), false
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFLNK || rest == "" && !last {
			real = next
			continue
		}
		to, err := readLink(next)
		if links++; err != nil || links > symlinkLimit {
			return filepath.Clean(join(next, rest)), false
		}
		if strings.HasPrefix(to, "/") {
			real = "/"
		}
		rest = to + "/" + rest
	}
	return real, true
}

func readLink(path string) (string, error) {
	var buf [4096]byte
	n, err := syscall.Readlink(path, buf[:])
	if err == nil && (n == 0 || n == len(buf)) {
		err = errors.New("the name is too long")
	}
	return string(buf[:max(n, 0)]), err
}
