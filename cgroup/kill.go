package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// killRound is how long the kernel is given to end what was killed, before that
// is done again.
const killRound = 100 * time.Millisecond

// Kill kills every process in the group and returns when there are none left. A
// group of version 2 is killed by the kernel at once (cgroup.kill, Linux 5.14);
// otherwise it is frozen where it can be, and its processes are killed one by
// one, again and again until none is left. When ctx is done, or after ten
// seconds, what is left is a [*SurvivorsError].
func (g *Group) Kill(ctx context.Context) error {
	p := &g.parts[0]
	if p.empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := p.kill(ctx); err != nil {
			return err
		}
		round, stop := context.WithTimeout(ctx, killRound)
		ended := retry(round, p.empty)
		stop()
		if ended {
			return nil
		}
		if ctx.Err() != nil {
			pids, err := p.procs()
			if err != nil {
				return err
			}
			return &SurvivorsError{Group: p.path, Pids: pids}
		}
	}
}

// empty reports whether no process is in the group, nor beneath it.
func (p *part) empty() bool {
	if p.unified {
		text, err := valueAt(unix.AT_FDCWD, p.path+"/cgroup.events")
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
		}
		n, ok := field(text, "populated")
		return ok && n == 0
	}
	pids, err := p.procs()
	return err == nil && len(pids) == 0
}

// kill kills what is in the group now.
func (p *part) kill(ctx context.Context) error {
	if p.unified {
		err := writeAt(unix.AT_FDCWD, p.path+"/cgroup.kill", "1")
		if err == nil || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return p.killEach(ctx)
}

// killEach kills one process after the other. While they are frozen they can't
// make new ones; what wasn't frozen in time is left for the next round.
func (p *part) killEach(ctx context.Context) error {
	round, stop := context.WithTimeout(ctx, killRound)
	defer stop()
	if err := p.freeze(round); !errors.Is(err, errors.ErrUnsupported) {
		defer func() { _ = p.thaw() }() // a group that is gone needs none
	}
	return p.signalAll(unix.SIGKILL)
}

// signalAll sends a signal to each process in the group. One that is named both
// before and after it was opened was in the group in between, or is gone: its
// number can't have become that of a stranger.
func (p *part) signalAll(sig unix.Signal) error {
	before, err := p.procs()
	if err != nil {
		return err
	}
	fds := make([]int, len(before))
	for i, pid := range before {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			fd = -1
		}
		fds[i] = fd
	}
	after, err := p.procs()
	for i, pid := range before {
		if fds[i] < 0 {
			continue
		}
		if err == nil && slices.Contains(after, pid) {
			_ = unix.PidfdSendSignal(fds[i], sig, nil, 0) // the next round sees what is left
		}
		_ = unix.Close(fds[i])
	}
	return err
}

// Freeze stops every process in the group, and returns when they have stopped.
// The command can't tell, other than by the clock. It takes version 2 (Linux
// 5.2) or the freezer of version 1, else it is an error that matches
// [errors.ErrUnsupported]. When ctx is done, or after ten seconds, all go on,
// and that is the error.
func (g *Group) Freeze(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := g.parts[0].freeze(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		_ = g.parts[0].thaw() // the first error counts
	}
	return err
}

// Thaw lets go on what Freeze has stopped.
func (g *Group) Thaw() error { return g.parts[0].thaw() }

// thaw asks for what takes no time.
func (p *part) thaw() error {
	file, value := p.freezer()
	if file == "" {
		return errors.ErrUnsupported
	}
	return writeAt(unix.AT_FDCWD, file, value[0])
}

// freezer returns the file by which the group is frozen, and what it takes to
// go on and to stop.
func (p *part) freezer() (file string, value [2]string) {
	switch {
	case p.unified:
		return p.path + "/cgroup.freeze", [2]string{"0", "1"}
	case slices.Contains(p.controllers, "freezer"):
		return p.path + "/freezer.state", [2]string{"THAWED", "FROZEN"}
	}
	return "", value
}

// freeze stops what is in the group.
func (p *part) freeze(ctx context.Context) error {
	file, value := p.freezer()
	if file == "" {
		return errors.ErrUnsupported
	}
	if err := writeAt(unix.AT_FDCWD, file, value[1]); err != nil {
		if errors.Is(err, fs.ErrNotExist) && unix.Access(p.path, unix.F_OK) == nil {
			return errors.ErrUnsupported
		}
		return err
	}
	stopped := retry(ctx, func() bool {
		if !p.unified {
			text, err := read(file)
			return err != nil || text == value[1]
		}
		text, err := valueAt(unix.AT_FDCWD, p.path+"/cgroup.events")
		n, ok := field(text, "frozen")
		return err != nil || ok && n == 1
	})
	if !stopped {
		return &os.PathError{Op: "freeze", Path: p.path, Err: context.Cause(ctx)}
	}
	return nil
}

// End kills what is left in a group that this process made, says what was used,
// and removes the group. Of a group of the caller's it only says what was used.
// In any case it releases what g holds. The Stats are as complete as they could
// be read, also with an error. The second time it says the same.
func (g *Group) End(ctx context.Context) (Stats, error) {
	if g.ended {
		return g.last, nil
	}
	var killed error
	if g.made {
		killed = g.Kill(ctx)
	}
	var err error
	g.last, err = g.Stats()
	return g.last, errors.Join(killed, err, g.Remove(ctx))
}
