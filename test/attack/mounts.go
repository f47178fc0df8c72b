package attack

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountAttacks make a user namespace, which gives every capability in it, and
// use them.
var mountAttacks = []fileAttack{
	{"userns-write", func(p place) error { return p.inNamespace("as-write") }},
	{"userns-bind", func(p place) error { return p.inNamespace("as-bind") }},
	{"userns-overlay", func(p place) error { return p.inNamespace("as-overlay") }},
	{"userns-overlay-detached", func(p place) error { return p.inNamespace("as-overlay-detached") }},
	{"userns-overlay-workdir", func(p place) error { return p.inNamespace("as-overlay-workdir") }},
	{"userns-tree", func(p place) error { return p.inNamespace("as-tree") }},
	{"userns-tree-move", func(p place) error { return p.inNamespace("as-tree-move") }},
	{"userns-pivot-root", func(p place) error { return p.inNamespace("as-pivot-root") }},
	{"userns-chroot", func(p place) error { return p.inNamespace("as-chroot") }},
	{"userns-handle", func(p place) error { return p.inNamespace("as-handle") }},
}

// inNamespace does one attack in new user and mount namespaces. Its ids are not
// mapped, as the map is a file outside; the capabilities survive the exec by
// being ambient.
func (p place) inNamespace(name string) error {
	err := p.inChild(name, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH},
	})
	var op *opError
	if errors.As(err, &op) && op.op == "start" {
		return skipError("no user namespace can be made: " + op.err.Error())
	}
	return err
}

var asMountAttacks = []fileAttack{
	{"as-write", func(p place) error { return openWrite(p.at("file"), unix.O_WRONLY) }},
	{"as-bind", func(p place) error {
		m := p.mine("m")
		if err := os.Mkdir(m, 0o755); err != nil {
			return do("mkdir own", err)
		}
		if err := unix.Mount(p.dir, m, "", unix.MS_BIND, ""); err != nil {
			return do("mount", err)
		}
		return openWrite(m+"/file", unix.O_WRONLY)
	}},
	{"as-overlay", func(p place) error {
		m, err := p.overlayDirs()
		if err != nil {
			return err
		}
		options := "userxattr,lowerdir=" + p.mine("lower") + ",upperdir=" + p.at("sub") + ",workdir=" + p.at("empty")
		if err := unix.Mount("overlay", m, "overlay", 0, options); err != nil {
			return do("mount", err)
		}
		return openWrite(m+"/file", unix.O_WRONLY)
	}},
	{"as-overlay-detached", func(p place) error {
		if err := os.Mkdir(p.mine("work"), 0o755); err != nil {
			return do("mkdir own", err)
		}
		m, err := p.detachedOverlay(p.at("sub"), p.mine("work"))
		if err != nil {
			return err
		}
		fd, err := unix.Openat(m, "file", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("openat", err)
		}
		return write(fd)
	}},
	// The kernel clears the folder "work" in an overlay's working directory.
	{"as-overlay-workdir", func(p place) error {
		_, err := p.detachedOverlay(p.at("empty"), p.at("deep"))
		if _, gone := os.Stat(p.at("deep/work/file")); gone == nil {
			return err
		}
		return nil // it is gone, or its folder is another one now
	}},
	{"as-tree", func(p place) error {
		m, err := unix.OpenTree(unix.AT_FDCWD, p.dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return do("open_tree", err)
		}
		fd, err := unix.Openat(m, "file", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("openat", err)
		}
		return write(fd)
	}},
	{"as-tree-move", func(p place) error {
		if err := os.Mkdir(p.mine("m"), 0o755); err != nil {
			return do("mkdir own", err)
		}
		m, err := unix.OpenTree(unix.AT_FDCWD, p.dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return do("open_tree", err)
		}
		if err := unix.MoveMount(m, "", unix.AT_FDCWD, p.mine("m"), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return do("move_mount", err)
		}
		return openWrite(p.mine("m")+"/file", unix.O_WRONLY)
	}},
	{"as-pivot-root", func(p place) error { return do("pivot_root", unix.PivotRoot(p.own, p.own)) }},
	{"as-chroot", func(p place) error {
		if err := unix.Chroot(p.dir); err != nil {
			return do("chroot", err)
		}
		return openWrite("/file", unix.O_WRONLY)
	}},
	{"as-handle", func(p place) error {
		for _, a := range detourAttacks {
			if a.name == "open-by-handle" {
				return a.run(p)
			}
		}
		return errors.New("no attack by handle")
	}},
}

// detachedOverlay makes an overlay that is mounted nowhere.
func (p place) detachedOverlay(upper, work string) (int, error) {
	if _, err := p.overlayDirs(); err != nil {
		return 0, err
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, do("fsopen", err)
	}
	for _, o := range [][2]string{{"lowerdir", p.mine("lower")}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return 0, do("fsconfig", err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return 0, do("fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return 0, do("fsconfig create", err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	return m, do("fsmount", err)
}

// overlayDirs makes the folders that an overlay needs besides p's, and returns
// where it is to be mounted.
func (p place) overlayDirs() (string, error) {
	for _, name := range []string{"lower", "m"} {
		if err := os.Mkdir(p.mine(name), 0o755); err != nil {
			return "", do("mkdir own", err)
		}
	}
	return p.mine("m"), nil
}
