package bwrap

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// GrantError says which path can't be opened in a sandbox, and why. It wraps
// the errno.
type GrantError struct {
	Path string
	Err  error
}

// Error names the path.
func (e *GrantError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, syscall.ELOOP) {
		why = "there is a symbolic link in it"
	}
	return "bwrap: " + policy.Path(e.Path).String() + ": " + why
}

// Unwrap gives the errno.
func (e *GrantError) Unwrap() error { return e.Err }

// ConflictError says that one path is asked to be two things.
type ConflictError struct{ Path, Why string }

func (e *ConflictError) Error() string {
	return "bwrap: " + policy.Path(e.Path).String() + " " + e.Why
}

var (
	errUnconfined = errors.New("bwrap: a mode of unconfined needs no sandbox")
	errInProc     = errors.New("what is in /proc belongs to the processes outside")
	errOldSocket  = errors.New("bubblewrap covers files that aren't regular ones from 0.5.0 on")
)

// Look finds out what the paths of r are on this machine, and lays out a
// sandbox for a bwrap as s. It opens nothing and changes nothing.
//
// Symbolic links are followed here, once; [Layout.Identities] and [Check] tell
// whether somebody changed one of them before bwrap came by. An optional grant
// whose path doesn't exist or can't be reached is skipped; any other, and a
// protected path that went away, is a [*GrantError]. Hiding what the user
// opened by name, or what the sandbox itself needs, is a [*ConflictError].
//
// [policy.Unborn] and [policy.Compared] are left to the caller: nothing can be
// mounted for them.
func Look(s Support, r *policy.Resolved, o Options) (*Layout, error) {
	if r.Policy.Mode == policy.Unconfined {
		return nil, errUnconfined
	}
	l := &looker{s: s, r: r, o: &o, l: &Layout{
		ReadList: r.Policy.Read != nil, Options: o, ModeOption: s.Version.coversAnything(),
		NewPid: s.wantsPid(r), NewUser: s.Root && s.UserNS,
		NewNet: r.Policy.Network.Mode == policy.NetworkNone,
	}}
	l.l.Entries = make([]Entry, 0, len(r.Grants)+len(r.Protect)+len(o.Hide))
	l.caps()
	if err := l.grants(); err != nil {
		return nil, err
	}
	if err := l.protected(); err != nil {
		return nil, err
	}
	if err := l.hidden(); err != nil {
		return nil, err
	}
	l.masked()
	l.tmpdir()
	return l.l, nil
}

type looker struct {
	s Support
	r *policy.Resolved
	o *Options
	l *Layout
	// private are the folders that the command gets of its own.
	private []string
	// named are what the user, or the policy for the worktree, opens by name.
	named []string
}

// caps decides what root keeps. Only what the caller has may be asked for: if
// bwrap may not set what it is asked for, it goes on with everything.
func (k *looker) caps() {
	if !k.s.Root {
		return
	}
	names := k.r.Policy.Caps
	if names == nil {
		names = policy.DefaultCaps
	}
	k.l.Caps = []string{}
	if slices.Equal(names, []string{policy.CapsAll}) {
		k.l.KeepCaps = true
		return
	}
	for i, name := range policy.Capabilities() {
		if slices.Contains(names, name) && (k.s.UserNS || k.s.Caps&(1<<i) != 0) {
			k.l.Caps = append(k.l.Caps, name)
		}
	}
}

func (k *looker) grants() error {
	for i := range k.r.Grants {
		g := &k.r.Grants[i]
		err := k.grant(g)
		switch {
		case err == nil:
		case g.Optional && skippable(err):
			k.skip(*g, err)
		default:
			return &GrantError{Path: g.Path, Err: err}
		}
	}
	for _, path := range k.private {
		if slices.Contains(k.named, path) {
			return &ConflictError{path, "is granted by name, and is to be a temporary folder of the command's own"}
		}
	}
	return nil
}

func (k *looker) grant(g *policy.Grant) error {
	e := Entry{Kind: Shown, Optional: g.Optional}
	switch {
	case g.Access&(policy.Write|policy.Ioctl) == policy.Write|policy.Ioctl:
		e.Kind = Device
	case g.Access&policy.Write != 0:
		e.Kind = Open
	}
	p, err := walk(g.Path)
	if err != nil {
		return err
	}
	if g.NoSymlinks && len(p.links) > 0 {
		return syscall.ELOOP
	}
	if beneath(p.path, "/proc") {
		// The sandbox has a /proc anyway, and has it to itself.
		if e.Kind != Shown {
			return errInProc
		}
		k.l.Links = append(k.l.Links, p.links...)
		k.l.Applied = append(k.l.Applied, *g)
		return nil
	}
	e.Path, e.Dir = p.path, p.dir()
	e.Dev, e.Ino = uint64(p.stat.Dev), p.stat.Ino //nolint:unconvert // Dev differs by architecture
	if given := filepath.Clean(g.Path); given != e.Path && beneath(given, "/dev") {
		// There is a new /dev, in which nothing leads anywhere yet.
		e.Path, e.Source = given, e.Path
		p.links = nil
	}
	if k.o.PrivateTmp && temporary(g) && e.Dir {
		k.private = append(k.private, e.Path)
		e = Entry{Path: e.Path, Kind: Private, Dir: true}
	} else if e.Kind != Shown && (g.Origin == policy.FromUser || g.Origin == policy.FromWorktree) {
		k.named = append(k.named, e.Path)
	}
	k.l.Links = append(k.l.Links, p.links...)
	k.l.Entries = append(k.l.Entries, e)
	k.l.Applied = append(k.l.Applied, *g)
	return nil
}

// temporary reports whether a grant is one of the shared temporary folders.
func temporary(g *policy.Grant) bool {
	return g.Origin == policy.FromTmp || g.Origin == policy.FromDevice && g.Path == "/dev/shm"
}

func (k *looker) protected() error {
	var st syscall.Stat_t
	for i := range k.r.Protect {
		p := &k.r.Protect[i]
		e := Entry{Path: p.Path}
		switch p.Kind {
		case policy.Frozen:
			e.Kind = Frozen
		case policy.Pinned:
			e.Kind = Pinned
		case policy.Reopened:
			e.Kind = Reopened
		case policy.Unborn, policy.Compared:
			continue
		}
		err := lstat(p.Path, &st)
		if err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			err = syscall.ELOOP
		}
		if err != nil {
			return &GrantError{Path: p.Path, Err: err}
		}
		e.Dir = st.Mode&syscall.S_IFMT == syscall.S_IFDIR
		e.Dev, e.Ino = uint64(st.Dev), st.Ino //nolint:unconvert // Dev differs by architecture
		k.l.Entries = append(k.l.Entries, e)
	}
	return nil
}

func (k *looker) hidden() error {
	for _, path := range k.o.Hide {
		p, err := walk(path)
		switch {
		case err == nil:
		case skippable(err):
			// It is never made, either: that would be left behind.
			k.skip(policy.Grant{Path: path, Origin: policy.FromUser}, err)
			continue
		default:
			return &GrantError{Path: path, Err: err}
		}
		switch {
		case p.path == "/" || p.path == "/dev" || beneath(p.path, "/proc"):
			return &ConflictError{p.path, "can't be hidden: the sandbox itself needs it"}
		case slices.Contains(k.named, p.path):
			return &ConflictError{p.path, "is granted by name, and is to be hidden"}
		case !p.dir() && p.mode() != syscall.S_IFREG && !k.s.Version.coversAnything():
			k.skip(policy.Grant{Path: path, Origin: policy.FromUser}, errOldSocket)
			continue
		}
		k.l.Entries = append(k.l.Entries, Entry{Path: p.path, Kind: Hidden, Dir: p.dir()})
	}
	return nil
}

// masked covers sockets, as far as bwrap can. One that went away is none.
func (k *looker) masked() {
	for _, m := range k.r.Mask {
		p, err := walk(m.Path)
		switch {
		case err != nil || p.path != m.Path || p.dir() != m.Folder,
			slices.Contains(k.named, p.path),
			slices.ContainsFunc(k.private, func(dir string) bool { return beneath(p.path, dir) }):
		case m.Own:
			k.l.Entries = append(k.l.Entries, Entry{Path: p.path, Kind: Private, Dir: true, Mode: "0700"})
		case m.Folder || k.s.Version.coversAnything():
			k.l.Entries = append(k.l.Entries, Entry{Path: p.path, Kind: Hidden, Dir: m.Folder})
		}
	}
}

// tmpdir makes $TMPDIR in a temporary folder of the command's own: tools expect
// it to be there.
func (k *looker) tmpdir() {
	for _, kv := range k.r.Env {
		dir, ok := strings.CutPrefix(kv, "TMPDIR=/")
		if !ok {
			continue
		}
		dir = filepath.Clean("/" + dir)
		for _, private := range k.private {
			if dir != private && beneath(dir, private) {
				k.l.Entries = append(k.l.Entries, Entry{Path: dir, Kind: Private, Dir: true})
				return
			}
		}
	}
}

func (k *looker) skip(g policy.Grant, err error) {
	why := err.Error()
	if g.NoSymlinks && errors.Is(err, syscall.ELOOP) {
		why = "there is a symbolic link in it"
	}
	k.l.Skipped = append(k.l.Skipped, policy.Skip{Grant: g, Why: why})
}

// skippable reports whether err is about the path.
func skippable(err error) bool {
	switch err { //nolint:errorlint // bare errnos, and errors of this package
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP,
		syscall.ENOTCONN, syscall.ESTALE, errInProc:
		return true
	}
	return false
}
