package manager

import (
	"context"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
)

// killLimit bounds the time between the event that the memory is used up and
// the kill, which may not come, and on a busy machine not soon.
const killLimit = 5 * time.Second

// awaitKill waits until more processes than last were killed in a group of
// version 1.
func awaitKill(ctx context.Context, manager cgroup1.Cgroup, last uint64) (n uint64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m, err := manager.Stat(cgroup1.IgnoreNotExist)
		if err != nil {
			return 0, false
		}
		if n := m.GetMemoryOomControl().GetOomKill(); n > last {
			return n, true
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-tick.C:
		}
	}
}
