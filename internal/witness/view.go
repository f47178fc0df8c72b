package witness

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// looker looks at a process's arguments, and at files as it sees them.
type looker struct {
	act  *Act
	proc string // its folder in /proc, with a slash
	args [6]uint64
	root int // its root folder; -1 until it is needed
}

func (l *looker) close() {
	if l.root >= 0 {
		_ = unix.Close(l.root)
	}
}

// read reads the process's memory.
func (l *looker) read(address uint64, b []byte) error {
	n, err := l.readSome(address, b)
	if err == nil && n < len(b) {
		return errNothing // and the call will say that it is a bad address
	}
	return err
}

func (l *looker) readSome(address uint64, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	remote := unix.RemoteIovec{Base: uintptr(address), Len: len(b)}
	n, err := unix.ProcessVMReadv(l.act.call.Thread, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	switch {
	case errors.Is(err, unix.EFAULT):
		return 0, errNothing
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // as by a container's filter
		return l.readFile(address, b)
	}
	return n, os.NewSyscallError("process_vm_readv", err)
}

// readFile is like readSome, by the memory's file.
func (l *looker) readFile(address uint64, b []byte) (int, error) {
	f, err := os.Open(l.proc + "mem")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	n, err := f.ReadAt(b, int64(address))
	if n == 0 && err != nil {
		return 0, errNothing // a bad address
	}
	return n, nil
}

// text reads a string. What lies behind it may not be there, so it is read by
// pages.
func (l *looker) text(address uint64) (string, error) {
	const page = 4096
	var text []byte
	for len(text) < pathLimit {
		b := make([]byte, min(page-address%page, 256))
		n, err := l.readSome(address, b)
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b[:n], 0); i >= 0 {
			return string(append(text, b[:i]...)), nil
		}
		text = append(text, b[:n]...)
		address += uint64(n)
	}
	return "", errNothing // too long for the kernel too
}

// empty reports whether there is an empty string.
func (l *looker) empty(address uint64) bool {
	b := make([]byte, 1)
	return l.read(address, b) == nil && b[0] == 0
}

// base returns the folder that a relative path begins in.
func (l *looker) base(dirfd uint64) (string, error) {
	link := "cwd"
	if int32(uint32(dirfd)) != unix.AT_FDCWD {
		link = "fd/" + strconv.Itoa(int(int32(uint32(dirfd))))
	}
	dir, err := os.Readlink(l.proc + link)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && !strings.HasPrefix(dir, "/"):
		return "", errNothing // a bad descriptor
	case err != nil:
		return "", err
	}
	return dir, nil
}

// enter opens the process's root folder.
func (l *looker) enter() error {
	if l.root >= 0 {
		return nil
	}
	to, err := os.Readlink(l.proc + "root")
	switch {
	case err != nil:
		return err
	case to != "/":
		return ErrChroot
	}
	if l.root, err = unix.Open(l.proc+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: l.proc + "root", Err: err}
	}
	return nil
}

// target is what a path leads to.
type target struct {
	path, real string
	st         unix.Stat_t
	exists     bool
	reachable  bool // its folder is there
	slash      bool // the path ends in a slash
	dots       bool // it ends in . or ..
	links      int  // that were followed
}

// target returns what the path at an address leads to.
func (l *looker) target(dirfd, address uint64, follow bool, resolve uint64) (*target, error) {
	name, err := l.text(address)
	if err != nil {
		return nil, err
	}
	return l.resolve(dirfd, name, follow, resolve)
}

// resolve returns what a path leads to.
func (l *looker) resolve(dirfd uint64, name string, follow bool, resolve uint64) (*target, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errNothing
	}
	w := walk{top: "/", start: "/", path: name, follow: follow}
	if !strings.HasPrefix(name, "/") || resolve&(inRoot|below) != 0 {
		base, err := l.base(dirfd)
		if err != nil {
			return nil, err
		}
		w.start = base
		if resolve&inRoot != 0 {
			w.top = base
		}
	}
	t := l.walk(w)
	if t == nil || resolve&noLinks != 0 && t.links > 0 || resolve&below != 0 && !within(t.real, w.start) {
		return nil, errNothing
	}
	return t, nil
}

// descriptor returns what an open file is.
func (l *looker) descriptor(fd uint64) (*target, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	base, err := l.base(fd)
	if err != nil {
		return nil, err
	}
	t := l.walk(walk{top: "/", start: "/", path: base})
	if t == nil {
		return nil, errNothing
	}
	return t, nil
}

// walk is a path to be followed, from a folder, below another one.
type walk struct {
	top, start, path string
	follow           bool // a link at the end
}

// linkLimit bounds the symbolic links that are followed, as the kernel does.
const linkLimit = 40

// stepLimit bounds the parts of a path with those of all its links: a program
// could have a path looked at for seconds else, which the kernel follows in no
// time. It is more than a path has without links.
const stepLimit = 4096

// walk follows a path as the kernel would for the process. The result is nil if
// it leads to what has no path, nowhere, or too far.
func (l *looker) walk(w walk) *target {
	t := &target{real: w.start, exists: true, reachable: true, path: w.path}
	if strings.HasPrefix(w.path, "/") {
		t.real = w.top
	}
	if t.real != "/" && unix.Fstatat(l.root, t.real[1:], &t.st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // a folder that was removed
	}
	if t.path = join(t.real, strings.TrimLeft(w.path, "/")); path.Clean(t.path) != t.path {
		t.path = "" // it says little
	}
	t.slash = strings.HasSuffix(w.path, "/")
	seen := false // t.st is of t.real
	steps := 0
	for rest := w.path; rest != ""; {
		if steps++; steps > stepLimit {
			return nil
		}
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		more := strings.TrimLeft(rest, "/") != ""
		t.dots = name == "." || name == ".."
		if seen && t.st.Mode&unix.S_IFMT != unix.S_IFDIR && name != "" {
			t.exists, t.reachable = false, false
			break
		}
		switch name {
		case "", ".":
			continue
		case "..":
			if t.real != w.top {
				t.real = parent(t.real)
			}
			seen = false
			continue
		}
		next := join(t.real, name)
		if err := unix.Fstatat(l.root, next[1:], &t.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.exists, t.reachable = false, errors.Is(err, unix.ENOENT) && !more
			t.real = path.Clean(join(next, rest))
			break
		}
		seen = true
		if t.st.Mode&unix.S_IFMT != unix.S_IFLNK || !more && !w.follow && !t.slash {
			t.real = next
			continue
		}
		to := l.readLink(t.real, name)
		if t.links++; to == "" || t.links > linkLimit {
			return nil
		}
		if strings.HasPrefix(to, "/") {
			t.real = w.top
		}
		if seen = false; more || rest != "" {
			to += "/" + rest
		}
		rest = to
	}
	if t.exists && !seen && unix.Fstatat(l.root, t.real[1:], &t.st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != nil {
		t.exists, t.reachable = false, false
	}
	if t.slash && t.exists && t.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.exists, t.reachable = false, false // nor is it a folder
	}
	if t.path == "" {
		t.path = t.real
	}
	return t
}

// readLink returns where a symbolic link leads the process, "" if nowhere.
func (l *looker) readLink(dir, name string) string {
	if dir == "/proc" && (name == "self" || name == "thread-self") {
		return l.self(name)
	}
	var b [pathLimit]byte
	n, err := unix.Readlinkat(l.root, join(dir, name)[1:], b[:])
	if err != nil || n == 0 || n == len(b) {
		return ""
	}
	to := string(b[:n])
	if magic(dir, name) && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/memfd:")) {
		return "" // a pipe, a socket
	}
	return to
}

// magic reports whether a link is one of /proc's that lead to what is open.
func magic(dir, name string) bool {
	return strings.HasPrefix(dir, "/proc/") &&
		(strings.HasSuffix(dir, "/fd") || name == "cwd" || name == "root" || name == "exe")
}

// self is where the process finds itself in /proc.
func (l *looker) self(name string) string {
	s, err := l.act.readStatus()
	switch {
	case err != nil:
		return ""
	case name == "self":
		return s.inside[0]
	}
	return s.inside[0] + "/task/" + s.inside[1]
}

// mountOf tells the mount of a path from others, as far as the kernel says
// (Linux 5.8).
func (l *looker) mountOf(real string) uint64 {
	var st unix.Statx_t
	if unix.Statx(l.root, real[1:], unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil {
		return 0
	}
	return st.Mnt_id
}

// readOnly reports whether a path lies on a mount that is read-only to the
// process and not to us.
func (l *looker) readOnly(real string) bool {
	fd, err := unix.Openat(l.root, "./"+real[1:], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var theirs, ours unix.Statfs_t
	return unix.Fstatfs(fd, &theirs) == nil && theirs.Flags&unix.ST_RDONLY != 0 &&
		(unix.Statfs(real, &ours) != nil || ours.Flags&unix.ST_RDONLY == 0)
}

// fixed reports whether nothing can be made or removed where a path is.
func (l *looker) fixed(real string) bool {
	if !strings.HasPrefix(real, "/proc/") && !strings.HasPrefix(real, "/sys/") {
		return false
	}
	fd, err := unix.Openat(l.root, parent(real)[1:], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && (st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC)
}

// foreign reports whether a path is in another process's folder in /proc, where
// who may do what is no question of permissions.
func (l *looker) foreign(real string) bool {
	rest, ok := strings.CutPrefix(real, "/proc/")
	pid, _, _ := strings.Cut(rest, "/")
	return ok && pid != "" && pid[0] >= '0' && pid[0] <= '9' && pid != l.self("self")
}

func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func within(real, dir string) bool {
	return real == dir || dir == "/" || strings.HasPrefix(real, dir+"/")
}
