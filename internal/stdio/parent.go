package stdio

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrParent is the cause of the end of [WithParent]'s context.
var ErrParent = errors.New("the process that started this one has ended")

// lookEvery is how often the parent is looked at on kernels without pidfds.
const lookEvery = time.Second

// WithParent returns a context that ends when the process ends that started this
// one. A host that is killed closes its pipes, but other processes may hold the
// same pipes open. Cancelling releases what it holds.
//
// From Linux 5.3 on nothing polls. A parent in another pid namespace isn't seen,
// and its end neither.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	parent := os.Getppid()
	if parent == 0 {
		return ctx, stop
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if os.Getppid() != parent {
		if err == nil {
			_ = unix.Close(fd)
		}
		cancel(ErrParent)
		return ctx, stop
	}
	if err != nil {
		go lookForParent(ctx, parent, cancel)
		return ctx, stop
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
	return ctx, stop
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
