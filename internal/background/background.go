// Package background keeps commands that outlive the program that started them.
//
// Each has a folder, named by its id, in one that belongs to the user alone.
// A supervisor, a process of its own in a session of its own, starts the
// command, keeps what it prints in the store of output, writes down how things
// stand, and does what it is told by a socket in the folder. As long as it lives
// it holds a lock there; so whoever comes later sees when it was killed, and its
// commands with it, since what it started ends with it.
//
// What can be read is read from disk, without the supervisor: the status and the
// output. Only what changes something goes by the socket: input, signals, and
// waiting for the end.
//
// # Limitations
//
// The folder must lie where no confined command may write. One may read it, as it
// reads everything; the supervisor talks to no process that is confined further
// than itself (see peer.go), so that a command can't tell another one's
// supervisor what to do. File systems without locks between processes won't do.
package background

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is the folder with the commands of a user.
type Dir struct{ path string }

// ErrForeign is matched by the error for a folder that isn't the user's alone.
var ErrForeign = errors.New("not a private folder of this user's")

// Open opens the folder, and makes it, with mode 0700 as those above it, if
// there is none. One that belongs to another user, or that others may enter,
// is refused with [ErrForeign], and so is a symbolic link.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Dir{path}, checkPrivate(path)
}

// checkPrivate refuses a folder that isn't this user's alone.
func checkPrivate(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s: %w: uid %d, mode %#o", path, ErrForeign, st.Uid, st.Mode)
	}
	return nil
}

// Path returns the folder.
func (d *Dir) Path() string { return d.path }

// Names in a command's folder.
const (
	lockName   = "lock"
	statusName = "status.json"
	socketName = "socket"
	readersDir = "readers"
)

// newPrefix begins the name of a folder that isn't a command's yet.
const newPrefix = ".new-"

// create makes a folder for a command that has no id yet, and locks it.
func (d *Dir) create() (path string, lock *os.File, err error) {
	path = filepath.Join(d.path, newPrefix+rand.Text())
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", nil, err
	}
	lock, err = os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = setLock(lock, unix.F_WRLCK, false)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, lock, nil
}

// exclusively calls f while no other process does so.
func (d *Dir) exclusively(f func() error) error {
	lock, err := os.OpenFile(filepath.Join(d.path, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // and with it the lock
	if err := setLock(lock, unix.F_WRLCK, true); err != nil {
		return err
	}
	return f()
}

// setLock sets a lock that ends with the file. It waits for others if wait says
// so.
func setLock(f *os.File, kind int16, wait bool) error {
	cmd := unix.F_OFD_SETLK
	if wait {
		cmd = unix.F_OFD_SETLKW
	}
	for {
		err := unix.FcntlFlock(f.Fd(), cmd, &unix.Flock_t{Type: kind})
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("lock", err)
		}
	}
}

// isLocked reports whether another process has locked the file at path. What
// can't be looked at isn't locked.
func isLocked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	l := unix.Flock_t{Type: unix.F_RDLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}

// ids lists the commands that have a folder, the oldest first.
func (d *Dir) ids() (ids []string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if isID(e.Name()) && e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// isID reports whether s has the form of an id.
func isID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// NameError says that a name can't be given to a command.
type NameError struct {
	Name string
	// ID is of the command that has it; empty if it isn't a name.
	ID string
}

func (e *NameError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("%.60q isn't a name: up to 48 letters, digits, dots, dashes and underscores, a letter or digit first", e.Name)
	}
	return fmt.Sprintf("a command that runs is called %q already: %s", e.Name, e.ID)
}

// checkName checks the form of a name. One like an id would be mistaken for it.
func checkName(name string) error {
	const more = "._-"
	for i, c := range []byte(name) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !ok && (i == 0 || !strings.ContainsRune(more, rune(c))) {
			return &NameError{Name: name}
		}
	}
	if name == "" || len(name) > 48 || isID(name) {
		return &NameError{Name: name}
	}
	return nil
}

// FindError says that there is no command, or not just one, that is meant.
type FindError struct {
	What string
	// IDs are those that it could mean.
	IDs []string
}

func (e *FindError) Error() string {
	if len(e.IDs) == 0 {
		return fmt.Sprintf("there is no command %.60q", e.What)
	}
	return fmt.Sprintf("%.60q could be %s", e.What, strings.Join(e.IDs, " or "))
}

// Is makes those without any match [fs.ErrNotExist].
func (e *FindError) Is(target error) bool { return target == fs.ErrNotExist && len(e.IDs) == 0 }
