package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// checkout is a working tree of a repository, in which commands run confined
// or, for comparison, not.
type checkout struct {
	*testenv.Repo
	t        testing.TB
	common   *testenv.Repo // where the repository is
	launcher string        // empty: not confined
	backend  string        // of the launcher
}

// kinds are the ways in which a working tree and its repository lie.
var kinds = []string{"beside", "below", "clone"}

// newCheckout makes one in a new folder: a clone of a remote that has a
// submodule, or a linked worktree of that clone. Two of them differ in nothing
// but the folder.
func newCheckout(t *testing.T, u testenv.User, kind string) *checkout {
	t.Helper()
	base := u.Dir(t)
	lib := u.NewRepoAt(t, base+"/lib")
	redate(t, lib, "library")
	remote := u.NewRepoAt(t, base+"/remote")
	remote.Git("submodule", "--quiet", "add", "../lib", "vendor/lib")
	redate(t, remote, "remote")
	remote.Git("tag", "early")
	repo := remote.Clone(base + "/repo")
	work := repo
	switch kind {
	case "beside":
		work = repo.WorktreeBeside()
	case "below":
		work = repo.WorktreeBelow()
	}
	work.Git("switch", "--quiet", "-c", "work")
	work.Git("submodule", "--quiet", "init")
	return &checkout{Repo: work, t: t, common: repo}
}

// dates make a commit's name depend on its content alone.
var dates = []string{"GIT_AUTHOR_DATE=2001-02-03T04:05:06Z", "GIT_COMMITTER_DATE=2001-02-03T04:05:06Z"}

// redate makes the only commit of r anew, with our dates.
func redate(t *testing.T, r *testenv.Repo, message string) {
	t.Helper()
	cmd := r.Command("git", "commit", "--quiet", "--amend", "--reset-author", "--message", message)
	cmd.Env = append(cmd.Env, dates...)
	testenv.Output(t, cmd)
}

// confined returns the same working tree with its commands confined by a
// backend.
func (c *checkout) confined(backend string) *checkout {
	in := *c
	in.launcher, in.backend = testenv.BuildLauncher(c.t), backend
	return &in
}

// command returns a command in the working tree.
func (c *checkout) command(args ...string) *exec.Cmd {
	c.t.Helper()
	if c.launcher != "" {
		args = append([]string{c.launcher, "--backend", c.backend, ".", "--"}, args...)
	}
	cmd := c.Command(args[0], args[1:]...)
	cmd.Env = append(cmd.Env, dates...)
	cmd.Env = append(cmd.Env, "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true")
	return cmd
}

// run runs a command in the working tree.
func (c *checkout) run(args ...string) testenv.Result {
	c.t.Helper()
	return testenv.Run(c.t, c.command(args...))
}

// state is what git says of the working tree and its repository, asked by an
// unconfined git.
func (c *checkout) state() string {
	c.t.Helper()
	const ask = `git status --porcelain=v2 --branch --ignored --untracked-files=all && git ls-files --stage &&
		git for-each-ref && git stash list && git reflog --format='%H %gs'`
	out := testenv.Output(c.t, c.Command("sh", "-c", ask))
	return strings.ReplaceAll(out, filepath.Dir(c.common.Dir), "")
}

// check fails the test when something in the repository is damaged.
func (c *checkout) check() {
	c.t.Helper()
	c.Git("fsck", "--strict", "--no-dangling")
}

// step is something that is done in a working tree.
type step struct {
	name  string
	setup string // a shell script that runs unconfined
	do    string // a git command line, read by a shell
	fail  bool   // git fails, confined or not
	// locks says that git locks packed-refs, which it can't in a linked worktree
	// without a mount layer: there it may say so.
	locks bool
	// left is a shell script that removes what git then leaves behind.
	left string
}

// noPick removes what says that a cherry-pick or revert is going on.
const noPick = "rm -f \"$(git rev-parse --git-path CHERRY_PICK_HEAD)\" \"$(git rev-parse --git-path REVERT_HEAD)\""

// gitSteps end with git in the same state, whether they run confined or not.
// Each starts where the last one ended.
var gitSteps = []step{
	{name: "add", setup: "echo one >one; echo two >two; mkdir d; echo three >d/three", do: "add one d"},
	{name: "commit", do: "commit -m 'one and three'"},
	{name: "commit -a --amend", setup: "echo more >>one", do: "commit -a --amend -m 'one, three and more'"},
	{name: "mv and rm", setup: "git add two; git commit -qm two", do: "mv two d/deux"},
	{name: "commit a rename", do: "commit -m 'a rename'"},
	{name: "rm", do: "rm d/deux"},
	{name: "restore", do: "restore --staged --worktree d/deux"},
	{name: "branch", do: "branch topic"},
	{name: "branch --force", do: "branch --force topic HEAD~1"},
	{name: "switch", do: "switch topic"},
	{name: "switch -c", do: "switch -c feature/deep/name"},
	{name: "commit on a new branch", setup: "echo topic >topic.txt; git add .", do: "commit -m topic"},
	{name: "checkout -", do: "checkout -"},
	{name: "tag", do: "tag v1"},
	{name: "tag -a", do: "tag -a v2 -m 'version two'"},
	{name: "tag --force", do: "tag --force v1 HEAD~1"},
	{name: "stash", setup: "echo dirty >>README; echo new >untracked; git add untracked", do: "stash"},
	{name: "stash -u", setup: "echo again >>README; echo more >untracked2", do: "stash push --include-untracked -m second"},
	{name: "stash pop of two", do: "stash pop"},
	{name: "reset --hard", do: "reset --hard"},
	{name: "stash pop of one", do: "stash pop", locks: true, left: "git stash drop --quiet"},
	{name: "reset --hard again", do: "reset --hard"},
	{name: "clean", do: "clean -dffq"},
	{name: "stash apply", setup: "echo again >>README; git stash -q", do: "stash apply"},
	{name: "commit the stash", do: "commit -am stashed"},
	{name: "merge, fast-forward", setup: "git switch -q work", do: "merge topic"},
	{name: "merge", do: "merge --no-ff feature/deep/name -m merged"},
	{name: "merge with a conflict", setup: "git switch -qc left; echo left >one; git commit -qam left --author='Left <left@example.com>'; git switch -q -c right HEAD~1; echo right >one; git commit -qam right --author='Right <right@example.com>'", do: "merge left", fail: true},
	{name: "merge --continue", setup: "echo both >one; git add one", do: "merge --continue"},
	{name: "merge --abort", setup: "git reset -q --hard HEAD~1; git merge -q left || true", do: "merge --abort"},
	{name: "cherry-pick", setup: "git switch -q work", do: "cherry-pick left", locks: true, left: noPick},
	{name: "cherry-pick with a conflict", do: "cherry-pick right", fail: true},
	{name: "cherry-pick --abort", do: "cherry-pick --abort", locks: true, left: noPick},
	{name: "revert", do: "revert --no-edit HEAD", locks: true, left: noPick},
	{name: "rebase", setup: "git switch -qc rebased left; echo reb >reb; git add reb; git commit -qm reb --author='Re <re@example.com>'; echo reb2 >reb; git commit -qam reb2", do: "rebase right", fail: true, locks: true},
	{name: "rebase --continue", setup: "echo solved >one; git add one", do: "rebase --continue", locks: true, left: noPick},
	{name: "rebase without a conflict", setup: "git switch -qc rebased2 topic; echo reb >reb; git add reb; git commit -qm reb --author='Re <re@example.com>'; echo reb2 >reb; git commit -qam reb2", do: "rebase left", locks: true, left: noPick},
	{name: "rebase -i", setup: "git commit -q --fixup HEAD~1 --allow-empty", do: "rebase -i --autosquash HEAD~3", locks: true, left: noPick},
	{name: "rebase --abort", setup: "git rebase right || true", do: "rebase --abort", locks: true, left: noPick},
	{name: "am", setup: "git switch -q work", do: "format-patch --stdout HEAD~1 >.patch && git reset -q --hard HEAD~1 && git am -q <.patch && rm .patch", locks: true, left: noPick},
	{name: "apply", do: "diff HEAD~1 | git apply -R --index"},
	{name: "commit --allow-empty", do: "commit --allow-empty -m empty"},
	{name: "fetch", setup: "cd ../remote 2>/dev/null || cd ../../../remote; echo r >r; git add r; git commit -qm r; git branch -f side; git tag late", do: "fetch origin"},
	{name: "fetch --tags --all", do: "fetch --tags --all"},
	{name: "fetch from a path", do: "fetch -q ../remote main:refs/heads/fetched || git fetch -q ../../../remote main:refs/heads/fetched"},
	{name: "merge of what was fetched", do: "merge --no-edit origin/main"},
	{name: "pull", setup: "git switch -qc pulled main", do: "pull --ff-only origin main"},
	{name: "notes", do: "notes add -m noted"},
	{name: "notes append", do: "notes append -m again"},
	{name: "submodule update", do: "submodule update"},
	{name: "commit in a submodule", setup: "git -C vendor/lib config user.name a; git -C vendor/lib config user.email a@example.com; echo x >vendor/lib/x", do: "-C vendor/lib add x && git -C vendor/lib commit -m x"},
	{name: "commit of a submodule", do: "commit -am 'newer library'"},
	{name: "submodule update back", setup: "git reset -q --hard HEAD~1", do: "submodule update"},
	{name: "hash-object", do: "hash-object -w README"},
	{name: "update-ref", do: "update-ref refs/heads/raw HEAD"},
	{name: "sparse reading", do: "blame README >/dev/null && git diff HEAD~1 >/dev/null && git grep -q read && git describe --tags --always >/dev/null && git archive HEAD >/dev/null"},
}

// TestGit does the same with each backend: Landlock alone, with a mount layer,
// and bubblewrap.
func TestGit(t *testing.T) {
	want := map[string][]outcome{}
	for _, kind := range kinds {
		want[kind] = unconfined(t, kind)
	}
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, kind := range kinds {
			for _, tt := range []struct {
				name, backend string
				packed        bool
			}{
				{"landlock/loose", "landlock", false},
				{"landlock/packed", "landlock", true},
				{"mounts", "landlock+mountns", true},
				{"bwrap", "bwrap", true},
			} {
				t.Run(kind+"/"+tt.name, func(t *testing.T) {
					t.Parallel()
					c := newCheckout(t, u, kind)
					in := c.confined(tt.backend)
					if tt.backend != "landlock" {
						if r := in.run("true"); r.Code != 0 {
							testenv.Skip(t, "no mount layer: %v", r)
						}
					}
					compareSteps(t, c, in, want[kind], tt.packed)
				})
			}
		}
	})
}

// compareSteps does gitSteps in the checkout in, which is c confined, and
// compares each with the outcome that it has to have.
func compareSteps(t *testing.T, c, in *checkout, want []outcome, packed bool) {
	t.Helper()
	unlockable := c.Repo != c.common && in.backend == "landlock"
	for i, st := range gitSteps {
		got := in.step(st, packed)
		if got.Code != want[i].Code {
			t.Fatalf("%s: %v\nwant exit %d, as unconfined", st.name, got, want[i].Code)
		}
		if said := refused(got.Stderr); said != "" && (!unlockable || !st.locks || !strings.Contains(said, "packed-refs.lock")) {
			t.Errorf("%s: %s\nwant nothing refused", st.name, said)
		}
		if unlockable && st.left != "" {
			c.must(st.left)
		}
		if got := c.state(); got != want[i].state {
			t.Fatalf("after %s:\n%s\nwant, as unconfined:\n%s", st.name, got, want[i].state)
		}
		c.check()
	}
}

// refused returns the lines by which git says that something isn't allowed.
func refused(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "denied") || strings.Contains(line, "not permitted") || strings.Contains(line, ".lock") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// outcome is how a step ends when it isn't confined.
type outcome struct {
	testenv.Result
	state string
}

// unconfined returns how each of gitSteps ends when it isn't confined. That
// depends on nothing but how the working tree lies.
func unconfined(t *testing.T, kind string) (list []outcome) {
	t.Helper()
	c := newCheckout(t, testenv.Self(), kind)
	for _, st := range gitSteps {
		r := c.step(st, false)
		if (r.Code != 0) != st.fail {
			t.Fatalf("%s, unconfined: %v; want failure: %v", st.name, r, st.fail)
		}
		list = append(list, outcome{r, c.state()})
	}
	c.check()
	return list
}

// step prepares a step and does it.
func (c *checkout) step(st step, packed bool) testenv.Result {
	c.t.Helper()
	if st.setup != "" {
		out := *c
		out.launcher = ""
		out.must(st.setup)
	}
	if packed {
		c.common.Git("pack-refs", "--all")
	}
	return c.run("sh", "-c", "git "+st.do)
}

// must runs a shell script that has to succeed.
func (c *checkout) must(script string) string {
	c.t.Helper()
	return testenv.Output(c.t, c.command("sh", "-ec", script))
}
