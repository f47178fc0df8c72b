package witness

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// status is what /proc/PID/status says of a thread.
type status struct {
	tgid int
	// inside are the process's and the thread's number in its pid namespace.
	inside [2]string
	// uid, gid and groups are those by which it uses files.
	uid, gid uint32
	groups   []uint32
	caps     uint64
}

func (a *Act) readStatus() (*status, error) {
	if a.status != nil {
		return a.status, nil
	}
	s, err := readStatus("/proc/" + strconv.Itoa(a.call.Thread) + "/status")
	if err == nil {
		a.status = s
	}
	return s, err
}

func readStatus(file string) (*status, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &status{}
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(string(line), ":")
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		last := f[len(f)-1]
		switch key {
		case "Tgid":
			s.tgid, err = strconv.Atoi(last)
		case "NStgid":
			s.inside[0] = last
		case "NSpid":
			s.inside[1] = last
		case "Uid": // real, effective, saved, file system
			s.uid, err = number(last)
		case "Gid":
			s.gid, err = number(last)
		case "Groups":
			for _, g := range f {
				n, e := number(g)
				s.groups, err = append(s.groups, n), errors.Join(err, e)
			}
		case "CapEff":
			s.caps, err = strconv.ParseUint(last, 16, 64)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

func (s *status) has(capability int) bool { return s.caps&(1<<capability) != 0 }

func (s *status) in(gid uint32) bool { return s.gid == gid || slices.Contains(s.groups, gid) }

// own is what this process is.
var own = sync.OnceValues(func() (*status, error) { return readStatus("/proc/thread-self/status") })

// Permits reports whether, by the permissions of the files, the caller could do
// it. It looks at the files as this process sees them, since a mount that is
// there to refuse something hides what they say.
func (a *Act) Permits(x *Access) bool {
	s, err := a.readStatus()
	if err != nil {
		return false
	}
	may := s.may
	if us, err := own(); err == nil && us.uid == s.uid && us.gid == s.gid && slices.Equal(us.groups, s.groups) &&
		(s.has(unix.CAP_DAC_OVERRIDE) || !us.has(unix.CAP_DAC_OVERRIDE)) {
		may = asWeMay // which knows of access lists, and of what can't be changed
	}
	switch x.kind {
	case needsWrite, needsSocket:
		return may(x.Real, unix.W_OK)
	case needsOwner:
		return s.owns(x)
	case needsTimes:
		return s.owns(x) || may(x.Real, unix.W_OK)
	case needsChown:
		return s.chowns(x)
	case needsSource:
		return s.links(x, may)
	}
	dir := x.Real
	if x.Exists && x.Op == policy.OpCreate { // without a name, in this folder
		return may(dir, unix.W_OK|unix.X_OK)
	}
	dir = parent(dir)
	if !may(dir, unix.W_OK|unix.X_OK) || x.Exists && !s.unstuck(dir, x) {
		return false
	}
	switch x.mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		return s.has(unix.CAP_MKNOD)
	}
	return true
}

// owns reports whether the file is the caller's.
func (s *status) owns(x *Access) bool { return x.File.Uid == s.uid || s.has(unix.CAP_FOWNER) }

// chowns reports whether the file's owner and group may become those wanted.
func (s *status) chowns(x *Access) bool {
	if s.has(unix.CAP_CHOWN) {
		return true
	}
	uid, gid := x.owners[0], x.owners[1]
	return x.File.Uid == s.uid && (uid == -1 || uint32(uid) == s.uid) && (gid == -1 || uint32(gid) == x.File.Gid || s.in(uint32(gid)))
}

// unstuck reports whether the caller may remove something from a folder in which
// everybody may only remove what is theirs.
func (s *status) unstuck(dir string, x *Access) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || st.Mode&unix.S_ISVTX == 0 || st.Uid == s.uid || s.owns(x)
}

// links reports whether the caller may link to the file: where hard links are
// protected, to its own, or to one that it may read and write.
func (s *status) links(x *Access, may func(string, uint32) bool) bool {
	if s.owns(x) || !hardlinksProtected() {
		return true
	}
	m := x.File.Mode
	return m&unix.S_IFMT == unix.S_IFREG && m&unix.S_ISUID == 0 &&
		m&(unix.S_ISGID|unix.S_IXGRP) != unix.S_ISGID|unix.S_IXGRP && may(x.Real, unix.R_OK|unix.W_OK)
}

var hardlinksProtected = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/fs/protected_hardlinks")
	return err == nil && strings.TrimSpace(string(b)) == "1"
})

func asWeMay(path string, how uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, how, unix.AT_EACCESS) == nil
}

// may is like access(2), for the caller.
func (s *status) may(path string, how uint32) bool {
	var st unix.Stat_t
	for dir := parent(path); ; dir = parent(dir) {
		if unix.Stat(dir, &st) != nil || !s.allows(&st, unix.X_OK) {
			return false
		}
		if dir == "/" {
			break
		}
	}
	return unix.Stat(path, &st) == nil && s.allows(&st, how)
}

// allows goes by a file's mode.
func (s *status) allows(st *unix.Stat_t, how uint32) bool {
	if s.has(unix.CAP_DAC_OVERRIDE) {
		return true
	}
	shift := 0
	switch {
	case st.Uid == s.uid:
		shift = 6
	case s.in(st.Gid):
		shift = 3
	}
	return st.Mode>>shift&how == how
}
