package policy

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cacheOwner is the folder under the user's cache directory that holds one
// folder for each repository.
const cacheOwner = "shofer-sandbox"

// cacheVar is a variable that says where a tool keeps what it could make or
// download again, and the folder in ours that it is pointed at.
type cacheVar struct {
	name, dir string
}

// cacheVars are the variables of tools that need no more than a folder. They
// are set whether the tool is there or not: looking costs more.
var cacheVars = [...]cacheVar{
	{"XDG_CACHE_HOME", "xdg"},
	{"PIP_CACHE_DIR", "pip"},
	{"UV_CACHE_DIR", "uv"},
	{"CCACHE_DIR", "ccache"},
	{"SCCACHE_DIR", "sccache"},
	{"DENO_DIR", "deno"},
	{"BUN_INSTALL_CACHE_DIR", "bun"},
	{"COMPOSER_CACHE_DIR", "composer"},
	{"YARN_GLOBAL_FOLDER", "yarn-berry"},
}

// theirs are variables that are pointed at the user's own folder if it is
// there: what lies in it is large, comes from an installation step outside,
// and is only read. The path is below the user's cache directory.
var theirs = [...]cacheVar{
	{"PLAYWRIGHT_BROWSERS_PATH", "ms-playwright"},
	{"PUPPETEER_CACHE_DIR", "puppeteer"},
	{"CYPRESS_CACHE_FOLDER", "Cypress"},
	{"HF_HOME", "huggingface"},
}

// cache is the state of the cache part of one Resolve.
type cache struct {
	*resolver
	env *environ
	// dir is the real path of our folder for this repository.
	dir string
	// base is the user's cache directory.
	base string
}

// grantCache makes the product's cache folder, grants it, and points the tools
// at it, so that they work at once and can't spoil what the user's own tools
// will use. What the user has downloaded already stays usable offline. A
// machine on which that can't be done is reported by a note.
func (r *resolver) grantCache(env *environ) {
	if r.p.NoCache || r.out.Worktree == "" {
		return
	}
	base := r.caller.get("XDG_CACHE_HOME")
	if base == "" || base[0] != '/' {
		if r.home == "" {
			r.cacheOff("the home directory is unknown", "set HOME or XDG_CACHE_HOME")
			return
		}
		base = r.home + "/.cache"
	}
	base = filepath.Clean(base)
	dir, err := r.cacheDir(base)
	if err != nil {
		r.cacheOff(err.Error(), "set XDG_CACHE_HOME to a folder that can be written to")
		return
	}
	r.out.CacheDir = dir
	r.grant(Grant{Path: dir, Access: Read | Write, Origin: FromCache, NoSymlinks: true})
	c := cache{resolver: r, env: env, dir: dir, base: base}
	for _, v := range cacheVars {
		c.point(v.name, v.dir)
	}
	for _, v := range theirs {
		if !env.has(v.name) && isFolder(base+"/"+v.dir) {
			c.use(v.name, base+"/"+v.dir)
		}
	}
	c.overlays()
	c.golang()
	c.node()
	c.cargo()
	c.maven()
	c.gradle()
	c.python()
}

func (r *resolver) cacheOff(why, hint string) {
	r.note("cache-off", "tools use the user's own caches, which can't be written to: "+why, hint)
}

// point sets a variable to a folder in ours, unless the user has already set
// it to a place that the command can write to.
func (c *cache) point(name, dir string) {
	if value := c.env.get(name); value == "" || !c.writable(value) {
		c.env.set(name, c.dir+"/"+dir)
	}
}

// use points a variable at a folder of the user's, for reading.
func (c *cache) use(name, dir string) {
	c.env.set(name, dir)
	c.reads = append(c.reads, dir)
}

// writable reports whether an absolute path lies in what has been granted so
// far or in what the policy lists.
func (c *cache) writable(path string) bool {
	if path[0] != '/' {
		return false
	}
	path = filepath.Clean(path)
	for _, g := range c.out.Grants {
		if g.Access&Write != 0 && g.Origin != FromGit && beneath(path, g.Path) {
			return true
		}
	}
	return c.p.covers(path)
}

// has reports whether the worktree's top has a file of this name.
func (c *cache) has(name string) bool {
	return mode(c.out.Worktree+"/"+name) != 0
}

// extendPath puts dir into PATH after the user's own folder for the same
// purpose, if that is in it.
func (c *cache) extendPath(after, dir string) {
	path := ":" + c.env.get("PATH") + ":"
	if i := strings.Index(path, ":"+after+":"); i >= 0 {
		i += len(after) + 1
		path = path[:i] + ":" + dir + path[i:]
		c.env.set("PATH", path[1:len(path)-1])
	}
}

// cacheDir returns the real path of the folder for this repository, and makes
// it if it isn't there. Its parent is not granted, so that a command can't put
// anything in its place; the last part is not followed all the same, for a
// base that somebody placed in a writable folder.
//
// The folder's name has a hash of the repository's path, and a symbolic link
// beside it (".of") has the path itself: two repositories never share a folder,
// and people can see whose it is.
func (r *resolver) cacheDir(base string) (string, error) {
	key, name := r.cacheKey()
	path := base + "/" + cacheOwner + "/" + name
	suffix := 1
	for range 100 {
		var buf [4096]byte
		size, err := syscall.Readlink(path+".of", buf[:])
		switch {
		case err == nil && string(buf[:size]) == key:
			dir, err := ownDir(path)
			if err == nil || !errors.Is(err, syscall.ENOENT) {
				return dir, err
			}
		case err == nil:
			// Another repository with the same hash.
			suffix++
			path = base + "/" + cacheOwner + "/" + name + "-" + strconv.Itoa(suffix)
			continue
		case !errors.Is(err, syscall.ENOENT):
			return "", cacheError{display(path + ".of"), err}
		}
		if r.o.DryRun {
			return path, nil
		}
		if err := r.makeCacheDir(base, path, key); err != nil {
			return "", err
		}
	}
	return "", cacheError{display(path), errNotOwn}
}

// ownDir returns the real path of a folder that belongs to this user, and
// shuts it to others if a command has opened it.
func ownDir(path string) (string, error) {
	fd, err := openFile(path, oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW)
	if err != nil {
		return "", cacheError{display(path), err}
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return "", cacheError{display(path), err}
	}
	if int(st.Uid) != syscall.Geteuid() {
		return "", cacheError{display(path), errNotOwn}
	}
	if st.Mode&0o077 != 0 {
		if err := syscall.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700); err != nil {
			return "", cacheError{display(path), err}
		}
	}
	real, _, err := resolvedName(fd, path, fileID{st.Dev, st.Ino})
	if err != nil {
		return "", cacheError{display(path), err}
	}
	return real, nil
}

var errNotOwn = errors.New("belongs to another user")

// cacheError names the folder that can't be used.
type cacheError struct {
	path string
	err  error
}

func (e cacheError) Error() string { return e.path + ": " + e.err.Error() }
func (e cacheError) Unwrap() error { return e.err }

// makeCacheDir makes the folder, its parents, and the link that says whose it
// is, which another start may have made meanwhile. It makes nothing below a
// folder of another user: root with a user's HOME would leave folders there
// that the user can't use.
func (r *resolver) makeCacheDir(base, path, key string) error {
	owner := parentDir(path)
	for above := owner; ; above = parentDir(above) {
		var st syscall.Stat_t
		if err := syscall.Stat(above, &st); err == nil {
			if int(st.Uid) != syscall.Geteuid() && st.Mode&syscall.S_ISVTX == 0 {
				return cacheError{display(above), errNotOwn}
			}
			break
		}
		if above == "/" {
			break
		}
	}
	if err := mkdirAll(base, 0o700); err != nil {
		return cacheError{display(base), err}
	}
	if err := syscall.Mkdir(owner, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
		return cacheError{display(owner), err}
	}
	if err := syscall.Symlink(key, path+".of"); errors.Is(err, syscall.EEXIST) {
		var buf [4096]byte
		if size, err := syscall.Readlink(path+".of", buf[:]); err != nil {
			return cacheError{display(path + ".of"), err}
		} else if string(buf[:size]) != key {
			return nil
		}
	} else if err != nil {
		return cacheError{display(path + ".of"), err}
	}
	if err := syscall.Mkdir(path, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
		return cacheError{display(path), err}
	}
	return nil
}

// cacheKey returns the path that tells this repository from others, and a name
// for its folder: all its worktrees share one. A repository that isn't trusted
// is not asked: by a pointer a command could choose the cache of another one.
func (r *resolver) cacheKey() (key, folder string) {
	key, name := r.out.Worktree, baseName(r.out.Worktree)
	if repo := r.out.Repo; repo != nil {
		switch {
		case repo.Trusted && repo.CommonDir != "":
			key, name = repo.CommonDir, baseName(repo.CommonDir)
			if name == ".git" {
				name = baseName(parentDir(repo.CommonDir))
			}
			name = strings.TrimSuffix(name, ".git")
		case repo.WorkTree != "":
			key, name = repo.WorkTree, baseName(repo.WorkTree)
		}
	}
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	hash := uint64(offset)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * prime
	}
	var b [64]byte
	plain := b[:0]
	for i := 0; i < len(name) && len(plain) < 32; i++ {
		c := name[i]
		if !isAlpha(c) && (c < '0' || c > '9') && c != '-' && c != '_' && (c != '.' || i == 0) {
			c = '_'
		}
		plain = append(plain, c)
	}
	plain = append(plain, '-')
	return key, string(strconv.AppendUint(plain, hash, 36))
}
