package bwrap

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ArgsFile returns an open file with args in the form of bwrap's --args, at its
// beginning. It has no name, is close-on-exec, and the caller closes it. bwrap
// reads it once.
//
// It is a memfd, or an unlinked temporary file where the kernel has none.
func ArgsFile(args []string) (*os.File, error) {
	f, err := anonymous("bwrap-args")
	if err != nil {
		return nil, err
	}
	size := 0
	for _, a := range args {
		size += len(a) + 1
	}
	var b strings.Builder
	b.Grow(size)
	for _, a := range args {
		b.WriteString(a)
		b.WriteByte(0)
	}
	if _, err = f.WriteString(b.String()); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

func anonymous(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err == nil {
		return os.NewFile(uintptr(fd), name), nil
	}
	if !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EPERM) {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f, err := os.CreateTemp("", name)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}
