package witness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// needs is what a call needs besides being let: of the file or its folder.
type needs uint8

const (
	needsWrite  needs = iota // to write to the file
	needsFolder              // to change the folder
	needsSource              // to link to the file
	needsOwner               // to own the file
	needsTimes               // to own it or to write to it
	needsChown               // to give it away
	needsSocket              // to connect
)

// errNothing says that a call does nothing that a sandbox could refuse, since it
// fails anyway, or changes nothing.
var errNothing = errors.New("nothing to be refused")

// pathLimit is PATH_MAX.
const pathLimit = 4096

// cwd is AT_FDCWD as an unsigned int.
const cwd = uint64(0xffffff9c)

// resolve flags of openat2(2) that matter here.
const (
	noLinks = unix.RESOLVE_NO_SYMLINKS
	below   = unix.RESOLVE_BENEATH
	inRoot  = unix.RESOLVE_IN_ROOT
)

// look reads the call's arguments as the call has them.
func (l *looker) look(name string) error {
	a := &l.args
	follow := func(flags uint64) bool { return flags&unix.AT_SYMLINK_NOFOLLOW == 0 }
	switch name {
	case "open":
		return l.open(cwd, a[0], a[1], 0)
	case "openat":
		return l.open(a[0], a[1], a[2], 0)
	case "creat":
		return l.open(cwd, a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, 0)
	case "openat2":
		how := make([]byte, 24) // struct open_how: flags, mode, resolve
		if a[3] < uint64(len(how)) {
			return errNothing
		}
		if err := l.read(a[2], how); err != nil {
			return err
		}
		return l.open(a[0], a[1], binary.NativeEndian.Uint64(how), binary.NativeEndian.Uint64(how[16:]))
	case "truncate", "truncate64":
		return l.truncate(a[0])
	case "mkdir":
		return l.make(cwd, a[0], policy.OpMkdir, 0)
	case "mkdirat":
		return l.make(a[0], a[1], policy.OpMkdir, 0)
	case "mknod":
		return l.make(cwd, a[0], policy.OpCreate, uint32(a[1]))
	case "mknodat":
		return l.make(a[0], a[1], policy.OpCreate, uint32(a[2]))
	case "symlink":
		return l.make(cwd, a[1], policy.OpCreate, 0)
	case "symlinkat":
		return l.make(a[1], a[2], policy.OpCreate, 0)
	case "unlink":
		return l.remove(cwd, a[0], false)
	case "rmdir":
		return l.remove(cwd, a[0], true)
	case "unlinkat":
		return l.remove(a[0], a[1], a[2]&unix.AT_REMOVEDIR != 0)
	case "rename":
		return l.rename(cwd, a[0], cwd, a[1], 0)
	case "renameat":
		return l.rename(a[0], a[1], a[2], a[3], 0)
	case "renameat2":
		return l.rename(a[0], a[1], a[2], a[3], a[4])
	case "link":
		return l.link(cwd, a[0], cwd, a[1], 0)
	case "linkat":
		return l.link(a[0], a[1], a[2], a[3], a[4])
	case "bind":
		return l.bind(a[1], a[2])
	case "connect":
		return l.connect(a[1], a[2])
	}
	return l.lookMetadata(name, follow)
}

// lookMetadata reads calls that change no content.
func (l *looker) lookMetadata(name string, follow func(uint64) bool) error {
	a := &l.args
	switch name {
	case "chmod":
		return l.metadata(cwd, a[0], true, needsOwner)
	case "fchmod":
		return l.metadata(a[0], 0, true, needsOwner)
	case "fchmodat":
		return l.metadata(a[0], a[1], true, needsOwner)
	case "fchmodat2":
		return l.metadata(a[0], a[1], follow(a[3]), needsOwner)
	case "chown", "chown32":
		return l.metadata(cwd, a[0], true, needsChown, a[1], a[2])
	case "lchown", "lchown32":
		return l.metadata(cwd, a[0], false, needsChown, a[1], a[2])
	case "fchown", "fchown32":
		return l.metadata(a[0], 0, true, needsChown, a[1], a[2])
	case "fchownat":
		return l.metadata(a[0], a[1], follow(a[4]), needsChown, a[2], a[3])
	case "utime", "utimes":
		return l.metadata(cwd, a[0], true, times(a[1]))
	case "futimesat":
		return l.metadata(a[0], a[1], true, times(a[2]))
	case "utimensat", "utimensat_time64":
		return l.metadata(a[0], a[1], follow(a[3]), times(a[2]))
	case "setxattr", "removexattr":
		return l.metadata(cwd, a[0], true, needsTimes)
	case "lsetxattr", "lremovexattr":
		return l.metadata(cwd, a[0], false, needsTimes)
	case "fsetxattr", "fremovexattr":
		return l.metadata(a[0], 0, true, needsTimes)
	case "setxattrat", "removexattrat":
		return l.metadata(a[0], a[1], follow(a[2]), needsTimes)
	case "file_setattr":
		return l.metadata(a[0], a[1], follow(a[4]), needsOwner)
	}
	return errNothing
}

// times says what setting times needs, by the address of the times: with none,
// which is the present time, the right to write is enough.
func times(address uint64) needs {
	if address == 0 {
		return needsTimes
	}
	return needsOwner
}

// add adds an access, unless the kernel's own folders refuse it by themselves.
func (l *looker) add(t *target, op policy.Op, k needs) *Access {
	if k == needsFolder && l.fixed(t.real) || k == needsWrite && l.foreign(t.real) {
		return new(Access)
	}
	l.act.Accesses = append(l.act.Accesses, Access{Path: t.path, Real: t.real, Exists: t.exists, Op: op, File: t.st, kind: k})
	return &l.act.Accesses[len(l.act.Accesses)-1]
}

func (t *target) is(kind uint32) bool { return t.exists && t.st.Mode&unix.S_IFMT == kind }

func (l *looker) open(dirfd, address, flags, resolve uint64) error {
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	makes := flags&unix.O_CREAT != 0
	if flags&unix.O_PATH != 0 || !writes && !makes {
		return errNothing
	}
	follow := flags&unix.O_NOFOLLOW == 0 && (!makes || flags&unix.O_EXCL == 0)
	t, err := l.target(dirfd, address, follow, resolve)
	if err != nil {
		return err
	}
	switch nameless := flags&unix.O_TMPFILE == unix.O_TMPFILE; {
	case nameless && t.is(unix.S_IFDIR):
		l.add(t, policy.OpCreate, needsFolder)
	case nameless:
	case !t.exists && makes && t.reachable && !t.slash && flags&unix.O_DIRECTORY == 0:
		l.add(t, policy.OpCreate, needsFolder)
	case !t.exists, makes && flags&unix.O_EXCL != 0, flags&unix.O_DIRECTORY != 0, !writes:
	case t.is(unix.S_IFDIR), t.is(unix.S_IFLNK), t.is(unix.S_IFSOCK):
	default:
		l.add(t, policy.OpWrite, needsWrite)
	}
	return nil
}

func (l *looker) truncate(address uint64) error {
	t, err := l.target(cwd, address, true, 0)
	if err == nil && t.is(unix.S_IFREG) {
		l.add(t, policy.OpWrite, needsWrite)
	}
	return err
}

func (l *looker) make(dirfd, address uint64, op policy.Op, mode uint32) error {
	t, err := l.target(dirfd, address, false, 0)
	if err == nil && !t.exists && t.reachable && (!t.slash || op == policy.OpMkdir) {
		l.add(t, op, needsFolder).mode = mode
	}
	return err
}

func (l *looker) remove(dirfd, address uint64, folder bool) error {
	t, err := l.target(dirfd, address, false, 0)
	if err == nil && t.exists && !t.dots && t.is(unix.S_IFDIR) == folder {
		l.add(t, policy.OpRemove, needsFolder)
	}
	return err
}

func (l *looker) rename(oldDir, oldAddress, newDir, newAddress, flags uint64) error {
	from, err := l.target(oldDir, oldAddress, false, 0)
	if err != nil {
		return err
	}
	to, err := l.target(newDir, newAddress, false, 0)
	if err != nil {
		return err
	}
	exchange := flags&unix.RENAME_EXCHANGE != 0
	switch {
	case !from.exists, from.dots, to.dots, !to.exists && (!to.reachable || exchange),
		to.exists && flags&unix.RENAME_NOREPLACE != 0,
		to.exists && !exchange && from.is(unix.S_IFDIR) != to.is(unix.S_IFDIR),
		l.mountOf(parent(from.real)) != l.mountOf(parent(to.real)):
		return errNothing
	}
	l.add(from, policy.OpRename, needsFolder)
	l.add(to, policy.OpRename, needsFolder)
	return nil
}

func (l *looker) link(oldDir, oldAddress, newDir, newAddress, flags uint64) error {
	var from *target
	var err error
	if flags&unix.AT_EMPTY_PATH != 0 && l.empty(oldAddress) {
		from, err = l.descriptor(oldDir)
	} else {
		from, err = l.target(oldDir, oldAddress, flags&unix.AT_SYMLINK_FOLLOW != 0, 0)
	}
	if err != nil {
		return err
	}
	to, err := l.target(newDir, newAddress, false, 0)
	if err != nil {
		return err
	}
	if !from.exists || from.is(unix.S_IFDIR) || to.exists || !to.reachable || to.slash {
		return errNothing
	}
	if dir := parent(to.real); l.mountOf(from.real) != l.mountOf(dir) {
		// That it leads to another mount is found out after this.
		if l.readOnly(dir) {
			l.add(to, policy.OpRename, needsFolder)
		}
		return nil
	}
	l.add(from, policy.OpRename, needsSource)
	l.add(to, policy.OpRename, needsFolder)
	return nil
}

// metadata is about the path at an address, or about an open file where that is
// 0 or the path is empty.
func (l *looker) metadata(dirfd, address uint64, follow bool, k needs, owners ...uint64) error {
	var t *target
	var err error
	if address == 0 || l.empty(address) {
		t, err = l.descriptor(dirfd)
	} else {
		t, err = l.target(dirfd, address, follow, 0)
	}
	if err != nil || !t.exists {
		return err
	}
	a := l.add(t, policy.OpWrite, k)
	a.Metadata, a.ReadOnly = true, l.readOnly(t.real)
	for i, id := range owners {
		a.owners[i] = int32(uint32(id))
	}
	return nil
}

// socketPath returns the path in the address of a local socket.
func (l *looker) socketPath(address, length uint64) (string, error) {
	const family, limit = 2, 110 // sockaddr_un
	if length <= family || length > limit {
		return "", errNothing
	}
	b := make([]byte, length)
	if err := l.read(address, b); err != nil {
		return "", err
	}
	path, _, _ := bytes.Cut(b[family:], []byte{0})
	if binary.NativeEndian.Uint16(b) != unix.AF_UNIX || len(path) == 0 {
		return "", errNothing
	}
	return string(path), nil
}

func (l *looker) bind(address, length uint64) error {
	path, err := l.socketPath(address, length)
	if err != nil {
		return err
	}
	t, err := l.resolve(cwd, path, false, 0)
	if err == nil && !t.exists && t.reachable {
		l.add(t, policy.OpCreate, needsFolder).mode = unix.S_IFSOCK
	}
	return err
}

// connect is about a socket as we see it: what covers it for the caller refuses
// nothing, but is another one.
func (l *looker) connect(address, length uint64) error {
	path, err := l.socketPath(address, length)
	if err != nil {
		return err
	}
	base, err := l.base(cwd)
	if err != nil {
		return err
	}
	here := looker{act: l.act, root: -1}
	defer here.close()
	if here.root, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("open", err)
	}
	if t := here.walk(walk{top: "/", start: base, path: path, follow: true}); t != nil && t.is(unix.S_IFSOCK) {
		l.add(t, policy.OpConnect, needsSocket)
	}
	return nil
}

// parent is the folder that a clean absolute path lies in.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
