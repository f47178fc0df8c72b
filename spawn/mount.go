package spawn

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mount is one step in making the mounts of a namespace. Which fields it uses
// depends on Op.
type Mount struct {
	Op MountOp
	// Source, Target, Type and Data are as in mount(2).
	Source, Target, Type, Data string
	// Flags are MS_* for MountNew, AT_* for MountAttr, O_* for MountTake and the
	// mode for MountDir and MountFile.
	Flags uintptr
	// Set and Clear are MOUNT_ATTR_* for MountAttr.
	Set, Clear uint64
	// Slot numbers what MountTake took, for MountPlace.
	Slot int
	// Optional skips the step if there is no such path, or if it is a folder
	// and Source is none, or the other way round.
	Optional bool
}

// MountOp is what a step does.
type MountOp uint8

const (
	// MountNew mounts: mount(2), whatever that does with Flags.
	MountNew MountOp = iota
	// MountAttr changes the mount at Target: mount_setattr(2), Linux 5.12.
	MountAttr
	// MountTake keeps a copy of the mount at Source, with everything below,
	// in Slot: open_tree(2), Linux 5.2.
	MountTake
	// MountPlace puts what is in Slot at Target: move_mount(2), Linux 5.2.
	MountPlace
	// MountDir makes the folder Target, if it doesn't exist.
	MountDir
	// MountFile makes the empty file Target, if it doesn't exist.
	MountFile
	// MountLink makes Target a symbolic link to Source.
	MountLink
)

// MaxMountSlots is the number of slots.
const MaxMountSlots = 16

// String says what the step does, for people.
func (m Mount) String() string {
	switch m.Op {
	case MountNew:
		switch {
		case m.Flags&unix.MS_BIND == 0:
			return "mount " + m.Type + " " + m.Target
		case m.Source == m.Target:
			return "bind " + m.Target
		}
		return "bind " + m.Source + " " + m.Target
	case MountAttr:
		return fmt.Sprintf("attributes +%#x -%#x %s", m.Set, m.Clear, m.Target)
	case MountTake:
		return fmt.Sprintf("take %s as %d", m.Source, m.Slot)
	case MountPlace:
		return fmt.Sprintf("place %d %s", m.Slot, m.Target)
	case MountDir:
		return "folder " + m.Target
	case MountFile:
		return "file " + m.Target
	case MountLink:
		return "link " + m.Target + " to " + m.Source
	}
	return fmt.Sprintf("step %d", m.Op)
}
