package cgroup

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// oomTime bounds the time between the event that the memory is used up and the
// kill, which may not come, and on a busy machine not soon.
const oomTime = 5 * time.Second

// oomWatch ends a group of version 1 as a whole when the kernel has killed a
// part of it since the memory was used up. Version 2 does that by itself.
type oomWatch struct {
	events *os.File
	ctx    context.Context //nolint:containedctx // it is the watch's life
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// watchOOM begins to watch a group that was given a memory limit in version 1.
func (g *Group) watchOOM() error {
	i := slices.IndexFunc(g.place.trees, func(t tree) bool {
		return !t.unified && slices.ContainsFunc(t.settings, func(s setting) bool { return s.controller == "memory" })
	})
	if i < 0 {
		return nil
	}
	memory := &g.parts[i]
	fail := func(err error) error {
		return &SupportError{Why: "the memory of " + memory.path + " can't be watched: " + err.Error(), Err: err}
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fail(os.NewSyscallError("eventfd", err))
	}
	events := os.NewFile(uintptr(fd), "eventfd")
	control, err := openAt(memory.dir, "memory.oom_control", unix.O_RDONLY)
	if err == nil {
		err = writeAt(memory.dir, "cgroup.event_control", decimal(int64(fd))+" "+decimal(int64(control)))
		_ = unix.Close(control)
	}
	if err != nil {
		_ = events.Close()
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &oomWatch{events: events, ctx: ctx, cancel: cancel}
	g.oom = w
	path := memory.path
	w.done.Go(func() { w.run(g, path) })
	return nil
}

// run waits for events: the memory is used up, and the kernel is about to look
// for something to kill, which it may not find.
func (w *oomWatch) run(g *Group, memory string) {
	var buf [8]byte
	for {
		if _, err := w.events.Read(buf[:]); err != nil || binary.NativeEndian.Uint64(buf[:]) == 0 {
			return // stopped
		}
		ctx, cancel := context.WithTimeout(w.ctx, oomTime)
		killed := retry(ctx, func() bool {
			text, _ := readAt(unix.AT_FDCWD, memory+"/memory.oom_control")
			n, _ := field(text, "oom_kill")
			return n > 0
		})
		cancel()
		if killed && w.ctx.Err() == nil {
			_ = g.Kill(w.ctx) // who ends the group sees what is left
		}
	}
}

// stop ends the watch.
func (w *oomWatch) stop() {
	w.cancel()
	_ = w.events.Close()
	w.done.Wait()
}
