package policy

import (
	"os"
	"slices"
	"strings"
	"syscall"
)

// Overlay is a cache of the command's own in which the user's own shows
// through: an overlay file system. What the command writes lies elsewhere, out
// of its reach but by the overlay.
type Overlay struct {
	// Path is the empty folder at which it is mounted, and that a variable
	// names.
	Path string
	// Lower is the user's own cache.
	Lower string
	// Dir is for what is written: a folder for each command that runs at the
	// same time, since no two mounts may write to one.
	Dir string
}

// overlaid are caches that can't be filled from outside in another way. The
// paths are those of the user's own, the first that is there; files tell by
// their names that a worktree's tools use it: a mount costs half a millisecond.
var overlaid = [...]struct {
	name, dir string
	theirs    []string
	files     []string
}{
	{"PIP_CACHE_DIR", "pip", []string{"{cache}/pip"}, []string{"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile"}},
	{"UV_CACHE_DIR", "uv", []string{"{cache}/uv"}, []string{"uv.lock", "pyproject.toml", "requirements.txt"}},
	{"CCACHE_DIR", "ccache", []string{"{home}/.ccache", "{cache}/ccache"}, []string{"CMakeLists.txt", "configure", "configure.ac", "meson.build", "Makefile", "Kbuild"}},
	{"SCCACHE_DIR", "sccache", []string{"{cache}/sccache"}, []string{"Cargo.toml", "CMakeLists.txt"}},
	{"DENO_DIR", "deno", []string{"{cache}/deno"}, []string{"deno.json", "deno.jsonc", "deno.lock"}},
	{"BUN_INSTALL_CACHE_DIR", "bun", []string{"{home}/.bun/install/cache"}, []string{"bun.lock", "bun.lockb", "bunfig.toml"}},
	{"COMPOSER_CACHE_DIR", "composer", []string{"{cache}/composer", "{home}/.composer/cache"}, []string{"composer.json"}},
}

// overlays puts overlays in place of folders that would start empty.
func (c *cache) overlays() {
	if !c.o.Overlays || !c.mountsAnyway() {
		return
	}
	for _, v := range overlaid {
		if c.env.get(v.name) != c.dir+"/"+v.dir || !slices.ContainsFunc(v.files, c.has) || v.dir == "pip" && c.has("uv.lock") {
			continue
		}
		lower := c.theirCache(v.name, v.theirs)
		if lower == "" || beneath(c.dir, lower) || beneath(lower, c.dir) {
			continue
		}
		dir := c.dir + overlaySuffix + "/" + v.dir
		o := Overlay{Path: dir + "/merged", Lower: lower, Dir: dir}
		if !plainOption(o.Lower) || !plainOption(o.Dir) || !c.canOverlay() || !c.o.DryRun && mkdirAll(o.Path, 0o700) != nil {
			return
		}
		c.out.Overlays = append(c.out.Overlays, o)
		c.env.set(v.name, o.Path)
		c.grant(Grant{Path: o.Path, Access: Read | Write, Origin: FromCache, NoSymlinks: true})
	}
}

// overlaySuffix is added to the name of our folder for this repository: what
// is there isn't granted.
const overlaySuffix = ".overlay"

// mountsAnyway reports whether something else wants a mount layer.
func (r *resolver) mountsAnyway() bool {
	return r.out.hasProtectable() || len(r.p.Hide) > 0 || r.p.PrivateTmp || r.p.StrictMetadata
}

// theirCache returns the real path of the user's own cache, "" if there is none.
func (c *cache) theirCache(name string, usual []string) string {
	if path := c.caller.get(name); path != "" {
		usual = []string{path}
	}
	for _, path := range usual {
		path = strings.Replace(path, "{cache}", c.base, 1)
		if rest, ok := strings.CutPrefix(path, "{home}"); ok {
			if c.home == "" {
				continue
			}
			path = c.home + rest
		}
		if path[0] != '/' || isEmpty(path) {
			continue
		}
		if real, _, err := realDir(path); err == nil {
			return real
		}
	}
	return ""
}

// isEmpty reports whether nothing can be found in a folder.
func isEmpty(path string) bool {
	dir, err := os.Open(path)
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(1)
	return len(names) == 0
}

// canOverlay reports whether our folder is on a file system that an overlay can
// write to.
func (c *cache) canOverlay() bool {
	var st syscall.Statfs_t
	if syscall.Statfs(c.dir, &st) != nil {
		return c.o.DryRun
	}
	switch uint32(st.Type) {
	case 0x794c7630, // overlay
		0x6969,     // NFS
		0x65735546, // FUSE
		0x01021997, // 9p
		0xff534d42, // CIFS
		0xfe534d42, // SMB 2
		0xf15f,     // eCryptfs
		0x786f4256: // VirtualBox's
		return false
	}
	return true
}

// plainOption reports whether a path means itself in the options of an overlay.
func plainOption(path string) bool { return !strings.ContainsAny(path, ":,\\\"") }
