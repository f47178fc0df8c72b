package mountns

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Watch covers protected paths again that somebody outside replaces while
// commands run: their mounts go away with what they covered. Until a path is
// covered again, usually a fraction of a millisecond, and within the first one
// of a command up to that, it is open to the command;
// what a command does then can only be compared afterwards.
//
// It may be used by many goroutines at once. A file system that hangs holds up
// whatever covers paths, and remove for its command; no other call waits for it.
type Watch struct {
	frozen []string

	mu       sync.Mutex
	commands map[*command]struct{}
	// changed is an eventfd that is written to when commands change; -1 while
	// nobody looks.
	changed int
	// first begins to look; nil while there are no commands.
	first *time.Timer
}

const (
	// lookFirst is the time after which a new command is looked after: most end
	// sooner, and are spared a thread.
	lookFirst = time.Millisecond
	// lookEvery bounds the time until what no mount went away for is seen: a
	// name that was given to something else, while the mount stays with what
	// had it.
	lookEvery = 200 * time.Millisecond
	// lookAgain is the time after which a path is tried again that could not be
	// covered: a mount goes away shortly before the name leads elsewhere.
	// lookHard is how often that is done, for one path and command: then it is
	// tried every lookEvery only.
	lookAgain = 100 * time.Microsecond
	lookHard  = 1000
)

// NewWatch returns a watch for what r protects, which watches nothing yet. It
// is nil if there is nothing to watch.
func NewWatch(r *policy.Resolved) *Watch {
	w := &Watch{commands: map[*command]struct{}{}, changed: -1}
	for _, p := range r.Protect {
		if p.Kind == policy.Frozen {
			w.frozen = append(w.frozen, p.Path)
		}
	}
	if w.frozen == nil {
		return nil
	}
	return w
}

// Add begins to watch for the command with the given id. Pidfd is an open one of
// its, by which is seen that the id is still its own; from here on it belongs to
// the watch. It is -1 for a child that isn't reaped. The caller calls remove when
// the command has ended with all that it left. Where no pidfd is given and that is
// impossible (no /proc, or the command has ended), remove does nothing, and the
// error says why.
func (w *Watch) Add(pid, pidfd int) (remove func(), err error) {
	c := newCommand(pid, pidfd)
	if pidfd < 0 { // now or never
		if err := c.open(); err != nil {
			return func() {}, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands[c] = struct{}{}
	if w.first == nil {
		w.first = time.AfterFunc(lookFirst, w.begin)
	}
	w.tell()
	return func() { w.remove(c) }, nil
}

func (w *Watch) remove(c *command) {
	w.mu.Lock()
	if _, ok := w.commands[c]; ok {
		delete(w.commands, c)
		w.tell()
		if len(w.commands) == 0 && w.first != nil && w.first.Stop() {
			w.first = nil
		}
	}
	w.mu.Unlock()
	c.leave()
}

// tell has the list of commands read again by who looks.
func (w *Watch) tell() {
	if w.changed >= 0 {
		_, _ = unix.Write(w.changed, binary.NativeEndian.AppendUint64(nil, 1)) // one is enough
	}
}

// begin looks until there are no commands any more.
func (w *Watch) begin() {
	changed, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		w.end(false)
		return
	}
	w.mu.Lock()
	w.changed = changed
	w.mu.Unlock()
	w.look(changed)
}

// end ends looking: where there are commands, for lookEvery. It reports false if
// it is only to end without commands, and there are some.
func (w *Watch) end(idle bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if idle && len(w.commands) > 0 {
		return false
	}
	if w.changed >= 0 {
		_ = unix.Close(w.changed)
		w.changed = -1
	}
	if len(w.commands) > 0 {
		w.first.Reset(lookEvery)
	} else {
		w.first = nil
	}
	return true
}

// look covers what isn't covered, now and whenever mounts change, while there
// are commands. It waits in a thread: the kernel tells of such a change once, to
// who asks first.
func (w *Watch) look(changed int) {
	for !w.end(true) {
		fds, again := w.lookNow(changed)
		wait := unix.NsecToTimespec(int64(lookEvery))
		if again {
			wait = unix.NsecToTimespec(int64(lookAgain))
		}
		_, err := unix.Ppoll(fds, &wait, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			w.end(false)
			return
		}
		if fds[0].Revents != 0 {
			var count [8]byte
			_, _ = unix.Read(changed, count[:]) // what is left tells again
		}
	}
}

// lookNow covers what isn't covered, and returns what to wait for, and whether
// something is to be tried again soon. Commands come and go meanwhile.
func (w *Watch) lookNow(changed int) (fds []unix.PollFd, again bool) {
	w.mu.Lock()
	commands := slices.Collect(maps.Keys(w.commands))
	w.mu.Unlock()
	fds = []unix.PollFd{{Fd: int32(changed), Events: unix.POLLIN}}
	for _, c := range commands {
		table, soon, err := c.look(w.frozen)
		switch {
		case err == nil:
			fds = append(fds, unix.PollFd{Fd: int32(table), Events: unix.POLLPRI})
			again = again || soon
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		default:
			w.remove(c) // it has ended; what isn't watched is compared
		}
	}
	return fds, again
}

// attempt is how often a path could not be covered, without a success since, and
// when that was tried last.
type attempt struct {
	failed int
	last   time.Time
}

// look covers what isn't covered, and returns what tells when mounts change, and
// whether something is to be tried again soon.
func (c *command) look(paths []string) (table int, again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return -1, false, errGone
	}
	if c.table < 0 {
		if err := c.open(); err != nil {
			return -1, false, err
		}
	}
	if c.attempts == nil {
		c.attempts = make([]attempt, len(paths))
	}
	for i, path := range paths {
		a := &c.attempts[i]
		switch {
		case a.failed >= lookHard && time.Since(a.last) < lookEvery:
		case c.cover(path):
			*a = attempt{}
		default:
			a.failed, a.last = a.failed+1, time.Now()
			again = again || a.failed < lookHard
		}
	}
	return c.table, again, nil
}

var errGone = errors.New("the command is watched no longer")

// leave closes what belongs to a command, when nobody looks.
func (c *command) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	c.close()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
}

// cover makes what is at a path read-only, unless there is a mount already. It
// reports false if it failed to.
func (c *command) cover(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(c.root, strings.TrimPrefix(path, "/"), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	if err != nil || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return true // or there is nothing to cover, or no way to know (before Linux 5.8)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
	default:
		return true // the command was faster; it is compared
	}
	err = spawn.MountIn(c.namespace, c.owner, []spawn.Mount{
		{Op: spawn.MountTake, Source: path, Flags: unix.AT_SYMLINK_NOFOLLOW, Set: unix.MOUNT_ATTR_RDONLY},
		{Op: spawn.MountPlace, Target: path},
	})
	return err == nil
}
