package tamper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// world is a repository with a submodule and two linked worktrees, wt and
// other, and the one of its working trees that a command is given.
type world struct {
	t    testing.TB
	base string
	main *testenv.Repo
	work *testenv.Repo
	// layer says that the policy is resolved for a mount layer.
	layer bool
}

// kinds are the working trees that a command may be given.
var kinds = []string{"main", "linked"}

// newWorld makes a world in a new folder.
func newWorld(t testing.TB, kind string, layer bool) *world {
	t.Helper()
	base := testenv.Dir(t)
	testenv.Self().NewRepoAt(t, base+"/lib")
	main := testenv.Self().NewRepoAt(t, base+"/main")
	main.Git("submodule", "--quiet", "add", "../lib", "vendor/lib")
	main.Git("commit", "--quiet", "--message", "library")
	main.Git("branch", "topic")
	w := &world{t: t, base: base, main: main, work: main, layer: layer}
	wt := main.Worktree(base + "/wt")
	main.Worktree(base + "/other")
	if kind == "linked" {
		w.work = wt
		wt.Git("submodule", "--quiet", "update", "--init")
	}
	return w
}

// keep returns a function that puts everything back as it is now, for a test
// that is part of another one.
func (w *world) keep() func(t testing.TB) {
	w.t.Helper()
	old := testenv.Dir(w.t)
	testenv.Output(w.t, testenv.Command(w.t, "cp", "-a", w.base+"/.", old))
	return func(t testing.TB) {
		t.Helper()
		w.t = t
		list, err := os.ReadDir(w.base)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			w.remove("B/" + e.Name())
		}
		testenv.Output(t, testenv.Command(t, "cp", "-a", old+"/.", w.base))
	}
}

// path returns the path of a name: C/ is the repository, G/ git's folder for
// the working tree, W/ the working tree, B/ what holds them all.
func (w *world) path(name string) string {
	w.t.Helper()
	where, rest, ok := strings.Cut(name, "/")
	roots := map[string]string{"B": w.base}
	if w.main != nil {
		roots["C"], roots["G"], roots["W"] = w.main.Dir+"/.git", w.work.Dir+"/.git", w.work.Dir
	}
	if w.work != w.main {
		roots["G"] = w.main.Dir + "/.git/worktrees/" + filepath.Base(w.work.Dir)
	}
	root, known := roots[where]
	if !known {
		w.t.Fatalf("path(%q)", name)
	}
	if !ok {
		return root
	}
	return root + "/" + rest
}

// resolve resolves the policy of a command in the working tree.
func (w *world) resolve(write ...policy.Path) *policy.Resolved {
	w.t.Helper()
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(w.work.Dir), NoCache: true, Write: write}
	r, err := policy.Resolve(p, policy.Options{Environ: testenv.GitEnv(w.main.Home), MountLayer: w.layer})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.layer == (r.Protect == nil) {
		w.t.Fatalf("Protect = %v", r.Protect)
	}
	return r
}

func (w *world) snapshot(write ...policy.Path) *tamper.State {
	w.t.Helper()
	s, err := tamper.Snapshot(w.resolve(write...))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// write writes a file and makes the folders above it.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := w.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) append(name, text string) {
	w.t.Helper()
	old, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(name, string(old)+text)
}

// script writes a program.
func (w *world) script(name string) {
	w.t.Helper()
	w.write(name, "#!/bin/sh\ntouch "+w.path("B/ran")+"\n")
	if err := os.Chmod(w.path(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(w.path(from), w.path(to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) symlink(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// nested makes a repository in the working tree that runs a program when git
// status enters it.
func (w *world) nested(name string) {
	w.t.Helper()
	w.work.Git("init", "--quiet", name)
	w.work.Git("-C", name, "commit", "--quiet", "--allow-empty", "--message", "nested")
	w.script("B/evil")
	w.work.Git("-C", name, "config", "core.fsmonitor", w.path("B/evil"))
}

// times are the two ways of finding a change: by identity and by content.
var times = map[string]time.Duration{"identity": time.Hour, "content": 0}

// show writes changes short, with the roots as in path.
func (w *world) show(list []tamper.Change) string {
	var b strings.Builder
	for _, c := range list {
		path := string(c.Path)
		for _, root := range []string{"G", "C", "W", "B"} {
			if rest, ok := strings.CutPrefix(path, w.path(root)); ok && (rest == "" || rest[0] == '/') {
				path = root + rest
				break
			}
		}
		b.WriteString(string(c.What) + " " + path + ": " + c.Why + "\n")
	}
	return b.String()
}

// shown returns how show writes a line: a repository of one working tree is G.
func (w *world) shown(line string) string {
	if w.work == w.main {
		return strings.Replace(line, " C", " G", 1)
	}
	return line
}
