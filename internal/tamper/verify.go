package tamper

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// Verify says what git in a worktree would execute or follow that a command
// could have put there, by looking at it now: the worst first. It runs nothing.
// Environ is the environment in which git will run; it says where the user's
// own configuration is.
//
// What was found need not be a command's work, and no finding is no proof: a
// program that the worktree's own build runs is not looked at. The error means
// that the worktree can't be looked at.
func Verify(worktree string, environ []string) ([]Finding, error) {
	repo, err := policy.FindRepo(worktree)
	if err != nil {
		return nil, err
	}
	top, err := filepath.EvalSymlinks(worktree)
	if err != nil {
		return nil, err
	}
	if top, err = filepath.Abs(top); err != nil {
		return nil, err
	}
	v := &verifier{environ: environ, top: top, seen: map[string]bool{}, entered: map[string]bool{}}
	if repo != nil {
		if repo.WorkTree != "" {
			v.top = repo.WorkTree
		}
		v.repo(repo)
	}
	v.walk(top)
	return v.sorted(), nil
}

// verifier collects findings.
type verifier struct {
	environ []string
	top     string // of the working tree
	list    []Finding
	// seen are repositories that were looked at.
	seen map[string]bool
	// entered are those of which the list of files was.
	entered map[string]bool
	// included counts files of configuration that others include.
	included int
}

func (v *verifier) add(s Severity, path, key, text, look string) {
	v.list = append(v.list, Finding{s, policy.Path(path), oneLine(key), oneLine(text), look})
}

func (v *verifier) sorted() []Finding {
	slices.SortStableFunc(v.list, func(a, b Finding) int {
		return cmp.Or(a.Severity.rank()-b.Severity.rank(), strings.Compare(string(a.Path), string(b.Path)))
	})
	return slices.CompactFunc(v.list, func(a, b Finding) bool { return a == b })
}

// repo looks at the repository that the worktree belongs to.
func (v *verifier) repo(repo *policy.Repo) {
	if p := repo.Problem; p != nil {
		s := Warning
		if p.Code == "git-tampered" {
			s = Danger
		}
		file := join(repo.WorkTree, ".git")
		look := show(file)
		if isFolder(file) {
			look = "ls -la " + shellQuote(file)
		}
		v.add(s, file, "", p.Text, look)
	}
	if repo.GitDir == "" {
		return
	}
	if repo.WorkTree != "" {
		v.user()
	}
	v.repository(repo.GitDir, repo.CommonDir, v.top)
	v.worktrees(repo.CommonDir)
	v.alternates(repo.CommonDir)
	v.rebase(repo.GitDir)
	v.oldRemotes(repo.CommonDir)
	if repo.WorkTree == "" {
		return
	}
	v.gitmodules(join(v.top, ".gitmodules"))
	v.links(v.top, repo.GitDir, repo.Index())
}

// repository looks at what makes git execute something in one repository, and
// in those of its submodules.
func (v *verifier) repository(gitDir, common, top string) {
	if v.seen[gitDir] {
		return
	}
	v.seen[gitDir] = true
	v.seen[common] = true
	for _, folder := range []string{gitDir, common} {
		file := folder + "/commondir"
		if id, _ := lstat(file); id != (ident{}) && base(dir(folder)) != "worktrees" {
			v.add(Danger, file, "", "git makes no such file there: it leads to "+quote(pointer(readFile(file))), show(file))
		}
	}
	for _, file := range configs(gitDir, common) {
		v.config(file, top, true)
	}
	v.hooks(common+"/hooks", top)
	v.attributes(common + "/info/attributes")
	v.modules(gitDir+"/modules", 0)
	if gitDir != common {
		v.modules(common+"/modules", 0)
	}
}

// moduleDepth bounds the folders in which repositories of submodules are looked
// for.
const moduleDepth = 16

// modules looks at the repositories of submodules in a folder.
func (v *verifier) modules(folder string, depth int) {
	for _, name := range names(folder) {
		sub := folder + "/" + name
		switch {
		case !isFolder(sub):
		case isGitDir(sub):
			v.repository(sub, commonDir(sub), v.top)
		case depth < moduleDepth:
			v.modules(sub, depth+1)
		}
	}
}

// config looks at a file of configuration. Own says that it is the
// repository's; of the user's only counts what leads to where a command can
// write.
func (v *verifier) config(file, top string, own bool) {
	for _, t := range settings(readFile(file)) {
		s := t.severity(top)
		switch t.key {
		case "include.path", "includeif.*.path":
			path := v.expand(t.value, dir(file))
			if inReach(path, v.top) {
				s = Danger
			} else if !own {
				s = ""
			}
			if v.included++; v.included <= includeLimit && path != "" {
				v.config(path, top, own || s == Danger)
			}
		case "core.hookspath":
			path := v.expand(t.value, top)
			if inReach(path, v.top) {
				v.hooks(path, top)
			} else if !own {
				s = ""
			}
		default:
			if !own {
				s = ""
			}
		}
		if s != "" {
			v.add(s, file, t.key, "git would use "+t.String(), show(file))
		}
	}
}

// includeLimit bounds the files of configuration that others include.
const includeLimit = 64

// expand returns the path that a setting names, seen from a folder.
func (v *verifier) expand(value, folder string) string {
	value = strings.TrimPrefix(value, ":(optional)")
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		return filepath.Clean(v.get("HOME") + "/" + rest)
	}
	if value == "" || value[0] == '~' {
		return ""
	}
	return filepath.Clean(join(folder, value))
}

func (v *verifier) get(name string) string {
	for i := len(v.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(v.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// user looks at the user's own configuration.
func (v *verifier) user() {
	files := []string{v.get("GIT_CONFIG_GLOBAL")}
	if files[0] == "" {
		home, xdg := v.get("HOME"), v.get("XDG_CONFIG_HOME")
		if xdg == "" {
			xdg = home + "/.config"
		}
		files = []string{home + "/.gitconfig", xdg + "/git/config"}
	}
	for _, file := range files {
		v.config(file, v.top, false)
	}
}

// hooks lists the hooks in a folder.
func (v *verifier) hooks(folder, top string) {
	for _, hook := range hooks(folder) {
		s, text := Note, "git would run this hook"
		if real, err := filepath.EvalSymlinks(hook); err == nil && inReach(real, top) && !beneath(real, join(top, ".git")) {
			s, text = Warning, "git would run this hook, to which commands in the worktree can write"
		}
		v.add(s, hook, "", text, show(hook))
	}
}

// attributes looks at the attributes that have a file of their own in a
// repository.
func (v *verifier) attributes(file string) {
	n := 0
	for line := range strings.Lines(string(readFile(file))) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, word := range strings.Fields(line) {
			driver := strings.HasPrefix(word, "filter=") || strings.HasPrefix(word, "diff=") || strings.HasPrefix(word, "merge=")
			if n++; driver && n < 1000 {
				v.add(Warning, file, word, "git would use the driver "+quote(word)+", if one is configured", show(file))
			}
		}
	}
}

// worktrees looks at the pointers of the repository's worktrees.
func (v *verifier) worktrees(common string) {
	for _, name := range names(common + "/worktrees") {
		path := common + "/worktrees/" + name
		if odd := oddWorktree(path, common); odd != "" {
			v.add(Danger, path, "", "a worktree "+odd, "ls -la "+shellQuote(path))
		}
	}
}

// gitmodules looks at the list of submodules.
func (v *verifier) gitmodules(file string) {
	if id, _ := lstat(file); id.mode&unix.S_IFMT == unix.S_IFLNK {
		v.add(Danger, file, "", "git's list of submodules is a symbolic link", "ls -ld "+shellQuote(file))
	}
	for _, bad := range badModules(readFile(file), v.top) {
		v.add(Danger, file, "", "git's list of submodules has "+bad, show(file))
	}
}

// alternates looks at what else git takes for its objects.
func (v *verifier) alternates(common string) {
	for _, name := range []string{"alternates", "http-alternates"} {
		file := common + "/objects/info/" + name
		for line := range strings.Lines(string(readFile(file))) {
			line = pointer([]byte(line))
			if line == "" || line[0] == '#' {
				continue
			}
			s, path := Note, filepath.Clean(join(common+"/objects", line))
			if inReach(path, v.top) || !isFolder(path) {
				s = Warning
			}
			v.add(s, file, "", "git reads objects from "+quote(line), show(file))
		}
	}
}

// rebase looks at what a rebase that is going on would execute.
func (v *verifier) rebase(gitDir string) {
	file := gitDir + "/rebase-merge/git-rebase-todo"
	for line := range strings.Lines(string(readFile(file))) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "exec" || word == "x" {
			v.add(Warning, file, "", "git rebase --continue would run "+quote(rest), show(file))
		}
	}
}

// oldRemotes looks at remotes in files of their own, which git still reads.
func (v *verifier) oldRemotes(common string) {
	for _, name := range []string{"remotes", "branches"} {
		for _, entry := range names(common + "/" + name) {
			file := common + "/" + name + "/" + entry
			if text := readFile(file); len(text) > 0 {
				v.add(Warning, file, "", "git fetch "+quote(entry)+" would use this old form of a remote", show(file))
			}
		}
	}
}

// links looks at the repositories that git status enters.
func (v *verifier) links(top, gitDir string, ix policy.GitIndex) {
	if v.entered[gitDir] || len(v.entered) > linkLimit {
		return
	}
	v.entered[gitDir] = true
	found, err := ix.Gitlinks()
	if err != nil {
		v.add(Warning, gitDir+"/index", "", "git's list of files can't be read: "+err.Error(), "ls -l "+shellQuote(gitDir+"/index"))
	}
	for _, link := range found {
		folder := join(top, link)
		if sub := gitDirAt(folder); sub != "" {
			v.nested(sub, "git status enters this repository, in which git would use ")
			v.links(folder, sub, (&policy.Repo{GitDir: sub, CommonDir: commonDir(sub)}).Index())
		}
	}
}
