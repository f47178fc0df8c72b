package policy

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// resolver is one run of Resolve.
type resolver struct {
	p      *Policy
	o      *Options
	out    *Resolved
	caller callerEnv
	// reads are folders of the user's that the command has to read.
	reads []string
	// home is the caller's home directory, "" if unknown.
	home string
}

// Resolve validates p and answers what it leaves open by looking at the
// machine: the worktree's real path, the repository it belongs to, the grants
// and the environment. The error is an [*Error].
//
// It makes what has to exist before the command starts and what nobody else
// makes: the cache folder, the folders of WriteCreate, and the logs folder of
// a repository that has none (reported by a note). It changes nothing else, in
// this process or outside, and runs nothing. Many goroutines may call it at
// once.
//
// The grants are not opened here. A mechanism opens them later, and must
// honour NoSymlinks: the files that led to these grants lie where an earlier
// command could write.
func Resolve(p Policy, o Options) (*Resolved, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &resolver{p: &p, o: &o, out: &Resolved{Policy: p}}
	for _, entry := range o.Environ {
		if strings.IndexByte(entry, 0) >= 0 {
			return nil, &Error{Field: "environment", Value: entry, Why: errNUL.Error(), Err: errNUL}
		}
	}
	r.caller = o.Environ
	r.home = homeDir(r.caller)
	if err := r.worktree(); err != nil {
		return nil, err
	}
	env := p.commandEnv(r.caller)
	if p.Mode == WorkspaceWrite {
		r.grantWorktree()
		r.grantGit(env)
		r.grantTmp()
	}
	if p.Mode != Unconfined {
		r.grantDevices()
	}
	if p.Mode == WorkspaceWrite {
		r.grantCache(env)
	}
	if p.Mode != Unconfined {
		if err := r.grantReads(); err != nil {
			return nil, err
		}
		if err := r.grantUnix(); err != nil {
			return nil, err
		}
		if err := r.grantUser(); err != nil {
			return nil, err
		}
	}
	if p.Mode != Unconfined {
		if err := r.hide(); err != nil {
			return nil, err
		}
		if err := r.checkProtect(); err != nil {
			return nil, err
		}
	}
	r.protect(env)
	p.setUser(env)
	r.out.Env = env.entries()
	return r.out, nil
}

func (r *resolver) note(code, text, hint string) {
	r.out.Notes = append(r.out.Notes, Note{Code: code, Text: oneLine(text), Hint: oneLine(hint)})
}

func (r *resolver) grant(g Grant) {
	r.out.Grants = append(r.out.Grants, g)
}

// worktree finds the real path of the worktree and its repository.
func (r *resolver) worktree() error {
	asked := string(r.p.Worktree)
	if asked == "" {
		return nil
	}
	real, id, err := realDir(asked)
	if err != nil {
		return pathError("worktree", asked, err)
	}
	if r.p.Mode == WorkspaceWrite && !r.p.AllowBroad && r.broad(real) {
		return broadError("worktree", asked, real)
	}
	const readAndEnter = 4 | 1
	if err := syscall.Access(real, readAndEnter); err != nil {
		e := pathError("worktree", asked, err)
		e.Why, e.Hint = "cannot be read: "+errnoOf(err).Error(), "the command works there: it needs the permissions r and x"
		return e
	}
	r.out.Worktree = real
	r.out.Repo = findRepo(real, id.dev)
	return nil
}

// pathError says in words why a path that was asked for can't be used.
func pathError(field, path string, err error) *Error {
	e := &Error{Field: field, Value: path, Err: err}
	switch {
	case errors.Is(err, syscall.ENOENT):
		e.Why = "does not exist"
	case errors.Is(err, syscall.ENOTDIR):
		e.Why = "is not a folder"
		if mode(path) == 0 {
			e.Why = "does not exist: a part of it is not a folder"
		}
	case errors.Is(err, syscall.EACCES):
		e.Why = "cannot be reached: permission denied"
		e.Hint = "every folder on the way needs the search permission (x)"
	case errors.Is(err, syscall.ELOOP):
		e.Why = "symbolic links lead in a circle"
	default:
		e.Why = err.Error()
	}
	return e
}

// broadError refuses a grant that would open the home directory or more.
func broadError(field, path, real string) *Error {
	why := "is the home directory or holds it"
	if real == "/" {
		why = "is the whole file system"
	} else if real != filepath.Clean(path) {
		why = "leads to " + display(real) + ", which " + why
	}
	return &Error{
		Field: field, Value: path, Why: why,
		Hint: "name a folder further down, or pass --allow-broad if you mean it",
	}
}

// broad reports whether the real path holds everything or the home directory.
func (r *resolver) broad(real string) bool {
	if real == "/" {
		return true
	}
	if r.home == "" {
		return false
	}
	if beneath(r.home, real) {
		return true
	}
	// If a real path lies below the home directory, the latter has no
	// symbolic links, and the test above was enough.
	if beneath(real, r.home) {
		return false
	}
	if plainPath(r.home) {
		return false
	}
	home, _, err := realDir(r.home)
	return err == nil && beneath(home, real)
}

// plainPath reports whether no part of a short clean path is a symbolic link:
// the usual home directory is known by a call or two.
func plainPath(path string) bool {
	if strings.Count(path, "/") > 3 {
		return false
	}
	for ; path != "/"; path = parentDir(path) {
		if mode(path) != syscall.S_IFDIR {
			return false
		}
	}
	return true
}

// homeDir returns the absolute, clean path of the caller's home directory. A
// HOME that is unset or useless is looked up in the user list.
func homeDir(caller callerEnv) string {
	if home := caller.get("HOME"); home != "" && home[0] == '/' {
		return filepath.Clean(home)
	}
	text, err := readSmall("/etc/passwd", configLimit)
	if err != nil {
		return ""
	}
	uid := strconv.Itoa(syscall.Getuid())
	for line := range strings.SplitSeq(string(text), "\n") {
		fields := strings.Split(line, ":")
		if len(fields) >= 7 && fields[2] == uid && strings.HasPrefix(fields[5], "/") {
			return filepath.Clean(fields[5])
		}
	}
	return ""
}

func (r *resolver) grantWorktree() {
	if r.out.Worktree != "" {
		r.grant(Grant{Path: r.out.Worktree, Access: Read | Write, Origin: FromWorktree})
	}
}

// grantTmp opens /tmp and $TMPDIR.
func (r *resolver) grantTmp() {
	r.grant(Grant{Path: "/tmp", Access: Read | Write, Origin: FromTmp, Optional: true})
	if r.home != "" && beneath(r.home, "/tmp") {
		r.note("tmp-broad", "the home directory "+display(r.home)+" lies in /tmp, which is writable", "")
	}
	dir := r.caller.get("TMPDIR")
	if dir == "" || dir == "/tmp" || dir == "/tmp/" {
		return
	}
	if dir[0] != '/' {
		r.note("tmp-broad", "TMPDIR="+display(dir)+" is not granted: it is not an absolute path", "")
		return
	}
	real, _, err := realDir(dir)
	if err != nil || beneath(real, "/tmp") || r.out.Worktree != "" && beneath(real, r.out.Worktree) {
		return
	}
	if !r.p.AllowBroad && (r.broad(real) || kernelTree(real) != "") {
		r.note("tmp-broad", "TMPDIR="+display(dir)+" is not granted: it would open "+display(real),
			"set TMPDIR to a folder of its own, or pass --allow-broad if you mean it")
		return
	}
	r.grant(Grant{Path: real, Access: Read | Write, Origin: FromTmp, Optional: true})
}

// grantDevices opens what every program may need: data sinks, sources, and
// terminals. The list is short on purpose, and holds in every mode but
// Unconfined.
func (r *resolver) grantDevices() {
	for _, name := range [...]string{
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		"/dev/tty", "/dev/ptmx", "/dev/pts",
	} {
		r.grant(Grant{Path: name, Access: Read | Write | Ioctl, Origin: FromDevice, Optional: true})
	}
	r.grant(Grant{Path: "/dev/shm", Access: Read | Write, Origin: FromDevice, Optional: true})
}

// mkdirAll makes a folder and its parents, as os.MkdirAll does.
func mkdirAll(path string, perm uint32) error {
	for len(path) > 1 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	err := syscall.Mkdir(path, perm)
	if errors.Is(err, syscall.ENOENT) && path != "/" {
		if err := mkdirAll(parentDir(path), perm); err != nil {
			return err
		}
		err = syscall.Mkdir(path, perm)
	}
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}
