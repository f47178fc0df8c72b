package policy

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// RepoKind is how a working tree and its repository belong together.
type RepoKind string

const (
	// RepoMain: .git is the repository itself.
	RepoMain RepoKind = "main"
	// RepoLinked: a worktree made by git worktree add.
	RepoLinked RepoKind = "linked"
	// RepoSubmodule: the repository lies in the superproject's modules folder.
	RepoSubmodule RepoKind = "submodule"
	// RepoSeparate: the repository lies elsewhere (git init
	// --separate-git-dir, or a .git that is a symbolic link).
	RepoSeparate RepoKind = "separate"
	// RepoBare: the folder lies in a repository, not in a working tree.
	RepoBare RepoKind = "bare"
	// RepoBroken: a .git is there and leads to no repository.
	RepoBroken RepoKind = "broken"
)

// Repo is the repository that a folder belongs to.
type Repo struct {
	// Kind says how the two belong together.
	Kind RepoKind
	// WorkTree is the real path of the folder that holds .git; empty for
	// RepoBare.
	WorkTree string
	// GitDir is the real path of the folder with HEAD and the index; empty
	// when it could not be found.
	GitDir string
	// CommonDir is the real path of the folder with the objects, refs and
	// configuration. It is GitDir except for a linked worktree; empty when it
	// could not be found.
	CommonDir string
	// Trusted says that GitDir and CommonDir may be granted: they lie in the
	// working tree, or they themselves name it.
	Trusted bool
	// Problem says why not; nil when Trusted.
	Problem *Note

	// data says which of commonData are there.
	data [len(commonData)]bool
}

// pointerLimit bounds the files in which git keeps one path.
const pointerLimit = 4096 + 16

// FindRepo returns the repository that dir belongs to, as git would find it
// from there: dir itself is looked at first, then its parents, to the root of
// the file system that dir is on. It returns nil and no error if there is
// none.
//
// It runs nothing and reads no environment. An error means that dir itself
// can't be used; whatever is wrong with the repository is in [Repo.Problem].
// The files read lie where a confined command could write: they are bounded,
// never block, and count only where something outside the working tree
// confirms them.
func FindRepo(dir string) (*Repo, error) {
	real, id, err := realDir(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return findRepo(real, id.dev), nil
}

// findRepo walks up from a real path on device dev.
func findRepo(dir string, dev uint64) *Repo {
	for {
		if repo := repoAt(dir); repo != nil {
			return repo
		}
		if dir == "/" {
			return nil
		}
		dir = parentDir(dir)
		var st syscall.Stat_t
		if syscall.Lstat(dir, &st) != nil || st.Dev != dev {
			return nil
		}
	}
}

// repoAt returns the repository whose working tree starts at top, or which top
// itself is, or nil.
func repoAt(top string) *Repo {
	dotGit := top + "/.git"
	if top == "/" {
		dotGit = "/.git"
	}
	text, err := readSmall(dotGit, pointerLimit)
	switch {
	case err == nil:
		return pointedRepo(top, dotGit, text)
	case errors.Is(err, errTooLarge):
		return brokenRepo(top, dotGit+" is too large to be a pointer to a repository")
	case errors.Is(err, syscall.ENOENT):
		return bareRepo(top)
	}
	switch mode(dotGit) {
	case syscall.S_IFDIR:
		if !isGitDir(dotGit) {
			return bareRepo(top)
		}
		return mainRepo(top, dotGit)
	case syscall.S_IFLNK:
		return symlinkedRepo(top, dotGit)
	case syscall.S_IFREG:
		return brokenRepo(top, err.Error())
	}
	// A pipe, a socket, a device: git passes it over, too.
	return bareRepo(top)
}

// isGitDir reports whether dir looks like a repository of its own.
func isGitDir(dir string) bool {
	head := mode(dir + "/HEAD")
	if head != syscall.S_IFREG && head != syscall.S_IFLNK {
		return false
	}
	return isFolder(dir+"/objects") && isFolder(dir+"/refs")
}

// isFolder reports whether path is a folder or a link to one.
func isFolder(path string) bool {
	var st syscall.Stat_t
	return syscall.Stat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// bareRepo returns top as a repository without a working tree, or nil.
func bareRepo(top string) *Repo {
	if top == "/" || !isGitDir(top) {
		return nil
	}
	return &Repo{Kind: RepoBare, GitDir: top, CommonDir: top, Trusted: true}
}

// mainRepo looks at a .git folder. Nothing points anywhere, unless somebody
// made it so.
func mainRepo(top, gitDir string) *Repo {
	repo := &Repo{Kind: RepoMain, WorkTree: top, GitDir: gitDir, CommonDir: gitDir}
	if text, err := readSmall(gitDir+"/commondir", pointerLimit); err == nil {
		return repo.tampered(gitDir+"/commondir", trimPointer(text), "git makes no such file there")
	} else if !errors.Is(err, syscall.ENOENT) {
		return repo.problem("git-tampered", err.Error(), "look at it before you run git there")
	}
	if link := repo.lookAtData(); link != "" {
		return repo.problem("git-unverified", link+" is a symbolic link: what git writes there lies outside",
			"grant its target with --rw if you trust it")
	}
	repo.Trusted = true
	return repo
}

// symlinkedRepo follows a .git that is a symbolic link.
func symlinkedRepo(top, dotGit string) *Repo {
	real, _, err := realDir(dotGit)
	if err != nil {
		return brokenRepo(top, dotGit+" is a symbolic link that leads to no folder")
	}
	return classify(top, dotGit, real, real)
}

// pointedRepo follows a .git file.
func pointedRepo(top, dotGit string, text []byte) *Repo {
	target, err := parseGitFile(text)
	if err != nil {
		return brokenRepo(top, dotGit+": "+err.Error())
	}
	path := target
	if path[0] != '/' {
		path = top + "/" + path
	}
	gitDir, _, err := realDir(path)
	if err != nil {
		return brokenRepo(top, dotGit+" names "+display(target)+": "+err.Error())
	}
	return classify(top, dotGit, target, gitDir)
}

// classify decides what the git dir is that dotGit leads to, and whether it
// may be believed.
func classify(top, dotGit, target, gitDir string) *Repo {
	repo := &Repo{Kind: RepoSeparate, WorkTree: top, GitDir: gitDir, CommonDir: gitDir}
	common, err := readSmall(gitDir+"/commondir", pointerLimit)
	switch {
	case err == nil:
		return repo.checkLinked(dotGit, target, trimPointer(common))
	case !errors.Is(err, syscall.ENOENT):
		return repo.problem("git-tampered", dotGit+" names "+display(target)+": "+err.Error(), "")
	}
	link := repo.lookAtData()
	if link == "" && !repo.complete() {
		return repo.tampered(dotGit, target, "that is no repository")
	}
	if strings.Contains(gitDir, "/modules/") {
		repo.Kind = RepoSubmodule
	}
	if link != "" {
		return repo.problem("git-tampered", link+" is a symbolic link", "")
	}
	if beneath(gitDir, top) {
		repo.Trusted = true
		return repo
	}
	return repo.checkCoreWorktree(dotGit, target)
}

// checkLinked checks the pointers of a linked worktree: three files that have
// to agree, two of which the command could not have written before it was
// granted them.
func (repo *Repo) checkLinked(dotGit, target, commonText string) *Repo {
	repo.Kind = RepoLinked
	parent := parentDir(repo.GitDir)
	common := parentDir(parent)
	repo.CommonDir = common
	if baseName(parent) != "worktrees" {
		return repo.tampered(dotGit, target, "that is not in a worktrees folder")
	}
	if commonText != "../.." {
		path := commonText
		if path == "" || path[0] != '/' {
			path = repo.GitDir + "/" + path
		}
		real, _, err := realDir(path)
		if err != nil || real != common {
			return repo.tampered(repo.GitDir+"/commondir", commonText, "it has to be "+display(common))
		}
	}
	back, err := readSmall(repo.GitDir+"/gitdir", pointerLimit)
	if err != nil {
		return repo.problem("git-tampered", err.Error(), "git worktree repair mends it")
	}
	if text := trimPointer(back); !repo.namesDotGit(text) {
		return repo.tampered(repo.GitDir+"/gitdir", text, "it has to be "+display(dotGit))
	}
	if beneath(common, repo.WorkTree) {
		return repo.tampered(dotGit, target, "the repository lies in the worktree itself")
	}
	link := repo.lookAtData()
	if link == "" && !repo.complete() {
		return repo.tampered(dotGit, target, display(common)+" is no repository")
	}
	if link != "" {
		return repo.problem("git-tampered", link+" is a symbolic link", "grant its target with --rw if you trust it")
	}
	repo.Trusted = true
	return repo
}

// namesDotGit reports whether the text of a gitdir file leads to the .git of
// the working tree.
func (repo *Repo) namesDotGit(text string) bool {
	dir, ok := strings.CutSuffix(text, "/.git")
	if !ok {
		return false
	}
	if dir == repo.WorkTree {
		return true
	}
	if dir == "" || dir[0] != '/' {
		dir = repo.GitDir + "/" + dir
	}
	real, _, err := realDir(dir)
	return err == nil && real == repo.WorkTree
}

// checkCoreWorktree looks for the only back-pointer that a repository outside
// has when it is not a linked worktree's: core.worktree in its configuration.
func (repo *Repo) checkCoreWorktree(dotGit, target string) *Repo {
	text, err := coreWorktree(repo.GitDir)
	switch {
	case err != nil:
		return repo.problem("git-unverified", err.Error(), "grant "+display(repo.GitDir)+" with --rw if you trust it")
	case text == "":
		return repo.problem("git-unverified",
			dotGit+" names "+display(target)+", and nothing there names this folder",
			"set core.worktree there, or grant it with --rw, if you trust it")
	}
	path := text
	if path[0] != '/' {
		path = repo.GitDir + "/" + path
	}
	if real, _, err := realDir(path); err != nil || real != repo.WorkTree {
		return repo.tampered(dotGit, target, "the working tree of that repository is "+display(text))
	}
	repo.Trusted = true
	return repo
}

// lookAtData looks which of the folders to be granted are there. It returns
// the first that is a symbolic link, or "".
func (repo *Repo) lookAtData() string {
	for i, name := range commonData {
		path := repo.CommonDir + "/" + name
		switch mode(path) {
		case syscall.S_IFDIR:
			repo.data[i] = true
		case syscall.S_IFLNK:
			return path
		}
	}
	return ""
}

// complete reports whether the common folder, which lookAtData has looked at,
// is a repository.
func (repo *Repo) complete() bool {
	head := mode(repo.CommonDir + "/HEAD")
	return (head == syscall.S_IFREG || head == syscall.S_IFLNK) && repo.data[dataObjects] && repo.data[dataRefs]
}

func brokenRepo(top, text string) *Repo {
	repo := &Repo{Kind: RepoBroken, WorkTree: top}
	return repo.problem("git-broken", text, "git worktree repair, run in the repository, mends a moved worktree")
}

// tampered marks a pointer that is not confirmed.
func (repo *Repo) tampered(file, says, why string) *Repo {
	return repo.problem("git-tampered", file+" names "+display(says)+": "+why,
		"if the worktree or its repository was moved, git worktree repair mends it; else see what shofer-sandbox --verify says before you run git there")
}

func (repo *Repo) problem(code, text, hint string) *Repo {
	repo.Trusted = false
	repo.Problem = &Note{Code: code, Text: oneLine(text), Hint: oneLine(hint)}
	return repo
}
