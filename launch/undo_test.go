package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// undo tries to get at a covered file and a covered folder, by their mounts and
// by those of a process outside, and prints what came of it. Nested, it does so
// in namespaces of its own, with every capability in them.
func undo(args []string) int {
	file, folder, host := args[0], args[1], args[2]
	// A thread may be left in another namespace: it must not be used again.
	runtime.LockOSThread()
	pid, _ := strconv.Atoi(host)
	proc := "/proc/" + host
	opened := func(fd int, err error) error {
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	clearReadOnly := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	tree := func(path string, flags uint) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if flags&unix.OPEN_TREE_CLONE != 0 {
			if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, clearReadOnly); err != nil {
				return err
			}
		}
		return opened(unix.Openat(fd, "config", unix.O_WRONLY, 0))
	}
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error { return opened(unix.Open(file, unix.O_WRONLY, 0)) }},
		{"write in the folder", func() error { return opened(unix.Open(folder+"/new", unix.O_WRONLY|unix.O_CREAT, 0o600)) }},
		{"umount", func() error { return unix.Unmount(file, 0) }},
		{"umount lazily", func() error { return unix.Unmount(file, unix.MNT_DETACH) }},
		{"umount the folder", func() error { return unix.Unmount(folder, unix.MNT_DETACH) }},
		{"remount", func() error { return unix.Mount("", file, "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"bind", func() error { return unix.Mount("/tmp", folder, "", unix.MS_BIND, "") }},
		{"move", func() error { return unix.Mount(folder, "/tmp", "", unix.MS_MOVE, "") }},
		{"propagate", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") }},
		{"mount_setattr", func() error { return unix.MountSetattr(unix.AT_FDCWD, file, 0, clearReadOnly) }},
		{"mount_setattr of all", func() error { return unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, clearReadOnly) }},
		{"open_tree", func() error {
			return tree(strings.TrimSuffix(file, "/config"), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		}},
		{"open_tree as it is", func() error { return tree(strings.TrimSuffix(file, "/config"), unix.OPEN_TREE_CLOEXEC) }},
		{"move_mount", func() error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return unix.MoveMount(fd, "", unix.AT_FDCWD, "/dev/null", unix.MOVE_MOUNT_F_EMPTY_PATH)
		}},
		{"fsmount", func() error {
			fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return opened(unix.Fsmount(fd, 0, 0))
		}},
		{"another's root", func() error { return opened(unix.Open(proc+"/root"+file, unix.O_WRONLY, 0)) }},
		{"another's folder", func() error { return opened(unix.Open(proc+"/cwd/../"+file, unix.O_WRONLY, 0)) }},
		{"another's descriptor", func() error { return opened(unix.Open(proc+"/fd/0", unix.O_RDWR, 0)) }},
		{"another's namespace", func() error {
			fd, err := unix.Open(proc+"/ns/mnt", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return unix.Setns(fd, unix.CLONE_NEWNS)
		}},
		{"setns by pidfd", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return unix.Setns(fd, unix.CLONE_NEWNS)
		}},
		{"pidfd_getfd", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return opened(unix.PidfdGetfd(fd, 0, 0))
		}},
		{"ptrace", func() error { return unix.PtraceSeize(pid) }},
		{"chroot", func() error {
			if err := unix.Chroot("/tmp"); err != nil {
				return err
			}
			defer func() { _ = unix.Chroot(".") }()
			return opened(unix.Open(file, unix.O_WRONLY, 0))
		}},
	} {
		var errno syscall.Errno
		if err := try.do(); errors.As(err, &errno) {
			continue
		} else if err != nil {
			fmt.Println(try.name, err)
			continue
		}
		fmt.Println("done:", strings.Join(args[3:], " "), try.name)
	}
	if len(args) > 3 {
		return 0
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var all []uintptr
	for i := range policy.Capabilities() {
		all = append(all, uintptr(i))
	}
	c := exec.Command(self, append(args, "nested")...)
	c.Env = append(os.Environ(), "SHOFER_TEST_HELPER=undo")
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, AmbientCaps: all,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := c.Run(); err != nil {
		fmt.Println("not nested") // /proc can't be written to
		c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = nil, nil
		n := exec.Command(self, append(args, "nested, unmapped")...)
		n.Env, n.Stdout, n.Stderr, n.SysProcAttr = c.Env, os.Stdout, os.Stdout, c.SysProcAttr
		if err := n.Run(); err != nil {
			fmt.Println("not nested at all")
		}
	}
	return 0
}

// TestUndo: what is covered can't be uncovered from inside.
func TestUndo(t *testing.T) {
	needLayer(t)
	for _, backend := range []launch.Backend{launch.BackendMountns, launch.BackendBwrap} {
		for _, caps := range [][]string{nil, {policy.CapsAll}} {
			if caps != nil && (os.Getuid() != 0 || backend == launch.BackendBwrap) {
				continue // it has none; with them bubblewrap promises nothing
			}
			if backend == launch.BackendBwrap && !bwrap.Probe(t.Context(), "").Usable() {
				testenv.Skip(t, "needs bubblewrap")
			}
			repo := testenv.Self().NewRepo(t)
			p := workspace(repo.Dir)
			p.NoCache, p.Caps = true, caps
			s, err := launch.Prepare(p, launch.Options{Backend: backend, Environ: testenv.GitEnv(repo.Home)})
			if err != nil {
				t.Fatal(err)
			}
			helper := testenv.Helper(t, "undo")
			c := s.Command(helper.Path, repo.Dir+"/.git/config", repo.Dir+"/.git/hooks", strconv.Itoa(os.Getpid()))
			c.Env = append(c.Environ(), helper.Env[slices.IndexFunc(helper.Env, isHelper)])
			c.Dir = repo.Dir
			out, err := c.CombinedOutput()
			if caps != nil {
				// Some of it succeeds, and that is said.
				if f := held(t, s, policy.PromiseProtect); f.State != policy.VerifiedAfter || !strings.Contains(f.Why, "sys_admin") {
					t.Errorf("with all capabilities protect is %s: %s", f.State, f.Why)
				}
			} else if err != nil || strings.Contains(string(out), "done:") {
				t.Errorf("%s, capabilities %v: %v\n%s", backend, caps, err, out)
			} else if len(out) > 0 {
				t.Logf("%s, capabilities %v: %s", backend, caps, out)
			}
			if len(c.Tampered) > 0 {
				t.Errorf("%s: tampered: %v", backend, c.Tampered)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
