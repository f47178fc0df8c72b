package policy

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// findOpen finds the real paths of what is writable.
func (p *protector) findOpen() {
	p.open = make([]string, 0, 8)
	for i := range p.r.Grants {
		g := &p.r.Grants[i]
		if g.Access&Write == 0 {
			continue
		}
		path := g.Path
		switch g.Origin {
		case FromUser:
			path = realName(path)
			p.chosen = append(p.chosen, path)
		case FromTmp:
			if path == "/tmp" && mode(path) != syscall.S_IFDIR {
				path = realName(path)
			}
		case FromDevice:
			if path != "/dev/shm" {
				continue
			}
			if mode(path) != syscall.S_IFDIR {
				path = realName(path)
			}
		}
		p.opened(path)
	}
}

// opened adds a writable path.
func (p *protector) opened(path string) {
	for _, dir := range p.open {
		if beneath(path, dir) {
			return
		}
	}
	p.open = slices.DeleteFunc(p.open, func(old string) bool { return beneath(old, path) })
	p.open = append(p.open, path)
}

// realName returns the path that path leads to, or path if it leads nowhere.
func realName(path string) string {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return path
	}
	if real, err := realAny(path, st.Mode); err == nil {
		return real
	}
	return path
}

// root returns the outermost writable folder that path lies in, "" if it lies
// in none.
func (p *protector) root(path string) string {
	for _, dir := range p.open {
		if beneath(path, dir) {
			return dir
		}
	}
	return ""
}

func (p *protector) writable(path string) bool { return p.root(path) != "" }

func (p *protector) note(code, text, hint string) {
	p.notes = append(p.notes, Note{Code: code, Text: oneLine(text), Hint: oneLine(hint)})
}

func (p *protector) add(path string, kind ProtectKind, why string) {
	p.list = append(p.list, Protected{Path: path, Kind: kind, Why: why})
}

// keep protects a path by what is there, or its name if nothing is. It reports
// whether something is.
func (p *protector) keep(path, why string) bool {
	if !p.writable(path) {
		return false
	}
	var st syscall.Stat_t
	switch err := syscall.Lstat(path, &st); err {
	case nil:
		p.found(path, why, &st)
		return true
	case syscall.ENOENT:
		p.add(path, Unborn, why)
	}
	return false
}

// keepIfThere is keep for a name that may come into being.
func (p *protector) keepIfThere(path, why string) {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) == nil {
		p.found(path, why, &st)
	}
}

// keepIn is keep for a path in a folder, of which nobody has looked whether it
// is one.
func (p *protector) keepIn(dir, name, why string) {
	path := dir + name
	switch mode(path) {
	case 0:
		p.add(path, Unborn, why)
	default:
		if mode(dir) == syscall.S_IFDIR {
			p.keep(path, why)
		} else {
			p.keep(dir, why)
		}
	}
}

// compare has a path compared afterwards.
func (p *protector) compare(path, why string) {
	if p.writable(path) {
		p.add(path, Compared, why)
	}
}

// found protects a path that is there. A symbolic link can't be protected,
// since mounts follow it: where it leads is, and the link is compared.
func (p *protector) found(path, why string, st *syscall.Stat_t) {
	if !p.writable(path) {
		return
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		p.freeze(path, why)
		return
	}
	p.compare(path, why)
	p.note("git-partial", display(path)+" is a symbolic link: the command can replace it, which is seen afterwards",
		"put what it leads to in its place")
	if real, err := filepath.EvalSymlinks(path); err == nil && p.writable(real) {
		p.freeze(real, why)
	}
}

// freeze protects a path that is there and is no symbolic link, and pins the
// folders on the way to it. What the user made writable by name stays so.
func (p *protector) freeze(path, why string) {
	for _, name := range p.chosen {
		if name == path {
			return
		}
		if beneath(name, path) {
			p.add(name, Reopened, "granted by name")
		}
	}
	p.add(path, Frozen, why)
	p.pin(path)
}

// pin keeps the folders above path from being renamed. The folder that a grant
// opens lies in one that isn't writable.
func (p *protector) pin(path string) {
	root := p.root(path)
	if root == "" || root == path {
		return
	}
	i := len(root) + 1
	if root == "/" {
		i = 1
	}
	for {
		n := strings.IndexByte(path[i:], '/')
		if n < 0 {
			return
		}
		i += n
		p.add(path[:i], Pinned, whyOnTheWay)
		i++
	}
}

// sorted returns the list with folders before what is in them, without what is
// in it twice or lies in something frozen anyway.
func (p *protector) sorted() []Protected {
	slices.SortFunc(p.list, func(a, b Protected) int {
		if c := comparePaths(a.Path, b.Path); c != 0 {
			return c
		}
		return mountRank(a.Kind) - mountRank(b.Kind)
	})
	out := p.list[:0]
	var around []Protected // mounts that hold the present path
	for _, e := range p.list {
		for len(around) > 0 && !beneath(e.Path, around[len(around)-1].Path) {
			around = around[:len(around)-1]
		}
		frozen := false
		if n := len(around); n > 0 {
			last := &around[n-1]
			if last.Path == e.Path && (mountRank(e.Kind) < rankCompared || last.Kind == Frozen) {
				continue // the first one is the strongest
			}
			frozen = last.Kind == Frozen
		}
		if frozen && e.Kind != Reopened {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Path == e.Path && out[n-1].Kind == e.Kind {
			continue
		}
		out = append(out, e)
		if mountRank(e.Kind) < rankCompared {
			around = append(around, e)
		}
	}
	return out
}

// comparePaths orders paths so that what is in a folder follows it at once.
func comparePaths(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(a) || i == len(b):
		return len(a) - len(b)
	case a[i] == '/':
		return -1
	case b[i] == '/':
		return 1
	}
	return int(a[i]) - int(b[i])
}

// Ranks of what is not mounted.
const (
	rankCompared = 4
	rankUnborn   = 5
)

// mountRank orders kinds for one path: the first one holds most.
func mountRank(kind ProtectKind) int {
	switch kind {
	case Frozen:
		return 1
	case Reopened:
		return 2
	case Pinned:
		return 3
	case Compared:
		return rankCompared
	}
	return rankUnborn
}

// join returns the path of a name in a folder.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
