package mountns

import (
	"errors"
	"os"
	"strconv"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// command is a mount namespace in which a command runs, and what it leaves.
type command struct {
	pid       int
	pidfd     int // tells whether pid is still its own; -1 is none
	root      int // its "/"
	table     int // its list of mounts, which tells when it changes; -1 before open
	namespace int
	owner     int // the user namespace that it belongs to; -1 is the caller's own

	// For a watch, which holds mu while it looks: then nothing is closed.
	mu       sync.Mutex
	gone     bool
	attempts []attempt // one for each path
}

func newCommand(pid, pidfd int) *command {
	return &command{pid: pid, pidfd: pidfd, root: -1, table: -1, namespace: -1, owner: -1}
}

// open opens the namespaces of the process. If it fails, all is closed.
func (c *command) open() (err error) {
	if !linux.OwnProc() {
		return errForeignProc
	}
	proc := "/proc/" + strconv.Itoa(c.pid)
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.root, err = unix.Open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: proc + "/root", Err: err}
	}
	if c.table, err = unix.Open(proc+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: proc + "/mountinfo", Err: err}
	}
	if c.namespace, err = unix.Open(proc+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: proc + "/ns/mnt", Err: err}
	}
	own, err := sameNamespace(c.namespace, "mnt")
	if err == nil && own {
		err = errOwnNamespace // whatever that is, it is no command of ours
	}
	if err != nil {
		return err
	}
	if c.owner, err = unix.IoctlRetInt(c.namespace, unix.NS_GET_USERNS); err != nil {
		c.owner = -1
		return os.NewSyscallError("ioctl", err)
	}
	if own, err = sameNamespace(c.owner, "user"); err == nil && own {
		_ = unix.Close(c.owner)
		c.owner = -1
	}
	if err == nil && c.pidfd >= 0 {
		err = os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(c.pidfd, 0, nil, 0))
	}
	return err
}

// In makes mounts in the namespace of a process, up to the first that fails. Pid
// and pidfd are as for [Watch.Add], but pidfd stays the caller's.
func In(pid, pidfd int, mounts []spawn.Mount) error {
	c := newCommand(pid, pidfd)
	if err := c.open(); err != nil {
		return err
	}
	defer c.close()
	return spawn.MountIn(c.namespace, c.owner, mounts)
}

var (
	errOwnNamespace = errors.New("the process has no mounts of its own")
	errForeignProc  = errors.New("/proc isn't of this process's own PID namespace, or isn't there")
)

// sameNamespace reports whether an open namespace is this process's own.
func sameNamespace(fd int, kind string) (bool, error) {
	var theirs, own unix.Stat_t
	if err := unix.Fstat(fd, &theirs); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	path := "/proc/self/ns/" + kind
	if err := unix.Stat(path, &own); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return theirs.Dev == own.Dev && theirs.Ino == own.Ino, nil
}

// close closes what open opened.
func (c *command) close() {
	for _, fd := range []*int{&c.root, &c.table, &c.namespace, &c.owner} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}
