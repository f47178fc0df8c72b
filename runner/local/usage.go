package local

import (
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// blockSize is the unit of the kernel's counts of transfers, in bytes.
const blockSize = 512

// waitedFor is what processes used that were waited for.
func waitedFor(user, system time.Duration, memory, ioRead, ioWrite int64) *runner.Usage {
	return &runner.Usage{
		Source: "rusage", User: user, System: system, MemoryPeak: memory, IORead: &ioRead, IOWrite: &ioWrite,
	}
}

// addGroup puts what was used in a control group, which counts everything, in
// place of what was used by the processes that were waited for.
func addGroup(u *runner.Usage, g *cgroup.Stats) {
	if g == nil {
		return
	}
	u.Source = "cgroup"
	for _, n := range []struct {
		name string
		n    *int64
		set  func(n int64)
	}{
		{"user_ns", g.User, func(n int64) { u.User = micro(n) }},
		{"system_ns", g.System, func(n int64) { u.System = micro(n) }},
		{"memory_peak_bytes", g.MemoryPeak, func(n int64) { u.MemoryPeak = n }},
		{"io_read_bytes", g.IORead, func(n int64) { u.IORead = &n }},
		{"io_write_bytes", g.IOWrite, func(n int64) { u.IOWrite = &n }},
	} {
		if n.n != nil {
			n.set(*n.n)
		} else {
			u.FromRusage = append(u.FromRusage, n.name)
		}
	}
	u.SwapPeak, u.PidsPeak, u.OOMKills, u.OOMGroup = g.SwapPeak, g.PidsPeak, g.OOMKilled, g.OOMGroup
	for _, t := range []struct {
		to **time.Duration
		n  *int64
	}{
		{&u.Throttled, g.Throttled},
		{&u.CPUPressure, g.CPUPressure},
		{&u.MemoryPressure, g.MemoryPressure},
		{&u.IOPressure, g.IOPressure},
	} {
		if t.n != nil {
			d := micro(*t.n)
			*t.to = &d
		}
	}
	if g.PidsLimited != nil {
		limited := *g.PidsLimited > 0
		u.PidsLimited = &limited
	}
}

func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
