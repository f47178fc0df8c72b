package bwrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// opsMain tries what its argument lists and prints how each went.
func opsMain(args []string) int {
	var ops [][]policy.Path
	if err := json.Unmarshal([]byte(args[0]), &ops); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	got := make([]string, len(ops))
	for i, op := range ops {
		words := make([]string, len(op)) // which need not be UTF-8
		for i, w := range op {
			words[i] = string(w)
		}
		got[i] = outcome(doOp(words[0], words[1:]))
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		return 97
	}
	return 0
}

// outcome names the errno in err.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

var fileOps = map[string]func(path string) error{
	"read":      func(p string) error { return opened(p, unix.O_RDONLY) },
	"write":     func(p string) error { return opened(p, unix.O_WRONLY) },
	"readwrite": func(p string) error { return opened(p, unix.O_RDWR) },
	"append":    func(p string) error { return opened(p, unix.O_WRONLY|unix.O_APPEND) },
	"trunc":     func(p string) error { return opened(p, unix.O_WRONLY|unix.O_TRUNC) },
	"create":    func(p string) error { return opened(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"tmpfile":   func(p string) error { return opened(p, unix.O_WRONLY|unix.O_TMPFILE) },
	"truncate":  func(p string) error { return unix.Truncate(p, 0) },
	"mkdir":     func(p string) error { return unix.Mkdir(p, 0o777) },
	"rmdir":     unix.Rmdir,
	"unlink":    unix.Unlink,
	"mkfifo":    func(p string) error { return unix.Mkfifo(p, 0o666) },
	"chmod":     func(p string) error { return unix.Chmod(p, 0o755) },
	// The mode that devices have already, so that success does no harm.
	"chmoddev": func(p string) error { return unix.Chmod(p, 0o666) },
	"chown":    func(p string) error { return unix.Chown(p, os.Getuid(), os.Getgid()) },
	"utime":    func(p string) error { return unix.Utimes(p, []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
	"setxattr": func(p string) error { return unix.Setxattr(p, "user.test", []byte("x"), 0) },
	"umount":   func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) },
	"remount":  func(p string) error { return unix.Mount("none", p, "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"tmpfs":    func(p string) error { return unix.Mount("none", p, "tmpfs", 0, "") },
	"mountattr": func(p string) error {
		return unix.MountSetattr(unix.AT_FDCWD, p, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"opentree": func(p string) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return closed(fd, err)
	},
	"list": func(p string) error {
		names, err := os.ReadDir(p)
		if err == nil && len(names) > 0 {
			return fmt.Errorf("%d names", len(names))
		}
		return err
	},
	"size": func(p string) error {
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		return fmt.Errorf("%v %d", info.Mode().Type(), info.Size())
	},
	"unix":     func(p string) error { return dialed("unix", p) },
	"abstract": func(p string) error { return dialed("unix", "@"+p) },
	"tcp":      func(p string) error { return dialed("tcp", p) },
}

func doOp(what string, args []string) error {
	if f := fileOps[what]; f != nil {
		return f(args[0])
	}
	switch what {
	case "rename":
		return unix.Rename(args[0], args[1])
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE)
	case "link":
		return unix.Link(args[0], args[1])
	case "symlink":
		return unix.Symlink(args[0], args[1])
	case "mknod":
		return unix.Mknod(args[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	case "bind":
		return unix.Mount(args[0], args[1], "", unix.MS_BIND, "")
	case "kill":
		return unix.Kill(number(args[0]), 0)
	case "ptrace":
		return unix.PtraceSeize(number(args[0]))
	case "pidfd":
		fd, err := unix.PidfdOpen(number(args[0]), 0)
		return closed(fd, err)
	case "setns":
		fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Setns(fd, 0)
	case "pty":
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			return err
		}
		return opened("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY)
	}
	return fmt.Errorf("no such op: %s", what)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o666)
	return closed(fd, err)
}

func closed(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func dialed(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}
