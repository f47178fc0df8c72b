package bwrap

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// places are where bwrap is looked for. PATH is not: it often begins with
// folders that other programs of the user's write to.
func places() []string {
	return []string{
		"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap",
		"/run/wrappers/bin/bwrap", "/run/current-system/sw/bin/bwrap",
		"/run/current-system/profile/bin/bwrap",
	}
}

// Support is what is known about bwrap on this machine. The zero value can't be
// used.
type Support struct {
	// Path is where bwrap is, empty if there is none that can be used.
	Path string
	// Version is known after [Probe].
	Version Version
	// Setuid says that bwrap makes namespaces as root.
	Setuid bool
	// Root says that the caller is root, with these capabilities, a bit for
	// each.
	Root bool
	Caps uint64
	// UserNS says that the sandbox gets a user namespace, PidNS that it can
	// have a pid namespace with a /proc of its own, NetNS that it can have a
	// network namespace.
	UserNS, PidNS, NetNS bool
	// Tried says that all this was seen to work; [Find] only assumes it.
	Tried bool
	// Cause says why bwrap can't be used; zero if it can.
	Cause Cause
	// Detail is a path, an error or bwrap's own words; may be empty.
	Detail string
}

// Usable reports whether bwrap can be used, as far as is known.
func (s Support) Usable() bool { return s.Path != "" && s.Cause == 0 }

// wantsPid reports whether a sandbox for r gets a pid namespace. Who may signal
// processes outside gets none, but only where a user namespace stands between
// the command and those processes: else it could go through them.
func (s Support) wantsPid(r *policy.Resolved) bool {
	return s.PidNS && (!r.Policy.IPC.AllowSignals || !s.UserNS)
}

// Find looks for a bwrap that can be trusted: one that belongs to root or to
// the caller, in folders of which the same is true, and that nobody else can
// write to or replace. It runs nothing, and assumes that everything works: a
// start will tell, and [Probe] then says why not.
//
// It looks at path if that is not empty, which must be absolute, and else in a
// few fixed folders.
func Find(path string) Support {
	s := Support{UserNS: true, PidNS: true, NetNS: true}
	s.who()
	list := places()
	if path != "" {
		list = []string{path}
	}
	var untrusted *untrustedError
	for _, path := range list {
		setuid, err := trusted(path, syscall.Geteuid())
		switch {
		case err == nil:
			s.Path, s.Setuid = path, setuid
			s.UserNS = !setuid
			if s.Root {
				s.UserNS = s.Caps&(1<<unix.CAP_SYS_ADMIN) == 0
			}
			if unix.Access("/proc/version", unix.F_OK) == nil && !linux.OwnProc() {
				s.Cause = ForeignProc
				s.UserNS, s.PidNS, s.NetNS = false, false, false
			}
			return s
		case errors.As(err, &untrusted):
			s.Cause, s.Detail = Untrusted, untrusted.Error()
		case s.Cause == 0 && path != "" && len(list) == 1:
			s.Cause, s.Detail = Missing, policy.Path(path).String()+": "+err.Error()
		}
	}
	if s.Cause == 0 {
		s.Cause = Missing
	}
	s.UserNS, s.PidNS, s.NetNS = false, false, false
	return s
}

func (s *Support) who() {
	s.Root = syscall.Geteuid() == 0
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) == nil {
		s.Caps = uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
	}
}

// untrustedError says why a program isn't run.
type untrustedError struct{ path, why string }

func (e *untrustedError) Error() string { return policy.Path(e.path).String() + " " + e.why }

// trusted checks a program and every folder and symbolic link that leads to it.
// setuid says that it runs as root, whoever starts it.
func trusted(path string, uid int) (setuid bool, err error) {
	if !strings.HasPrefix(path, "/") {
		return false, &untrustedError{path, "is not an absolute path"}
	}
	p, err := walk(path)
	if err != nil {
		return false, err
	}
	if p.mode() != syscall.S_IFREG {
		return false, &untrustedError{p.path, "is not a file"}
	}
	if p.stat.Mode&0o111 == 0 {
		return false, syscall.EACCES
	}
	names := []string{p.path}
	for _, l := range p.links {
		names = append(names, l.Path)
	}
	for _, name := range names {
		for {
			if err := trustedName(name, uid); err != nil {
				return false, err
			}
			if name == "/" {
				break
			}
			name = parentDir(name)
		}
	}
	setuid = p.stat.Mode&syscall.S_ISUID != 0
	if setuid && p.stat.Uid != 0 {
		return false, &untrustedError{p.path, "is setuid, and not root's"}
	}
	return setuid, nil
}

// trustedName checks one name: who could change what it names, or what is in
// it. In a sticky folder only its owner, or the owner of what is in it, could.
func trustedName(name string, uid int) error {
	var st syscall.Stat_t
	if err := lstat(name, &st); err != nil {
		return err
	}
	if st.Uid != 0 && int(st.Uid) != uid {
		return &untrustedError{name, "belongs to somebody else"}
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		return nil
	case syscall.S_IFDIR:
		if st.Mode&syscall.S_ISVTX != 0 {
			return nil
		}
	}
	if st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && st.Gid != 0 {
		return &untrustedError{name, "can be written to by others"}
	}
	return nil
}
