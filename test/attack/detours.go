package attack

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// detourAttacks reach a file by another way than its path.
var detourAttacks = []fileAttack{
	{"proc-self-fd", func(p place) error {
		return reopened(p.at("file"), unix.O_RDONLY, unix.O_RDWR, write)
	}},
	{"proc-self-fd-path", func(p place) error {
		return reopened(p.at("file"), unix.O_PATH, unix.O_RDWR, write)
	}},
	{"proc-self-root", func(p place) error { return openWrite("/proc/self/root"+p.at("file"), unix.O_WRONLY) }},
	{"proc-self-cwd", func(p place) error {
		return inside(p.dir, func() error { return openWrite("/proc/self/cwd/file", unix.O_WRONLY) })
	}},
	{"relative", func(p place) error {
		return inside(p.dir, func() error { return openWrite("file", unix.O_WRONLY) })
	}},
	{"dir-descriptor", func(p place) error {
		return throughDir(p.dir, unix.O_RDONLY, "file")
	}},
	{"dir-descriptor-path", func(p place) error {
		return throughDir(p.dir, unix.O_PATH, "file")
	}},
	{"dot-dot", func(p place) error {
		rel, err := filepath.Rel(p.own, p.at("file"))
		if err != nil {
			return err
		}
		return inside(p.own, func() error { return openWrite(rel, unix.O_WRONLY) })
	}},
	{"open-by-handle", func(p place) error {
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p.at("file"), 0)
		if err != nil {
			return do("name_to_handle_at", err)
		}
		mount, err := unix.Open(p.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("open folder", err)
		}
		defer unix.Close(mount)
		fd, err := unix.OpenByHandleAt(mount, handle, unix.O_WRONLY|unix.O_CLOEXEC)
		if err != nil {
			return do("open_by_handle_at", err)
		}
		defer unix.Close(fd)
		return write(fd)
	}},
}

// btrfsAttacks make folders by calls that only one file system has.
var btrfsAttacks = []fileAttack{
	{"btrfs-subvolume", func(p place) error {
		return p.onBtrfs(func(fd int) error { return do("ioctl", btrfsSubvolume(fd, "new")) })
	}},
	{"btrfs-snapshot", func(p place) error {
		if err := p.onBtrfs(func(fd int) error { return do("ioctl subvolume", btrfsSubvolume(fd, "from")) }); err != nil {
			return err
		}
		return p.onBtrfs(func(fd int) error {
			from, err := unix.Open(p.at("from"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return do("open", err)
			}
			defer unix.Close(from)
			return do("ioctl snapshot", btrfsSnapshot(fd, from, "new"))
		})
	}},
}

// onBtrfs calls f with p's folder, if that is on btrfs.
func (p place) onBtrfs(f func(fd int) error) error {
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return do("statfs", err)
	}
	if st.Type != unix.BTRFS_SUPER_MAGIC {
		return skipError("not on btrfs")
	}
	fd, err := unix.Open(p.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open folder", err)
	}
	defer unix.Close(fd)
	return f(fd)
}

func write(fd int) error {
	_, err := unix.Write(fd, []byte("x"))
	return do("write", err)
}

// throughDir opens a file relative to a descriptor of its folder.
func throughDir(dir string, flags int, name string) error {
	fd, err := unix.Open(dir, flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open folder", err)
	}
	defer unix.Close(fd)
	file, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("openat", err)
	}
	defer unix.Close(file)
	return write(file)
}

// inside calls f with dir as the working directory.
func inside(dir string, f func() error) error {
	back, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open .", err)
	}
	defer unix.Close(back)
	if err := unix.Chdir(dir); err != nil {
		return do("chdir", err)
	}
	err = f()
	if back := unix.Fchdir(back); err == nil {
		err = do("fchdir", back)
	}
	return err
}
