// Package manager watches control groups, reads all that the kernel counts in
// them, and has systemd make a scope for this process, by containerd's managers
// and D-Bus.
//
// It is for long-lived programs: what it links (protobuf, D-Bus, eBPF) takes
// longer to set up than a command takes to start. Groups are made, limited,
// killed and removed by package cgroup, and what a command ran into is said by
// [cgroup.Group.Stats], too.
//
// # Limitations
//
// [Watch] tells of memory only. A kill that happens before it is called is told
// with the next one. The library below logs nothing here, and what it can't read
// of less usual controllers it leaves at zero.
package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	v1stats "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
	v2stats "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"golang.org/x/sys/unix"
)

// Metrics are all that is counted in a group. On machines with both versions
// both are there.
type Metrics struct {
	V1 *v1stats.Metrics // nil without version 1
	V2 *v2stats.Metrics // nil without version 2
}

// Stat reads what is counted in a group, while it is there.
func Stat(g *cgroup.Group) (m Metrics, err error) {
	if manager, ok := load2(g); ok {
		if m.V2, err = manager.Stat(); err != nil {
			return m, fmt.Errorf("reading the group %s: %w", g.Folders()[0], err)
		}
	}
	manager, err := load1(g)
	if manager == nil {
		return m, err
	}
	m.V1, err = manager.Stat(cgroup1.IgnoreNotExist)
	return m, err
}

// load2 returns containerd's manager of a group's part in version 2.
func load2(g *cgroup.Group) (*cgroup2.Manager, bool) {
	for _, p := range g.Parts() {
		if len(p.Controllers) == 0 {
			group := strings.TrimPrefix(p.Folder, p.Mount)
			manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(p.Mount))
			return manager, err == nil
		}
	}
	return nil, false
}

// load1 returns containerd's manager of a group's parts in version 1, nil if it
// has none that containerd could find.
func load1(g *cgroup.Group) (cgroup1.Cgroup, error) {
	folders := map[cgroup1.Name]string{}
	var systems []cgroup1.Subsystem
	for _, p := range g.Parts() {
		root := filepath.Dir(p.Mount)
		for _, c := range p.Controllers {
			name := cgroup1.Name(c)
			var s cgroup1.Subsystem
			switch name {
			case cgroup1.Memory:
				s = cgroup1.NewMemory(root)
			case cgroup1.Pids:
				s = cgroup1.NewPids(root)
			case cgroup1.Cpu:
				s = cgroup1.NewCpu(root)
			case cgroup1.Cpuacct:
				s = cgroup1.NewCpuacct(root)
			case cgroup1.Blkio:
				s = cgroup1.NewBlkio(root)
			case cgroup1.Freezer:
				s = cgroup1.NewFreezer(root)
			default:
				continue
			}
			// It looks for each controller by its name, which may be a link.
			if _, err := os.Stat(filepath.Join(root, c)); err == nil {
				systems = append(systems, s)
				folders[name] = strings.TrimPrefix(p.Folder, p.Mount)
			}
		}
	}
	if len(systems) == 0 {
		return nil, nil
	}
	path := func(name cgroup1.Name) (string, error) {
		if f, ok := folders[name]; ok {
			return f, nil
		}
		return "", cgroup1.ErrControllerNotActive
	}
	return cgroup1.Load(path, cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) { return systems, nil }))
}

// Event says that the memory of a group was used up.
type Event struct {
	// OOMKills is how many processes of the group were killed for that until
	// now.
	OOMKills uint64
}

// Watch tells when processes of a group are killed since its memory is used up,
// as it happens. The channel is closed when ctx is done, or when the group is
// empty or removed. What isn't received is told by the next event.
//
// A group without a memory controller is an error that matches
// [errors.ErrUnsupported].
func Watch(ctx context.Context, g *cgroup.Group) (<-chan Event, error) {
	for _, p := range g.Parts() {
		switch {
		case slices.Contains(p.Controllers, string(cgroup1.Memory)):
			return watch1(ctx, g)
		case len(p.Controllers) == 0 && unix.Access(p.Folder+"/memory.events", unix.F_OK) == nil:
			return watch2(ctx, g)
		}
	}
	return nil, fmt.Errorf("watching the group %s: %w", g.Folders()[0], errors.ErrUnsupported)
}

// watch2 hands on what containerd's manager sees.
func watch2(ctx context.Context, g *cgroup.Group) (<-chan Event, error) {
	manager, ok := load2(g)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	changes, ended := manager.EventChan()
	events := make(chan Event, 1)
	go func() {
		defer close(events)
		last := uint64(0)
		for {
			select {
			case <-ctx.Done():
				go func() { // until the group is removed, or the manager would wait forever
					for {
						select {
						case <-changes:
						case <-ended: //nolint:errcheck // that it has ended is all there is to know
							return
						}
					}
				}()
				return
			case <-ended: //nolint:errcheck // that it has ended is all there is to know
				return
			case c := <-changes:
				if c.OOMKill > last {
					last = c.OOMKill
					tell(events, Event{last})
				}
			}
		}
	}()
	return events, nil
}

// watch1 waits for the memory controller's event.
func watch1(ctx context.Context, g *cgroup.Group) (<-chan Event, error) {
	manager, err := load1(g)
	if err != nil {
		return nil, err
	}
	if manager == nil {
		return nil, errors.ErrUnsupported
	}
	fd, err := manager.OOMEventFD()
	if err != nil {
		return nil, fmt.Errorf("watching the group %s: %w", g.Folders()[0], err)
	}
	if err := unix.SetNonblock(int(fd), true); err != nil {
		_ = unix.Close(int(fd))
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(fd, "eventfd")
	stop := context.AfterFunc(ctx, func() { _ = file.Close() })
	events := make(chan Event, 1)
	go func() {
		defer close(events)
		defer func() { stop(); _ = file.Close() }()
		last := uint64(0)
		buf := make([]byte, 8)
		for {
			if _, err := file.Read(buf); err != nil || manager.State() == cgroup1.Deleted {
				return
			}
			// It comes before the kill.
			n, ok := awaitKill(ctx, manager, last)
			if ok {
				last = n
				tell(events, Event{n})
			}
		}
	}()
	return events, nil
}

// tell replaces what hasn't been received.
func tell(events chan Event, e Event) {
	select {
	case <-events:
	default:
	}
	events <- e
}
