package landlock

import (
	"os"
	"strconv"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// AddFD adds a rule for what the descriptor fd is open on: for a command's
// standard output and error, so that it can open /dev/stderr where that is a
// file outside. The path in Applied is what /proc/self/fd says.
//
// It gives nothing that the descriptor doesn't: no writing when fd is not open
// for that, no reading likewise, never executing, and only the file itself.
// (Whoever holds a descriptor that can write can truncate the file through it
// as well, and take O_APPEND off.) Nothing is added, and nil returned, for a
// folder, and for what has no place in a file tree and needs no rule: a pipe, a
// socket, a memfd.
//
// It must not be called while another goroutine uses the Domain.
func (d *Domain) AddFD(fd int, access policy.Access) error {
	if d.FD < 0 {
		return nil
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	rights := grantRights(access) & openRights(flags) & d.handled & fileRights
	if rights == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFCHR, unix.S_IFBLK:
	default:
		return nil
	}
	var attr ll.PathBeneathAttr
	rights, e := d.add(&attr, fd, rights)
	switch e {
	case 0:
	case syscall.EBADFD: // a memfd, or a device of a file system without a tree
		return nil
	default:
		return os.NewSyscallError("landlock_add_rule", e)
	}
	d.Applied = append(d.Applied, PathRule{
		Grant:  policy.Grant{Path: fdPath(fd), Access: access, Origin: policy.FromStdio},
		Rights: rights,
	})
	return nil
}

// openRights are the rights that a descriptor with these flags stands for.
func openRights(flags int) FSRights {
	const write = ll.AccessFSWriteFile | ll.AccessFSTruncate
	switch {
	case flags&unix.O_PATH != 0:
		return 0
	case flags&unix.O_ACCMODE == unix.O_WRONLY:
		return write | ll.AccessFSIoctlDev
	case flags&unix.O_ACCMODE == unix.O_RDWR:
		return write | ll.AccessFSReadFile | ll.AccessFSIoctlDev
	default:
		return ll.AccessFSReadFile | ll.AccessFSIoctlDev
	}
}

// fdPath is the path that the kernel has for fd, for people to read.
func fdPath(fd int) string {
	link := "/proc/self/fd/" + strconv.Itoa(fd)
	if path, err := os.Readlink(link); err == nil {
		return path
	}
	return link
}
