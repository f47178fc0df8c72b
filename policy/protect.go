package policy

import (
	"path/filepath"
	"syscall"
)

// What protected paths are, as reports name them.
const (
	whyHooks      = "git's hooks"
	whyConfig     = "git's configuration"
	whyAttributes = "git's attributes"
	whyPointer    = "a pointer of git's"
	whyWorktrees  = "git's pointers to worktrees"
	whyModules    = "the repositories of submodules"
	whySubmodules = "git's list of submodules"
	whySubmodule  = "the pointer of a submodule"
	whyOnTheWay   = "on the way to what is protected"
)

// moduleLimit bounds the repositories of submodules that are protected one by
// one, and the folders that they lie in.
const moduleLimit = 256

// protector collects what is to stay as it is.
type protector struct {
	r      *Resolved
	caller callerEnv
	home   string
	// makeHooks makes the hooks folder of a repository that has none.
	makeHooks bool
	// pretend lists that folder as if it had been made.
	pretend bool

	// covered says that mounts hold the list.
	covered bool

	// open are the real paths of what is writable and lies in nothing else that
	// is.
	open []string
	// chosen are those that the user names.
	chosen []string
	// list is in no order, and a path may be in it twice.
	list []Protected
	// modules counts what is among the repositories of submodules; full says
	// that it is more than can be listed.
	modules int
	full    bool
	// ownConfig says that a config.worktree is there.
	ownConfig bool
	// included counts files of configuration that others include.
	included int
	// others says that the repository has other worktrees, whose logs are
	// frozen.
	others bool
	notes  []Note
}

// protect lists what git executes or follows and the command could change,
// where mounts hold it. env is the command's environment.
func (r *resolver) protect(env *environ) {
	if !r.o.MountLayer || !r.out.hasProtectable() {
		return
	}
	p := &protector{r: r.out, caller: r.caller, home: r.home, makeHooks: !r.o.DryRun, pretend: r.o.DryRun, covered: true}
	r.out.Protect = p.collect()
	r.out.Notes = append(r.out.Notes, p.notes...)
	if p.others {
		// git gc expires the logs of all worktrees.
		never := [][2]string{{"gc.reflogExpire", "never"}, {"gc.reflogExpireUnreachable", "never"}}
		if !addGitConfig(env, never) {
			r.note("git-config", "GIT_CONFIG_COUNT="+display(env.get("GIT_CONFIG_COUNT"))+" is no number: gc.reflogExpire=never was not added",
				"unset it")
		}
	}
}

// Watched lists what git executes or follows and the command could change, in
// the form of [Resolved.Protect]. It is for a caller that has no mount layer,
// for which Protect is empty, and compares afterwards. Environ is the caller's
// environment. It makes nothing.
func (r *Resolved) Watched(environ []string) []Protected {
	if len(r.Protect) > 0 || !r.hasProtectable() {
		return r.Protect
	}
	p := &protector{r: r, caller: environ, home: homeDir(environ)}
	return p.collect()
}

// hasProtectable reports whether there is a repository to protect. One that
// isn't trusted is left alone, since the way to it may be a lie, unless it is
// in the worktree itself.
func (r *Resolved) hasProtectable() bool {
	return r.Policy.Mode == WorkspaceWrite && (r.protectsGit() || len(r.Policy.Protect) > 0)
}

func (r *Resolved) protectsGit() bool {
	return !r.Policy.NoProtect && r.Repo != nil && (r.Repo.Trusted || r.Repo.Kind == RepoMain)
}

// collect returns the list in order.
func (p *protector) collect() []Protected {
	p.list = make([]Protected, 0, 24)
	p.findOpen()
	for _, path := range p.r.Policy.Protect {
		p.chosenPath(string(path))
	}
	if p.r.protectsGit() {
		p.git(p.r.Repo)
	}
	if p.covered {
		p.aliases()
	}
	return p.sorted()
}

// git lists what is the repository's.
func (p *protector) git(repo *Repo) {
	if repo.Kind == RepoLinked {
		p.common(repo.CommonDir, true, false)
		p.linked(repo.GitDir)
	} else {
		p.common(repo.CommonDir, false, false)
	}
	if repo.WorkTree != "" {
		p.worktree(repo.WorkTree)
	}
	p.configured()
}

// common lists what is in the folder that all worktrees of a repository share.
// For a linked worktree the repositories of submodules there are those of
// others, and so are all worktrees but its own.
func (p *protector) common(dir string, linked, submodule bool) {
	if !p.writable(dir + "/config") {
		return
	}
	p.hooks(dir)
	if submodule {
		// git submodule update writes it anew.
		p.compare(dir+"/config", whyConfig)
	} else {
		p.keep(dir+"/config", whyConfig)
	}
	p.ownConfig = p.keep(dir+"/config.worktree", whyConfig) || p.ownConfig
	p.keepIn(dir+"/info", "/attributes", whyAttributes)
	p.keep(dir+"/commondir", whyPointer)
	if linked {
		p.keepIfThere(dir+"/modules", whyModules)
	} else {
		p.submodules(dir + "/modules")
	}
	trees := dir + "/worktrees"
	var st syscall.Stat_t
	if syscall.Lstat(trees, &st) != nil {
		return
	}
	p.found(trees, whyWorktrees, &st)
	// A folder has one link more for each folder in it, or always one.
	own := uint64(2)
	if linked {
		own = 3
	}
	p.others = p.others || uint64(st.Nlink) != own //nolint:unconvert // Nlink differs by architecture
}

// linked lists what is in the repository's folder for the worktree.
func (p *protector) linked(dir string) {
	if !p.writable(dir) {
		return
	}
	p.add(dir, Reopened, whyOnTheWay)
	p.add(dir+"/commondir", Frozen, whyPointer)
	p.add(dir+"/gitdir", Frozen, whyPointer)
	p.ownConfig = p.keep(dir+"/config.worktree", whyConfig) || p.ownConfig
	p.submodules(dir + "/modules")
}

// worktree lists what is in a working tree.
func (p *protector) worktree(top string) {
	if p.r.Repo.Kind != RepoMain {
		p.keep(join(top, ".git"), whyPointer)
	}
	if dir := p.r.Worktree; dir != top {
		// git looks for a repository here first.
		p.keep(join(dir, ".git"), whyPointer)
		if head := join(dir, "HEAD"); mode(head) == 0 {
			p.add(head, Unborn, whyPointer)
		}
	}
	p.compare(join(top, ".gitmodules"), whySubmodules)
}

// hooks lists the hooks of a repository. An empty folder is made where there is
// none: nothing can be mounted over a name that doesn't exist.
func (p *protector) hooks(dir string) {
	path := dir + "/hooks"
	var st syscall.Stat_t
	switch err := syscall.Lstat(path, &st); {
	case err == nil:
		p.found(path, whyHooks, &st)
	case err != syscall.ENOENT:
	case p.pretend, p.makeHooks && makeLike(path, dir):
		p.freeze(path, whyHooks)
	default:
		p.add(path, Unborn, whyHooks)
	}
}

// makeLike makes a folder that belongs to whom the folder dir belongs to.
func makeLike(path, dir string) bool {
	if syscall.Mkdir(path, 0o777) != nil {
		return false
	}
	var st syscall.Stat_t
	if syscall.Lstat(dir, &st) == nil && int(st.Uid) != syscall.Geteuid() {
		// Only root can be here, and need not succeed.
		_ = syscall.Lchown(path, int(st.Uid), int(st.Gid))
	}
	return true
}

// submodules lists what is in the repositories of submodules, which lie in dir
// by name. More than can be listed one by one are frozen together.
func (p *protector) submodules(dir string) {
	full := p.full
	p.modulesIn(dir, 0)
	if !p.full {
		return
	}
	p.freeze(dir, whyModules)
	if !full {
		p.note("git-partial", "there are too many submodules to protect one by one: nothing in "+display(dir)+" can be changed",
			"--no-protect, if you trust the command with all of git's hooks and configuration")
	}
}

// modulesIn does so for one folder. The name of a submodule may have several
// parts.
func (p *protector) modulesIn(dir string, depth int) {
	var st syscall.Stat_t
	if syscall.Lstat(dir, &st) != nil {
		return
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		p.found(dir, whyModules, &st)
		return
	}
	for _, name := range listDir(dir) {
		sub := dir + "/" + name
		if p.modules == moduleLimit || depth == moduleDepth {
			p.full = true
			return
		}
		p.modules++
		switch {
		case mode(sub) != syscall.S_IFDIR:
		case mode(sub+"/HEAD") == 0:
			p.modulesIn(sub, depth+1)
		default:
			p.common(sub, false, true)
			p.checkout(sub)
		}
	}
}

// moduleDepth bounds the parts of a submodule's name.
const moduleDepth = 64

// checkout lists the pointer from a submodule's working tree to its repository:
// git status follows it. git itself replaces it, so it is only compared.
func (p *protector) checkout(gitDir string) {
	top, err := coreWorktree(gitDir)
	if err != nil || top == "" {
		return
	}
	if top[0] != '/' {
		top = gitDir + "/" + top
	}
	top = filepath.Clean(top)
	p.compare(join(top, ".git"), whySubmodule)
	p.settings(gitDir+"/config", top)
}
