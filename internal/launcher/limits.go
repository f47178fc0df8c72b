package launcher

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// limitFlags are the options about limits, as they were given.
type limitFlags struct {
	memory, swap, pids, cpus, cpuWeight *string
	nofile, fsize, core                 *string
	nice, oomScoreAdj                   *string
	limits, cgroupParent                *string
	ioRead, ioWrite, cgroup             []string
}

// value returns where an option with one value is stored, nil if there is no
// such option.
func (f *limitFlags) value(name string) **string {
	switch name {
	case "memory":
		return &f.memory
	case "swap":
		return &f.swap
	case "pids":
		return &f.pids
	case "cpus":
		return &f.cpus
	case "cpu-weight":
		return &f.cpuWeight
	case "nofile":
		return &f.nofile
	case "fsize":
		return &f.fsize
	case "core":
		return &f.core
	case "nice":
		return &f.nice
	case "oom-score-adj":
		return &f.oomScoreAdj
	case "limits":
		return &f.limits
	case "cgroup-parent":
		return &f.cgroupParent
	}
	return nil
}

// list is like value, for one that can be given more than once.
func (f *limitFlags) list(name string) *[]string {
	switch name {
	case "io-read":
		return &f.ioRead
	case "io-write":
		return &f.ioWrite
	case "cgroup":
		return &f.cgroup
	}
	return nil
}

// apply adds the options to those of a policy.
func (f *limitFlags) apply(l *policy.Limits) error {
	for _, o := range []struct {
		name string
		v    *string
		size bool
		set  func(n int64)
	}{
		{"memory", f.memory, true, func(n int64) { l.Memory = n }},
		{"swap", f.swap, true, func(n int64) { l.Swap = &n }},
		{"fsize", f.fsize, true, func(n int64) { l.FileSize = n }},
		{"core", f.core, true, func(n int64) { l.Core = &n }},
		{"pids", f.pids, false, func(n int64) { l.Pids = n }},
		{"cpu-weight", f.cpuWeight, false, func(n int64) { l.CPUWeight = n }},
		{"nofile", f.nofile, false, func(n int64) { l.OpenFiles = n }},
		{"nice", f.nice, false, func(n int64) { l.Nice = n }},
		{"oom-score-adj", f.oomScoreAdj, false, func(n int64) { l.OOMScoreAdj = &n }},
	} {
		if o.v == nil {
			continue
		}
		n, err := limitNumber(o.name, *o.v, o.size)
		if err != nil {
			return err
		}
		o.set(n)
	}
	if f.cpus != nil {
		n, err := strconv.ParseFloat(*f.cpus, 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return usageError(fmt.Sprintf("--cpus %s: not a number of processors", *f.cpus), "as in 1.5; to limit nothing leave it out")
		}
		l.CPUs = n
	}
	for _, o := range []struct {
		name   string
		values []string
		to     *[]policy.IORate
	}{{"io-read", f.ioRead, &l.IORead}, {"io-write", f.ioWrite, &l.IOWrite}} {
		for _, v := range o.values {
			rate, err := ioRate(o.name, v)
			if err != nil {
				return err
			}
			*o.to = append(*o.to, rate)
		}
	}
	for _, v := range f.cgroup {
		path, err := absolute(v)
		if err != nil {
			return &launch.SetupError{Stage: launch.StageUsage, Err: err}
		}
		l.Cgroup = append(l.Cgroup, path)
	}
	if f.cgroupParent != nil {
		path, err := absolute(*f.cgroupParent)
		if err != nil {
			return &launch.SetupError{Stage: launch.StageUsage, Err: err}
		}
		l.CgroupParent = path
	}
	if f.limits == nil {
		return nil
	}
	switch *f.limits {
	case "required":
		l.BestEffort = false
	case "best-effort":
		l.BestEffort = true
	default:
		return usageError(fmt.Sprintf("--limits %s: no such choice", *f.limits), "required or best-effort")
	}
	return nil
}

// limitNumber reads a number, or a size. Zero is what no limit is stored as, and
// nobody means it.
func limitNumber(name, v string, size bool) (n int64, err error) {
	switch {
	case name == "swap" && v == "max":
		return policy.Unlimited, nil
	case size:
		if n, err = policy.ParseSize(v); err != nil {
			why := "is not a size"
			var e *policy.Error
			if errors.As(err, &e) {
				why = e.Why
			}
			return 0, usageError("--"+name+" "+v+" "+why, launch.Hint(err))
		}
	default:
		if n, err = strconv.ParseInt(v, 10, 64); err != nil {
			return 0, usageError("--"+name+" "+v+" is not a whole number", "")
		}
	}
	switch name {
	case "memory", "fsize", "pids", "cpu-weight", "nofile":
		if n <= 0 {
			return 0, usageError("--"+name+" "+v+" leaves nothing", "to limit nothing leave it out")
		}
	}
	return n, nil
}

// ioRate reads [DEVICE:]RATE.
func ioRate(name, v string) (r policy.IORate, err error) {
	rate := v
	if i := strings.LastIndexByte(v, ':'); i >= 0 {
		if r.Device, err = absolute(v[:i]); err != nil {
			return r, &launch.SetupError{Stage: launch.StageUsage, Err: err}
		}
		rate = v[i+1:]
		if i == 0 {
			return r, usageError("--"+name+" "+v+": the device is empty", "")
		}
	}
	r.Rate, err = policy.ParseSize(rate)
	if err != nil || r.Rate == 0 {
		return r, usageError("--"+name+" "+v+": not a rate", "bytes a second, as in 10M, or for a device: /dev/sda:10M")
	}
	return r, nil
}
