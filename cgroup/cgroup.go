// Package cgroup puts commands into control groups of their own, which limit
// what a command and all its descendants use, tell what they used, and end them
// all.
//
// [Find] looks for a place where groups with the limits of a [policy.Limits]
// can be made: beneath this process's own group in each hierarchy of version 1
// (hybrid machines too), or, for version 2, in a group that is delegated to this
// process, or beside its own. [Place.Create] makes a [Group]: each limit is
// written, read back, and refused if it didn't take. A command starts inside, by
// [Group.FD] or [Group.Join]. [Group.End] kills what is left in the group, says
// what was used, and removes the group.
//
// A group belongs to who made it: the lock on its folder says that the owner
// lives. [Place.Sweep] kills and removes what dead owners have left.
//
// The package writes the control files itself. It links of containerd's cgroups
// only the part that reads /proc/self/cgroup, and of the OCI runtime
// specification the values: what more there is costs every start of a program
// that links it.
//
// # Version 2
//
// A group with processes can't give controllers to groups beneath it. Where a
// group is delegated to this process alone, Create moves this process into a
// folder beneath it ("shofer-sandbox.self"), for good; in a container whose
// groups are its own, everything that is in its topmost group. Otherwise groups
// are made beside this process's own group, or higher up where only there the
// controllers are. Such a group isn't within the limits of this process's own,
// so that it gets these, where they are lower than what is asked for, besides.
// Controllers are switched on only in what is delegated to this process, in the
// machine's topmost group, and in what the caller names.
//
// # Limitations
//
// Memory of version 1 has no way to end a group as a whole when the memory is
// used up; a goroutine of the owner does that, a moment later. It starts with the
// first such group, serves all, and stays. The io limits of version 1 don't hold
// writes that go through the page cache. A swap limit without a memory limit
// takes version 2.
//
// A process that may write to the control group file system can leave its
// group, and one that may write to some group's cgroup.procs can start a child
// there (clone3 with CLONE_INTO_CGROUP) by a descriptor that is open for
// reading: whoever confines the command must refuse both.
package cgroup

import (
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Name is what [policy.Feature.By] says for promises that this package holds.
const Name = "cgroup"

// Version says which control groups a place uses.
type Version string

const (
	// V1 is version 1 alone.
	V1 Version = "v1"
	// V2 is version 2 alone.
	V2 Version = "v2"
	// Hybrid is version 1 for the limits, with a group of version 2 beside it
	// that has no controllers and ends processes.
	Hybrid Version = "hybrid"
)

// Place is where groups for certain limits are made. It may be used by many
// goroutines at once.
type Place struct {
	machine *machine
	limits  specs.LinuxResources
	// trees are what a group is made in, the one whose lock counts first.
	trees []tree
	// given are the groups that the caller has made, in place of trees.
	given []tree

	mu       sync.Mutex
	prepared bool
}

// tree is a part of one hierarchy.
type tree struct {
	*hierarchy
	// parent is the folder in which groups are made; with Place.given it is the
	// group.
	parent   string
	settings []setting
	// enable are controllers of version 2 to be switched on in parent.
	enable []string
	// evacuate says that parent has processes, which are to be moved down.
	evacuate bool
}

// Version says which control groups are used.
func (p *Place) Version() Version {
	v1, v2 := false, false
	for _, t := range append(p.trees, p.given...) {
		v1, v2 = v1 || !t.unified, v2 || t.unified
	}
	switch {
	case v1 && v2:
		return Hybrid
	case v2:
		return V2
	}
	return V1
}

// Folders are those in which groups are made, or the caller's groups.
func (p *Place) Folders() []string {
	var dirs []string
	for _, t := range append(p.trees, p.given...) {
		dirs = append(dirs, t.parent)
	}
	return dirs
}

// Mounts are where control groups are mounted. Nothing there, and nothing that
// holds one of them, may be writable for a command that is to stay within its
// limits.
func (p *Place) Mounts() []string {
	var dirs []string
	for _, h := range p.machine.hierarchies {
		dirs = append(dirs, h.mount)
	}
	return dirs
}
