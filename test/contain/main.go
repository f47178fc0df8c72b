// Command contain runs a command as in a container of an engine that isn't
// there, for tests: under the seccomp filter that Docker or Podman has by
// default, and without any capability.
//
//	contain [-profile docker|podman] [-deny NAMES] [-uid N] [-read-only] [-write DIR]
//	        [-no-proc] [-no-sys] -- command [arg...]
//
// The profiles are those in the folder profiles. -deny takes more system calls
// away, names separated by commas: older profiles don't know Landlock. With
// -read-only nothing but /tmp, /dev/shm (both new, unless given), /dev and the
// folders given by -write can be written to; with -no-proc and -no-sys these file systems aren't
// mounted. The command runs as user and group N, 0 without it, and in no other
// groups.
//
// It needs root, and changes mounts in a namespace of its own only. Unlike in a
// container there are no namespaces for processes, users and the network, and the
// files are this machine's. It exits as the command does, with 127 if that was not
// found, 126 if it can't be executed, and 125 if contain itself fails.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	code, err := run(os.Args[1:])
	fmt.Fprintln(os.Stderr, "contain:", err) // else there is a command now
	os.Exit(code)
}

// writable is a list of folders.
type writable []string

// String is for package flag.
func (w *writable) String() string { return strings.Join(*w, ",") }

// Set is for package flag.
func (w *writable) Set(dir string) error {
	*w = append(*w, dir)
	return nil
}

type options struct {
	profile                 string
	deny                    string
	uid                     int
	readOnly, noProc, noSys bool
	write                   writable
}

// run becomes the command. It returns only with an exit code and an error.
func run(args []string) (int, error) {
	var o options
	set := flag.NewFlagSet("contain", flag.ContinueOnError)
	set.StringVar(&o.profile, "profile", "docker", "docker or podman")
	set.StringVar(&o.deny, "deny", "", "system calls that fail, too")
	set.IntVar(&o.uid, "uid", 0, "user and group")
	set.BoolVar(&o.readOnly, "read-only", false, "a root that can't be written to")
	set.Var(&o.write, "write", "`DIR` that can")
	set.BoolVar(&o.noProc, "no-proc", false, "no /proc")
	set.BoolVar(&o.noSys, "no-sys", false, "no /sys")
	if err := set.Parse(args); err != nil {
		return 2, err
	}
	if set.NArg() == 0 {
		return 2, errors.New("which command?")
	}
	path, err := exec.LookPath(set.Arg(0))
	if err != nil {
		return 127, err
	}
	p, err := readProfile(o.profile)
	if err != nil {
		return 2, err
	}
	filter, err := p.compile(strings.FieldsFunc(o.deny, func(r rune) bool { return r == ',' }))
	if err != nil {
		return 125, err
	}
	runtime.LockOSThread() // all of this is about one thread, which becomes the command
	if err := errors.Join(o.mounts(), o.privileges(filter)); err != nil {
		return 125, err
	}
	err = syscall.Exec(path, set.Args(), os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return 127, err
	}
	return 126, err
}

// mounts makes the file systems what the options say.
func (o options) mounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	if o.readOnly {
		for _, dir := range o.write {
			if err := mount(dir, dir, "", unix.MS_BIND|unix.MS_REC); err != nil {
				return err
			}
		}
		if err := setReadOnly("/", true); err != nil {
			return err
		}
		for _, dir := range append(o.write, "/dev") {
			if err := setReadOnly(dir, false); err != nil {
				return err
			}
		}
		for _, dir := range []string{"/tmp", "/dev/shm"} {
			if slices.Contains(o.write, dir) {
				continue
			}
			if err := mount("tmpfs", dir, "tmpfs", 0); err != nil {
				return err
			}
		}
	}
	for dir, not := range map[string]bool{"/proc": o.noProc, "/sys": o.noSys} {
		for not {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				break // it isn't mounted any more
			}
		}
	}
	return nil
}

func mount(from, to, kind string, flags uintptr) error {
	if err := unix.Mount(from, to, kind, flags, ""); err != nil {
		return &os.PathError{Op: "mount", Path: to, Err: err}
	}
	return nil
}

// setReadOnly changes the mount at dir and those beneath.
func setReadOnly(dir string, on bool) error {
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if on {
		attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, dir, unix.AT_RECURSIVE, &attr); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: dir, Err: err}
	}
	return nil
}

// privileges takes them away, and puts the filter on this thread in between: it
// takes a capability.
func (o options) privileges(filter []unix.SockFilter) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("prctl", err)
		}
	}
	if err := install(filter); err != nil {
		return os.NewSyscallError("seccomp", err)
	}
	// By system calls of this thread alone: there is no going on with others.
	for _, call := range [][2]uintptr{{unix.SYS_SETGROUPS, 0}, {unix.SYS_SETGID, uintptr(o.uid)}, {unix.SYS_SETUID, uintptr(o.uid)}} {
		if _, _, e := syscall.RawSyscall(call[0], call[1], 0, 0); e != 0 {
			return os.NewSyscallError("setuid", e)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return os.NewSyscallError("capset", unix.Capset(&head, &none[0]))
}
