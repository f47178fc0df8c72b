package spawn

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/internal/nofile"
	"golang.org/x/sys/unix"
)

// program is a plan in the form that the child can carry out: C strings and
// numbers, all memory in place. It is used once, since the child moves the
// descriptors about.
type program struct {
	plan *Plan

	path *byte
	argv []*byte
	env  []*byte
	dir  *byte

	files   []int
	ruleset int
	pipe    int // where a failure is reported; -1 if it is returned instead

	keepIgnored uint64 // a bit for each signal
	ignore      uint64 // likewise
	umask       int    // -1 leaves it
	rlimits     []rlimit
	caps        capSets
	hasCaps     bool
	filters     []unix.SockFprog
	witness     []unix.SockFprog // one or none
	socket      int              // where its listener is sent; -1 without one
	message     *rights
	idMaps      []procFile
	proc        uintptr    // the folder that oomScoreAdj is relative to
	oomScoreAdj []procFile // one or none
	mounts      []mount
	mounted     bool // the guard has made the namespaces and the mounts
	slots       [MaxMountSlots]int
	rules       []rule
	joins       []join // of a child that makes mounts and is no program
	fdList      *byte  // the path of the list of descriptors
	dents       [512]byte

	guard  *guardian // nil without one
	clone  cloneArgs
	pidfd  int32
	report report
	alive  bool // set by a child that shares this memory
}

// report is what the child writes to its pipe when a step fails, and leaves in
// the memory that it shares.
type report struct {
	stage uint32
	index uint32
	errno uint32
}

// procFile is what the child writes to a file of its own in /proc.
type procFile struct {
	path *byte
	data []byte
}

// mount is a step with its strings as the kernel wants them.
type mount struct {
	*Mount
	source, target, fstype, data *byte
	attr                         unix.MountAttr
}

// join is a namespace to enter, by an open file of it and its kind.
type join struct {
	fd   int
	kind uintptr
}

// rule is what landlock_add_rule(2) takes; the kernel's struct is packed.
type rule struct {
	path   *byte
	rights uint64
	fd     int32
}

type rlimit struct {
	resource int
	unix.Rlimit
}

// capSets is what capset(2) takes.
type capSets struct {
	head unix.CapUserHeader
	data [2]unix.CapUserData
}

// cloneArgs is struct clone_args of clone3(2), as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	setTID, setTIDSize, cgroup                                           uint64
}

// compile checks a plan and translates it.
func compile(p *Plan) (*program, error) {
	bad := func(name string) error {
		return &Error{Stage: StagePlan, Errno: syscall.EINVAL, Name: name}
	}
	g := &program{plan: p, ruleset: p.RulesetFD, pipe: -1, socket: -1, umask: -1, proc: atFdCwd}

	if p.Guard != nil {
		g.guard = newGuardian(p)
	}
	var err error
	if g.path, err = syscall.BytePtrFromString(p.Path); err != nil || p.Path == "" {
		return nil, bad("path")
	}
	var ok bool
	if g.argv, ok = cStrings(p.Argv); !ok || len(p.Argv) == 0 {
		return nil, bad("arguments")
	}
	if g.env, ok = cStrings(p.Env); !ok {
		return nil, bad("environment")
	}
	if p.Dir != "" {
		if g.dir, err = syscall.BytePtrFromString(p.Dir); err != nil {
			return nil, bad("working directory")
		}
	}

	if p.NewSession && p.NewGroup || p.Group != 0 && (p.NewSession || p.NewGroup || p.Group < 0) || p.Foreground && !p.NewGroup ||
		p.ControllingTerminal && (!p.NewSession || p.Terminal < 0 || p.Terminal >= len(p.Files)) {
		return nil, bad("session")
	}
	g.files = append(g.files, p.Files...)
	g.fdList, _ = syscall.BytePtrFromString("/proc/self/fd")
	for _, fd := range p.Inherit {
		if fd < len(p.Files) || fd < 3 {
			return nil, bad("inherited descriptor")
		}
	}
	if g.keepIgnored, ok = signalSet(p.KeepIgnored); !ok {
		return nil, bad("signal")
	}
	if g.ignore, ok = signalSet(p.Ignore); !ok {
		return nil, bad("signal")
	}
	if p.Umask != nil {
		g.umask = *p.Umask
	}
	if name := g.addNamespaces(p); name != "" {
		return nil, bad(name)
	}
	g.addRlimits(p.Rlimits)
	if p.OOMScoreAdj != nil {
		name := "/proc/self/oom_score_adj"
		if g.guard != nil && g.guard.namespaces != 0 {
			name = "self/oom_score_adj" // what is mounted may cover the former
		}
		path, _ := syscall.BytePtrFromString(name)
		g.oomScoreAdj = []procFile{{path, strconv.AppendInt(nil, int64(*p.OOMScoreAdj), 10)}}
	}
	if p.Caps != nil {
		g.hasCaps = true
		g.caps = newCapSets(*p.Caps)
	}
	for _, f := range p.Filters {
		if len(f) == 0 || len(f) > math.MaxUint16 {
			return nil, bad("filter")
		}
		g.filters = append(g.filters, unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
	}
	if f := p.Witness; f != nil {
		if len(f) == 0 || len(f) > math.MaxUint16 {
			return nil, bad("witness")
		}
		g.witness = []unix.SockFprog{{Len: uint16(len(f)), Filter: &f[0]}}
		g.message = newRights()
	}
	return g, nil
}

// signalSet has a bit for each signal; false if one is none.
func signalSet(list []syscall.Signal) (set uint64, ok bool) {
	for _, s := range list {
		if s <= 0 || int(s) > numSignals {
			return 0, false
		}
		set |= 1 << (s - 1)
	}
	return set, true
}

// addRlimits puts back the soft limit on open files that Go has raised, unless
// somebody has set another one since, and adds those of the plan.
func (g *program) addRlimits(limits []Rlimit) {
	if soft, hard, ok := nofile.Original(); ok && soft < hard-1 {
		var now unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &now) == nil && now.Cur == hard-1 && now.Max == hard {
			g.rlimits = append(g.rlimits, rlimit{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: soft, Max: hard}})
		}
	}
	for _, l := range limits {
		r := unix.Rlimit{Cur: l.Cur, Max: l.Max}
		if l.Unlimited {
			r = unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		}
		g.rlimits = append(g.rlimits, rlimit{l.Resource, r})
	}
}

// cStrings returns the strings as the kernel wants them, with nil at the end,
// all in one piece of memory; false if one has a NUL byte.
func cStrings(list []string) ([]*byte, bool) {
	n := 0
	for _, s := range list {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, false
		}
		n += len(s) + 1
	}
	b := make([]byte, n)
	ptrs := make([]*byte, len(list)+1)
	for i, s := range list {
		ptrs[i] = &b[0]
		b = b[copy(b, s)+1:]
	}
	return ptrs, true
}

// addNamespaces translates what concerns namespaces, and returns the name of
// what is wrong, or "".
func (g *program) addNamespaces(p *Plan) string {
	if p.Namespaces&unix.CLONE_NEWUSER != 0 {
		uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
		for _, f := range [...]struct{ path, data string }{
			{"/proc/self/setgroups", "deny"}, // without it an unprivileged gid_map is refused
			{"/proc/self/uid_map", uid + " " + uid + " 1\n"},
			{"/proc/self/gid_map", gid + " " + gid + " 1\n"},
		} {
			path, _ := syscall.BytePtrFromString(f.path)
			g.idMaps = append(g.idMaps, procFile{path, []byte(f.data)})
		}
	}
	if len(p.Mounts) > 0 && p.Namespaces&unix.CLONE_NEWNS == 0 || len(p.Rules) > 0 && p.RulesetFD == 0 {
		return "mounts"
	}
	if name := g.addMounts(p.Mounts); name != "" {
		return name
	}
	for _, r := range p.Rules {
		c, err := syscall.BytePtrFromString(r.Path)
		if err != nil {
			return "rule"
		}
		g.rules = append(g.rules, rule{path: c, rights: r.Rights})
	}
	return ""
}

// addMounts translates mounts, and returns what is wrong, or "".
func (g *program) addMounts(mounts []Mount) string {
	for i := range mounts {
		m := mount{Mount: &mounts[i]}
		if m.Slot < 0 || m.Slot >= MaxMountSlots {
			return "mount slot"
		}
		for _, s := range [...]struct {
			to  **byte
			str string
		}{{&m.source, m.Source}, {&m.target, m.Target}, {&m.fstype, m.Type}, {&m.data, m.Data}} {
			c, err := syscall.BytePtrFromString(s.str)
			if err != nil {
				return "mount"
			}
			*s.to = c
		}
		m.attr = unix.MountAttr{Attr_set: m.Set, Attr_clr: m.Clear}
		g.mounts = append(g.mounts, m)
	}
	return ""
}

func newCapSets(keep uint64) capSets {
	var c capSets
	c.head.Version = unix.LINUX_CAPABILITY_VERSION_3
	for i := range c.data {
		bits := uint32(keep >> (32 * i))
		c.data[i] = unix.CapUserData{Effective: bits, Permitted: bits}
	}
	return c
}

// failed turns a report into an error.
func (g *program) failed(r report) error {
	e := &Error{Stage: Stage(r.stage), Index: int(r.index), Errno: syscall.Errno(r.errno)}
	switch e.Stage {
	case StageDir:
		e.Name = g.plan.Dir
	case StageExec:
		e.Name = g.plan.Path
	case StageMount:
		if e.Index < len(g.plan.Mounts) {
			e.Name = g.plan.Mounts[e.Index].Target
		}
	case StageRule:
		e.Name = g.plan.Rules[e.Index].Path
	}
	return e
}
