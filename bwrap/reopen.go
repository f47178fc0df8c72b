package bwrap

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// LeakError says that a descriptor leads out of the sandbox and can't be
// replaced by one that doesn't.
type LeakError struct {
	FD   int
	Path string // by its name outside
	Err  error
}

func (e *LeakError) Error() string {
	return fmt.Sprintf("bwrap: descriptor %d is open on %s, which the sandbox doesn't show (%v)", e.FD, policy.Path(e.Path), e.Err)
}

// Unwrap gives the errno.
func (e *LeakError) Unwrap() error { return e.Err }

var errElsewhere = errors.New("another file has its name there")

// Reopen replaces what the descriptor fd is open on by the same file as the
// sandbox has it. It is for the inner stage, for each descriptor that the
// command gets and that was opened outside.
//
// Mounts are asked when a file is opened, and what is open was opened outside:
// through /proc/self/fd a file that is open for reading can be opened for
// writing there, and a folder can be written to by names relative to it.
//
// It concerns folders, regular files and block devices that are not open for
// writing; nil is returned for anything else, and for a file without a name. The
// position in the file is kept, but is not shared any more with who opened it
// outside. A file that the sandbox doesn't show is a [*LeakError], and fd stays
// as it is: the command must not get it.
func Reopen(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	path := flags&unix.O_PATH != 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFREG, unix.S_IFBLK:
		if !path && flags&unix.O_ACCMODE != unix.O_RDONLY || st.Nlink == 0 {
			return nil
		}
	default:
		return nil
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return err
	}
	const kept = unix.O_PATH | unix.O_APPEND | unix.O_NONBLOCK | unix.O_DIRECT | unix.O_DIRECTORY
	inside, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NOFOLLOW|flags&kept, 0)
	if err != nil {
		return &LeakError{FD: fd, Path: name, Err: err}
	}
	defer unix.Close(inside)
	var there unix.Stat_t
	if err := unix.Fstat(inside, &there); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if there.Dev != st.Dev || there.Ino != st.Ino {
		return &LeakError{FD: fd, Path: name, Err: errElsewhere}
	}
	return replace(fd, inside, path)
}

// replace makes fd what inside is, with its own position and flags.
func replace(fd, inside int, path bool) error {
	cloexec, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if !path {
		// What has no position (a folder of some file systems) starts anew.
		if pos, err := unix.Seek(fd, 0, unix.SEEK_CUR); err == nil {
			if _, err := unix.Seek(inside, pos, unix.SEEK_SET); err != nil {
				return os.NewSyscallError("lseek", err)
			}
		}
	}
	flags := 0
	if cloexec&unix.FD_CLOEXEC != 0 {
		flags = unix.O_CLOEXEC
	}
	return os.NewSyscallError("dup3", unix.Dup3(inside, fd, flags))
}
