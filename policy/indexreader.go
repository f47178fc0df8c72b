package policy

import (
	"bytes"
	"io/fs"
	"syscall"
)

// nameLimit bounds the name of a tracked file.
const nameLimit = 1 << 15

// indexReader reads a file piece by piece. It doesn't map it: a command that
// shortens a mapped file kills who reads it.
type indexReader struct {
	path string
	fd   int
	buf  []byte
	r, w int   // what is in buf and not yet used
	more int64 // what is not yet in buf
}

// bufSize is as much as is read at once: a program that has just started pays
// more for memory that it has not touched yet than for further reads.
const bufSize = 1 << 16

// openIndex opens a file, which may be a symbolic link for git, too. The caller
// closes fd.
func openIndex(path string) (*indexReader, error) {
	fd, err := openFile(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	size := min(st.Size, bufSize)
	return &indexReader{path: path, fd: fd, buf: make([]byte, max(size, 16)), more: st.Size}, nil
}

// bad says what is wrong with the file.
func (in *indexReader) bad(what string) error { return indexError(in.path, what) }

// left returns how much is not yet used.
func (in *indexReader) left() int64 { return int64(in.w-in.r) + in.more }

// next returns the next n bytes, valid until the next call.
func (in *indexReader) next(n int) ([]byte, error) {
	for in.w-in.r < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	b := in.buf[in.r : in.r+n]
	in.r += n
	return b, nil
}

// find returns how far away the byte c is.
func (in *indexReader) find(c byte) (int, error) {
	for {
		have := in.w - in.r
		i := bytes.IndexByte(in.buf[in.r:in.w], c)
		if i >= 0 {
			have = i
		}
		if have > nameLimit {
			return 0, in.bad("a name is too long")
		}
		if i >= 0 {
			return i, nil
		}
		if err := in.fill(have + 1); err != nil {
			return 0, err
		}
	}
}

// skip passes over n bytes.
func (in *indexReader) skip(n int64) error {
	if have := int64(in.w - in.r); n <= have {
		in.r += int(n)
		return nil
	} else if n -= have; n > in.more {
		return in.bad("it ends too early")
	}
	in.r, in.w = 0, 0
	in.more -= n
	if _, err := syscall.Seek(in.fd, n, 1); err != nil {
		return &fs.PathError{Op: "seek", Path: in.path, Err: err}
	}
	return nil
}

// fill reads more into buf, which is made to hold n unused bytes.
func (in *indexReader) fill(n int) error {
	if in.more == 0 {
		return in.bad("it ends too early")
	}
	if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	if n > len(in.buf) {
		grown := make([]byte, n+4096)
		copy(grown, in.buf[:in.w])
		in.buf = grown
	}
	space := in.buf[in.w:]
	if int64(len(space)) > in.more {
		space = space[:in.more]
	}
	got, err := syscall.Read(in.fd, space)
	switch {
	case err == syscall.EINTR:
		return nil
	case err != nil:
		return &fs.PathError{Op: "read", Path: in.path, Err: err}
	case got == 0:
		in.more = 0
		return in.bad("it ends too early")
	}
	in.w += got
	in.more -= int64(got)
	return nil
}
