package tamper_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// ordinary is what people and programs do all day. None of it is reported.
var ordinary = []struct{ name, script string }{
	{"nothing", "true"},
	{"commit", "echo x >x; git add x; git commit -qm x; git commit -q --amend -m y"},
	{"branches", "git branch b; git branch -D b; git switch -qc c; git switch -q -; git tag v; git tag -d v"},
	{"stash", "echo x >>README; git stash -q; git stash pop -q; git checkout -q README"},
	{"rebase", "git switch -qc side HEAD~1; echo s >s; git add s; git commit -qm s; git rebase -q topic; git rebase -q -i --exec true HEAD~1"},
	{"merge", "git switch -qc side HEAD~1; echo s >s; git add s; git commit -qm s; git merge -q --no-edit topic; git cherry-pick -n HEAD~1 || git reset -q --hard"},
	{"gc", "git gc -q; git pack-refs --all; git repack -adq; git prune"},
	{"fetch", "git fetch -q ../lib main; git notes add -m n; git worktree prune; git bisect start HEAD HEAD~1; git bisect reset"},
	{"index", "git update-index --index-version 4; git update-index --split-index; echo x >>README; git add README; git update-index --refresh"},
	{"submodule update", "git submodule --quiet update --init; rm -rf vendor/lib; git submodule --quiet update"},
	{"submodule commit", "cd vendor/lib; echo x >x; git add x; git commit -qm x; cd ../..; git add vendor/lib; git commit -qm lib"},
	{"submodule branch", "git -C vendor/lib switch -qc b; git -C vendor/lib config branch.b.remote origin; git -C vendor/lib config user.name B"},
	{"submodule gone", "git rm -q vendor/lib; git commit -qm gone; rm -rf vendor"},
	{"a plain repository", "git init -q inner; git -C inner commit -q --allow-empty -m x; git add inner; git commit -qm inner"},
	{"a host's configuration", "git config user.name B; git config user.name Author"},
	{"touching", "touch .git README; touch \"$(git rev-parse --git-common-dir)/config\" \"$(git rev-parse --git-common-dir)/hooks\""},
}

func TestOrdinary(t *testing.T) {
	for _, kind := range kinds {
		w := newWorld(t, kind, true)
		reset := w.keep()
		for _, w.layer = range []bool{true, false} {
			for _, o := range ordinary {
				name := kind + "/landlock/"
				if w.layer {
					name = kind + "/mounts/"
				}
				t.Run(name+o.name, func(t *testing.T) {
					reset(t)
					s := w.snapshot()
					w.sh(o.script)
					for way, shift := range times {
						s.Shift(shift)
						if got := s.Compare(); got != nil {
							t.Errorf("by %s:\n%swant nothing", way, w.show(got))
						}
						s.Shift(-shift)
					}
				})
			}
		}
	}
}

func (w *world) sh(script string) {
	w.t.Helper()
	cmd := w.work.Command("sh", "-ec", script)
	cmd.Env = append(cmd.Env, "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true")
	testenv.Output(w.t, cmd)
}

// A repository with other worktrees: what the host does with those.
func TestOrdinaryWorktrees(t *testing.T) {
	for _, layer := range []bool{true, false} {
		w := newWorld(t, "main", layer)
		s := w.snapshot()
		w.sh("git worktree add -q inner; git worktree add -q ../outer; git worktree move ../outer ../moved; git worktree remove inner; rm -rf ../moved; git worktree lock ../other")
		if got := s.Compare(); got != nil {
			t.Errorf("%swant nothing", w.show(got))
		}
	}
}

// Tracked hooks come and go with branches, and are the same in the end.
func TestOrdinaryTrackedHooks(t *testing.T) {
	w := newWorld(t, "linked", true)
	w.hooksPath("W/.hooks")
	w.script("W/.hooks/pre-push")
	w.sh("git add .hooks; git commit -qm hooks")
	s := w.snapshot()
	w.sh("git switch -q --detach HEAD~1; git switch -q -; echo x >>.hooks/pre-push; git stash -q; git stash pop -q; git checkout -q .hooks")
	if got := s.Compare(); got != nil {
		t.Errorf("%swant nothing", w.show(got))
	}
}

// BenchmarkSnapshot is the usual start and end: a linked worktree among others,
// in which nothing changed.
func BenchmarkSnapshot(b *testing.B) { benchSnapshot(b, 2) }

// BenchmarkSnapshotMany is a repository with 200 worktrees.
func BenchmarkSnapshotMany(b *testing.B) { benchSnapshot(b, 200) }

func benchSnapshot(b *testing.B, worktrees int) {
	b.Helper()
	r := benchWorld(b, worktrees).resolve()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tamper.Snapshot(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B)     { benchCompare(b, 2) }
func BenchmarkCompareMany(b *testing.B) { benchCompare(b, 200) }

func benchCompare(b *testing.B, worktrees int) {
	b.Helper()
	s := benchWorld(b, worktrees).snapshot()
	s.Shift(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if got := s.Compare(); got != nil {
			b.Fatal(got)
		}
	}
}

func benchWorld(b *testing.B, worktrees int) *world {
	b.Helper()
	base := testenv.Dir(b)
	main := testenv.Self().NewRepoAt(b, base+"/main")
	w := &world{t: b, base: base, main: main, layer: true}
	w.work = main.Worktree(base + "/wt")
	for i := 1; i < worktrees; i++ {
		main.Worktree(base + "/other" + strconv.Itoa(i))
	}
	return w
}
