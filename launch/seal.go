package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// seal does what bubblewrap can't, in the sandbox that it has made, before the
// inner stage starts the command. What is mounted outside later would appear
// in the sandbox with the write access that it has outside: it is kept out. And
// root could change the mode of the machine's devices: these become read-only,
// which doesn't keep anybody from writing to what they are.
//
// Where that can't be, it is left at that, as package bwrap says, unless the
// policy requires the second: see canSeal.
func (v *variant) seal(pid, pidfd int) error {
	mounts := []spawn.Mount{{Op: spawn.MountNew, Target: "/", Flags: unix.MS_REC | unix.MS_PRIVATE}}
	if os.Geteuid() == 0 {
		for _, path := range v.layout.Devices() {
			mounts = append(mounts, spawn.Mount{Op: spawn.MountAttr, Target: path, Set: unix.MOUNT_ATTR_RDONLY, Optional: true})
		}
	}
	err := errNoPidfd
	if pidfd >= 0 {
		err = mountns.In(pid, pidfd, mounts)
	}
	if err == nil || os.Geteuid() != 0 || !v.resolved.Policy.Requires(policy.PromiseMetadata) {
		return nil // or as far as it goes
	}
	return &SetupError{Stage: StageConfine, Err: fmt.Errorf("the machine's devices can't be made read-only in the sandbox of bubblewrap's: %w", err)}
}

// canSeal says why this process, as root, can't keep the command from changing the
// metadata of the machine's devices, and what would help; "" if it can.
func canSeal() (why, mend string) {
	switch {
	case os.Geteuid() != 0: // they aren't the command's
		return "", ""
	case errors.Is(unix.MountSetattr(-1, "", 0, &unix.MountAttr{}), unix.ENOSYS):
		return "the kernel can't make a mount of a device read-only", "Linux 5.12 or newer"
	}
	return "", ""
}

// errNoPidfd says that a process can't be told from others.
var errNoPidfd = errors.New("its first process isn't known by a descriptor")
