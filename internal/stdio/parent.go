package stdio

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrParent is the cause of the end of [Session]'s context.
var ErrParent = errors.New("the process that started this one has ended")

// lookEvery is how often the parent is looked at on kernels without pidfds.
const lookEvery = time.Second

// Session returns the context of a session with the host that started this
// process, which ends when the host does: a host that is killed closes its pipes,
// but other processes may hold the same pipes open. Until release is called,
// writing to a pipe that nobody reads is an error, and not the end of this
// process.
//
// From Linux 5.3 on nothing polls. A parent in another pid namespace isn't seen,
// and its end neither.
func Session(ctx context.Context) (_ context.Context, release func()) {
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // to ignore it would be inherited by commands
	ctx, end := withParent(ctx)
	return ctx, func() {
		signal.Stop(pipe)
		end(context.Canceled)
	}
}

func withParent(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	if parent == 0 {
		return ctx, cancel
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if os.Getppid() != parent {
		if err == nil {
			_ = unix.Close(fd)
		}
		cancel(ErrParent)
		return ctx, cancel
	}
	if err != nil {
		go lookForParent(ctx, parent, cancel)
		return ctx, cancel
	}
	_ = unix.SetNonblock(fd, true) // else a thread waits
	f := os.NewFile(uintptr(fd), "pidfd")
	context.AfterFunc(ctx, func() { _ = f.Close() })
	go func() {
		raw, err := f.SyscallConn()
		if err == nil && raw.Read(ended) == nil {
			cancel(ErrParent)
		}
	}()
	return ctx, cancel
}

// ended reports whether the process of a pidfd has.
func ended(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

func lookForParent(ctx context.Context, parent int, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if os.Getppid() != parent {
				cancel(ErrParent)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
