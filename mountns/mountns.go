// Package mountns turns a resolved policy into the mounts of a namespace in
// which protected paths can't be changed.
//
// Landlock can't except a path beneath a writable folder; a mount can. Each
// protected path is bound onto itself and made read-only. A folder on the way
// to it that the command could rename is bound too: a mount point can't be
// renamed or removed, so nothing else can take its name.
//
// [Compile] makes a list, and package spawn the mounts, in the child. They come
// before Landlock, since nothing can be mounted or unmounted inside a domain
// that handles files. A bound file or folder has the same inode, so rules made
// before hold; what lies on a new file system needs a rule that the child adds.
//
// # Limitations
//
// Only names that exist can be covered. When somebody outside renames another
// file over a covered one, as git config does, the mount goes away: the name is
// free until a [Watch] has covered it again.
//
// A tree that is mounted at a second place has protected paths there too:
// Landlock's rules go by the file, a mount by the name. The policy lists them if
// they are there at the start. Package tamper finds what was changed by a mount
// that was made later.
//
// The mounts take CAP_SYS_ADMIN or a user namespace (Linux 5.12 for both). In a
// user namespace files of other users look like nobody's, and supplementary
// groups can't be given to files.
package mountns

import (
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Name is what [policy.Feature].By says for what this package holds.
const Name = "mountns"

// Plan is what a start in a mount namespace needs.
type Plan struct {
	// Mounts are made in order. Empty means that no namespace is needed, unless
	// there are overlays ([Overlay]), which are to be mounted before.
	Mounts []spawn.Mount
	// NewFS are the folders that get a file system of their own: what is
	// granted there by name needs a rule that the child adds.
	NewFS []string
}

// Compile says which mounts hold what r asks for: the order is strict
// metadata, masked sockets, private folders, hidden paths, protected paths. It looks up which
// paths exist, and changes nothing.
func Compile(r *policy.Resolved) Plan {
	var c compiler
	for _, o := range r.Overlays { // mounted by the caller, before
		c.plan.NewFS = append(c.plan.NewFS, o.Path)
	}
	if r.Policy.StrictMetadata {
		c.strict(r)
	}
	c.mask(r.Mask)
	if r.Policy.PrivateTmp {
		c.private(r)
	}
	c.hide(r.Hide)
	c.protect(r.Protect)
	return c.plan
}

type compiler struct {
	plan Plan
	// taken are the paths that lie on a new file system as they were.
	taken []string
}

// protect binds every path first, folders before what is in them, and makes
// read-only what has to be afterwards: what is to stay writable inside then
// keeps being so.
func (c *compiler) protect(paths []policy.Protected) {
	bound := 0
	for _, p := range paths {
		if p.Kind == policy.Frozen || p.Kind == policy.Pinned || p.Kind == policy.Reopened {
			c.bind(p.Path)
			bound++
		}
	}
	if bound == 0 {
		return
	}
	for i, p := range paths {
		if p.Kind != policy.Frozen {
			continue
		}
		recursive := uintptr(unix.AT_RECURSIVE)
		if reopens(paths[i+1:], p.Path) {
			recursive = 0
		}
		c.add(spawn.Mount{Op: spawn.MountAttr, Target: p.Path, Flags: recursive, Set: unix.MOUNT_ATTR_RDONLY})
	}
}

// reopens reports whether one of paths is reopened beneath dir.
func reopens(paths []policy.Protected, dir string) bool {
	for _, p := range paths {
		if p.Kind == policy.Reopened && beneath(p.Path, dir) {
			return true
		}
	}
	return false
}

func (c *compiler) bind(path string) {
	c.add(spawn.Mount{Op: spawn.MountNew, Source: path, Target: path, Flags: unix.MS_BIND | unix.MS_REC})
}

func (c *compiler) add(m spawn.Mount) { c.plan.Mounts = append(c.plan.Mounts, m) }

// beneath reports whether path is dir or lies in it. Both are clean.
func beneath(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+"/")
}
