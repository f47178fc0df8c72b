package mountns

import (
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// mask covers sockets by the null device, to which nobody can connect, and
// folders of sockets by empty ones. A socket that went away meanwhile is none.
func (c *compiler) mask(sockets []policy.Masked) {
	for _, s := range sockets {
		switch {
		case !s.Folder:
			c.add(spawn.Mount{Op: spawn.MountNew, Source: "/dev/null", Target: s.Path, Flags: unix.MS_BIND, Optional: true})
		case s.Own: // what works in such a folder insists on having it alone
			c.empty(s.Path, 0, "mode=700", true)
		default:
			c.empty(s.Path, unix.MS_RDONLY, "mode=555", true)
		}
	}
}

// empty mounts an empty file system.
func (c *compiler) empty(path string, flags uintptr, data string, optional bool) {
	c.add(spawn.Mount{
		Op: spawn.MountNew, Source: "tmpfs", Target: path, Type: "tmpfs",
		Flags: unix.MS_NOSUID | unix.MS_NODEV | flags, Data: data, Optional: optional,
	})
}
