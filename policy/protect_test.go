package policy

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// showProtect writes a list short: a letter for the kind, then the path with
// base left out.
func showProtect(list []Protected, base string) []string {
	var out []string
	for _, e := range list {
		kind := map[ProtectKind]string{Frozen: "frozen", Pinned: "pinned", Reopened: "open", Unborn: "unborn", Compared: "compared"}[e.Kind]
		out = append(out, kind+" "+strings.TrimPrefix(e.Path, base+"/"))
	}
	return out
}

// protectOf resolves a policy for a worktree with a mount layer.
func protectOf(t *testing.T, p Policy) *Resolved {
	t.Helper()
	p.Mode, p.NoCache = WorkspaceWrite, true
	return mustResolve(t, p, Options{Environ: []string{"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}, MountLayer: true})
}

func checkProtect(t *testing.T, r *Resolved, base string, want ...string) {
	t.Helper()
	if got := showProtect(r.Protect, base); !slices.Equal(got, want) {
		t.Errorf("Protect of %s:\n\t%s\nwant:\n\t%s", r.Worktree, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestProtectLinked(t *testing.T) {
	base := testenv.Dir(t)
	git(t, newRepo(t, base+"/repo"), "worktree", "add", "-q", base+"/wt")
	want := []string{
		"unborn repo/.git/commondir", "frozen repo/.git/config", "unborn repo/.git/config.worktree",
		"frozen repo/.git/hooks", "unborn repo/.git/info/attributes",
		"frozen repo/.git/worktrees", "open repo/.git/worktrees/wt", "frozen repo/.git/worktrees/wt/commondir",
		"unborn repo/.git/worktrees/wt/config.worktree", "frozen repo/.git/worktrees/wt/gitdir",
		"frozen wt/.git", "compared wt/.gitmodules",
	}
	p := Policy{Worktree: Path(base + "/wt")}
	r := protectOf(t, p)
	checkProtect(t, r, base, want...)
	if slices.Contains(r.Env, "GIT_CONFIG_KEY_0=gc.reflogExpire") {
		t.Error("gc.reflogExpire is set without another worktree")
	}

	// Others cost nothing.
	git(t, base+"/repo", "worktree", "add", "-q", base+"/other")
	mkdir(t, base+"/repo/.git/modules/x")
	r = protectOf(t, p)
	checkProtect(t, r, base, slices.Insert(slices.Clone(want), 5, "frozen repo/.git/modules")...)
	for _, entry := range []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=gc.reflogExpire", "GIT_CONFIG_VALUE_1=never"} {
		if !slices.Contains(r.Env, entry) {
			t.Errorf("environment lacks %s", entry)
		}
	}

	// A grant above reaches the repository's folder and the worktree themselves.
	p.Write = []Path{Path(base)}
	remove(t, base+"/repo/.git/modules")
	checkProtect(t, protectOf(t, p), base, slices.Concat(
		[]string{"pinned repo", "pinned repo/.git"}, want[:10], []string{"pinned wt"}, want[10:])...)
}

func TestProtectMain(t *testing.T) {
	base := testenv.Dir(t)
	top := newRepo(t, base+"/repo")
	remove(t, top+"/.git/hooks")
	write(t, top+"/.git/info/attributes", "* text\n")
	write(t, top+"/.git/config.worktree", "")
	r := protectOf(t, Policy{Worktree: Path(top)})
	checkProtect(t, r, top,
		"pinned .git", "unborn .git/commondir", "frozen .git/config", "frozen .git/config.worktree", "frozen .git/hooks",
		"pinned .git/info", "frozen .git/info/attributes", "compared .gitmodules")
	if !isFolder(top + "/.git/hooks") {
		t.Error("no hooks folder was made")
	}

	git(t, top, "worktree", "add", "-q", base+"/wt")
	r = protectOf(t, Policy{Worktree: Path(top)})
	if got := showProtect(r.Protect, top); !slices.Contains(got, "frozen .git/worktrees") {
		t.Errorf("worktrees is not frozen: %q", got)
	}

	// From a subfolder the working tree itself is not granted, and git would
	// find a repository in the subfolder first.
	mkdir(t, top+"/sub")
	r = protectOf(t, Policy{Worktree: Path(top + "/sub")})
	checkProtect(t, r, top,
		"unborn .git/commondir", "frozen .git/config", "frozen .git/config.worktree", "frozen .git/hooks",
		"pinned .git/info", "frozen .git/info/attributes", "frozen .git/worktrees", "unborn sub/.git", "unborn sub/HEAD")
}

// What the user names stays open; what isn't asked for or isn't trusted has no
// list.
func TestProtectChoices(t *testing.T) {
	base := testenv.Dir(t)
	top := newRepo(t, base+"/repo")
	write(t, top+"/.git/hooks/mine", "")
	r := protectOf(t, Policy{Worktree: Path(top), Write: []Path{Path(top + "/.git/config"), Path(top + "/.git/hooks/mine")}})
	checkProtect(t, r, top, "pinned .git", "unborn .git/commondir", "unborn .git/config.worktree", "frozen .git/hooks",
		"open .git/hooks/mine", "unborn .git/info/attributes", "compared .gitmodules")

	for name, p := range map[string]Policy{
		"no protect":    {Worktree: Path(top), NoProtect: true},
		"no repository": {Worktree: Path(base)},
	} {
		if r := protectOf(t, p); r.Protect != nil {
			t.Errorf("%s: Protect = %v; want none", name, r.Protect)
		}
	}
	git(t, base, "init", "-q", "--separate-git-dir", base+"/sep", base+"/tree")
	if r := protectOf(t, Policy{Worktree: Path(base + "/tree")}); r.Protect != nil {
		t.Errorf("unverified: Protect = %v; want none", r.Protect)
	}
}

// A dry run lists the hooks folder and doesn't make it.
func TestProtectDryRun(t *testing.T) {
	top := newRepo(t, testenv.Dir(t)+"/repo")
	remove(t, top+"/.git/hooks")
	r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(top)}, Options{MountLayer: true, DryRun: true})
	if got := showProtect(r.Protect, top); !slices.Contains(got, "frozen .git/hooks") {
		t.Errorf("Protect = %q; want the hooks", got)
	}
	if isFolder(top + "/.git/hooks") {
		t.Error("the folder was made")
	}
	r = mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(top)}, Options{})
	if r.Protect != nil {
		t.Errorf("Protect without a mount layer = %v; want none", r.Protect)
	}
	if got := showProtect(r.Watched(nil), top); !slices.Contains(got, "unborn .git/hooks") || !slices.Contains(got, "frozen .git/config") {
		t.Errorf("Watched = %q; want hooks and config", got)
	}
}

func TestProtectSymlinks(t *testing.T) {
	base := testenv.Dir(t)
	top := newRepo(t, base+"/repo")
	rename(t, top+"/.git/hooks", top+"/scripts")
	symlink(t, "../scripts", top+"/.git/hooks")
	rename(t, top+"/.git/info", base+"/info")
	symlink(t, base+"/info", top+"/.git/info")
	write(t, base+"/info/attributes", "")
	r := protectOf(t, Policy{Worktree: Path(top)})
	checkProtect(t, r, top, "pinned .git", "unborn .git/commondir", "frozen .git/config", "unborn .git/config.worktree",
		"compared .git/hooks", "compared .git/info", "compared .gitmodules", "frozen scripts")
	if got := codes(r.Notes); got != "git-partial git-partial" {
		t.Errorf("notes %q; want one for each link", got)
	}
}

func TestProtectModules(t *testing.T) {
	base := testenv.Dir(t)
	newRepo(t, base+"/lib")
	git(t, newRepo(t, base+"/mid"), "submodule", "--quiet", "add", "../lib", "deep")
	git(t, base+"/mid", "commit", "-q", "-m", "deep")
	top := newRepo(t, base+"/repo")
	git(t, top, "submodule", "--quiet", "add", "--name", "a/b", "../mid", "vendor/mid")
	git(t, top, "submodule", "--quiet", "update", "--init", "--recursive")
	// git submodule update writes a submodule's configuration anew.
	list := func(dir, config string) []string {
		return []string{
			"pinned " + dir, "unborn " + dir + "/commondir", config + " " + dir + "/config", "unborn " + dir + "/config.worktree",
			"frozen " + dir + "/hooks", "unborn " + dir + "/info/attributes",
		}
	}
	r := protectOf(t, Policy{Worktree: Path(top)})
	checkProtect(t, r, top, slices.Concat(list(".git", "frozen"), []string{"pinned .git/modules", "pinned .git/modules/a"},
		list(".git/modules/a/b", "compared"), []string{"pinned .git/modules/a/b/modules"},
		list(".git/modules/a/b/modules/deep", "compared"),
		[]string{"compared .gitmodules", "compared vendor/mid/.git", "compared vendor/mid/deep/.git"})...)

	// A submodule as the worktree: its repository is granted as a whole.
	r = protectOf(t, Policy{Worktree: Path(top + "/vendor/mid")})
	checkProtect(t, r, top, slices.Concat(list(".git/modules/a/b", "frozen")[1:], []string{"pinned .git/modules/a/b/modules"},
		list(".git/modules/a/b/modules/deep", "compared"),
		[]string{"frozen vendor/mid/.git", "compared vendor/mid/.gitmodules", "compared vendor/mid/deep/.git"})...)
}

// Whoever makes a thousand submodules doesn't get one past the list.
func TestProtectManyModules(t *testing.T) {
	top := newRepo(t, testenv.Dir(t)+"/repo")
	for i := range moduleLimit + 1 {
		dir := fmt.Sprintf("%s/.git/modules/m%d/hooks", top, i)
		mkdir(t, dir)
		write(t, dir+"/../HEAD", "")
		write(t, dir+"/../config", "")
	}
	r := protectOf(t, Policy{Worktree: Path(top)})
	checkProtect(t, r, top, "pinned .git", "unborn .git/commondir", "frozen .git/config", "unborn .git/config.worktree",
		"frozen .git/hooks", "unborn .git/info/attributes", "frozen .git/modules", "compared .gitmodules")
	if got := codes(r.Notes); got != "git-partial" {
		t.Errorf("notes %q", got)
	}
}

// A hooks folder that root makes belongs to whom the repository belongs to.
func TestProtectOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes something for others")
	}
	top := newRepo(t, testenv.Dir(t)+"/repo")
	remove(t, top+"/.git/hooks")
	testenv.Ordinary().Own(t, top)
	protectOf(t, Policy{Worktree: Path(top)})
	var st syscall.Stat_t
	if err := syscall.Stat(top+"/.git/hooks", &st); err != nil || int(st.Uid) != testenv.Ordinary().UID {
		t.Errorf("hooks: uid %d, %v; want %d", st.Uid, err, testenv.Ordinary().UID)
	}
}

func TestComparePaths(t *testing.T) {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/a!", "/a-b", "/a0", "/b"}
	got := slices.Clone(paths)
	slices.Reverse(got)
	slices.SortFunc(got, comparePaths)
	if !slices.Equal(got, paths) {
		t.Errorf("sorted: %q; want %q", got, paths)
	}
}

// BenchmarkResolveProtect is the usual start with a mount layer: a linked
// worktree among others, and a user with a configuration.
func BenchmarkResolveProtect(b *testing.B) {
	root := testenv.Dir(b)
	top := newRepo(b, root+"/repo")
	for _, name := range []string{"wt", "wt2", "wt3"} {
		git(b, top, "worktree", "add", "-q", root+"/"+name)
	}
	mkdir(b, root+"/home")
	write(b, root+"/home/.gitconfig", "[user]\n\tname = a\n\temail = a@example.com\n[alias]\n\tst = status\n")
	p := Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt")}
	for _, layer := range []bool{false, true} {
		b.Run("layer="+strconv.FormatBool(layer), func(b *testing.B) {
			o := Options{Environ: []string{"HOME=" + root + "/home", "PATH=/usr/bin:/bin"}, MountLayer: layer}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Resolve(p, o); err != nil || layer == (r.Protect == nil) {
					b.Fatalf("Resolve = %+v, %v", r, err)
				}
			}
		})
	}
}
