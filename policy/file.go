package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// oPath is O_PATH, which package syscall lacks on amd64. It has the same value
// on every architecture.
const oPath = 0x200000

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
)

// openFile opens path, close-on-exec, and retries when a signal interrupts
// it: slow file systems let that happen. A file that it makes is its owner's
// alone.
func openFile(path string, flags int) (int, error) {
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0o600)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// fileID says which file a path leads to.
type fileID struct {
	dev, ino uint64
}

// realDir returns the path of the folder that path leads to, with every
// symbolic link resolved, and its identity. The error is a [syscall.Errno].
func realDir(path string) (string, fileID, error) {
	fd, err := openFile(path, oPath|syscall.O_DIRECTORY)
	if err != nil {
		return "", fileID{}, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return "", fileID{}, err
	}
	id := fileID{st.Dev, st.Ino}
	return resolvedName(fd, path, id)
}

// resolvedName asks the kernel for the name of an open folder: one call where
// following the links by hand takes one for each part. What it says is checked,
// since the name of a folder that was unlinked, or that lies outside the
// process's root, does not lead back to it.
func resolvedName(fd int, path string, id fileID) (string, fileID, error) {
	var link [32]byte
	var buf [4096]byte
	name := strconv.AppendInt(append(link[:0], "/proc/self/fd/"...), int64(fd), 10)
	n, err := syscall.Readlink(string(name), buf[:])
	if err == nil && n < len(buf) && n > 0 && buf[0] == '/' {
		var st syscall.Stat_t
		real := string(buf[:n])
		if syscall.Lstat(real, &st) == nil && st.Ino == id.ino && st.Dev == id.dev {
			return real, id, nil
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fileID{}, errnoOf(err)
	}
	return real, id, nil
}

// errnoOf returns the errno within err, or err if there is none.
func errnoOf(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// readSmall reads a regular file of at most limit bytes. It neither follows a
// symbolic link in the last part of path nor blocks, whatever is there.
func readSmall(path string, limit int) ([]byte, error) {
	return readRegular(path, limit, syscall.O_NOFOLLOW)
}

// readFollow is readSmall for files of the user's own, which may well be
// symbolic links.
func readFollow(path string, limit int) ([]byte, error) {
	return readRegular(path, limit, 0)
}

func readRegular(path string, limit, flags int) ([]byte, error) {
	fd, err := openFile(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	if st.Size > int64(limit) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	data, err := readAll(fd, int(st.Size), limit)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// readAll reads an open file to its end. The size is a guess: the file may
// change meanwhile.
func readAll(fd, size, limit int) ([]byte, error) {
	buf := make([]byte, 0, size+1)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := syscall.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return buf, nil
		}
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, errTooLarge
		}
		if len(buf) == size && size < cap(buf) {
			// The usual file ends here, and a last read of nothing says so
			// only once more.
			return buf, nil
		}
	}
}

// mode returns the type bits of what path names, without following a symbolic
// link in its last part, and 0 if nothing can be seen there.
func mode(path string) uint32 {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return 0
	}
	return st.Mode & syscall.S_IFMT
}

// beneath reports whether path is dir or lies in it. Both are absolute and
// clean.
func beneath(path, dir string) bool {
	if dir == "/" {
		return true
	}
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// parentDir returns the folder that holds the clean absolute path, "/" for
// "/".
func parentDir(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// baseName returns the last part of the clean absolute path.
func baseName(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// listDir returns the names in a folder, in order; none if it can't be read.
func listDir(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
