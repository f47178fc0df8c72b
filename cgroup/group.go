package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// prefix begins the names of groups.
	prefix = "shofer-sandbox-"
	// selfName is the folder that this process moves into.
	selfName = "shofer-sandbox.self"
)

// Group is a control group for one command. It holds descriptors until
// [Group.Remove] or [Group.End]. Kill may be called at any time; the other
// methods by one goroutine at a time.
type Group struct {
	place *Place
	name  string
	// made says that the group is this process's, to be ended and removed.
	made bool
	// lock is the first part's folder, open and locked; -1 for none. It isn't
	// the one that is handed on, whose lock would live on in a child.
	lock  int
	parts []part
	// start are the counts of a group that the caller made.
	start Stats
	// last is what End said; ended says that nothing is held any more.
	last  Stats
	ended bool
	oom   *oomWatch // nil unless it is needed
}

// part is a group's folder in one hierarchy.
type part struct {
	*hierarchy
	path string
	// dir is open, or -1.
	dir int
	// join is open for who puts itself into the group, or -1.
	join int
}

// counter makes names unique in this process.
var counter atomic.Int64

// Create makes a group and sets its limits, each of which is read back, or
// opens the caller's. Nothing is in it yet. The caller calls [Group.End] or
// [Group.Remove].
//
// Errors are [*SupportError] and [*LimitError]; then nothing is left.
func (p *Place) Create() (*Group, error) {
	if p.given != nil {
		return p.open()
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	for range 100 {
		name := prefix + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatInt(counter.Add(1), 36)
		g, err := p.create(name)
		if err == nil || !errors.Is(err, errTaken) && !errors.Is(err, fs.ErrExist) {
			return g, err
		}
	}
	return nil, &SupportError{Why: "each name for a group in " + p.trees[0].parent + " is taken"}
}

// errTaken says that a sweeper was faster than the owner.
var errTaken = errors.New("another process has taken the group")

func (p *Place) create(name string) (_ *Group, err error) {
	g := &Group{place: p, name: name, made: true, lock: -1}
	defer func() {
		if err != nil {
			g.discard()
		}
	}()
	for i, t := range p.trees {
		path := t.parent + "/" + name
		if err := unix.Mkdir(path, 0o755); err != nil {
			return nil, makeError(path, err)
		}
		g.parts = append(g.parts, part{hierarchy: t.hierarchy, path: path, dir: -1, join: -1})
		if i == 0 {
			if g.lock, err = lock(path); err != nil {
				return nil, err
			}
		}
		part := &g.parts[i]
		from, name := unix.AT_FDCWD, path
		if i == 0 {
			from, name = g.lock, "."
		}
		if part.dir, err = openAt(from, name, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
			return nil, makeError(path, err)
		}
		for _, s := range t.settings {
			if err := s.set(part.dir, path); err != nil {
				return nil, err
			}
		}
		if !t.unified {
			if part.join, err = openAt(part.dir, t.joinFile(), unix.O_WRONLY); err != nil {
				return nil, makeError(path, err)
			}
		}
	}
	if err := g.watchOOM(); err != nil {
		return nil, err
	}
	return g, nil
}

func makeError(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EAGAIN) {
		return &SupportError{Why: "the machine has no room for the group " + path + ": " + err.Error(), Mend: "remove groups that nobody uses", Err: err}
	}
	return &SupportError{Why: "the group " + path + " can't be made: " + err.Error(), Err: err}
}

// lock opens a group's folder and takes the lock that says who owns it. The
// error is errTaken when another process has it, or has removed the group.
func lock(path string) (dir int, err error) {
	dir, err = openAt(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, errTaken
	}
	if err != nil {
		return -1, makeError(path, err)
	}
	var have, named unix.Stat_t
	if unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB) == nil && unix.Fstat(dir, &have) == nil &&
		unix.Stat(path, &named) == nil && have.Ino == named.Ino {
		return dir, nil
	}
	_ = unix.Close(dir)
	return -1, errTaken
}

// open opens the caller's groups.
func (p *Place) open() (_ *Group, err error) {
	g := &Group{place: p, lock: -1}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	for _, t := range p.given {
		dir, err := openAt(unix.AT_FDCWD, t.parent, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return nil, makeError(t.parent, err)
		}
		g.parts = append(g.parts, part{hierarchy: t.hierarchy, path: t.parent, dir: dir, join: -1})
		// Not by CLONE_INTO_CGROUP: what that makes in a group in which
		// something was killed by cgroup.kill before, Linux kills too.
		if g.parts[len(g.parts)-1].join, err = openAt(dir, t.joinFile(), unix.O_WRONLY); err != nil {
			return nil, makeError(t.parent, err)
		}
	}
	if g.start, err = g.stats(); err != nil {
		return nil, err
	}
	return g, nil
}

// prepare makes the place ready for groups, once.
func (p *Place) prepare() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prepared {
		return nil
	}
	for _, t := range p.trees {
		if err := t.prepare(); err != nil {
			return err
		}
	}
	p.prepared = true
	return nil
}

// prepare moves processes down and switches controllers on, as far as needed.
func (t *tree) prepare() error {
	if len(t.enable) == 0 {
		return nil // groups without limits lie anywhere
	}
	text, err := read(t.parent + "/cgroup.subtree_control")
	if err != nil {
		return &SupportError{Why: err.Error(), Err: err}
	}
	if contains(strings.Fields(text), t.enable) {
		return nil
	}
	if t.evacuate {
		if err := moveDown(t.parent); err != nil {
			return err
		}
	}
	for _, c := range t.enable {
		if err := writeAt(unix.AT_FDCWD, t.parent+"/cgroup.subtree_control", "+"+c); err != nil {
			e := &SupportError{Why: "the controller " + c + " can't be switched on in " + t.parent + ": " + err.Error(), Err: err}
			if errors.Is(err, unix.EBUSY) {
				e.Why = "the group " + t.parent + " has processes of its own, so that no group in it can have the controller " + c
				e.Mend = "move them to a group beneath it"
			}
			return e
		}
	}
	return nil
}

// moveDown moves what is in a group into a folder beneath it. What starts there
// meanwhile is moved in the next round.
func moveDown(dir string) error {
	self := dir + "/" + selfName
	if err := unix.Mkdir(self, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return makeError(self, err)
	}
	for range 100 {
		text, err := read(dir + "/cgroup.procs")
		if err != nil {
			return &SupportError{Why: err.Error(), Err: err}
		}
		pids := strings.Fields(text)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if pid == "0" {
				return &SupportError{Why: "the group " + dir + " has processes that aren't to be seen here"}
			}
			err := writeAt(unix.AT_FDCWD, self+"/cgroup.procs", pid)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return &SupportError{Why: "process " + pid + " can't be moved to " + self + ": " + err.Error(), Err: err}
			}
		}
	}
	return &SupportError{Why: "the group " + dir + " has processes of its own, and more start all the time"}
}

// joinFile is what a process writes to that joins a group. In version 1 it is
// the one for threads, which takes no lock that all forks of the machine wait
// for.
func (h *hierarchy) joinFile() string {
	if h.unified {
		return "cgroup.procs"
	}
	return "tasks"
}

// FD returns the open folder of a version 2 group, for CLONE_INTO_CGROUP (Linux
// 5.7), or -1 if the group is none or the caller's. It stays the group's.
func (g *Group) FD() int {
	for _, p := range g.parts {
		if p.unified && g.made {
			return p.dir
		}
	}
	return -1
}

// Join returns open files of groups that FD doesn't stand for. A process that
// writes "0" to each is in the group; it does that while it has only one
// thread, before its exec. They stay the group's.
func (g *Group) Join() (fds []int) {
	for _, p := range g.parts {
		if p.join >= 0 {
			fds = append(fds, p.join)
		}
	}
	return fds
}

// Folders are the group's, the one of version 2 first.
func (g *Group) Folders() (dirs []string) {
	for _, p := range g.parts {
		dirs = append(dirs, p.path)
	}
	return dirs
}

// Part is a group's folder in one hierarchy.
type Part struct {
	// Mount is where the hierarchy is mounted, and Folder the group's in it.
	Mount, Folder string
	// Controllers are those of version 1; nil for version 2.
	Controllers []string
}

// Parts are the group's, the one of version 2 first.
func (g *Group) Parts() (parts []Part) {
	for _, p := range g.parts {
		parts = append(parts, Part{Mount: p.mount, Folder: p.path, Controllers: slices.Clone(p.controllers)})
	}
	return parts
}

// Made reports whether the group is this process's, as opposed to the caller's.
func (g *Group) Made() bool { return g.made }

// Procs lists the processes in the group, by their numbers here. Those that
// have none, in another pid namespace, are left out.
func (g *Group) Procs() ([]int, error) {
	return g.parts[0].procs()
}

func (p *part) procs() (pids []int, err error) {
	text, err := readAll(p.path + "/cgroup.procs") // by name, since dir may be closed
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil // removed
	}
	if err != nil {
		return nil, err
	}
	for f := range strings.FieldsSeq(text) {
		if pid, ok := number(f); ok && pid > 0 {
			pids = append(pids, int(pid))
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Remove removes a group that this process made, and in any case releases what
// g holds. It waits until processes that are ending have left. What is still
// alive is not killed, and makes it a [*SurvivorsError] when ctx is done, or
// after ten seconds; the group then stays, for a [Place.Sweep] of somebody's.
func (g *Group) Remove(ctx context.Context) error {
	if g.ended {
		return nil
	}
	defer g.close()
	if !g.made {
		return nil
	}
	var errs []error
	var busy []part
	for _, p := range slices.Backward(g.parts) {
		err := removeTree(p.path, 0)
		if errors.Is(err, unix.EBUSY) {
			busy = append(busy, p)
			continue
		}
		errs = append(errs, err)
	}
	if len(busy) == 0 { // a timer costs more than the rest
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, p := range busy {
		errs = append(errs, p.remove(ctx))
	}
	return errors.Join(errs...)
}

// patience bounds waits.
const patience = 10 * time.Second

// remove removes the folder, when nothing is in it any more.
func (p *part) remove(ctx context.Context) error {
	var err error
	ok := retry(ctx, func() bool {
		err = removeTree(p.path, 0)
		return !errors.Is(err, unix.EBUSY)
	})
	if ok || err == nil {
		return err
	}
	pids, _ := p.procs() // the kernel says that there are some
	return &SurvivorsError{Group: p.path, Pids: pids}
}

// removeTree removes a group, with those that somebody has made beneath it.
func removeTree(dir string, depth int) error {
	err := unix.Rmdir(dir)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EBUSY) && depth < 32 {
		entries, readErr := os.ReadDir(dir)
		if readErr != nil {
			return readErr
		}
		found := false
		for _, e := range entries {
			if e.IsDir() {
				found = true
				if err := removeTree(dir+"/"+e.Name(), depth+1); err != nil {
					return err
				}
			}
		}
		if found {
			if err = unix.Rmdir(dir); err == nil {
				return nil
			}
		}
	}
	return &os.PathError{Op: "rmdir", Path: dir, Err: err}
}

// retry calls f until it is true, at longer and longer intervals, and reports
// whether it was before ctx was done.
func retry(ctx context.Context, f func() bool) bool {
	wait := 50 * time.Microsecond
	for !f() {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return f()
		case <-timer.C:
		}
		wait = min(2*wait, 20*time.Millisecond)
	}
	return true
}

// discard removes a group that nothing has been in.
func (g *Group) discard() {
	for _, p := range slices.Backward(g.parts) {
		_ = unix.Rmdir(p.path) // the first error counts; a sweep gets it otherwise
	}
	g.close()
}

// close releases what g holds.
func (g *Group) close() {
	g.ended = true
	if g.oom != nil {
		g.oom.stop()
		g.oom = nil
	}
	fds := []*int{&g.lock}
	for i := range g.parts {
		fds = append(fds, &g.parts[i].join, &g.parts[i].dir)
	}
	for _, fd := range fds {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}
