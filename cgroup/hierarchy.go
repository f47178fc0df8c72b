package cgroup

import (
	"path"
	"slices"
	"strings"

	"github.com/containerd/cgroups/v3"
)

// hierarchy is a mounted tree of control groups.
type hierarchy struct {
	unified bool
	// controllers are those of version 1, and the name of a tree without.
	controllers []string
	// have are those that version 2 has on this machine; nil if nobody looked.
	have []string
	// root is the group that is mounted, and mount where.
	root, mount string
	readOnly    bool
	// own is the folder of this process's group, "" if it can't be seen here.
	own string
}

// machine is what there is of control groups.
type machine struct {
	hierarchies []hierarchy
}

// look reads what the kernel says about this process.
func look() (*machine, error) {
	mounts, err := readAll("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	m := &machine{hierarchies: parseMounts(mounts)}
	if len(m.hierarchies) == 0 {
		return m, nil
	}
	own, err := readAll("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	v1, v2, err := cgroups.ParseCgroupFromReaderUnified(strings.NewReader(own))
	if err != nil {
		return nil, err
	}
	for i := range m.hierarchies {
		h := &m.hierarchies[i]
		if h.unified {
			h.own = h.folder(v2)
			continue
		}
		for _, c := range h.controllers {
			if p, ok := v1[c]; ok {
				h.own = h.folder(p)
			}
		}
	}
	return m, nil
}

// folder returns where a group is to be seen, "" if it isn't.
func (h *hierarchy) folder(group string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(h.root, "/"))
	if !ok || rest != "" && rest[0] != '/' || slices.Contains(strings.Split(rest, "/"), "..") {
		return ""
	}
	return path.Join(h.mount, rest)
}

// may reports whether groups could have a controller of version 2.
func (h *hierarchy) may(controller string) bool {
	return h.have == nil || slices.Contains(h.have, controller)
}

// v2 returns the tree of version 2, nil if there is none.
func (m *machine) v2() *hierarchy {
	return m.find(func(h *hierarchy) bool { return h.unified })
}

// v1 returns the tree of a controller of version 1, nil if there is none.
func (m *machine) v1(controller string) *hierarchy {
	return m.find(func(h *hierarchy) bool { return slices.Contains(h.controllers, controller) })
}

// find returns the best of the mounts that ok is true for: one in which this
// process is to be seen and that can be written to.
func (m *machine) find(ok func(*hierarchy) bool) (best *hierarchy) {
	score := func(h *hierarchy) (n int) {
		if h.own != "" {
			n += 2
		}
		if !h.readOnly {
			n++
		}
		return n
	}
	for i := range m.hierarchies {
		if h := &m.hierarchies[i]; ok(h) && (best == nil || score(h) > score(best)) {
			best = h
		}
	}
	return best
}

// at returns the tree that a path lies in, nil if it lies in none.
func (m *machine) at(dir string) (best *hierarchy) {
	for i := range m.hierarchies {
		h := &m.hierarchies[i]
		if (dir == h.mount || strings.HasPrefix(dir, h.mount+"/")) && (best == nil || len(h.mount) >= len(best.mount)) {
			best = h
		}
	}
	return best
}

// notControllers are the options of a mount of version 1 besides its
// controllers.
var notControllers = []string{"rw", "ro", "none", "all", "noprefix", "clone_children", "cpuset_v2_mode", "xattr", "favordynmods", "nofavordynmods"}

// parseMounts finds the control groups in a text of the form of
// /proc/self/mountinfo.
func parseMounts(text string) (list []hierarchy) {
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		if !ok || !strings.HasPrefix(right, "cgroup") { // most, at no cost
			continue
		}
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 6 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		h := hierarchy{root: unescape(l[3]), mount: unescape(l[4]), unified: r[0] == "cgroup2"}
		options := strings.Split(r[2], ",")
		h.readOnly = slices.Contains(strings.Split(l[5], ","), "ro") || slices.Contains(options, "ro")
		if !h.unified {
			for _, o := range options {
				if !slices.Contains(notControllers, o) && !strings.HasPrefix(o, "release_agent=") {
					h.controllers = append(h.controllers, o)
				}
			}
		}
		list = append(list, h)
	}
	return list
}

// unescape undoes what the kernel does to space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
