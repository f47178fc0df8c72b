package mountns

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// private gives the command file systems of its own at /tmp, /dev/shm and
// /dev/pts. What is granted or protected beneath them, such as a worktree in
// /tmp, is taken along.
func (c *compiler) private(r *policy.Resolved) {
	keep := keptBeneath(r, "/tmp", "/dev/shm")
	c.taken = keep
	for i, path := range keep {
		c.add(spawn.Mount{Op: spawn.MountTake, Source: path, Slot: i})
	}
	c.newFS("/tmp", "tmpfs", "mode=1777")
	c.newFS("/dev/shm", "tmpfs", "mode=1777")
	c.newFS("/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620")
	c.add(spawn.Mount{Op: spawn.MountNew, Source: "/dev/pts/ptmx", Target: "/dev/ptmx", Flags: unix.MS_BIND})
	c.plan.NewFS = append(c.plan.NewFS, "/dev/ptmx")
	for i, path := range keep {
		root := "/tmp"
		if beneath(path, "/dev/shm") {
			root = "/dev/shm"
		}
		c.folders(root, filepath.Dir(path))
		op := spawn.MountDir
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			op = spawn.MountFile
		}
		c.add(spawn.Mount{Op: op, Target: path, Flags: 0o700})
		c.add(spawn.Mount{Op: spawn.MountPlace, Target: path, Slot: i})
	}
	for _, g := range r.Grants { // $TMPDIR, if it lies in /tmp
		if g.Origin == policy.FromTmp && g.Path != "/tmp" && beneath(g.Path, "/tmp") && !within(g.Path, keep) {
			c.folders("/tmp", g.Path)
		}
	}
}

func (c *compiler) newFS(path, fstype, data string) {
	flags := uintptr(unix.MS_NOSUID)
	if fstype != "devpts" {
		flags |= unix.MS_NODEV
	}
	c.add(spawn.Mount{Op: spawn.MountNew, Source: fstype, Target: path, Type: fstype, Flags: flags, Data: data})
	c.plan.NewFS = append(c.plan.NewFS, path)
}

// folders makes the folders below root down to path.
func (c *compiler) folders(root, path string) {
	for i := len(root) + 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			c.add(spawn.Mount{Op: spawn.MountDir, Target: path[:i], Flags: 0o755})
		}
	}
}

// keptBeneath lists what the command works with beneath the roots, outermost
// paths only: the worktree, git's folders, the cache, and what the user grants.
func keptBeneath(r *policy.Resolved, roots ...string) (keep []string) {
	add := func(path string) {
		if !within(path, roots) || slices.Contains(roots, path) || within(path, keep) {
			return
		}
		keep = slices.DeleteFunc(keep, func(old string) bool { return beneath(old, path) })
		if len(keep) < spawn.MaxMountSlots {
			keep = append(keep, path)
		}
	}
	if r.Worktree != "" {
		add(r.Worktree)
	}
	if r.Repo != nil && r.Repo.CommonDir != "" {
		add(r.Repo.CommonDir)
		add(r.Repo.GitDir)
	}
	for _, g := range r.Grants {
		switch g.Origin {
		case policy.FromTmp, policy.FromDevice, policy.FromSystem:
			continue
		}
		if real, err := realPath(g.Path); err == nil {
			add(real)
		}
	}
	return keep
}

// hide covers folders by an empty file system and files by the null device.
func (c *compiler) hide(paths []policy.Hidden) {
	for _, h := range paths {
		if within(h.Path, c.plan.NewFS) && !within(h.Path, c.taken) {
			continue // it isn't there any more
		}
		if h.Folder {
			c.empty(h.Path, unix.MS_RDONLY, "mode=555,size="+strconv.Itoa(os.Getpagesize()), false)
		} else {
			c.add(spawn.Mount{Op: spawn.MountNew, Source: "/dev/null", Target: h.Path, Flags: unix.MS_BIND})
			c.add(spawn.Mount{Op: spawn.MountAttr, Target: h.Path, Set: unix.MOUNT_ATTR_RDONLY})
		}
	}
}

// realPath resolves symbolic links.
func realPath(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", os.ErrInvalid
	}
	return filepath.EvalSymlinks(path)
}
