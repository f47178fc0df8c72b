package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Options are facts about a place that aren't the policy's.
type Options struct {
	// Worktree is the folder whose device is meant by a rate without one.
	Worktree string
	// Own says that this process's group has been made for it, and may be
	// divided: what else is in it is moved down, too.
	Own bool
}

// Find looks for a place where groups with the limits l can be made. Limits
// that take no group (see [policy.Limits.Group]) have no part in it: without
// any that does, the groups only count, and end what is in them. With l.Cgroup
// the place is the caller's groups.
//
// It changes nothing. An error is a [*SupportError].
func Find(l policy.Limits, o Options) (*Place, error) {
	m, err := look()
	if err != nil {
		return nil, &SupportError{Why: err.Error(), Mend: "mount -t proc proc /proc", Err: err}
	}
	if len(m.hierarchies) == 0 {
		return nil, &SupportError{Why: "none are mounted", Mend: "mount -t cgroup2 cgroup2 /sys/fs/cgroup"}
	}
	p := &Place{machine: m}
	if len(l.Cgroup) > 0 {
		return p, p.useGiven(l.Cgroup)
	}
	r, err := Resources(l, o.Worktree)
	if err != nil {
		return nil, err
	}
	p.limits = *r
	parent := string(l.CgroupParent)
	if v2 := m.v2(); v2 != nil {
		need := controllers(settingsV2(r))
		have, err := available(v2, need)
		if err != nil || have {
			if err == nil {
				err = p.findV2(v2, need, parent, o.Own)
			}
			return p, err
		}
	}
	return p, p.findV1(parent)
}

// controllers are those that settings take.
func controllers(list []setting) (names []string) {
	for _, s := range list {
		if !slices.Contains(names, s.controller) {
			names = append(names, s.controller)
		}
	}
	return names
}

// available reports whether version 2 has the controllers on this machine, as
// opposed to version 1.
func available(v2 *hierarchy, need []string) (bool, error) {
	text, err := read(v2.mount + "/cgroup.controllers")
	if err != nil {
		return false, &SupportError{Why: err.Error(), Err: err}
	}
	v2.have = strings.Fields(text)
	return contains(v2.have, need), nil
}

func contains(have, need []string) bool {
	return !slices.ContainsFunc(need, func(c string) bool { return !slices.Contains(have, c) })
}

// useGiven takes the caller's groups.
func (p *Place) useGiven(dirs []policy.Path) error {
	for _, d := range dirs {
		dir, err := realDir(string(d))
		if err != nil {
			return &SupportError{Why: "the group " + d.String() + ": " + err.Error(), Mend: "make it first", Err: err}
		}
		h := p.machine.at(dir)
		if h == nil {
			return &SupportError{Why: d.String() + " is no control group", Mend: "name a folder below " + strings.Join(p.Mounts(), ", ")}
		}
		if slices.ContainsFunc(p.given, func(t tree) bool { return t.hierarchy == h }) {
			return &SupportError{Why: d.String() + " is a second group of one hierarchy, and a process can be in one only"}
		}
		if err := access(dir + "/" + h.joinFile()); err != nil {
			return &SupportError{Why: "nothing can be put into the group " + d.String() + ": " + err.Error(), Mend: "give it to this user: chown -R", Err: err}
		}
		p.given = append(p.given, tree{hierarchy: h, parent: dir})
	}
	return nil
}

// realDir resolves links in an absolute path.
func realDir(dir string) (string, error) {
	fd, err := openAt(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.Readlink("/proc/self/fd/" + decimal(int64(fd)))
}

// access says why a file can't be written to, nil if it can.
func access(name string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "access", Path: name, Err: err}
	}
	return nil
}

// findV1 makes a tree of each hierarchy of version 1 that a limit takes, after
// one that ends processes: of version 2, or the freezer's.
func (p *Place) findV1(parent string) error {
	settings, err := settingsV1(&p.limits)
	if err != nil {
		return err
	}
	rest := ""
	if parent != "" {
		dir, err := realDir(parent)
		if err != nil {
			return &SupportError{Why: "the group " + parent + ": " + err.Error(), Mend: "make it first", Err: err}
		}
		h := p.machine.at(dir)
		if h == nil {
			return &SupportError{Why: parent + " is no control group", Mend: "name a folder below " + strings.Join(p.Mounts(), ", ")}
		}
		rest = strings.TrimPrefix(dir, h.mount)
	}
	add := func(h *hierarchy) error {
		dir := h.own
		if parent != "" {
			dir = h.mount + rest
		}
		if slices.ContainsFunc(p.trees, func(t tree) bool { return t.hierarchy == h }) {
			return nil
		}
		if dir == "" {
			return &SupportError{Why: "the group that this process is in isn't to be seen below " + h.mount}
		}
		if err := access(dir); err != nil {
			return notWritable(dir, err)
		}
		p.trees = append(p.trees, tree{hierarchy: h, parent: dir})
		return nil
	}

	// The tree that ends processes comes first, and is the same for all limits:
	// its lock says whose a group is.
	for _, h := range []*hierarchy{p.machine.v2(), p.machine.v1("freezer"), p.machine.v1("memory"), p.machine.v1("pids"), p.machine.v1("cpu")} {
		if h != nil && add(h) == nil {
			break
		}
	}
	for _, s := range settings {
		name := v1Name(s.controller)
		h := p.machine.v1(name)
		if h == nil {
			return &SupportError{
				Why:  "the kernel has no controller " + name + " that could be used here",
				Mend: "boot with cgroup_enable=" + name + ", or mount -t cgroup -o " + name + " " + name + " /sys/fs/cgroup/" + name,
			}
		}
		if err := add(h); err != nil {
			return err
		}
		i := slices.IndexFunc(p.trees, func(t tree) bool { return t.hierarchy == h })
		p.trees[i].settings = append(p.trees[i].settings, s)
	}
	if len(p.trees) == 0 {
		return &SupportError{Why: "none that this process could use are mounted"}
	}
	p.lowerQuota()
	return nil
}

// notWritable says that groups can't be made in a folder.
func notWritable(dir string, err error) *SupportError {
	e := &SupportError{Why: dir + " can't be written to", Err: err}
	switch {
	case errors.Is(err, syscall.EROFS):
		e.Why += ": it is mounted read-only"
		e.Mend = "mount it for writing (in a container: its own control groups, writable)"
	case errors.Is(err, fs.ErrPermission):
		e.Why += ": it isn't delegated to this user"
		e.Mend = "as root make a group, give it to this user, and name it by --cgroup-parent"
	default:
		e.Why += ": " + err.Error()
	}
	return e
}

// lowerQuota takes the processor limit of a group above, where that is lower:
// version 1 takes no higher one beneath.
func (p *Place) lowerQuota() {
	for _, t := range p.trees {
		if t.unified || !slices.Contains(t.controllers, "cpu") {
			continue
		}
		i := slices.IndexFunc(t.settings, func(s setting) bool { return s.file == "cpu.cfs_quota_us" })
		if i < 0 {
			continue
		}
		want, _ := number(t.settings[i].value)
		for dir := t.parent; dir != t.mount && strings.HasPrefix(dir, t.mount); dir = path.Dir(dir) {
			quota, err1 := read(dir + "/cpu.cfs_quota_us")
			period, err2 := read(dir + "/cpu.cfs_period_us")
			q, ok1 := number(quota)
			per, ok2 := number(period)
			if err1 == nil && err2 == nil && ok1 && ok2 && q > 0 && per > 0 {
				want = min(want, q*cpuPeriod/per)
			}
		}
		t.settings[i].value = decimal(want)
	}
}

// findV2 finds the folder of version 2 in which groups are made.
func (p *Place) findV2(h *hierarchy, need []string, parent string, own bool) error {
	t := tree{hierarchy: h, settings: settingsV2(&p.limits)}
	var err error
	switch {
	case parent != "":
		err = t.useParent(p.machine, parent, need)
	case h.own == "":
		err = &SupportError{Why: "the group that this process is in isn't to be seen below " + h.mount}
	default:
		err = t.place(need, own)
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(h.own+"/", t.parent+"/") || parent != "" {
		// Elsewhere by the caller's will, or beneath.
		p.trees = []tree{t}
		return nil
	}
	p.limits = *lower(&p.limits, h.own, t.parent)
	t.settings = settingsV2(&p.limits)
	p.trees = []tree{t}
	return nil
}

// useParent takes the folder that the caller names.
func (t *tree) useParent(m *machine, parent string, need []string) error {
	dir, err := realDir(parent)
	if err != nil {
		return &SupportError{Why: "the group " + parent + ": " + err.Error(), Mend: "make it first", Err: err}
	}
	if h := m.at(dir); h == nil || !h.unified {
		return &SupportError{Why: parent + " is no control group of version 2", Mend: "name a folder below " + t.mount}
	}
	if err := access(dir); err != nil {
		return notWritable(dir, err)
	}
	have, err := read(dir + "/cgroup.controllers")
	if err != nil {
		return &SupportError{Why: err.Error(), Err: err}
	}
	if !contains(strings.Fields(have), need) {
		return missing(dir, strings.Fields(have), need)
	}
	t.parent = dir
	t.enable = need
	return nil
}

// missing says which controllers a group lacks.
func missing(dir string, have, need []string) *SupportError {
	lacks := slices.DeleteFunc(slices.Clone(need), func(c string) bool { return slices.Contains(have, c) })
	word := "controllers "
	if len(lacks) == 1 {
		word = "controller "
	}
	return &SupportError{
		Why:  "groups in " + dir + " have not the " + word + strings.Join(lacks, ", "),
		Mend: "as root: echo +" + strings.Join(lacks, " +") + " >" + path.Dir(dir) + "/cgroup.subtree_control, and so for each group above",
	}
}

// place finds the folder beneath or beside this process's own group.
func (t *tree) place(need []string, own bool) error {
	var reason *SupportError
	because := func(e *SupportError) { // the nearest one says the most
		if reason == nil {
			reason = e
		}
	}
	if len(need) == 0 || t.top(t.own) { // where processes don't matter
		if err := access(t.own); err != nil {
			return t.scope(notWritable(t.own, err))
		}
		t.parent, t.enable = t.own, need
		return nil
	}
	if own || delegated(t.own, t.hierarchy) {
		ok, err := t.beneath(need, own)
		if ok {
			return nil
		}
		because(err)
	}
	for dir := path.Dir(t.own); strings.HasPrefix(dir+"/", t.mount+"/"); dir = path.Dir(dir) {
		if err := access(dir); err != nil {
			because(notWritable(dir, err))
			break // whoever may not write here may not move anything past it
		}
		if err := access(dir + "/cgroup.procs"); err != nil {
			because(notWritable(dir, err))
			break
		}
		text, err := read(dir + "/cgroup.subtree_control")
		if err != nil {
			return &SupportError{Why: err.Error(), Err: err}
		}
		have := strings.Fields(text)
		if contains(have, need) {
			t.parent = dir
			return nil
		}
		if t.top(dir) || t.ours(dir, need) {
			t.parent, t.enable = dir, need
			return nil
		}
		because(missing(dir, have, need))
	}
	if reason == nil {
		reason = &SupportError{Why: "this process is in the topmost group that is to be seen here, which isn't its own"}
	}
	if own { // and no other scope would have more
		reason.Mend = delegateHint
		return reason
	}
	return t.scope(reason)
}

// top reports whether a folder is the machine's topmost group: only there these
// files are missing.
func (t *tree) top(dir string) bool {
	return dir == t.mount && unix.Access(dir+"/cgroup.type", unix.F_OK) != nil
}

// ours reports whether controllers may be switched on in a group above: it is
// delegated to this user, and nobody else's manager sees to it.
func (t *tree) ours(dir string, need []string) bool {
	if !delegated(dir, t.hierarchy) || strings.Contains(dir, "/user@") {
		return false
	}
	have, err1 := read(dir + "/cgroup.controllers")
	procs, err2 := read(dir + "/cgroup.procs")
	return err1 == nil && err2 == nil && procs == "" && contains(strings.Fields(have), need) &&
		access(dir+"/cgroup.subtree_control") == nil
}

// beneath takes this process's own group, if nothing speaks against it.
func (t *tree) beneath(need []string, own bool) (bool, *SupportError) {
	if err := access(t.own); err != nil {
		return false, notWritable(t.own, err)
	}
	if err := access(t.own + "/cgroup.subtree_control"); err != nil {
		return false, notWritable(t.own, err)
	}
	text, err := read(t.own + "/cgroup.controllers")
	if err != nil {
		return false, &SupportError{Why: err.Error(), Err: err}
	}
	if have := strings.Fields(text); !contains(have, need) {
		return false, missing(t.own, have, need)
	}
	procs, err := read(t.own + "/cgroup.procs")
	if err != nil {
		return false, &SupportError{Why: err.Error(), Err: err}
	}
	container := t.own == t.mount
	if procs != decimal(int64(os.Getpid())) && !own && !container {
		return false, &SupportError{
			Why:  "this process shares its group " + t.own + " with others, so that none can be made beneath it",
			Mend: "start it in a group of its own: systemd-run --user --scope -p Delegate=yes",
		}
	}
	t.parent, t.enable, t.evacuate = t.own, need, true
	return true, nil
}

// delegated reports whether a group was handed to this user with all that is
// beneath: in a container, by systemd, or by its owner alone.
func delegated(dir string, h *hierarchy) bool {
	if dir == h.mount {
		return true // of a namespace; the machine's own is none
	}
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var v [2]byte
		if n, err := unix.Getxattr(dir, name, v[:]); err == nil && n == 1 && v[0] == '1' {
			return true
		}
	}
	var st, up unix.Stat_t
	if unix.Stat(dir, &st) != nil || unix.Stat(path.Dir(dir), &up) != nil {
		return false
	}
	uid := uint32(os.Geteuid())
	return uid != 0 && st.Uid == uid && up.Uid != uid
}

// scope adds what the user's systemd could do.
func (t *tree) scope(e *SupportError) error {
	e.Scope = scopeAvailable()
	if !e.Scope && e.Mend == "" {
		e.Mend = "as root make a group, give it to this user, and name it by --cgroup-parent"
	}
	return e
}

// lower returns limits that are nowhere higher than those of the groups from
// dir up to, and without, end.
func lower(r *specs.LinuxResources, dir, end string) *specs.LinuxResources {
	out := *r
	least := func(to **int64, n int64) {
		if *to == nil || n < **to {
			*to = &n
		}
	}
	for ; dir != end; dir = path.Dir(dir) {
		get := func(file string) (int64, bool) {
			text, err := read(dir + "/" + file)
			if err != nil {
				return 0, false
			}
			return number(text)
		}
		memory, hasMemory := get("memory.max")
		swap, hasSwap := get("memory.swap.max")
		if hasMemory || hasSwap {
			m := specs.LinuxMemory{}
			if out.Memory != nil {
				m = *out.Memory
			}
			var extra *int64 // swap alone
			if m.Swap != nil && *m.Swap != policy.Unlimited {
				n := *m.Swap - valueOf(m.Limit)
				extra = &n
			}
			if hasMemory {
				least(&m.Limit, memory)
			}
			if hasSwap {
				least(&extra, swap)
			}
			if extra != nil {
				n := *extra + valueOf(m.Limit)
				m.Swap = &n
			}
			out.Memory = &m
		}
		if pids, ok := get("pids.max"); ok {
			p := specs.LinuxPids{}
			if out.Pids != nil {
				p = *out.Pids
			}
			least(&p.Limit, pids)
			out.Pids = &p
		}
		text, _ := read(dir + "/cpu.max")
		a, b, _ := strings.Cut(text, " ")
		quota, ok1 := number(a)
		period, ok2 := number(b)
		if ok1 && ok2 && period > 0 {
			c := specs.LinuxCPU{}
			if out.CPU != nil {
				c = *out.CPU
			}
			least(&c.Quota, max(1000, quota*cpuPeriod/period))
			p := uint64(cpuPeriod)
			c.Period = &p
			out.CPU = &c
		}
	}
	return &out
}

func valueOf(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
