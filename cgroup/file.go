package cgroup

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Control files are read and written by bare system calls: an [os.File] would
// put each one into the poller.

// readLimit bounds what is read of a control file.
const readLimit = 1 << 20

// readAll returns the text of a file.
func readAll(name string) (string, error) {
	fd, err := openAt(unix.AT_FDCWD, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 1<<10)
	n := 0
	for n < readLimit {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Read(fd, buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", &os.PathError{Op: "read", Path: name, Err: err}
		case m == 0:
			return string(buf[:n]), nil
		default:
			n += m
		}
	}
	return string(buf[:n]), nil
}

// valueAt returns the text of a file in an open folder, or of an absolute path.
// It is for what the kernel writes at once: values, as opposed to lists of
// processes or of mounts.
func valueAt(dir int, name string) (string, error) {
	fd, err := openAt(dir, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return readValue(fd, name)
}

// readValue is valueAt of an open file. What doesn't fill the buffer is all, so
// that nothing need be read to see the end.
func readValue(fd int, name string) (string, error) {
	for size := 1 << 10; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Pread(fd, buf, 0)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Pread(fd, buf, 0)
		}
		if err != nil {
			return "", &os.PathError{Op: "read", Path: name, Err: err}
		}
		if n < size || size >= readLimit {
			return string(buf[:n]), nil
		}
	}
}

// read returns the text of a file without the space around it.
func read(path string) (string, error) {
	s, err := readAll(path)
	return strings.TrimSpace(s), err
}

// writeAt writes a value by one call, as control files want it.
func writeAt(dir int, name, value string) error {
	fd, err := openAt(dir, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return write(fd, name, value)
}

// exchangeAt writes a value, and returns what the file then says, without the
// space around it.
func exchangeAt(dir int, name, value string) (got string, err error) {
	fd, err := openAt(dir, name, unix.O_RDWR)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := write(fd, name, value); err != nil {
		return "", err
	}
	got, err = readValue(fd, name)
	return strings.TrimSpace(got), err
}

func write(fd int, name, value string) (err error) {
	for {
		_, err = unix.Write(fd, []byte(value))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// number returns a number in a control file; ok is false if there is none.
func number(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil
}

// field returns the number after a word, in a file with one of both a line.
func field(text, word string) (n int64, ok bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, word+" "); found {
			return number(rest)
		}
	}
	return 0, false
}
