// Package proctree finds the processes of one command through /proc, and
// signals them, where nothing better is at hand: no control group, no domain,
// no namespace of its own.
//
// A process belongs to the command if it is in the session or the group of the
// command's leader, if it descends from one that does, or if its environment
// has the command's mark. So what starts a session of its own is found, unless
// it also clears its environment and has lost its parent: that is the
// limitation. What belongs to another user, or can't be traced by this process,
// is found by session, group and descent only. Where /proc is another PID
// namespace's nothing is found.
//
// A leader must not be reaped while a [Tree] is in use: until then the numbers
// of its session and its group can't be another's.
package proctree

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"golang.org/x/sys/unix"
)

// Process is one that was found.
type Process struct {
	Pid int
	// Start is the time at which it was started, in the kernel's ticks since
	// boot: with Pid it names a process for good.
	Start uint64
	// Name is the kernel's short name of it.
	Name string
	// Why says how it was found.
	Why Reason

	state byte
	ppid  int
}

// Reason is how a process was found to belong to a command.
type Reason string

// The reasons, the surest first.
const (
	Leader      Reason = "leader"
	Session     Reason = "session"
	Group       Reason = "group"
	Descendant  Reason = "descendant"
	Environment Reason = "environment"
	// Cgroup is for those who find it in the command's control group.
	Cgroup Reason = "cgroup"
)

// Tree is what is known about a command. It may be used by one goroutine at a
// time.
type Tree struct {
	leader int
	start  uint64 // when the leader was started; 0 until it is needed
	mark   []byte // NAME=VALUE in the environment; nil looks for none
	known  map[int]uint64
	made   time.Time
	ended  bool // the leader has
}

// leaders are those of all trees in use: what is in the session of one is that
// one's, and needn't be looked at by others.
var leaders sync.Map

// New returns the tree of a leader, which is a child of this process that
// isn't reaped. It is taken for the leader of a session or a group if it leads
// one. Mark is an entry of its environment that no other command's has; empty
// looks at no environment. The caller calls [Tree.Release] before the leader is
// reaped.
func New(leader int, mark string) *Tree {
	t := &Tree{leader: leader, known: map[int]uint64{}, made: time.Now()}
	if mark != "" {
		t.mark = []byte(mark)
	}
	leaders.Store(leader, nil)
	return t
}

// Ended says that the leader has ended, which needn't be looked at then.
func (t *Tree) Ended() { t.ended = true }

// Release says that the tree isn't used any more.
func (t *Tree) Release() { leaders.Delete(t.leader) }

// Scan returns the processes of the command that live, zombies left out. What
// it has found once it keeps, so that their children are found even when they
// are gone; hence a scan before the leader is killed finds more than one after.
func (t *Tree) Scan() []Process {
	if !linux.OwnProc() { // its numbers are others' here
		return nil
	}
	if t.start == 0 {
		if len(t.known) == 0 && t.alone() {
			return nil
		}
		if p, ok := read(t.leader); ok {
			t.start = p.Start
		}
	}
	all := settle(list())
	members := map[int]Reason{}
	for _, p := range all {
		if why := t.belongs(p); why != "" {
			members[p.Pid] = why
		}
	}
	for grown := true; grown; { // parents may come after their children
		grown = false
		for _, p := range all {
			if _, ok := members[p.Pid]; ok || p.Start < t.start {
				continue
			}
			if _, ok := members[p.ppid]; ok {
				members[p.Pid], grown = Descendant, true
			}
		}
	}
	for _, p := range all {
		if _, ok := members[p.Pid]; !ok && p.state != 'Z' && p.Start >= t.start && t.marked(p.Pid) {
			members[p.Pid] = Environment
		}
	}
	var found []Process
	clear(t.known)
	for _, p := range all {
		why, ok := members[p.Pid]
		if !ok {
			continue
		}
		t.known[p.Pid] = p.Start
		if p.state != 'Z' && p.state != 'X' {
			p.Why = why
			found = append(found, p.Process)
		}
	}
	return found
}

// belongs tells what is known about one process from its own entry.
func (t *Tree) belongs(p entry) Reason {
	switch {
	case p.Start < t.start:
		return ""
	case p.Pid == t.leader:
		return Leader
	case p.session == t.leader:
		return Session
	case p.group == t.leader:
		return Group
	case t.known[p.Pid] == p.Start:
		return Descendant
	}
	return ""
}

func (t *Tree) marked(pid int) bool {
	if t.mark == nil {
		return false
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(e, t.mark) {
			return true
		}
	}
	return false
}

// Signal sends a signal to the leader's group at once, and to all others that
// a scan finds, and returns what was found. A process that ends meanwhile, and
// another that takes its number, gets nothing.
func (t *Tree) Signal(s syscall.Signal) []Process {
	found := t.Scan()
	if pgid, err := unix.Getpgid(t.leader); err == nil && pgid == t.leader {
		_ = unix.Kill(-t.leader, s) // all of it at once, so that none can fork away
	} else {
		_ = unix.Kill(t.leader, s)
	}
	for _, p := range parentsFirst(found) {
		if p.Why != Leader && p.Why != Group {
			p.signal(t.leader, s)
		}
	}
	return found
}

// SignalEach sends a signal to each process that a scan finds, but for some. It
// is for a leader that stays with the command.
func (t *Tree) SignalEach(s syscall.Signal, but ...int) {
	for _, p := range parentsFirst(t.Scan()) {
		if !slices.Contains(but, p.Pid) {
			p.signal(0, s)
		}
	}
}

// parentsFirst orders processes so that each comes after its parent: a shell
// whose child is ended before it is goes on with its next command.
func parentsFirst(found []Process) []Process {
	byPid := make(map[int]Process, len(found))
	for _, p := range found {
		byPid[p.Pid] = p
	}
	depths := make(map[int]int, len(found))
	depth := func(pid int) int {
		n := 0
		for at, ok := byPid[pid]; ok && n <= len(found); at, ok = byPid[at.ppid] {
			if known, ok := depths[at.Pid]; ok {
				n += known
				break
			}
			n++
		}
		depths[pid] = n
		return n
	}
	ordered := slices.Clone(found)
	slices.SortStableFunc(ordered, func(a, b Process) int { return cmp.Compare(depth(a.Pid), depth(b.Pid)) })
	return ordered
}

// Find returns a process that lives, found for another reason.
func Find(pid int, why Reason) (Process, bool) {
	e, ok := read(pid)
	e.Why = why
	return e.Process, ok && e.state != 'Z' && e.state != 'X'
}

// Signal sends a signal to exactly this process.
func (p Process) Signal(s syscall.Signal) { p.signal(0, s) }

// Parent returns the parent of a process, 0 if it isn't there.
func Parent(pid int) int {
	e, _ := read(pid)
	return e.ppid
}

// Descends reports whether a process is there and descends from another one.
func Descends(pid, from int) bool {
	for range 1 << 10 { // numbers that are given anew while they are read could go round
		if pid = Parent(pid); pid <= 1 || pid == from {
			break
		}
	}
	return pid == from
}

// signal sends a signal to exactly this process, unless it is in the group
// that has got it.
func (p Process) signal(group int, s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			_ = unix.Kill(p.Pid, s)
		}
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := read(p.Pid); ok && now.Start == p.Start && now.group != group {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// entry is what /proc says about a process.
type entry struct {
	Process
	group, session int
}

// young is how old a command may be for its processes to be looked for by
// number: not even a storm of forks goes round all numbers in that time.
const young = 100 * time.Millisecond

// fewNumbers is up to how many numbers are cheaper to try than to list /proc.
const fewNumbers = 4096

// alone reports whether a young command, whose leader has ended, surely has no
// process that lives. It looks at the numbers that were given since the leader
// got its own; they are given in a circle.
func (t *Tree) alone() bool {
	last, ok := lastNumber()
	if n := last - t.leader; !ok || n < 0 || n > fewNumbers || time.Since(t.made) > young {
		return false
	}
	if !t.ended {
		if e, ok := read(t.leader); ok && e.state != 'Z' && e.state != 'X' {
			return false
		}
	}
	for pid := t.leader + 1; pid <= last; pid++ {
		session, err := unix.Getsid(pid)
		if err != nil {
			continue // there is no such process
		}
		if session < t.leader {
			continue // which nobody can join: of another command's
		}
		if _, others := leaders.Load(session); others && session != t.leader {
			continue
		}
		if e, ok := read(pid); ok && e.state != 'Z' && e.state != 'X' && (session == t.leader || e.group == t.leader || t.marked(pid)) {
			return false
		}
	}
	return true
}

// lastNumber returns the number that was given last, to a process or a thread:
// the fifth field of proc_loadavg(5).
func lastNumber() (int, bool) {
	var buf [128]byte
	line, ok := readSmall("/proc/loadavg", buf[:])
	if !ok {
		return 0, false
	}
	f := bytes.Fields(line)
	if len(f) != 5 {
		return 0, false
	}
	n, err := strconv.Atoi(string(f[4]))
	return n, err == nil
}

// settle reads those again whose parent isn't there: it has ended meanwhile,
// and they have another one.
func settle(all []entry) []entry {
	there := make(map[int]bool, len(all))
	for _, e := range all {
		there[e.Pid] = true
	}
	for i, e := range all {
		if there[e.ppid] || e.ppid == 0 {
			continue
		}
		if now, ok := read(e.Pid); ok && now.Start == e.Start {
			all[i] = now
		}
	}
	return all
}

// list reads all processes.
func list() (all []entry) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	all = make([]entry, 0, len(names))
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, ok := read(pid); ok {
			all = append(all, e)
		}
	}
	return all
}

// read reads /proc/PID/stat; see proc_pid_stat(5).
func read(pid int) (entry, bool) {
	var buf [1024]byte
	line, ok := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if !ok {
		return entry{}, false
	}
	return parse(pid, line)
}

// readSmall reads a file that one call reads. An [os.File] would make it three
// times as many.
func readSmall(path string, buf []byte) ([]byte, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, buf)
	return buf[:max(n, 0)], err == nil
}

// parse reads a line of /proc/PID/stat. The name, in parentheses, may have any
// byte.
func parse(pid int, line []byte) (e entry, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return e, false
	}
	f := bytes.Fields(line[end+1:])
	const start = 19 // field 22, counted from the third
	if len(f) <= start || len(f[0]) != 1 {
		return e, false
	}
	e.Pid, e.Name, e.state = pid, string(line[open+1:end]), f[0][0]
	var err [4]error
	e.ppid, err[0] = strconv.Atoi(string(f[1]))
	e.group, err[1] = strconv.Atoi(string(f[2]))
	e.session, err[2] = strconv.Atoi(string(f[3]))
	e.Start, err[3] = strconv.ParseUint(string(f[start]), 10, 64)
	return e, errors.Join(err[:]...) == nil
}
