package local

import (
	"reflect"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// What a group doesn't count is marked as what it is.
func TestAddGroup(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	d := func(d time.Duration) *time.Duration { return &d }
	yes := true
	for _, tt := range []struct {
		group *cgroup.Stats
		want  runner.Usage
	}{
		{nil, runner.Usage{Source: "rusage", User: 1, System: 2, MemoryPeak: 3, IORead: n(4), IOWrite: n(5)}},
		{&cgroup.Stats{}, runner.Usage{
			Source: "cgroup", FromRusage: []string{"user_ns", "system_ns", "memory_peak_bytes", "io_read_bytes", "io_write_bytes"},
			User: 1, System: 2, MemoryPeak: 3, IORead: n(4), IOWrite: n(5),
		}},
		{&cgroup.Stats{User: n(10), System: n(0), PidsPeak: n(7), PidsLimited: n(2)}, runner.Usage{
			Source: "cgroup", FromRusage: []string{"memory_peak_bytes", "io_read_bytes", "io_write_bytes"},
			User: 10 * time.Microsecond, MemoryPeak: 3, IORead: n(4), IOWrite: n(5), PidsPeak: n(7), PidsLimited: &yes,
		}},
		{&cgroup.Stats{
			User: n(1), System: n(2), MemoryPeak: n(30), SwapPeak: n(31), IORead: n(32), IOWrite: n(33), PidsPeak: n(34), Throttled: n(35),
			OOMKilled: n(36), OOMGroup: true, PidsLimited: n(1), CPUPressure: n(37), MemoryPressure: n(38), IOPressure: n(39),
		}, runner.Usage{
			Source: "cgroup", User: 1000, System: 2000, MemoryPeak: 30, SwapPeak: n(31), IORead: n(32), IOWrite: n(33), PidsPeak: n(34),
			Throttled: d(35000), OOMKills: n(36), OOMGroup: true, PidsLimited: &yes,
			CPUPressure: d(37000), MemoryPressure: d(38000), IOPressure: d(39000),
		}},
	} {
		u := waitedFor(1, 2, 3, 4, 5)
		addGroup(u, tt.group)
		if !reflect.DeepEqual(*u, tt.want) {
			t.Errorf("addGroup(%+v) = %+v; want %+v", tt.group, *u, tt.want)
		}
	}
}
