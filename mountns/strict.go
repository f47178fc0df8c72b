package mountns

import (
	"os"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// strict makes everything read-only but what may be written: Landlock has no
// right for metadata, a read-only mount keeps it. Mounts that are made outside
// later aren't covered.
func (c *compiler) strict(r *policy.Resolved) {
	writable := writablePaths(r)
	for _, path := range writable {
		c.bind(path)
	}
	c.add(spawn.Mount{Op: spawn.MountAttr, Target: "/", Flags: unix.AT_RECURSIVE, Set: unix.MOUNT_ATTR_RDONLY})
	for _, path := range writable {
		c.add(spawn.Mount{Op: spawn.MountAttr, Target: path, Clear: unix.MOUNT_ATTR_RDONLY})
	}
}

// writablePaths are the folders and files that are granted for writing and
// exist, less those that lie in another one. Devices can be written to on a
// read-only mount.
func writablePaths(r *policy.Resolved) (paths []string) {
	for _, g := range r.Grants {
		if g.Access&policy.Write == 0 || g.Origin == policy.FromDevice && g.Path != "/dev/shm" && g.Path != "/dev/pts" {
			continue
		}
		path := g.Path
		if !g.NoSymlinks {
			real, err := realPath(path)
			if err != nil {
				continue // optional, or about to be refused
			}
			path = real
		} else if _, err := os.Lstat(path); err != nil {
			continue
		}
		if !within(path, paths) {
			paths = append(paths, path)
		}
	}
	return paths
}

// within reports whether path is one of dirs or lies in one.
func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if beneath(path, dir) {
			return true
		}
	}
	return false
}
