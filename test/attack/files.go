package attack

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openWrite opens a file and writes to it.
func openWrite(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return do("open", err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("x"))
	return do("write", err)
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openAttacks change what is in a file, or make one, by opening it.
var openAttacks = []fileAttack{
	{"open-wronly", func(p place) error { return openWrite(p.at("file"), unix.O_WRONLY) }},
	{"open-rdwr", func(p place) error { return openWrite(p.at("file"), unix.O_RDWR) }},
	{"open-append", func(p place) error { return openWrite(p.at("file"), unix.O_WRONLY|unix.O_APPEND) }},
	{"open-trunc", func(p place) error { return openWrite(p.at("file"), unix.O_WRONLY|unix.O_TRUNC) }},
	{"open-rdonly-trunc", func(p place) error {
		fd, err := unix.Open(p.at("file"), unix.O_RDONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("open", err)
		}
		return unix.Close(fd)
	}},
	{"open-creat", func(p place) error { return openWrite(p.at("file"), unix.O_WRONLY|unix.O_CREAT) }},
	{"open-creat-new", func(p place) error { return openWrite(p.at("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) }},
	{"open-creat-rdonly", func(p place) error {
		fd, err := unix.Open(p.at("new"), unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return do("open", err)
		}
		return unix.Close(fd)
	}},
	{"openat2", func(p place) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, p.at("file"), &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CLOEXEC})
		if err != nil {
			return do("openat2", err)
		}
		return unix.Close(fd)
	}},
	{"creat", func(p place) error {
		fd, err := unix.Creat(p.at("file"), 0o644)
		if err != nil {
			return do("creat", err)
		}
		return unix.Close(fd)
	}},
	{"tmpfile", func(p place) error { return openWrite(p.dir, unix.O_TMPFILE|unix.O_WRONLY) }},
	{"tmpfile-linkat", func(p place) error {
		fd, err := unix.Open(p.own, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return do("open own", err)
		}
		defer unix.Close(fd)
		return do("linkat", unix.Linkat(unix.AT_FDCWD, fdPath(fd), unix.AT_FDCWD, p.at("new"), unix.AT_SYMLINK_FOLLOW))
	}},
	{"truncate", func(p place) error { return do("truncate", unix.Truncate(p.at("file"), 0)) }},
	{"ftruncate", func(p place) error {
		fd, err := p.target()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do("ftruncate", unix.Ftruncate(fd, 0))
	}},
	{"ftruncate-reopened", func(p place) error {
		return reopened(p.at("file"), unix.O_RDONLY, unix.O_WRONLY, func(fd int) error {
			return do("ftruncate", unix.Ftruncate(fd, 0))
		})
	}},
}

// reopened opens a file, opens its descriptor again by name, and calls f.
func reopened(path string, first, second int, f func(fd int) error) error {
	fd, err := unix.Open(path, first|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open first", err)
	}
	defer unix.Close(fd)
	again, err := unix.Open(fdPath(fd), second|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open", err)
	}
	defer unix.Close(again)
	return f(again)
}

// target opens p's file for writing, or, where that is refused, for reading.
func (p place) target() (int, error) {
	fd, err := unix.Open(p.at("file"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		fd, err = unix.Open(p.at("file"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	return fd, do("open", err)
}

// ownFile makes a file with content in p's own folder.
func (p place) ownFile(name string) (string, error) {
	path := p.mine(name)
	return path, do("write own", os.WriteFile(path, []byte("attack\n"), 0o600))
}

// renameOp renames with flags.
func renameOp(from, to string, flags uint) error {
	return do("rename", unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags))
}

// treeAttacks change which names there are.
var treeAttacks = []fileAttack{
	{"rename", func(p place) error { return renameOp(p.at("file"), p.at("new"), 0) }},
	{"rename-over", func(p place) error { return renameOp(p.at("other"), p.at("file"), 0) }},
	{"rename-dir", func(p place) error { return renameOp(p.at("sub"), p.at("new"), 0) }},
	{"rename-away", func(p place) error { return renameOp(p.at("file"), p.mine("new"), 0) }},
	{"rename-dir-away", func(p place) error { return renameOp(p.at("sub"), p.mine("new"), 0) }},
	{"rename-here", func(p place) error {
		own, err := p.ownFile("own")
		if err != nil {
			return err
		}
		return renameOp(own, p.at("file"), 0)
	}},
	{"exchange", func(p place) error { return renameOp(p.at("file"), p.at("other"), unix.RENAME_EXCHANGE) }},
	{"exchange-own", func(p place) error {
		own, err := p.ownFile("own")
		if err != nil {
			return err
		}
		return renameOp(own, p.at("file"), unix.RENAME_EXCHANGE)
	}},
	{"exchange-dir", func(p place) error {
		if err := os.Mkdir(p.mine("own"), 0o755); err != nil {
			return do("mkdir own", err)
		}
		return renameOp(p.mine("own"), p.at("sub"), unix.RENAME_EXCHANGE)
	}},
	{"link", func(p place) error { return do("link", unix.Link(p.at("file"), p.at("new"))) }},
	{"link-away", func(p place) error {
		if err := do("link", unix.Link(p.at("file"), p.mine("new"))); err != nil {
			return err
		}
		return openWrite(p.mine("new"), unix.O_WRONLY)
	}},
	{"link-here", func(p place) error {
		own, err := p.ownFile("own")
		if err != nil {
			return err
		}
		return do("link", unix.Link(own, p.at("new")))
	}},
	{"symlink", func(p place) error { return do("symlink", unix.Symlink("file", p.at("new"))) }},
	{"symlink-through", func(p place) error {
		if err := do("symlink own", unix.Symlink(p.at("file"), p.mine("link"))); err != nil {
			return err
		}
		return openWrite(p.mine("link"), unix.O_WRONLY|unix.O_TRUNC)
	}},
	{"symlink-through-creat", func(p place) error {
		if err := do("symlink own", unix.Symlink(p.at("new"), p.mine("link"))); err != nil {
			return err
		}
		return openWrite(p.mine("link"), unix.O_WRONLY|unix.O_CREAT)
	}},
	{"symlink-through-dir", func(p place) error {
		if err := do("symlink own", unix.Symlink(p.dir, p.mine("link"))); err != nil {
			return err
		}
		return do("unlink", unix.Unlink(p.mine("link")+"/file"))
	}},
	{"mkdir", func(p place) error { return do("mkdir", unix.Mkdir(p.at("new"), 0o755)) }},
	{"rmdir", func(p place) error { return do("rmdir", unix.Rmdir(p.at("empty"))) }},
	{"unlink", func(p place) error { return do("unlink", unix.Unlink(p.at("file"))) }},
	{"mknod-regular", func(p place) error { return do("mknod", unix.Mknod(p.at("new"), unix.S_IFREG|0o644, 0)) }},
	{"mknod-fifo", func(p place) error { return do("mknod", unix.Mknod(p.at("new"), unix.S_IFIFO|0o644, 0)) }},
	{"mknod-socket", func(p place) error { return do("mknod", unix.Mknod(p.at("new"), unix.S_IFSOCK|0o644, 0)) }},
	{"mknod-char", func(p place) error {
		return do("mknod", unix.Mknod(p.at("new"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))))
	}},
	{"mknod-block", func(p place) error {
		return do("mknod", unix.Mknod(p.at("new"), unix.S_IFBLK|0o644, int(unix.Mkdev(7, 200))))
	}},
	{"bind-socket", func(p place) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return do("socket", err)
		}
		defer unix.Close(fd)
		return do("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: p.at("new")}))
	}},
}

// transferAttacks write to a descriptor by other calls than write.
var transferAttacks = []fileAttack{
	{"pwrite", func(p place) error {
		return p.onto(func(fd int) error {
			_, err := unix.Pwrite(fd, []byte("x"), 0)
			return do("pwrite", err)
		})
	}},
	{"fallocate", func(p place) error {
		return p.onto(func(fd int) error { return do("fallocate", unix.Fallocate(fd, 0, 0, 4096)) })
	}},
	{"copy-file-range", func(p place) error {
		return p.copyFrom("copy_file_range", func(from, to int) error {
			_, err := unix.CopyFileRange(from, nil, to, nil, 4, 0)
			return err
		})
	}},
	{"sendfile", func(p place) error {
		return p.copyFrom("sendfile", func(from, to int) error {
			_, err := unix.Sendfile(to, from, nil, 4)
			return err
		})
	}},
	{"splice", func(p place) error {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return do("pipe", err)
		}
		defer unix.Close(pipe[0])
		_, err := unix.Write(pipe[1], []byte("attack"))
		_ = unix.Close(pipe[1])
		if err != nil {
			return do("write pipe", err)
		}
		return p.onto(func(fd int) error {
			_, err := unix.Splice(pipe[0], nil, fd, nil, 4, 0)
			return do("splice", err)
		})
	}},
	{"mmap-shared", func(p place) error {
		return p.onto(func(fd int) error {
			b, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return do("mmap", err)
			}
			b[0] = 'x'
			return do("munmap", unix.Munmap(b))
		})
	}},
	{"mmap-mprotect", func(p place) error {
		return p.onto(func(fd int) error {
			b, err := unix.Mmap(fd, 0, 4, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				return do("mmap", err)
			}
			if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
				return do("mprotect", err)
			}
			b[0] = 'x'
			return do("munmap", unix.Munmap(b))
		})
	}},
}

// onto calls f with [place.target].
func (p place) onto(f func(fd int) error) error {
	fd, err := p.target()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// copyFrom calls f with a file of p's own and [place.target].
func (p place) copyFrom(op string, f func(from, to int) error) error {
	own, err := p.ownFile("own")
	if err != nil {
		return err
	}
	from, err := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open own", err)
	}
	defer unix.Close(from)
	return p.onto(func(to int) error { return do(op, f(from, to)) })
}
