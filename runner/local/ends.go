package local

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ends waits for the ends of all children of this process, with one goroutine
// and one descriptor for them together, which stay once a command was started.
// They are left to be reaped.
var ends watcher

type watcher struct {
	once  sync.Once
	epoll *os.File // nil where there can't be one

	mu      sync.Mutex
	waiting map[int32]func() // by pidfd
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

// open makes the watcher's descriptor and its goroutine.
func (w *watcher) open() {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return
	}
	f := os.NewFile(uintptr(fd), "ends")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return
	}
	w.epoll, w.waiting = f, map[int32]func(){}
	go func() {
		_ = raw.Read(func(fd uintptr) bool {
			w.take(int(fd))
			return false // there is always another one
		})
	}()
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
	return added
}

// take tells of those that have ended.
func (w *watcher) take(epoll int) {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return
		}
		var over [len(events)]func()
		w.mu.Lock()
		for i, e := range events[:n] {
			over[i] = w.waiting[e.Fd]
			delete(w.waiting, e.Fd)
		}
		w.mu.Unlock()
		for _, ended := range over[:n] { // who waits may come back at once
			ended()
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
