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
	// Set and Clear are MOUNT_ATTR_* for MountAttr, and for MountTake, which
	// changes the copy.
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

// MountIn makes mounts in the mount namespace of another process, whose open
// file in /proc/PID/ns is namespace. Where that namespace belongs to a user
// namespace other than the caller's, owner is an open file of that one, else -1;
// the caller must have CAP_SYS_ADMIN there, as who made it has.
//
// It happens in a child that does nothing else, so that no thread of the calling
// process enters the namespaces. Nobody there can trace it who is in a Landlock
// domain that the caller isn't in. The error is an [*Error]. It may be called by
// many goroutines at once. Linux 5.12.
func MountIn(namespace, owner int, mounts []Mount) error {
	g := &program{plan: &Plan{Mounts: mounts}, pipe: -1}
	if owner >= 0 {
		g.joins = append(g.joins, join{owner, unix.CLONE_NEWUSER})
	}
	g.joins = append(g.joins, join{namespace, unix.CLONE_NEWNS})
	if name := g.addMounts(mounts); name != "" {
		return &Error{Stage: StagePlan, Errno: unix.EINVAL, Name: name}
	}
	p, err := g.start()
	if err != nil {
		return err
	}
	if p.PidFD >= 0 {
		_ = unix.Close(p.PidFD)
	}
	if reap(p.Pid) != 0 { // somebody killed it
		return &Error{Stage: StageJoin, Errno: unix.ECANCELED}
	}
	return nil
}

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
