package policy

import (
	"errors"
	"strings"
	"syscall"
)

// mountPoint is a line of the list of mounts.
type mountPoint struct {
	dev string // of the file system
	// root is the folder, or file, of that file system that is seen at path.
	root, path string
}

// aliases covers what is frozen where it is seen a second time, too: a rule of
// Landlock's goes by the file, a mount by the name. Names can't be changed
// there, since a mount point keeps its name wherever it is seen.
func (p *protector) aliases() {
	var mounts []mountPoint
	for _, e := range p.list { // which grows
		if e.Kind != Frozen && e.Kind != Reopened {
			continue
		}
		if mounts == nil {
			if mounts = readMounts(); len(mounts) == 0 {
				return
			}
		}
		at := mountOf(mounts, e.Path)
		if at < 0 {
			continue
		}
		inside := moved(e.Path, mounts[at].path, mounts[at].root)
		for i, m := range mounts {
			if i == at || m.dev != mounts[at].dev {
				continue
			}
			if path := aliasOf(m, inside, e.Kind); path != "" && path != e.Path && sameFile(path, e.Path, m.root, inside) {
				p.add(path, e.Kind, e.Why)
			}
		}
	}
}

// readMounts returns the mounts that this process sees; nil if there is no way
// to know. It reads as much at once as it can: the kernel makes the list anew
// for each piece.
func readMounts() []mountPoint {
	fd, err := openFile("/proc/self/mountinfo", syscall.O_RDONLY)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	buf := make([]byte, 16<<10)
	for n := 0; ; {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		switch m, err := syscall.Read(fd, buf[n:]); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || m <= 0:
			return parseMounts(string(buf[:n]))
		default:
			n += m
		}
	}
}

// aliasOf returns where a path inside a file system is seen at a mount of it,
// "" if it isn't. Of a frozen folder a part may be.
func aliasOf(m mountPoint, inside string, kind ProtectKind) string {
	switch {
	case beneath(inside, m.root):
		return moved(inside, m.root, m.path)
	case kind == Frozen && beneath(m.root, inside):
		return m.path
	}
	return ""
}

// moved returns a path in the folder from as it is in the folder to.
func moved(path, from, to string) string {
	rest := strings.TrimPrefix(path[len(from):], "/")
	if rest == "" {
		return to
	}
	return join(to, rest)
}

// sameFile reports whether an alias shows what it is to show, and not something
// that is mounted over it.
func sameFile(alias, path, root, inside string) bool {
	if len(root) > len(inside) {
		path = moved(root, inside, path)
	}
	var a, b syscall.Stat_t
	return syscall.Lstat(alias, &a) == nil && syscall.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// mountOf returns the index of the mount that a real path is on, -1 if it is
// unknown.
func mountOf(mounts []mountPoint, path string) int {
	best := -1
	for i := range mounts {
		if m := &mounts[i]; (best < 0 || len(m.path) >= len(mounts[best].path)) && beneath(path, m.path) {
			best = i
		}
	}
	return best
}

// parseMounts reads the form of /proc/PID/mountinfo; see proc(5).
func parseMounts(text string) []mountPoint {
	mounts := make([]mountPoint, 0, 64)
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		_, line, _ = strings.Cut(line, " ")
		_, line, _ = strings.Cut(line, " ")
		dev, line, _ := strings.Cut(line, " ")
		root, line, _ := strings.Cut(line, " ")
		path, _, ok := strings.Cut(line, " ")
		if ok {
			mounts = append(mounts, mountPoint{dev, unescapeMount(root), unescapeMount(path)})
		}
	}
	return mounts
}

// unescapeMount puts back the bytes that the list has as three octal digits.
func unescapeMount(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			b = append(b, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }
