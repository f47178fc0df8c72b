package main

import "slices"

// table returns all cells. Setups are combined so that each one meets each kernel
// that is required, and others where that may matter; not all with all.
func table() []cell {
	var cells []cell
	for _, k := range []string{"6.1", "6.12"} {
		for _, c := range []cell{
			{name: "user", as: "user", whole: true},
			{name: "root", whole: k == "6.12"}, // the other one is below, for time
			{name: "lsm off", as: "user", append: withoutLandlock},
			{name: "lsm off, no bwrap", as: "user", append: withoutLandlock, pre: []string{withoutBwrap}},
			{name: "userns ENOSPC", as: "user", pre: []string{usernsENOSPC}},
			{name: "userns EPERM", as: "user", pre: []string{usernsEPERM}},
			{name: "delegated cgroup", as: "user", delegate: true},
			{name: "hybrid cgroups", as: "user", cgroup: "hybrid"},
			{name: "session", as: "session", init: "systemd"},
		} {
			c.kernel, c.required = k, true
			cells = append(cells, c)
		}
	}
	cells = append(
		cells,
		cell{name: "user", kernel: "5.10", as: "user"},
		cell{name: "user", kernel: "6.18", as: "user"},
		cell{name: "user", kernel: "new", as: "user", public: true},
		cell{name: "session, trixie", kernel: "6.12", suite: "trixie", as: "session", init: "systemd"},
	)
	for _, c := range []cell{
		// What meets only where two things come together.
		{name: "root, lsm off", kernel: "6.1", append: withoutLandlock},
		{name: "root, whole", kernel: "6.1", whole: true},
		{name: "root, userns ENOSPC", kernel: "6.12", pre: []string{usernsENOSPC}},
		{name: "root, v1 cgroups", kernel: "6.12", cgroup: "v1", groups: true},
		{name: "no bwrap", kernel: "6.1", as: "user", pre: []string{withoutBwrap}},
		{name: "no bwrap, no cgroups", kernel: "6.12", as: "user", cgroup: "none", pre: []string{withoutBwrap}},
		{name: "session, hybrid", kernel: "6.12", as: "session", init: "systemd", append: hybridSystemd},
		{name: "user unit", kernel: "6.12", as: "userunit", init: "systemd", groups: true},

		{name: "root", kernel: "5.10", groups: true},
		{name: "no bwrap", kernel: "5.10", as: "user", pre: []string{withoutBwrap}},
		{name: "userns EPERM", kernel: "5.10", as: "user", pre: []string{usernsEPERM}},
		{name: "session, bullseye", kernel: "5.10", suite: "bullseye", as: "session", init: "systemd"},

		{name: "delegated cgroup", kernel: "6.18", as: "user", delegate: true, groups: true},
		{name: "session", kernel: "6.18", as: "session", init: "systemd", groups: true},

		{name: "user, whole", kernel: "new", as: "user", whole: true},
		{name: "root", kernel: "new", groups: true},
		{name: "session", kernel: "new", as: "session", init: "systemd"},
		{name: "user, trixie", kernel: "new", suite: "trixie", as: "user"},
	} {
		c.more = true
		cells = append(cells, c)
	}
	for i := range cells {
		cells[i] = guest(cells[i])
		cells[i].name = cells[i].kernel + " " + cells[i].name
	}
	// While the first ones run, the guests' kernels are fetched.
	return slices.Concat(hostCells(), containerCells(), cells)
}
