package policy

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits bounds what a command and all its descendants use together, except
// where a field is about each process. The zero value limits nothing.
//
// Numbers are bytes, and whole.
type Limits struct {
	// Memory is the most memory. Zero is unlimited. When it is used up the
	// kernel kills the whole command, never a part of it.
	Memory int64 `json:"memory,omitempty"`
	// Swap is the most swap space, besides Memory; [Unlimited] doesn't limit
	// it. Nil is none if Memory is limited, else unlimited.
	Swap *int64 `json:"swap,omitempty"`
	// Pids is the most processes and threads at a time. Zero is unlimited.
	Pids int64 `json:"pids,omitempty"`
	// CPUs is the processor time, in processors: 1.5 is one and a half. Zero is
	// unlimited, and the least is 0.01.
	CPUs float64 `json:"cpus,omitempty"`
	// CPUWeight is the share of the processors when they are wanted by others,
	// too, from 1 to 10000. Zero is the kernel's own, 100.
	CPUWeight int64 `json:"cpu_weight,omitempty"`
	// IORead and IOWrite are rates for block devices. Nil is unlimited. Of several
	// for one device the lowest counts.
	IORead  []IORate `json:"io_read,omitempty"`
	IOWrite []IORate `json:"io_write,omitempty"`

	// OOMScoreAdj is added to each process's badness when the machine's memory
	// is used up, from -1000 to 1000. Nil is the caller's own.
	OOMScoreAdj *int64 `json:"oom_score_adj,omitempty"`
	// OpenFiles is the number that each process's descriptors stay below. Zero
	// is the caller's own.
	OpenFiles int64 `json:"nofile,omitempty"`
	// FileSize is the size beyond which no process may extend a file. Zero is
	// the caller's own.
	FileSize int64 `json:"fsize,omitempty"`
	// Core is the size of each core dump; 0 is none. Nil is the caller's own.
	Core *int64 `json:"core,omitempty"`
	// Nice is added to the caller's niceness, from -40 to 39.
	Nice int64 `json:"nice,omitempty"`

	// BestEffort runs the command even if this machine can't hold a limit, and
	// reports that. Zero refuses.
	BestEffort bool `json:"best_effort,omitempty"`
	// Cgroup is the folder of a control group that the caller has made, or
	// several of version 1, and that the command is to run in. Its limits stay
	// as they are and it isn't removed, so it doesn't go with those above that
	// take a group. Nil makes one where that is needed.
	Cgroup []Path `json:"cgroup,omitempty"`
	// CgroupParent is the folder of a control group, without processes of its
	// own, in which groups are made. Zero finds a place.
	CgroupParent Path `json:"cgroup_parent,omitempty"`
}

// Unlimited is the value of [Limits.Swap] that doesn't limit it.
const Unlimited = -1

// IORate is a rate for a block device.
type IORate struct {
	// Device is a block device, or any file or folder on it. Zero is the
	// worktree.
	Device Path `json:"device,omitempty"`
	// Rate is in bytes a second.
	Rate int64 `json:"rate"`
}

// Group reports whether l takes a control group.
func (l Limits) Group() bool {
	return l.Memory != 0 || l.Swap != nil || l.Pids != 0 || l.CPUs != 0 || l.CPUWeight != 0 ||
		len(l.IORead)+len(l.IOWrite) > 0 || len(l.Cgroup) > 0
}

// Process reports whether l sets limits of single processes.
func (l Limits) Process() bool {
	return l.OOMScoreAdj != nil || l.OpenFiles != 0 || l.FileSize != 0 || l.Core != nil || l.Nice != 0
}

// Any reports whether l limits anything.
func (l Limits) Any() bool { return l.Group() || l.Process() }

// Bounds of the values.
const (
	maxCPUs   = 1 << 20
	minCPUs   = 0.01
	maxWeight = 10000
	maxNice   = 39
	maxOOM    = 1000
)

func (p Policy) validateLimits() error {
	l := p.Limits
	if l.BestEffort && !l.Any() {
		return &Error{Field: "limits.best_effort", Why: "there are no limits", Hint: "set one, such as memory, or leave it out"}
	}
	for _, n := range []struct {
		field       string
		value       int64
		least, most int64
		meaning     string
	}{
		{"memory", l.Memory, 0, math.MaxInt64, "a number of bytes"},
		{"pids", l.Pids, 0, 1 << 22, "a number of processes, up to 4194304"},
		{"cpu_weight", l.CPUWeight, 0, maxWeight, "a weight from 1 to 10000"},
		{"nofile", l.OpenFiles, 0, 1 << 30, "a number of descriptors, up to 1073741824"},
		{"fsize", l.FileSize, 0, math.MaxInt64, "a number of bytes"},
		{"nice", l.Nice, -maxNice - 1, maxNice, "a number from -40 to 39"},
		{"swap", valueOf(l.Swap), Unlimited, math.MaxInt64, "a number of bytes, or -1 for no limit"},
		{"core", valueOf(l.Core), 0, math.MaxInt64, "a number of bytes"},
		{"oom_score_adj", valueOf(l.OOMScoreAdj), -maxOOM, maxOOM, "a number from -1000 to 1000"},
	} {
		if n.value < n.least || n.value > n.most {
			return &Error{Field: "limits." + n.field, Value: strconv.FormatInt(n.value, 10), Why: "is not " + n.meaning}
		}
	}
	if l.CPUs != 0 && !(l.CPUs >= minCPUs && l.CPUs <= maxCPUs) {
		return &Error{
			Field: "limits.cpus", Value: strconv.FormatFloat(l.CPUs, 'f', -1, 64),
			Why: "is not a number of processors from 0.01 to 1048576",
		}
	}
	if err := validateRates("limits.io_read", l.IORead); err != nil {
		return err
	}
	if err := validateRates("limits.io_write", l.IOWrite); err != nil {
		return err
	}
	return l.validateCgroup()
}

func validateRates(field string, rates []IORate) error {
	for i, r := range rates {
		field := field + "[" + strconv.Itoa(i) + "]"
		if r.Rate <= 0 {
			return &Error{Field: field + ".rate", Value: strconv.FormatInt(r.Rate, 10), Why: "is not a number of bytes a second"}
		}
		if r.Device != "" {
			if err := validatePath(field+".device", r.Device); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l Limits) validateCgroup() error {
	for i, path := range l.Cgroup {
		if err := validatePath("limits.cgroup["+strconv.Itoa(i)+"]", path); err != nil {
			return err
		}
	}
	if l.CgroupParent != "" {
		if err := validatePath("limits.cgroup_parent", l.CgroupParent); err != nil {
			return err
		}
	}
	if len(l.Cgroup) == 0 {
		return nil
	}
	own := l
	own.Cgroup = nil
	if own.Group() || l.CgroupParent != "" {
		return &Error{
			Field: "limits.cgroup", Value: string(l.Cgroup[0]), Why: "the limits of a group that the caller made are the caller's to set",
			Hint: "set them there and leave the others out, or use cgroup_parent",
		}
	}
	return nil
}

func valueOf(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// sizeUnits are the units of [ParseSize], in lower case.
var sizeUnits = [...]sizeUnit{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"pib", 1 << 50},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"pb", 1e15},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"t", 1 << 40},
	{"p", 1 << 50},
	{"b", 1},
	{"", 1},
}

// ParseSize reads a size as people write it: a number, with a fraction or
// without, and a unit in any case. KiB, MiB, GiB, TiB and PiB are powers of
// 1024, and so are K, M, G, T and P, as in dd and systemd; kB, MB, GB, TB and PB
// are powers of 1000. Without a unit, or with B, it is bytes. A fraction of a
// byte is dropped.
func ParseSize(s string) (int64, error) {
	end := strings.LastIndexAny(s, "0123456789.") + 1
	number, name := s[:end], s[end:]
	if len(name) > 1 {
		name = strings.TrimPrefix(name, " ")
	}
	whole, fraction, _ := strings.Cut(number, ".")
	unit := slices.IndexFunc(sizeUnits[:], func(u sizeUnit) bool { return u.name == lower(name) })
	if unit >= 0 && digits(whole) && digits("0"+fraction) && !strings.HasSuffix(number, ".") {
		bytes := sizeUnits[unit].bytes
		n, err := strconv.ParseInt(whole, 10, 64)
		part, _ := strconv.ParseFloat("0."+fraction+"0", 64) // it has digits only
		rest := min(int64(part*float64(bytes)), bytes-1)
		if err != nil || n > (math.MaxInt64-rest)/bytes {
			return 0, &Error{Value: s, Why: "is too large a size", Err: err}
		}
		return n*bytes + rest, nil
	}
	return 0, &Error{Value: s, Why: "is not a size", Hint: "as in 512M, 1.5GiB (powers of 1024), 2GB (of 1000), or a number of bytes"}
}

type sizeUnit struct {
	name  string
	bytes int64
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// size shows a number of bytes, in the largest binary unit that leaves no rest.
func size(n int64) string {
	if n == Unlimited {
		return "unlimited"
	}
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
