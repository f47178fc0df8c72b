package tamper

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ident tells whether a file was touched. The zero value is no file.
type ident struct {
	dev, ino     uint64
	mode         uint32
	uid, gid     uint32
	size         int64
	mtime, ctime int64
}

func identOf(st *unix.Stat_t) ident {
	return ident{
		dev: uint64(st.Dev), ino: st.Ino, mode: st.Mode, uid: st.Uid, gid: st.Gid, //nolint:unconvert // Dev differs by architecture
		size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}
}

// lstat returns the identity of what path names. Nothing there is no error.
func lstat(path string) (ident, error) {
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case err == nil:
		return identOf(&st), nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ident{}, nil
	default:
		return ident{}, err
	}
}

// isFolder reports whether path leads to a folder.
func isFolder(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// open opens path, close-on-exec and without waiting for anything.
func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// look returns what is at a path, and its content if that can be read and is at
// most limit bytes long. Nothing there is no error.
func look(path string, limit int) (node, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return node{}, nil
	case err != nil:
		id, err := lstat(path)
		n := node{id: id}
		if n.typ() == unix.S_IFLNK {
			var buf [4096]byte
			if size, err := unix.Readlink(path, buf[:]); err == nil {
				n.text, n.kept = append([]byte(nil), buf[:size]...), true
			}
		}
		return n, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return node{}, err
	}
	n := node{id: identOf(&st)}
	if n.typ() == unix.S_IFREG {
		n.text, n.kept = readAll(fd, int(min(st.Size, int64(limit)+1)), limit)
	}
	return n, nil
}

// readAll reads an open file of about size bytes, and reports false if it has
// more than limit.
func readAll(fd, size, limit int) ([]byte, bool) {
	if size > limit {
		return nil, false
	}
	buf := make([]byte, 0, size+1)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, false
		case n == 0:
			return buf, true
		}
		if buf = buf[:len(buf)+n]; len(buf) > limit {
			return nil, false
		}
		if len(buf) == size {
			return buf, true // a last read of nothing would say so once more
		}
	}
}

// readFile returns the content of a file of git's, which may be a symbolic
// link, nil if it isn't a small regular one.
func readFile(path string) []byte {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	text, _ := readAll(fd, int(min(st.Size, contentLimit+1)), contentLimit)
	return text
}

// names returns the names in a folder, in no order. A symbolic link is not
// followed.
func names(path string) []string {
	fd, err := open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var list []string
	var buf [8192]byte
	for len(list) <= 2*entryLimit {
		n, err := unix.ReadDirent(fd, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		_, _, list = unix.ParseDirent(buf[:n], -1, list)
	}
	return list
}

// base returns the last part of a clean path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// dir returns a clean absolute path without its last part.
func dir(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// join returns the path of name, which may be absolute, seen from a folder.
func join(folder, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return strings.TrimSuffix(folder, "/") + "/" + name
}

// beneath reports whether path is folder or lies in it. Both are clean.
func beneath(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// quoteLimit bounds what is shown of a value that a command may have written.
const quoteLimit = 200

// quote shows a value that may hold anything.
func quote(s string) string {
	if len(s) > quoteLimit {
		return strconv.QuoteToGraphic(s[:quoteLimit]) + "…"
	}
	return strconv.QuoteToGraphic(s)
}

// oneLine escapes what can't be printed: names come from files that a command
// may have written, and end up on terminals.
func oneLine(s string) string {
	for _, r := range s {
		if r == '\ufffd' || !strconv.IsPrint(r) {
			q := strconv.Quote(s)
			return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
		}
	}
	return s
}
