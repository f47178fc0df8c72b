package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// layout is a place that real git made, and what FindRepo has to say of it.
type layout struct {
	name    string
	make    func(t *testing.T, root string) (dir string)
	kind    RepoKind
	trusted bool
	code    string
}

func layouts() []layout {
	return []layout{
		{"main", func(t *testing.T, root string) string {
			return newRepo(t, root+"/repo")
		}, RepoMain, true, ""},
		{"main, from below", func(t *testing.T, root string) string {
			dir := newRepo(t, root+"/repo") + "/a/b/c"
			mkdir(t, dir)
			return dir
		}, RepoMain, true, ""},
		{"linked beside", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"linked, from below", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			mkdir(t, root+"/wt/x/y")
			return root + "/wt/x/y"
		}, RepoLinked, true, ""},
		{"linked below the main checkout", func(t *testing.T, root string) string {
			repo := newRepo(t, root+"/repo")
			git(t, repo, "worktree", "add", "-q", repo+"/.trees/wt")
			return repo + "/.trees/wt"
		}, RepoLinked, true, ""},
		{"linked from bare", func(t *testing.T, root string) string {
			git(t, root, "clone", "-q", "--bare", newRepo(t, root+"/repo"), root+"/bare.git")
			git(t, root+"/bare.git", "worktree", "add", "-q", root+"/wt")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"bare beside its worktrees", func(t *testing.T, root string) string {
			git(t, root, "clone", "-q", "--bare", newRepo(t, root+"/repo"), root+"/proj/.bare")
			write(t, root+"/proj/.git", "gitdir: ./.bare\n")
			git(t, root+"/proj", "worktree", "add", "-q", "wt")
			return root + "/proj/wt"
		}, RepoLinked, true, ""},
		{"the folder that holds such a bare", func(t *testing.T, root string) string {
			git(t, root, "clone", "-q", "--bare", newRepo(t, root+"/repo"), root+"/proj/.bare")
			write(t, root+"/proj/.git", "gitdir: ./.bare\n")
			return root + "/proj"
		}, RepoSeparate, true, ""},
		{"bare itself", func(t *testing.T, root string) string {
			git(t, root, "clone", "-q", "--bare", newRepo(t, root+"/repo"), root+"/bare.git")
			return root + "/bare.git"
		}, RepoBare, true, ""},
		{"in a git dir", func(t *testing.T, root string) string {
			return newRepo(t, root+"/repo") + "/.git/refs"
		}, RepoBare, true, ""},
		{"relative pointers", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			git(t, root+"/repo", "config", "core.repositoryFormatVersion", "1")
			write(t, root+"/wt/.git", "gitdir: ../repo/.git/worktrees/wt\n")
			write(t, root+"/repo/.git/worktrees/wt/gitdir", "../../../../wt/.git\n")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"absolute commondir", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			write(t, root+"/repo/.git/worktrees/wt/commondir", root+"/repo/.git\n")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"through symbolic links", func(t *testing.T, root string) string {
			mkdir(t, root+"/real")
			symlink(t, "real", root+"/link")
			git(t, newRepo(t, root+"/link/repo"), "worktree", "add", "-q", root+"/link/wt")
			write(t, root+"/real/wt/.git", "gitdir: "+root+"/link/repo/.git/worktrees/wt\n")
			write(t, root+"/real/repo/.git/worktrees/wt/gitdir", root+"/link/wt/.git\n")
			symlink(t, root+"/link/wt", root+"/wt")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"line ends of another system", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			write(t, root+"/wt/.git", "gitdir: "+root+"/repo/.git/worktrees/wt\r\n\n")
			write(t, root+"/repo/.git/worktrees/wt/commondir", "../..\r\n")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"no line end", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			write(t, root+"/wt/.git", "gitdir: "+root+"/repo/.git/worktrees/wt")
			return root + "/wt"
		}, RepoLinked, true, ""},
		{"moved by git", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			git(t, root+"/repo", "worktree", "move", "../wt", "../elsewhere")
			return root + "/elsewhere"
		}, RepoLinked, true, ""},
		{"submodule", func(t *testing.T, root string) string {
			return newSuper(t, root) + "/lib/sub one"
		}, RepoSubmodule, true, ""},
		{"submodule of a linked worktree", func(t *testing.T, root string) string {
			super := newSuper(t, root)
			git(t, super, "worktree", "add", "-q", root+"/wt")
			git(t, root+"/wt", "submodule", "--quiet", "update", "--init")
			return root + "/wt/lib/sub one"
		}, RepoSubmodule, true, ""},
		{"sparse submodule", func(t *testing.T, root string) string {
			dir := newSuper(t, root) + "/lib/sub one"
			git(t, dir, "sparse-checkout", "set", "x")
			return dir
		}, RepoSubmodule, true, ""},
		{"linked worktree of a submodule", func(t *testing.T, root string) string {
			git(t, newSuper(t, root)+"/lib/sub one", "worktree", "add", "-q", root+"/subwt")
			return root + "/subwt"
		}, RepoLinked, true, ""},
		{"separate", func(t *testing.T, root string) string {
			mkdir(t, root+"/wt")
			git(t, root+"/wt", "init", "-q", "--separate-git-dir", root+"/elsewhere.git")
			return root + "/wt"
		}, RepoSeparate, false, "git-unverified"},
		{"separate with core.worktree", func(t *testing.T, root string) string {
			mkdir(t, root+"/wt")
			git(t, root+"/wt", "init", "-q", "--separate-git-dir", root+"/elsewhere.git")
			git(t, root+"/wt", "config", "core.worktree", root+"/wt")
			return root + "/wt"
		}, RepoSeparate, true, ""},
		{"a .git that is a symbolic link", func(t *testing.T, root string) string {
			rename(t, newRepo(t, root+"/repo")+"/.git", root+"/store")
			symlink(t, "../store", root+"/repo/.git")
			return root + "/repo"
		}, RepoSeparate, false, "git-unverified"},
		{"reftable-like stub", func(t *testing.T, root string) string {
			git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
			mkdir(t, root+"/repo/.git/reftable")
			return root + "/wt"
		}, RepoLinked, true, ""},
	}
}

// newSuper makes a repository with a submodule in "lib/sub one".
func newSuper(t *testing.T, root string) string {
	sub := newRepo(t, root+"/library")
	super := newRepo(t, root+"/super")
	git(t, super, "submodule", "--quiet", "add", sub, "lib/sub one")
	git(t, super, "commit", "-q", "-m", "submodule")
	return super
}

func TestFindRepoAgreesWithGit(t *testing.T) {
	for _, odd := range []string{"", "sp ü $x *\"'", "\xff\nend\n"} {
		for _, l := range layouts() {
			t.Run(l.name+" in "+display(odd), func(t *testing.T) {
				t.Parallel()
				root := testDir(t)
				if odd != "" {
					root += "/" + odd
					mkdir(t, root)
				}
				checkLayout(t, l, l.make(t, root))
			})
		}
	}
}

func checkLayout(t *testing.T, l layout, dir string) {
	repo, err := FindRepo(dir)
	if err != nil || repo == nil {
		t.Fatalf("FindRepo(%q) = %v, %v", dir, repo, err)
	}
	if repo.Kind != l.kind || repo.Trusted != l.trusted {
		t.Errorf("FindRepo(%q) = kind %s, trusted %t, %v; want %s, %t", dir, repo.Kind, repo.Trusted, repo.Problem, l.kind, l.trusted)
	}
	if (repo.Problem == nil) != repo.Trusted || repo.Problem != nil && repo.Problem.Code != l.code {
		t.Errorf("FindRepo(%q): problem %v; want %q", dir, repo.Problem, l.code)
	}
	gitDir := realPath(t, git(t, dir, "rev-parse", "--absolute-git-dir"))
	if repo.GitDir != gitDir {
		t.Errorf("FindRepo(%q): git dir %q; want %q", dir, repo.GitDir, gitDir)
	}
	common := git(t, dir, "rev-parse", "--git-common-dir")
	if !strings.HasPrefix(common, "/") {
		common = dir + "/" + common
	}
	if common = realPath(t, common); repo.CommonDir != common {
		t.Errorf("FindRepo(%q): common dir %q; want %q", dir, repo.CommonDir, common)
	}
	if repo.Kind == RepoBare || git(t, dir, "rev-parse", "--is-bare-repository") == "true" {
		return
	}
	if top := realPath(t, git(t, dir, "rev-parse", "--show-toplevel")); repo.WorkTree != top {
		t.Errorf("FindRepo(%q): working tree %q; want %q", dir, repo.WorkTree, top)
	}
}

func realPath(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestFindRepoWithout(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/a/.git") // no repository
	mkdir(t, root+"/a/b")
	for _, dir := range []string{root, root + "/a", root + "/a/b"} {
		if repo, err := FindRepo(dir); repo != nil || err != nil {
			t.Errorf("FindRepo(%q) = %+v, %v; want nil, nil", dir, repo, err)
		}
	}
	write(t, root+"/file", "")
	for dir, want := range map[string]error{
		root + "/none": syscall.ENOENT,
		root + "/file": syscall.ENOTDIR,
		"":             syscall.ENOENT,
	} {
		if repo, err := FindRepo(dir); !errors.Is(err, want) || repo != nil {
			t.Errorf("FindRepo(%q) = %v, %v; want %v", dir, repo, err, want)
		}
	}
}

// TestFindRepoPassesOver holds FindRepo to git's choice: what is neither a
// file nor a repository does not stop the search.
func TestFindRepoPassesOver(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, path string){
		"pipe":   mkfifo,
		"folder": func(t *testing.T, path string) { mkdir(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepo(t, testDir(t)+"/repo")
			mkdir(t, repo+"/sub")
			plant(t, repo+"/sub/.git")
			if got := git(t, repo+"/sub", "rev-parse", "--absolute-git-dir"); got != repo+"/.git" {
				t.Errorf("git finds %q", got)
			}
			found, err := FindRepo(repo + "/sub")
			if err != nil || found == nil || found.GitDir != repo+"/.git" {
				t.Errorf("FindRepo = %+v, %v; want %s/.git", found, err, repo)
			}
		})
	}
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFindRepoTampered plants what a confined command could, in a worktree
// that was good before.
func TestFindRepoTampered(t *testing.T) {
	tests := []struct {
		name string
		// plant changes the worktree root/wt of root/repo; root/other is a
		// second repository with a worktree root/otherwt.
		plant func(t *testing.T, root string)
		code  string
		says  string
	}{
		{"pointer to the home directory", func(t *testing.T, root string) {
			mkdir(t, root+"/home")
			write(t, root+"/wt/.git", "gitdir: "+root+"/home\n")
		}, "git-tampered", "/home"},
		{"pointer to another repository", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: "+root+"/other/.git\n")
		}, "git-unverified", "/other/.git"},
		{"pointer to another worktree", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: "+root+"/other/.git/worktrees/otherwt\n")
		}, "git-tampered", "/otherwt/.git"},
		{"pointer to a worktree of the same repository", func(t *testing.T, root string) {
			git(t, root+"/repo", "worktree", "add", "-q", root+"/second")
			write(t, root+"/wt/.git", "gitdir: "+root+"/repo/.git/worktrees/second\n")
		}, "git-tampered", "/second/.git"},
		{"pointer to the common folder", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: "+root+"/repo/.git\n")
		}, "git-unverified", "/repo/.git"},
		{"repository in the worktree", func(t *testing.T, root string) {
			fakeRepo(t, root+"/wt/fake", "wt", root+"/wt")
			write(t, root+"/wt/.git", "gitdir: fake/worktrees/wt\n")
		}, "git-tampered", "in the worktree itself"},
		{"commondir rewritten", func(t *testing.T, root string) {
			write(t, root+"/repo/.git/worktrees/wt/commondir", root+"/other/.git\n")
		}, "git-tampered", "/other/.git"},
		{"commondir emptied", func(t *testing.T, root string) {
			write(t, root+"/repo/.git/worktrees/wt/commondir", "")
		}, "git-tampered", "commondir"},
		{"commondir a symbolic link", func(t *testing.T, root string) {
			remove(t, root+"/repo/.git/worktrees/wt/commondir")
			symlink(t, root+"/other/.git/worktrees/otherwt/commondir", root+"/repo/.git/worktrees/wt/commondir")
		}, "git-tampered", "commondir"},
		{"gitdir names another worktree", func(t *testing.T, root string) {
			write(t, root+"/repo/.git/worktrees/wt/gitdir", root+"/otherwt/.git\n")
		}, "git-tampered", "/otherwt/.git"},
		{"gitdir gone", func(t *testing.T, root string) {
			remove(t, root+"/repo/.git/worktrees/wt/gitdir")
		}, "git-tampered", "gitdir"},
		{"gitdir a pipe", func(t *testing.T, root string) {
			remove(t, root+"/repo/.git/worktrees/wt/gitdir")
			mkfifo(t, root+"/repo/.git/worktrees/wt/gitdir")
		}, "git-tampered", "not a regular file"},
		{"objects a symbolic link", func(t *testing.T, root string) {
			// A worktree whose repository lies where the command can write.
			rename(t, root+"/repo/.git/objects", root+"/secret")
			symlink(t, root+"/secret", root+"/repo/.git/objects")
		}, "git-tampered", "objects"},
		{"lfs a symbolic link", func(t *testing.T, root string) {
			symlink(t, root+"/other", root+"/repo/.git/lfs")
		}, "git-tampered", "lfs"},
		{"git dir a symbolic link", func(t *testing.T, root string) {
			rename(t, root+"/repo/.git/worktrees/wt", root+"/moved")
			symlink(t, root+"/moved", root+"/repo/.git/worktrees/wt")
		}, "git-tampered", "worktrees"},
		{".git a symbolic link to another repository", func(t *testing.T, root string) {
			remove(t, root+"/wt/.git")
			symlink(t, root+"/other/.git", root+"/wt/.git")
		}, "git-unverified", "/other/.git"},
		{".git a symbolic link to another pointer", func(t *testing.T, root string) {
			remove(t, root+"/wt/.git")
			symlink(t, root+"/otherwt/.git", root+"/wt/.git")
		}, "git-broken", "symbolic link"},
		{".git a symbolic link to itself", func(t *testing.T, root string) {
			remove(t, root+"/wt/.git")
			symlink(t, ".git", root+"/wt/.git")
		}, "git-broken", "symbolic link"},
		{"huge .git", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: "+strings.Repeat("/x", 1<<20))
		}, "git-broken", "too large"},
		{"endless .git", func(t *testing.T, root string) {
			if err := os.Truncate(root+"/wt/.git", 1<<40); err != nil {
				t.Fatal(err)
			}
		}, "git-broken", "too large"},
		{"empty .git", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "")
		}, "git-broken", "gitdir: "},
		{"no path", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: \n")
		}, "git-broken", "names no repository"},
		{"NUL in the path", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: /a\x00b\n")
		}, "git-broken", "NUL"},
		{"pointer to nothing", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: /nonexistent/x\n")
		}, "git-broken", "/nonexistent/x"},
		{"pointer to a file", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: /etc/passwd\n")
		}, "git-broken", "/etc/passwd"},
		{"pointer to itself", func(t *testing.T, root string) {
			write(t, root+"/wt/.git", "gitdir: .git\n")
		}, "git-broken", ".git"},
		{"a main checkout with a commondir", func(t *testing.T, root string) {
			remove(t, root+"/wt")
			newRepo(t, root+"/wt")
			write(t, root+"/wt/.git/commondir", root+"/other/.git\n")
		}, "git-tampered", "/other/.git"},
		{"a main checkout with a symbolic link", func(t *testing.T, root string) {
			remove(t, root+"/wt")
			newRepo(t, root+"/wt")
			rename(t, root+"/wt/.git/objects", root+"/objects")
			symlink(t, root+"/objects", root+"/wt/.git/objects")
		}, "git-unverified", "objects"},
		{"a submodule's repository that names another tree", func(t *testing.T, root string) {
			super := newSuper(t, root+"/s")
			write(t, root+"/wt/.git", "gitdir: "+super+"/.git/modules/lib/sub one\n")
		}, "git-tampered", "sub one"},
		{"a submodule's repository with broken configuration", func(t *testing.T, root string) {
			super := newSuper(t, root+"/s")
			write(t, super+"/.git/modules/lib/sub one/config", "[core\nworktree = x")
			write(t, root+"/wt/.git", "gitdir: "+super+"/.git/modules/lib/sub one\n")
		}, "git-unverified", "near line 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := testDir(t)
			for _, names := range [][2]string{{"repo", "wt"}, {"other", "otherwt"}} {
				git(t, newRepo(t, root+"/"+names[0]), "worktree", "add", "-q", root+"/"+names[1])
			}
			test.plant(t, root)
			for _, mountLayer := range []bool{false, true} {
				r, err := Resolve(Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), NoCache: true},
					Options{Environ: []string{"HOME=/nonexistent"}, MountLayer: mountLayer})
				if err != nil {
					t.Fatal(err)
				}
				if r.Repo == nil || r.Repo.Trusted || codes(r.Notes) != test.code || !strings.Contains(r.Notes[0].Text, test.says) {
					t.Errorf("Resolve: repo %+v, notes %q; want untrusted, %s with %q", r.Repo, r.Notes, test.code, test.says)
				}
				for _, g := range r.Grants {
					if g.Origin == FromGit {
						t.Errorf("Resolve grants %+v", g)
					}
				}
			}
		})
	}
}

// fakeRepo makes what a command could: a repository that looks like that of a
// linked worktree.
func fakeRepo(t *testing.T, common, name, worktree string) {
	for _, dir := range []string{"objects", "refs", "logs", "worktrees/" + name} {
		mkdir(t, common+"/"+dir)
	}
	write(t, common+"/HEAD", "ref: refs/heads/main\n")
	write(t, common+"/worktrees/"+name+"/HEAD", "ref: refs/heads/main\n")
	write(t, common+"/worktrees/"+name+"/commondir", "../..\n")
	write(t, common+"/worktrees/"+name+"/gitdir", worktree+"/.git\n")
}
