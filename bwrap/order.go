package bwrap

import (
	"cmp"
	"slices"
	"strings"
)

// view is what a place in the sandbox shows.
type view uint8

const (
	blank   view = iota // a new folder that can't be written to
	scratch             // a new folder that can
	outside             // what is there outside, read-only
	open                // what is there outside
	devices             // the same, and devices work
)

// made reports whether the place is new, so that nothing of outside is there.
func (v view) made() bool { return v <= scratch }

// writes reports whether what is there outside can be changed.
func (v view) writes() bool { return v >= open }

// frame is a mount, or something that will not be made one, that holds the
// paths beneath it.
type frame struct {
	path string
	view view
	// frozen says that grants beneath don't open anything.
	frozen bool
	// over is what the frozen place would show otherwise.
	over view
}

// step is one option with its arguments.
type step struct {
	option string
	args   [2]string // as many as are not empty
	// empty says that the first argument is a descriptor of an empty file,
	// which is filled in later.
	empty bool
	// entry is what the step is for; nil for others.
	entry *Entry
}

// planner goes through the entries from the outside in, keeps the frames around
// the present path, and makes a mount only where it changes something.
type planner struct {
	l      *Layout
	frames []frame
	steps  []step
	// late are remounts, which must not come before the mounts beneath.
	late []step
	// ownDev says that /dev is a new one.
	ownDev bool
}

// merged is what is asked of one path.
type merged struct {
	*Entry
	device  bool // one of the entries is a Device
	granted bool // one of them is Open or Device
	link    *Link
}

// plan returns the steps that make the mounts.
func (l *Layout) plan() []step {
	p := &planner{l: l, ownDev: true}
	items := l.merge()
	root := frame{path: "/", view: outside}
	if l.ReadList {
		root.view = blank
	}
	if len(items) > 0 && items[0].Entry != nil && items[0].Path == "/" {
		root.view = p.root(&items[0], root.view)
		items = items[1:]
	}
	p.base(root)
	dev, proc := false, false
	for i := range items {
		path := items[i].path()
		// The two places that are always made come where they would be
		// sorted.
		if !dev && comparePaths(path, "/dev") >= 0 {
			dev = true
			p.dev(items[i:])
		}
		if !proc && comparePaths(path, "/proc") >= 0 {
			proc = true
			p.proc()
		}
		p.add(&items[i])
	}
	if !dev {
		p.dev(nil)
	}
	if !proc {
		p.proc()
	}
	return append(p.steps, p.late...)
}

// merge sorts entries and links so that each follows what it lies in, and makes
// one of those that have the same path.
func (l *Layout) merge() []merged {
	items := make([]merged, 0, len(l.Entries)+len(l.Links))
	for i := range l.Entries {
		e := &l.Entries[i]
		items = append(items, merged{Entry: e, device: e.Kind == Device, granted: e.Kind == Open || e.Kind == Device})
	}
	for i := range l.Links {
		items = append(items, merged{link: &l.Links[i]})
	}
	slices.SortStableFunc(items, func(a, b merged) int {
		if c := comparePaths(a.path(), b.path()); c != 0 {
			return c
		}
		return b.rank() - a.rank()
	})
	out := items[:0]
	for _, it := range items {
		if n := len(out); n > 0 && out[n-1].path() == it.path() {
			first := &out[n-1]
			first.device = first.device || it.device
			first.granted = first.granted || it.granted
			if it.Entry != nil && first.Optional && !it.Optional {
				e := *first.Entry
				e.Optional = false
				first.Entry = &e
			}
			continue
		}
		out = append(out, it)
	}
	return out
}

func (m *merged) path() string {
	if m.link != nil {
		return m.link.Path
	}
	return m.Path
}

// rank is the order of kinds; a link yields to everything.
func (m *merged) rank() int {
	if m.link != nil {
		return 0
	}
	return int(m.Kind)
}

// root returns what "/" shows when there is an entry for it.
func (p *planner) root(m *merged, def view) view {
	switch {
	case m.device:
		p.ownDev = false
		return devices
	case m.granted:
		return open
	case m.Kind == Shown:
		return outside
	}
	return def
}

func (p *planner) base(root frame) {
	p.frames = append(p.frames, root)
	switch root.view {
	case outside:
		p.step("--ro-bind", "/", "/")
	case open:
		p.step("--bind", "/", "/")
	case devices:
		p.step("--dev-bind", "/", "/")
	default:
		// bwrap starts with an empty folder.
		p.readOnly("/")
	}
}

// dev makes /dev. What comes next is at or beneath it, or behind.
func (p *planner) dev(next []merged) {
	if len(next) > 0 && next[0].Entry != nil && next[0].Path == "/dev" && next[0].device {
		p.ownDev = false
	}
	if !p.ownDev {
		return
	}
	p.within("/dev")
	p.step("--dev", "/dev")
	p.readOnly("/dev")
	if t := p.l.Options.Terminal; t != "" {
		p.step("--dev-bind-try", t, "/dev/console")
	}
	p.frames = append(p.frames, frame{path: "/dev", view: blank})
}

// proc makes /proc. In a pid namespace it must be a new one, or the numbers in
// it would be those of outside: a program that looks itself up by its pid would
// find another one. Without such a namespace it must not be a new one: what
// containers cover in theirs stays covered.
func (p *planner) proc() {
	around := p.within("/proc")
	shows := outside
	switch {
	case p.l.NewPid:
		p.step("--proc", "/proc")
		switch {
		case around.view.writes():
			shows = around.view
		case !p.l.Options.OpenProc:
			p.readOnly("/proc")
		}
	case around.view.made():
		p.step("--ro-bind", "/proc", "/proc")
	default:
		return
	}
	p.frames = append(p.frames, frame{path: "/proc", view: shows})
}

// within drops the frames that don't hold path, and returns the innermost that
// does.
func (p *planner) within(path string) frame {
	for !beneath(path, p.frames[len(p.frames)-1].path) {
		p.frames = p.frames[:len(p.frames)-1]
	}
	return p.frames[len(p.frames)-1]
}

// add makes what is asked of one path.
func (p *planner) add(m *merged) {
	path := m.path()
	around := p.within(path)
	if p.ownDev && provided(path) {
		return
	}
	if m.link != nil {
		if around.view.made() {
			p.step("--symlink", m.link.Target, path)
		}
		return
	}
	switch m.Kind {
	case Shown:
		if around.view.made() {
			p.bind("--ro-bind", m, frame{path: path, view: outside, frozen: around.frozen})
		}
	case Private:
		p.private(m, around)
	case Pinned:
		p.pin(m, around)
	case Open, Device:
		p.open(m, around)
	case Reopened:
		p.reopen(m, around)
	case Frozen:
		p.freeze(m, around)
	case Hidden:
		p.hide(m, around)
	}
}

func (p *planner) private(m *merged, around frame) {
	switch {
	case around.view == scratch:
		p.step("--dir", m.Path)
	case !around.frozen:
		if p.l.ModeOption {
			p.step("--perms", cmp.Or(m.Mode, "1777"))
		}
		p.step("--tmpfs", m.Path)
		p.frames = append(p.frames, frame{path: m.Path, view: scratch})
	}
}

func (p *planner) pin(m *merged, around frame) {
	if around.frozen || !around.view.writes() {
		return
	}
	p.bind(bindOption(around.view), m, frame{path: m.Path, view: around.view})
}

func (p *planner) open(m *merged, around frame) {
	want := open
	if m.device {
		want = devices
	}
	if around.frozen || around.view >= want {
		return
	}
	p.bind(bindOption(want), m, frame{path: m.Path, view: want})
}

func (p *planner) reopen(m *merged, around frame) {
	want := around.view
	if around.frozen {
		want = around.over
	}
	if m.granted {
		want = max(want, open)
		if m.device {
			want = devices
		}
	}
	if want.writes() {
		p.bind(bindOption(want), m, frame{path: m.Path, view: want})
	}
}

func (p *planner) freeze(m *merged, around frame) {
	switch {
	case around.frozen:
	case around.view.writes():
		p.bind("--ro-bind", m, frame{path: m.Path, view: outside, frozen: true, over: around.view})
	default:
		// It can't be changed as it is, and what is granted beneath doesn't
		// open it.
		p.frames = append(p.frames, frame{path: m.Path, view: around.view, frozen: true, over: around.view})
	}
}

func (p *planner) hide(m *merged, around frame) {
	if around.view.made() {
		return
	}
	if !m.Dir {
		// An empty file, and not /dev/null: that would be a device.
		p.steps = append(p.steps, step{option: "--ro-bind-data", args: [2]string{"", m.Path}, empty: true})
		return
	}
	p.step("--tmpfs", m.Path)
	p.readOnly(m.Path)
	p.frames = append(p.frames, frame{path: m.Path, view: blank, frozen: around.frozen, over: around.over})
}

func bindOption(v view) string {
	if v == devices {
		return "--dev-bind"
	}
	return "--bind"
}

func (p *planner) bind(option string, m *merged, f frame) {
	if m.Optional {
		option += "-try"
	}
	source := m.Source
	if source == "" {
		source = m.Path
	}
	p.steps = append(p.steps, step{option: option, args: [2]string{source, m.Path}, entry: m.Entry})
	p.frames = append(p.frames, f)
}

func (p *planner) step(option string, args ...string) {
	s := step{option: option}
	copy(s.args[:], args)
	p.steps = append(p.steps, s)
}

// readOnly makes the mount at path read-only, not what is mounted beneath.
func (p *planner) readOnly(path string) {
	p.late = append(p.late, step{option: "--remount-ro", args: [2]string{path}})
}

// deviceNodes are the devices that bwrap puts into a new /dev.
var deviceNodes = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

// Devices returns the paths of the machine's own devices that the sandbox has
// as mounts of their own: what is done to such a mount is done to no other.
func (l *Layout) Devices() (paths []string) {
	for _, name := range deviceNodes {
		paths = append(paths, "/dev/"+name)
	}
	for i := range l.Entries {
		switch e := &l.Entries[i]; {
		case e.Kind != Device:
		case beneath("/dev", e.Path):
			return nil
		case !e.Dir && beneath(e.Path, "/dev") && !provided(e.Path):
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// provided reports whether bwrap puts path into a new /dev by itself.
func provided(path string) bool {
	name, ok := strings.CutPrefix(path, "/dev/")
	if !ok {
		return false
	}
	name, _, _ = strings.Cut(name, "/")
	switch name {
	case "pts", "ptmx", "fd", "stdin", "stdout", "stderr", "core":
		return true
	}
	return slices.Contains(deviceNodes[:], name)
}

// comparePaths orders clean paths so that a folder comes before what is in it,
// and all of that before anything else.
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

// beneath reports whether path is dir or lies in it. Both are absolute and
// clean.
func beneath(path, dir string) bool {
	if dir == "/" {
		return true
	}
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
