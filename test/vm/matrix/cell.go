package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/landlock"
)

// maxBoots bounds the time that all guests take.
const maxBoots = 40

// cell is one machine to test on.
type cell struct {
	name string
	// kernel and suite are vmrun's; a cell without a kernel is on this machine.
	kernel, suite string
	// as, init, cgroup and the rest are vmrun's too; empty is its default.
	as, init, append, cgroup string
	delegate                 bool
	pre                      []string
	// required cells fail the run when they can't be had.
	required bool
	// more cells run only when all are asked for, or they by name.
	more bool
	// whole cells run all packages' tests, the others the core.
	whole bool
	// public cells run test/conformance, too; whole ones do anyway.
	public bool
	// groups cells are about control groups, and run what tests those, too.
	groups bool
	// confines says that the launcher confines there by default; it must refuse
	// otherwise.
	confines bool
	// wants are facts of test/vm/probe that must hold.
	wants []string

	// sim is the simulator's -abi, and the others what else to take away, on
	// this machine.
	sim               string
	noUserns, noBwrap bool
	enospc            bool // how user namespaces are refused; else EPERM
	// container are the flags of test/contain: a container on this machine.
	container []string
}

// runs reports whether a suite's tests run in the cell.
func (c cell) runs(s suite) bool {
	return s.core || c.whole && !s.apart || c.public && s.public || c.groups && s.groups
}

func (c cell) host() bool { return c.kernel == "" }

// root reports whether tests run as root, who may not be able to be others
// there.
func (c cell) root() bool {
	if c.host() {
		return c.container != nil && !slices.Contains(c.container, "-uid")
	}
	return c.as == ""
}

// String describes the cell for people.
func (c cell) String() string {
	kind := "wanted"
	switch {
	case c.required:
		kind = "required"
	case c.more:
		kind = "more"
	}
	return fmt.Sprintf("%-34s %-8s %s", c.name, kind, strings.Join(c.vmrunArgs(), " "))
}

// vmrunArgs are the flags that make vmrun boot the cell's machine.
func (c cell) vmrunArgs() []string {
	if c.host() {
		return c.container
	}
	args := []string{"-kernel", c.kernel}
	for _, f := range []struct{ flag, value string }{
		{"-suite", c.suite}, {"-as", c.as}, {"-init", c.init}, {"-append", c.append}, {"-cgroup", c.cgroup},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if c.delegate {
		args = append(args, "-delegate")
	}
	for _, line := range c.pre {
		args = append(args, "-pre", line)
	}
	return args
}

// What takes something away from a guest.
const (
	withoutLandlock = "lsm=capability,yama"
	withoutBwrap    = "rm /usr/bin/bwrap"
	usernsENOSPC    = "sysctl -qw user.max_user_namespaces=0"
	usernsEPERM     = "sysctl -qw kernel.unprivileged_userns_clone=0"
	hybridSystemd   = "systemd.unified_cgroup_hierarchy=0"
)

// kernelFacts are what is known of the kernels that cells use.
var kernelFacts = map[string]struct {
	release  string
	landlock string // of probe
	confines bool   // by Landlock
}{
	"5.10": {"5.10.*", "ENOSYS", false},
	"6.1":  {"6.1.*", "2", false},
	"6.12": {"6.12.*", "6", true},
	"6.18": {"6.18.*", "7", true},
	"new":  {"*", "*", true},
}

// guest completes a cell in a guest: what is expected of it follows from how it
// is made.
func guest(c cell) cell {
	k := kernelFacts[c.kernel]
	c.confines = k.confines
	c.wants = append(c.wants, "kernel="+k.release)
	switch {
	case c.append != withoutLandlock:
		c.wants = append(c.wants, "landlock="+k.landlock)
	case k.landlock == "ENOSYS":
		c.wants = append(c.wants, "landlock=ENOSYS")
	default:
		c.wants = append(c.wants, "landlock=EOPNOTSUPP")
		c.confines = false
	}
	userns, bwrap := "yes", "yes"
	for _, line := range c.pre {
		switch line {
		case usernsENOSPC:
			userns, bwrap = "ENOSPC", "exit*"
		case usernsEPERM:
			userns, bwrap = "EPERM", "exit*"
		}
	}
	for _, line := range c.pre {
		if line == withoutBwrap {
			bwrap = "no"
		}
	}
	if c.as == "" && bwrap != "no" { // root's bwrap needs none
		bwrap = "yes"
	}
	if c.as == "" && userns == "EPERM" { // root isn't unprivileged
		userns = "yes"
	}
	c.confines = c.confines || bwrap == "yes"
	c.wants = append(c.wants, "userns="+userns, "bwrap="+bwrap)
	switch {
	case c.init == "systemd" && c.append == hybridSystemd:
		c.wants = append(c.wants, "cgroups=hybrid", "bus=yes")
	case c.init == "systemd":
		c.wants = append(c.wants, "cgroups=v2", "bus=yes", "delegated="+yes(c.as == "userunit"))
	case c.cgroup != "":
		c.wants = append(c.wants, "cgroups="+c.cgroup)
	default:
		c.wants = append(c.wants, "cgroups=v2")
	}
	if c.delegate {
		c.wants = append(c.wants, "delegated=yes", "cgroup=/dev/run")
	}
	uid := "1000"
	if c.as == "" {
		uid = "0"
	}
	c.wants = append(c.wants, "uid="+uid)
	return c
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// hostCells are this machine with an older Landlock or none, with and without
// bwrap and user namespaces.
func hostCells() (cells []cell) {
	for i, abi := range []string{"0", "off", "1", "3", "4", "5"} {
		for _, noBwrap := range []bool{false, true} {
			for _, noUserns := range []bool{false, true} {
				c := cell{
					name: "host abi " + abi, sim: abi, noBwrap: noBwrap, noUserns: noUserns,
					required: true, enospc: i%2 == 0,
					// From ABI 3 by Landlock, below by bwrap.
					confines: abi >= "3" && abi <= "9" || !noBwrap && !noUserns,
				}
				landlock := abi
				switch abi {
				case "0":
					landlock = "ENOSYS"
				case "off":
					landlock = "EOPNOTSUPP"
				}
				c.wants = []string{"landlock=" + landlock, "uid=" + ordinaryUser()}
				if noBwrap {
					c.name += " no-bwrap"
					c.wants = append(c.wants, "bwrap=no")
				}
				switch {
				case noUserns && c.enospc:
					c.name += " userns-ENOSPC"
					c.wants = append(c.wants, "userns=ENOSPC")
				case noUserns:
					c.name += " userns-EPERM"
					c.wants = append(c.wants, "userns=EPERM")
				default:
					c.wants = append(c.wants, "userns=yes")
				}
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// containerCells are this machine as a container of an engine shows it: under the
// seccomp filter that the engine has by default, without capabilities.
func containerCells() []cell {
	bare := []string{"-read-only", "-write", "/var/tmp", "-no-proc", "-no-sys"}
	user := []string{"-uid", "1000"}
	held := landlock.Probe().ABI >= 3
	cells := []cell{
		{name: "docker, root", confines: held},
		{name: "docker, user", container: user, public: true, confines: held},
		{name: "docker, user, bare", container: slices.Concat(user, bare), public: true, confines: held},
		{name: "docker, root, bare", container: bare, confines: held},
		{name: "docker before Landlock, user", container: append(user[:2:2], "-deny", "landlock_create_ruleset,landlock_add_rule,landlock_restrict_self")},
		{name: "podman, user", container: append(user[:2:2], "-profile", "podman"), public: true, confines: true},
		{name: "podman, user, bare", container: slices.Concat(user, bare, []string{"-profile", "podman"}), confines: held},
	}
	for i := range cells {
		c := &cells[i]
		c.name, c.required = "container "+c.name, true
		uid, userns := "0", "EPERM"
		if slices.Contains(c.container, "-uid") {
			uid = "1000"
		}
		if slices.Contains(c.container, "podman") {
			userns = "yes"
			if slices.Contains(c.container, "-no-proc") {
				userns = "ENOENT" // no ids can be mapped
			}
		}
		c.wants = []string{"uid=" + uid, "userns=" + userns}
		if slices.Contains(c.container, "-deny") {
			c.wants = append(c.wants, "landlock=EPERM")
		}
		if slices.Contains(c.container, "-no-sys") {
			c.wants = append(c.wants, "cgroups=none", "lsm=ENOENT")
		}
		if c.container == nil {
			c.container = []string{}
		}
	}
	return cells
}

// ordinaryUser is the uid that cells on this machine run as.
func ordinaryUser() string {
	if uid := os.Getuid(); uid != 0 {
		return fmt.Sprint(uid)
	}
	return "1000"
}
