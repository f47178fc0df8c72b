package local

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ends waits for the ends of all children of this process, with one goroutine for
// them together, as long as there are some, and one descriptor, which stays. They
// are left to be reaped.
var ends watcher

type watcher struct {
	once  sync.Once
	epoll *os.File // nil where there can't be one

	mu      sync.Mutex
	waiting map[int32]func() // by pidfd
	going   bool             // the goroutine
}

// watch lets ended be called when a child has ended, which must not be reaped
// before. It may not wait for anything.
func (w *watcher) watch(p *os.Process, ended func()) {
	w.once.Do(w.open)
	if w.epoll == nil || !w.add(p, ended) {
		go func() {
			awaitEnd(p.Pid)
			ended()
		}()
	}
}

// open makes the watcher's descriptor.
func (w *watcher) open() {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return
	}
	w.epoll, w.waiting = os.NewFile(uintptr(fd), "ends"), map[int32]func(){}
}

// loop tells of ends until none is waited for.
func (w *watcher) loop() {
	raw, err := w.epoll.SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool { return w.take(int(fd)) })
	}
}

// add lets a child be watched. Where the kernel has no pidfds (before Linux 5.4)
// it reports false.
func (w *watcher) add(p *os.Process, ended func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := false
	_ = p.WithHandle(func(pidfd uintptr) {
		fd := int32(pidfd)
		_ = withFD(w.epoll, func(epoll int) {
			// Once: it stays readable until it is closed, which removes it.
			e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: fd}
			added = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &e) == nil
		})
		if added {
			w.waiting[fd] = ended
		}
	})
	if added && !w.going {
		w.going = true
		go w.loop()
	}
	return added
}

// take tells of those that have ended, and reports whether no others are waited
// for.
func (w *watcher) take(epoll int) (none bool) {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return false
		}
		var over [len(events)]func()
		w.mu.Lock()
		for i, e := range events[:n] {
			over[i] = w.waiting[e.Fd] // nil if nobody waits for it
			delete(w.waiting, e.Fd)
		}
		none = len(w.waiting) == 0
		w.going = !none
		w.mu.Unlock()
		for _, ended := range over[:n] { // who waits may come back at once
			if ended != nil {
				ended()
			}
		}
		if none {
			return true
		}
	}
}

// withFD calls f with a file's descriptor, which stays as it is.
func withFD(f *os.File, call func(fd int)) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { call(int(fd)) })
}

// awaitEnd waits for a child to end, and leaves it to be reaped.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
