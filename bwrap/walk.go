package bwrap

import (
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links in a path, as the kernel does.
const maxLinks = 40

// place is what a path leads to.
type place struct {
	path string // without symbolic links
	stat syscall.Stat_t
	// links are the symbolic links on the way, in order.
	links []Link
}

func (p *place) mode() uint32 { return p.stat.Mode & syscall.S_IFMT }
func (p *place) dir() bool    { return p.mode() == syscall.S_IFDIR }

// walk follows an absolute path. It stops before it would follow a link in
// /proc: those of a process lead somewhere else for every process that follows
// them. The error is a [syscall.Errno].
func walk(path string) (*place, error) {
	p := &place{path: "/"}
	rest := path
	for {
		var name string
		name, rest = firstPart(rest)
		switch name {
		case "":
			if p.stat.Ino == 0 {
				return p, lstat(p.path, &p.stat)
			}
			return p, nil
		case ".":
			continue
		case "..":
			p.path = parentDir(p.path)
			p.stat = syscall.Stat_t{}
			continue
		}
		next := join(p.path, name)
		if err := lstat(next, &p.stat); err != nil {
			return p, err
		}
		if p.mode() != syscall.S_IFLNK || beneath(next, "/proc") {
			p.path = next
			if p.mode() == syscall.S_IFLNK {
				p.path = join(next, rest)
				return p, nil
			}
			continue
		}
		target, err := readlink(next)
		if err != nil {
			return p, err
		}
		if len(p.links) == maxLinks {
			return p, syscall.ELOOP
		}
		p.links = append(p.links, Link{Path: next, Target: target})
		if target[0] == '/' {
			p.path = "/"
		}
		p.stat = syscall.Stat_t{}
		rest = target + "/" + rest
	}
}

// firstPart cuts the first part off a path. It is empty at the end.
func firstPart(path string) (first, rest string) {
	path = strings.TrimLeft(path, "/")
	first, rest, _ = strings.Cut(path, "/")
	return first, rest
}

func join(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "/":
		return "/" + name
	}
	return dir + "/" + name
}

// parentDir returns the folder that holds a clean absolute path.
func parentDir(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func lstat(path string, st *syscall.Stat_t) error {
	for {
		if err := syscall.Lstat(path, st); err != syscall.EINTR {
			return err
		}
	}
}

func readlink(path string) (string, error) {
	var buf [4096]byte
	n, err := syscall.Readlink(path, buf[:])
	if err != nil {
		return "", err
	}
	if n == 0 || n == len(buf) {
		return "", syscall.ENAMETOOLONG
	}
	return string(buf[:n]), nil
}
