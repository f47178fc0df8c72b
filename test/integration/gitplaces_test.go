package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// gitRefused are commands that need the root of the common directory, or other
// places outside, so that in a linked worktree they can't work without a mount
// layer. A branch topic is there, a merged one, a tag v1 and a stash.
var gitRefused = []struct {
	do     string
	remove string // unconfined, removes what git made before it was refused
}{
	{do: "branch -D topic"},
	{do: "branch -d merged"},
	{do: "branch -m topic renamed"},
	{do: "branch -c topic copied", remove: "git branch -qD copied"},
	{do: "branch --set-upstream-to=origin/main"},
	{do: "tag -d v1"},
	{do: "update-ref -d refs/heads/topic"},
	{do: "stash clear"},
	{do: "config user.name Mallory"},
	{do: "config --add core.hooksPath /tmp"},
	{do: "config --unset user.name"},
	{do: "remote add other ../lib"},
	{do: "remote rename origin other"},
	{do: "remote remove origin"},
	{do: "gc --quiet"},
	{do: "pack-refs --all"},
	{do: "worktree add --detach ../other"},
	{do: "worktree add --detach inner"},
	{do: "submodule init"},
	{do: "sparse-checkout set sub"},
	{do: "push origin work"},
}

// TestGitRefused: they fail by git's own error, and harm nothing.
func TestGitRefused(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, kind := range []string{"beside", "below"} {
			for _, packed := range []bool{false, true} {
				c := refusedCheckout(t, u, kind)
				if packed {
					c.common.Git("pack-refs", "--all")
				}
				for _, tt := range gitRefused {
					refuse(t, c, tt.do, tt.remove)
				}
			}
		}
	})
}

func refusedCheckout(t *testing.T, u testenv.User, kind string) *checkout {
	t.Helper()
	c := newCheckout(t, u, kind)
	c.must(`git config --unset submodule.vendor/lib.url; git config --unset submodule.vendor/lib.active
		git commit -q --allow-empty -m second; git branch merged; git branch topic HEAD~1; git tag v1; echo x >>README; git stash -q`)
	return c
}

func refuse(t *testing.T, c *checkout, do, remove string) {
	t.Helper()
	in := c.confined("landlock")
	state, repository := c.state(), contents(t, c.common.Dir+"/.git")
	r := in.run("sh", "-c", "git "+do)
	if r.Code <= 0 || !strings.Contains(r.Stderr, "error: ") && !strings.Contains(r.Stderr, "fatal: ") {
		t.Errorf("%s: git %s: %v\nwant git's own error", c.Dir, do, r)
	}
	if remove != "" {
		c.must(remove)
	}
	if got := c.state(); got != state {
		t.Errorf("%s: after the refused git %s:\n%s\nwas:\n%s", c.Dir, do, got, state)
	}
	repository.same(t, contents(t, c.common.Dir+"/.git"))
	c.check()
	// What was refused isn't in the way of what isn't.
	in.must("git commit -q --allow-empty -m next; git reset -q --hard HEAD~1; git reflog delete HEAD@{0} HEAD@{0}")
	if t.Failed() {
		t.Fatalf("git %s: %v", do, r)
	}
}

// TestGitClone: in a plain clone they work, except where something lies
// outside.
func TestGitClone(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		c := refusedCheckout(t, u, "clone")
		in := c.confined("landlock")
		for _, do := range []string{
			"branch -c topic copied", "branch -m topic renamed", "branch -D renamed", "branch -d merged",
			"branch --set-upstream-to=origin/main", "tag -d v1", "update-ref -d refs/heads/copied", "stash drop", "stash clear",
			"config user.name Mallory", "remote add other ../lib", "remote rename other another", "remote remove another",
			"pack-refs --all", "worktree add --detach inner", "worktree remove inner", "submodule init",
			"bisect start HEAD HEAD~1 && git bisect reset", "gc --quiet", "sparse-checkout set sub",
		} {
			if r := in.run("sh", "-c", "git "+do); r.Code != 0 || refused(r.Stderr) != "" {
				t.Errorf("git %s: %v; want it to work", do, r)
			}
			c.check()
		}
		for do, says := range map[string]string{
			"push origin work": "unpacker error", "worktree add --detach ../other": "ermission denied",
		} {
			if r := in.run("sh", "-c", "git "+do); r.Code <= 0 || !strings.Contains(r.Stderr, says) {
				t.Errorf("git %s: %v; want it refused", do, r)
			}
		}
		if _, err := os.Lstat(filepath.Dir(c.Dir) + "/other"); err == nil {
			t.Error("git worktree add made a folder outside")
		}
	})
}

// contents maps the files of a repository to what is in them, except objects,
// which hold whatever git thought of, refs, and the index, which holds times.
func contents(t *testing.T, repo string) tree {
	t.Helper()
	all := tree{}
	err := filepath.WalkDir(repo, func(path string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, repo)
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "objects" || e.Name() == "modules"):
			return filepath.SkipDir
		case e.IsDir() || e.Name() == "index" || e.Name() == "ORIG_HEAD":
			return nil
		case strings.HasPrefix(rel, "/refs/") && !strings.HasSuffix(rel, ".lock"):
			return nil // a ref that was packed only may also be loose
		}
		b, err := os.ReadFile(path)
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// oddNames are names of working trees that programs stumble over.
var oddNames = []string{
	"with space", " ", "'single' \"double\"", "new\nline", "ends with newline\n", "tab\ttab", "b\xff\xfeytes", "-dash", "--rw",
	"$(touch owned)", "back\\slash", "ümläut", "a:b", "*", "#x", strings.Repeat("l", 200), "x.lock2", "..hidden",
}

// TestGitPlaces commits in working trees with odd names and in odd places.
func TestGitPlaces(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		repo := u.NewRepo(t)
		base := filepath.Dir(repo.Dir)
		for i, name := range oddNames {
			dir := filepath.Join(base, name)
			branch := "linked" + string(rune('a'+i))
			if r := repo.TryGit("worktree", "add", "--quiet", "-b", branch, "--", dir); r.Code != 0 {
				t.Errorf("%q: git itself can't: %v", name, r)
				continue
			}
			commits(t, &checkout{Repo: sub(repo, dir), t: t}, dir)
			clone := u.Dir(t) + "/" + name
			commits(t, &checkout{Repo: repo.Clone(clone), t: t}, clone)
		}
	})
}

// TestGitWays commits in worktrees that are reached or written down in other
// ways than by a plain absolute path.
func TestGitWays(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		repo := u.NewRepo(t)
		base := filepath.Dir(repo.Dir)
		link := func(old, name string) string {
			path := filepath.Join(base, name)
			if err := os.Symlink(old, path); err != nil {
				t.Fatal(err)
			}
			return path
		}

		work := repo.Worktree(base + "/linked")
		c := &checkout{Repo: work, t: t}
		commits(t, c, link(work.Dir, "absolute-link"))
		commits(t, c, link("linked", "relative-link"))
		commits(t, c, link(base, "parent-link")+"/linked")
		commits(t, c, "../linked/../linked/.")

		work.Write("deep/down/file", "x\n")
		work.Git("add", "--all")
		work.Git("commit", "--quiet", "--message", "deep")
		commits(t, &checkout{Repo: sub(work, work.Dir+"/deep/down"), t: t}, work.Dir)

		// A repository behind a symbolic link.
		behind := link(repo.Dir, "repo-link")
		via := sub(repo, behind).Worktree(base + "/via-link")
		commits(t, &checkout{Repo: via, t: t}, via.Dir)

		// Pointers that are relative.
		rel := repo.Worktree(base + "/relative")
		rel.Write(".git", "gitdir: ../repo/.git/worktrees/relative\n")
		commits(t, &checkout{Repo: rel, t: t}, rel.Dir)

		// Below /tmp, where everything is writable anyway.
		tmp, err := os.MkdirTemp("/tmp", "shofer-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		u.Own(t, tmp)
		inTmp := repo.Worktree(tmp + "/tree")
		commits(t, &checkout{Repo: inTmp, t: t}, inTmp.Dir)

		// A submodule, and a repository elsewhere, in a clone of their own: only
		// the first has its data in the worktree.
		super := u.NewRepo(t)
		super.Git("submodule", "--quiet", "add", repo.Dir, "module")
		super.Git("commit", "--quiet", "--message", "module")
		module := sub(super, super.Dir+"/module")
		module.Git("config", "user.name", "Author")
		module.Git("config", "user.email", "author@example.com")
		cmd := module.Command(testenv.BuildLauncher(t), "--backend", "landlock", super.Dir, "--", "sh", "-c", commitScript)
		if r := testenv.Run(t, cmd); r.Code != 0 || refused(r.Stderr) != "" {
			t.Errorf("in a submodule, with the whole as worktree: %v; want a commit", r)
		}
	})
}

// sub returns another folder of a repository.
func sub(repo *testenv.Repo, dir string) *testenv.Repo {
	r := *repo
	r.Dir = dir
	return &r
}

const commitScript = `set -e; echo $$ >inside; git add inside; git commit -q -m inside; git commit -q --amend -m 'inside, amended'
	git tag "tag-$$-$(git symbolic-ref --short HEAD)"; echo more >>inside; git stash -q; git stash apply -q; git commit -qam more`

// commits makes some commits inside, with the launcher given the worktree as
// arg, and looks at them from outside.
func commits(t *testing.T, c *checkout, arg string) {
	t.Helper()
	cmd := c.Command(testenv.BuildLauncher(t), "--backend", "landlock", "--", arg, "--", "sh", "-c", commitScript)
	r := testenv.Run(t, cmd)
	if r.Code != 0 || r.Stderr != "" {
		t.Errorf("%q: %v; want a commit", arg, r)
		return
	}
	if got := c.Git("log", "-2", "--format=%s"); got != "more\ninside, amended" {
		t.Errorf("%q: log: %q; want more and inside, amended", arg, got)
	}
	if got := c.Git("status", "--porcelain"); got != "" {
		t.Errorf("%q: status: %q; want none", arg, got)
	}
	c.Git("fsck", "--strict", "--no-dangling")
}
