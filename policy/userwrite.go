package policy

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// File systems through which the kernel is told what to do.
const (
	magicProc    = 0x9fa0
	magicSys     = 0x62656572
	magicCgroup  = 0x27e0eb
	magicCgroup2 = 0x63677270
)

// userWrites checks and grants what the policy lists as writable. A list may
// be long, so what is looked up once is kept: a path costs one call.
type userWrites struct {
	*resolver
	// broadIDs are the home directory and its ancestors.
	broadIDs []fileID
	// plain and special are the devices of file systems seen so far.
	plain, special []uint64
}

// grantUser opens what the policy lists.
func (r *resolver) grantUser() error {
	if len(r.p.Write)+len(r.p.WriteCreate) == 0 {
		return nil
	}
	w := userWrites{resolver: r}
	if !r.p.AllowBroad {
		w.prepare()
	}
	r.out.Grants = slices.Grow(r.out.Grants, len(r.p.Write)+len(r.p.WriteCreate))
	for i, path := range r.p.Write {
		if err := w.add(string(path), false); err != nil {
			err.Field = "write[" + strconv.Itoa(i) + "]"
			return err
		}
	}
	for i, path := range r.p.WriteCreate {
		if err := w.add(string(path), true); err != nil {
			err.Field = "write_create[" + strconv.Itoa(i) + "]"
			return err
		}
	}
	return nil
}

// prepare looks up the home directory, and the folder with the control groups,
// which is of an ordinary type where it holds several hierarchies.
func (w *userWrites) prepare() {
	add := func(path string) {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil {
			w.broadIDs = append(w.broadIDs, fileID{st.Dev, st.Ino})
		}
	}
	add("/")
	if w.home != "" {
		if home, _, err := realDir(w.home); err == nil {
			for ; home != "/"; home = parentDir(home) {
				add(home)
			}
		}
	}
	var st, root syscall.Stat_t
	if syscall.Stat("/sys/fs/cgroup", &st) == nil && syscall.Stat("/", &root) == nil && st.Dev != root.Dev {
		w.special = append(w.special, st.Dev)
	}
}

func (w *userWrites) add(path string, create bool) *Error {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	if create && errors.Is(err, syscall.ENOENT) {
		if w.o.DryRun {
			w.grant(Grant{Path: path, Access: Read | Write | Ioctl, Origin: FromUser})
			return nil
		}
		if err := mkdirAll(path, 0o777); err != nil {
			e := pathError("", path, err)
			e.Why = "cannot be made: " + err.Error()
			return e
		}
		err = syscall.Stat(path, &st)
	}
	if err != nil {
		e := pathError("", path, err)
		if errors.Is(err, fs.ErrNotExist) {
			e.Hint = "--rw-create makes it"
		}
		return e
	}
	if !w.p.AllowBroad {
		if slices.Contains(w.broadIDs, fileID{st.Dev, st.Ino}) {
			real, err := realAny(path, st.Mode)
			if err != nil {
				return pathError("", path, err)
			}
			return broadError("", path, real)
		}
		if w.isSpecial(path, st.Dev) {
			if e := refuseKernelTree(path, st.Mode); e != nil {
				return e
			}
		}
	}
	w.grant(Grant{Path: path, Access: Read | Write | Ioctl, Origin: FromUser})
	return nil
}

// isSpecial reports whether a path on this device belongs to the kernel.
func (w *userWrites) isSpecial(path string, dev uint64) bool {
	if slices.Contains(w.plain, dev) {
		return false
	}
	if slices.Contains(w.special, dev) {
		return true
	}
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil {
		return false
	}
	switch st.Type {
	case magicProc, magicSys, magicCgroup, magicCgroup2:
		w.special = append(w.special, dev)
		return true
	}
	w.plain = append(w.plain, dev)
	return false
}

// refuseKernelTree returns why a path on one of the kernel's file systems must
// not be writable, nil if it may be.
func refuseKernelTree(path string, mode uint32) *Error {
	real, err := realAny(path, mode)
	if err != nil {
		return pathError("", path, err)
	}
	why := kernelTree(real)
	if why == "" {
		var st syscall.Statfs_t
		if syscall.Statfs(path, &st) == nil && (st.Type == magicCgroup || st.Type == magicCgroup2) {
			why = whyCgroup
		}
	}
	if why == "" {
		return nil
	}
	return &Error{
		Value: path, Why: why,
		Hint: "grant something smaller, or pass --allow-broad if you mean it",
	}
}

// realAny returns the path that path leads to, whatever its type.
func realAny(path string, mode uint32) (string, error) {
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		real, _, err := realDir(path)
		return real, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", errnoOf(err)
	}
	return real, nil
}

const whyCgroup = "through the control groups in it the command could leave its limits"

// kernelTree says why a real path must not be writable, although its files
// are no one's data: through it the command could leave its limits or change
// the machine. It returns "" for other paths.
func kernelTree(real string) string {
	switch {
	case beneath(real, "/sys/fs/cgroup") || beneath("/sys/fs/cgroup", real):
		return whyCgroup
	case beneath(real, "/sys"), real == "/proc", beneath(real, "/proc/sys"):
		return "through it the command could change the machine's settings"
	}
	return ""
}

// covers reports whether a path is asked for as writable already.
func (p *Policy) covers(path string) bool {
	for _, list := range [][]Path{p.Write, p.WriteCreate} {
		if slices.ContainsFunc(list, func(w Path) bool { return beneath(path, filepath.Clean(string(w))) }) {
			return true
		}
	}
	return false
}
