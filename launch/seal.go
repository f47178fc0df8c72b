package launch

import (
	"os"

	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// seal does what bubblewrap can't, in the sandbox that it has made, before the
// inner stage starts the command. What is mounted outside later would appear
// in the sandbox with the write access that it has outside: it is kept out. And
// root could change the mode of the machine's devices: these become read-only,
// which doesn't keep anybody from writing to what they are.
//
// Where the kernel is too old (5.3 for the first, 5.12 for the second) it is
// left at that; package bwrap says so.
func (v *variant) seal(pid, pidfd int) {
	if pidfd < 0 {
		return
	}
	mounts := []spawn.Mount{{Op: spawn.MountNew, Target: "/", Flags: unix.MS_REC | unix.MS_PRIVATE}}
	if os.Geteuid() == 0 {
		for _, path := range v.layout.Devices() {
			mounts = append(mounts, spawn.Mount{Op: spawn.MountAttr, Target: path, Set: unix.MOUNT_ATTR_RDONLY, Optional: true})
		}
	}
	_ = mountns.In(pid, pidfd, mounts) // as far as it goes
}
