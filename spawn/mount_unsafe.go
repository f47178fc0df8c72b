package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file runs in the child too: see child_unsafe.go for what that means.

// mapIDs gives the child the caller's user and group in its user namespace.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) mapIDs() bool {
	return g.writeFiles(atFdCwd, g.idMaps, StageIDMap)
}

// writeFiles writes files of the child's own in /proc, by their paths from dir.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) writeFiles(dir uintptr, files []procFile, stage Stage) bool {
	for i := 0; i < len(files); i++ {
		f := &files[i]
		fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, dir, uintptr(unsafe.Pointer(f.path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e == 0 {
			_, _, e = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&f.data[0])), uintptr(len(f.data)))
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
		if e != 0 {
			return g.fail(stage, i, e)
		}
	}
	return true
}

// atFdCwd is AT_FDCWD, -100, as system calls take it.
const atFdCwd = ^uintptr(99)

// mountAll makes the mounts. Before that, all are made slaves: nothing of ours
// reaches the caller's namespace, and what is mounted there still reaches us.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) mountAll() bool {
	root := [2]byte{'/', 0}
	if _, _, e := syscall.RawSyscall6(unix.SYS_MOUNT, 0, uintptr(unsafe.Pointer(&root)), 0, unix.MS_REC|unix.MS_SLAVE, 0, 0); e != 0 {
		return g.fail(StageMount, len(g.mounts), e)
	}
	return g.mountEach()
}

//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) mountEach() bool {
	for i := 0; i < len(g.mounts); i++ {
		if e := g.mountOne(&g.mounts[i]); e != 0 {
			return g.fail(StageMount, i, e)
		}
	}
	return true
}

// joinAll enters the namespaces of another process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) joinAll() bool {
	for i := 0; i < len(g.joins); i++ {
		j := &g.joins[i]
		if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, uintptr(j.fd), j.kind, 0); e != 0 {
			return g.fail(StageJoin, i, e)
		}
	}
	return true
}

//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) mountOne(m *mount) (e syscall.Errno) {
	var fd uintptr
	target := uintptr(unsafe.Pointer(m.target))
	switch m.Op {
	case MountNew:
		_, _, e = syscall.RawSyscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(m.source)), target,
			uintptr(unsafe.Pointer(m.fstype)), m.Flags, uintptr(unsafe.Pointer(m.data)), 0)
	case MountAttr:
		_, _, e = syscall.RawSyscall6(unix.SYS_MOUNT_SETATTR, atFdCwd, target,
			m.Flags, uintptr(unsafe.Pointer(&m.attr)), unsafe.Sizeof(m.attr), 0)
	case MountTake:
		fd, _, e = syscall.RawSyscall(unix.SYS_OPEN_TREE, atFdCwd, uintptr(unsafe.Pointer(m.source)),
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|m.Flags)
		g.slots[m.Slot] = int(fd)
		if e == 0 && m.Set|m.Clear != 0 {
			empty := [1]byte{}
			_, _, e = syscall.RawSyscall6(unix.SYS_MOUNT_SETATTR, fd, uintptr(unsafe.Pointer(&empty)),
				unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, uintptr(unsafe.Pointer(&m.attr)), unsafe.Sizeof(m.attr), 0)
		}
	case MountPlace:
		fd = uintptr(g.slots[m.Slot])
		empty := [1]byte{}
		_, _, e = syscall.RawSyscall6(unix.SYS_MOVE_MOUNT, fd, uintptr(unsafe.Pointer(&empty)), atFdCwd, target, unix.MOVE_MOUNT_F_EMPTY_PATH, 0)
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	case MountDir:
		_, _, e = syscall.RawSyscall(unix.SYS_MKDIRAT, atFdCwd, target, m.Flags)
		if e == syscall.EEXIST {
			e = 0
		}
	case MountFile:
		fd, _, e = syscall.RawSyscall6(unix.SYS_OPENAT, atFdCwd, target, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, m.Flags, 0, 0)
		if e == 0 {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	case MountLink:
		_, _, e = syscall.RawSyscall(unix.SYS_SYMLINKAT, uintptr(unsafe.Pointer(m.source)), atFdCwd, target)
	}
	if m.Optional && (e == syscall.ENOENT || e == syscall.ENOTDIR) {
		e = 0
	}
	return e
}

// fileRights are the rights that apply to what isn't a folder: execute,
// write, read, truncate and ioctl. Source: linux/landlock.h.
const fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// addRules adds the rules for what was only just mounted.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (g *program) addRules() bool {
	for i := 0; i < len(g.rules); i++ {
		r := &g.rules[i]
		fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, atFdCwd, uintptr(unsafe.Pointer(r.path)), unix.O_PATH|unix.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			return g.fail(StageRule, i, e)
		}
		r.fd = int32(fd)
		_, _, e = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(g.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&r.rights)), 0, 0, 0)
		if e == syscall.EINVAL { // not a folder
			r.rights &= fileRights
			_, _, e = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(g.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&r.rights)), 0, 0, 0)
		}
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		if e != 0 {
			return g.fail(StageRule, i, e)
		}
	}
	return true
}
