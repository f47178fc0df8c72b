package cgroup

import (
	"context"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// oomTime bounds the time between the event that the memory is used up and the
// kill, which may not come, and on a busy machine not soon.
const oomTime = 5 * time.Second

// oomWatch ends a group of version 1 as a whole when the kernel has killed a
// part of it since the memory was used up. Version 2 does that by itself.
type oomWatch struct {
	group *Group
	// control is the open memory.oom_control, and event what tells of events.
	control, event int
	// wake tells run of events, and is nil until there is one.
	wake   chan struct{}
	ctx    context.Context //nolint:containedctx // it is the watch's life
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// oomPoll waits for the events of all groups of this process. One goroutine
// does, from the first group on: one for each group would cost more than the
// rest of the watch, and events are rare.
type oomPoll struct {
	mu      sync.Mutex
	epoll   *os.File // nil at first
	conn    syscall.RawConn
	watches map[int32]*oomWatch // by their event
}

var oomEvents oomPoll

// watchOOM begins to watch a group that was given a memory limit in version 1.
func (g *Group) watchOOM() error {
	i := slices.IndexFunc(g.place.trees, func(t tree) bool {
		return !t.unified && slices.ContainsFunc(t.settings, func(s setting) bool { return s.controller == "memory" })
	})
	if i < 0 {
		return nil
	}
	memory := &g.parts[i]
	w := &oomWatch{group: g, control: -1, event: -1}
	if err := w.start(memory.dir); err != nil {
		w.close()
		return &SupportError{Why: "the memory of " + memory.path + " can't be watched: " + err.Error(), Err: err}
	}
	g.oom = w
	return nil
}

// start has the kernel tell of what happens in the memory group dir.
func (w *oomWatch) start(dir int) (err error) {
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if w.control, err = openAt(dir, "memory.oom_control", unix.O_RDONLY); err != nil {
		return err
	}
	if err := writeAt(dir, "cgroup.event_control", decimal(int64(w.event))+" "+decimal(int64(w.control))); err != nil {
		return err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return oomEvents.add(w)
}

// run ends the group when something in it was killed: an event says that the
// memory is used up, and that the kernel is about to look for something to
// kill, which it may not find.
func (w *oomWatch) run() {
	for range w.wake {
		ctx, cancel := context.WithTimeout(w.ctx, oomTime)
		killed := retry(ctx, func() bool {
			text, _ := readValue(w.control, "memory.oom_control")
			n, _ := field(text, "oom_kill")
			return n > 0
		})
		cancel()
		if killed && w.ctx.Err() == nil {
			_ = w.group.Kill(w.ctx) // who ends the group sees what is left
		}
	}
}

// stop ends the watch.
func (w *oomWatch) stop() {
	oomEvents.remove(w)
	w.cancel()
	w.done.Wait()
	w.close()
}

func (w *oomWatch) close() {
	for _, fd := range []int{w.event, w.control} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// add begins to wait for the events of a watch.
func (p *oomPoll) add(w *oomWatch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil {
		if err := p.start(); err != nil {
			return err
		}
	}
	// Edges, so that nobody need read what the event has counted.
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(w.event)}
	err := p.control(unix.EPOLL_CTL_ADD, w, &e)
	if err == nil {
		p.watches[e.Fd] = w
	}
	return err
}

// remove is the end of what add began.
func (p *oomPoll) remove(w *oomWatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, int32(w.event))
	_ = p.control(unix.EPOLL_CTL_DEL, w, nil) // it is there
	if w.wake != nil {
		close(w.wake)
	}
}

func (p *oomPoll) control(op int, w *oomWatch, e *unix.EpollEvent) (err error) {
	outer := p.conn.Control(func(fd uintptr) { err = unix.EpollCtl(int(fd), op, w.event, e) })
	if err == nil {
		err = outer
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// start makes the epoll, which the runtime's own poller waits for.
func (p *oomPoll) start() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	epoll := os.NewFile(uintptr(fd), "epoll")
	conn, err := epoll.SyscallConn()
	if err != nil {
		_ = epoll.Close()
		return err
	}
	p.epoll, p.conn, p.watches = epoll, conn, map[int32]*oomWatch{}
	go p.run()
	return nil
}

// run hands on events for as long as this process lives.
func (p *oomPoll) run() {
	var events [8]unix.EpollEvent
	for {
		n := 0
		err := p.conn.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		p.mu.Lock()
		for _, e := range events[:n] {
			p.watches[e.Fd].happened()
		}
		p.mu.Unlock()
	}
}

// happened wakes run, once for what happened meanwhile. A watch that was
// removed is nil.
func (w *oomWatch) happened() {
	if w == nil {
		return
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
		w.done.Go(w.run)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
