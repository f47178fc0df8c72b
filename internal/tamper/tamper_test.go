package tamper_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// planting is something that a command may do for git outside to execute or
// follow.
type planting struct {
	name string
	// kind limits it to one kind of working tree.
	kind string
	// before is done before the command.
	before func(w *world)
	plant  func(w *world)
	// want is the beginning of the only line that is reported, says a part of
	// it.
	want, says string
	// layerOnly says that without a mount layer a linked worktree doesn't have
	// it in reach.
	layerOnly bool
}

var plantings = []planting{
	{name: "hook", plant: func(w *world) { w.script("C/hooks/pre-commit") }, want: "created C/hooks/pre-commit: git's hooks", layerOnly: true},
	{
		name: "hook by another name", plant: func(w *world) { w.rename("C/hooks/pre-commit.sample", "C/hooks/pre-commit") },
		want: "created C/hooks/pre-commit: git's hooks", layerOnly: true,
	},
	{
		name: "a hook's content", before: func(w *world) { w.script("C/hooks/pre-push") },
		plant: func(w *world) { w.append("C/hooks/pre-push", "evil\n") }, want: "changed C/hooks/pre-push: git's hooks", layerOnly: true,
	},
	{
		name: "a hook that can be executed", before: func(w *world) { w.write("C/hooks/pre-push", "#!/bin/sh\n") },
		plant: func(w *world) { w.chmod("C/hooks/pre-push", 0o755) },
		want:  "changed C/hooks/pre-push: git's hooks", says: "can be executed now", layerOnly: true,
	},
	{
		name: "what a hook calls", before: func(w *world) { w.write("C/hooks/lib/helper", "") },
		plant: func(w *world) { w.write("C/hooks/lib/other", "") }, want: "created C/hooks/lib/other: git's hooks", layerOnly: true,
	},
	{
		name: "a hook that is gone", before: func(w *world) { w.script("C/hooks/pre-push") },
		plant: func(w *world) { w.remove("C/hooks/pre-push") }, want: "removed C/hooks/pre-push: git's hooks", layerOnly: true,
	},
	{
		name:  "another hooks folder",
		plant: func(w *world) { w.rename("C/hooks", "C/old"); w.script("C/hooks/pre-commit") },
		want:  "replaced C/hooks: git's hooks is another folder", layerOnly: true,
	},
	{
		name: "a link in place of hooks", plant: func(w *world) { w.rename("C/hooks", "C/old"); w.symlink("../x", "C/hooks") },
		want: `replaced C/hooks: git's hooks is a symbolic link to "../x"`, layerOnly: true,
	},
	{
		name: "no hooks", plant: func(w *world) { w.remove("C/hooks") }, want: "removed C/hooks: git's hooks", layerOnly: true,
	},
	{
		name: "config", plant: func(w *world) { w.append("C/config", "[core]\n\tfsmonitor = /evil\n") },
		want: "changed C/config: git's configuration", says: `now sets core.fsmonitor = "/evil"`, layerOnly: true,
	},
	{
		name:   "config after the host's own",
		before: func(w *world) { w.append("C/config", "[alias]\n\tx = !true\n") },
		plant: func(w *world) {
			w.main.Git("config", "user.name", "Another")
			w.append("C/config", "[diff \"x\"]\n\ttextconv = /evil\n")
		},
		want: "changed C/config: git's configuration now sets diff.*.textconv = \"/evil\"\n", layerOnly: true,
	},
	{
		name: "a link in place of config", plant: func(w *world) { w.rename("C/config", "W/config"); w.symlink(w.path("W/config"), "C/config") },
		want: "replaced C/config: git's configuration is a symbolic link", layerOnly: true,
	},
	{
		name: "config.worktree", plant: func(w *world) { w.write("G/config.worktree", "[core] sshCommand = evil\n") },
		want: "created G/config.worktree: git's configuration", says: "core.sshcommand",
	},
	{
		name: "the repository's config.worktree", plant: func(w *world) { w.write("C/config.worktree", "") },
		want: "created C/config.worktree: git's configuration", layerOnly: true, kind: "linked",
	},
	{
		name: "attributes", plant: func(w *world) { w.write("C/info/attributes", "* filter=x\n") },
		want: "created C/info/attributes: git's attributes", layerOnly: true,
	},
	{
		name: "attributes that were there", before: func(w *world) { w.write("C/info/attributes", "* text\n") },
		plant: func(w *world) { w.append("C/info/attributes", "* filter=x\n") },
		want:  "changed C/info/attributes: git's attributes", layerOnly: true,
	},
	{
		name: "the folder of attributes", before: func(w *world) { w.write("C/info/attributes", "* text\n") },
		plant: func(w *world) {
			w.rename("C/info", "C/info2")
			w.symlink("info2", "C/info")
		},
		want: `replaced C/info: on the way to what is protected is a symbolic link to "info2"`, layerOnly: true,
	},
	{
		name: "commondir", plant: func(w *world) { w.write("C/commondir", "/evil\n") },
		want: "created C/commondir: a pointer of git's", layerOnly: true,
	},
	{
		name: "own commondir", kind: "linked", plant: func(w *world) { w.write("G/commondir", "../../../evil\n") },
		want: "changed G/commondir: a pointer of git's",
	},
	{name: "gitdir", kind: "linked", plant: func(w *world) { w.write("G/gitdir", "/evil/.git\n") }, want: "changed G/gitdir: a pointer of git's"},
	{name: ".git", kind: "linked", plant: func(w *world) { w.write("W/.git", "gitdir: /evil\n") }, want: "changed W/.git: a pointer of git's"},
	{
		name: "a folder in place of .git", kind: "linked",
		plant: func(w *world) {
			w.remove("W/.git")
			w.write("W/.git/HEAD", "")
		}, want: "replaced W/.git: a pointer of git's",
	},
	{
		name: "another .git", kind: "main",
		plant: func(w *world) { w.rename("W/.git", "B/elsewhere"); w.write("W/.git/config", "") },
		want:  "", // several lines
	},
	{
		name: "modules", plant: func(w *world) { w.append("G/modules/vendor/lib/config", "[core] fsmonitor = evil\n") },
		want: "changed G/modules/vendor/lib/config: git's configuration now sets core.fsmonitor",
	},
	{
		name: "a module's working tree", plant: func(w *world) { w.append("G/modules/vendor/lib/config", "[core] worktree = /home\n") },
		want: `changed G/modules/vendor/lib/config: git's configuration says that its working tree is "/home"`,
	},
	{
		name: "hooks of modules", plant: func(w *world) { w.script("G/modules/vendor/lib/hooks/post-checkout") },
		want: "created G/modules/vendor/lib/hooks/post-checkout: git's hooks",
	},
	{
		name: "another module's folder",
		plant: func(w *world) {
			w.rename("G/modules/vendor", "G/modules/old")
			w.symlink("old", "G/modules/vendor")
		},
		want: "replaced G/modules/vendor: on the way to what is protected",
	},
	{
		name: "hooks of core.hooksPath", before: func(w *world) { w.hooksPath("W/.hooks") },
		plant: func(w *world) { w.script("W/.hooks/pre-commit") }, want: "created W/.hooks/pre-commit: git's hooks",
	},
	{
		name: "tracked hooks of core.hooksPath",
		before: func(w *world) {
			w.hooksPath("W/.hooks")
			w.script("W/.hooks/pre-commit")
			w.work.Git("add", ".hooks")
		},
		plant: func(w *world) { w.append("W/.hooks/pre-commit", "evil\n") }, want: "changed W/.hooks/pre-commit: git's hooks",
	},
	{
		name: "missing hooks of core.hooksPath", before: func(w *world) { w.hooksPath("W/.hooks"); w.remove("W/.hooks") },
		plant: func(w *world) { w.script("W/.hooks/pre-commit") }, want: "created W/.hooks: git's hooks",
	},
	{
		name: "an include", before: func(w *world) {
			w.write("W/included", "")
			w.main.Git("config", "include.path", w.path("W/included"))
		},
		plant: func(w *world) { w.write("W/included", "[core] pager = evil\n") },
		want:  "changed W/included: a file that git's configuration includes",
	},
	{
		name: "a gitlink", plant: func(w *world) {
			w.nested("sub/deep")
			w.work.Git("add", "sub/deep")
		},
		want: "created W/sub/deep/.git: git status enters this repository, in which git would use core.fsmonitor",
	},
	{
		name: "a gitlink in a submodule", plant: func(w *world) {
			w.nested("vendor/lib/deep")
			w.work.Git("-C", "vendor/lib", "add", "deep")
		},
		want: "created W/vendor/lib/deep/.git: git status enters this repository",
	},
	{
		name: "a gitlink to what was there", before: func(w *world) { w.nested("nest") }, plant: func(w *world) { w.work.Git("add", "nest") },
		want: "created W/nest/.git: git status enters this repository",
	},
	{
		name: "what was there, moved to a gitlink", before: func(w *world) {
			w.nested("nest/a")
			w.work.Git("add", "nest/a")
			w.rename("W/nest", "W/tsen")
		},
		plant: func(w *world) { w.rename("W/tsen", "W/nest") },
		want:  "created W/nest/a/.git: git status enters this repository",
	},
	{
		name: "a pointer at a gitlink", before: func(w *world) {
			w.nested("nest")
			w.work.Git("add", "nest")
			w.rename("W/nest/.git", "W/bare")
		},
		plant: func(w *world) { w.write("W/nest/.git", "gitdir: ../bare\n") },
		want:  "created W/nest/.git: git status enters this repository",
	},
	{
		name: "a hook at a gitlink", plant: func(w *world) {
			w.work.Git("init", "--quiet", "nest")
			w.work.Git("-C", "nest", "commit", "--quiet", "--allow-empty", "--message", "x")
			w.script("W/nest/.git/hooks/post-index-change")
			w.work.Git("add", "nest")
		},
		want: "created W/nest/.git: git status enters this repository", says: "the hook \"post-index-change\"",
	},
	{
		name: "a submodule's pointer", plant: func(w *world) {
			w.nested("evil")
			w.write("W/vendor/lib/.git", "gitdir: ../../evil/.git\n")
		},
		says: "the pointer of a submodule leads to",
	},
	{
		name: ".gitmodules out of the worktree", plant: func(w *world) { w.append("W/.gitmodules", "[submodule \"x\"]\n\tpath = a/../../b\n") },
		want: "changed W/.gitmodules: git's list of submodules has path = ",
	},
	{
		name: ".gitmodules through a link", plant: func(w *world) {
			w.symlink("/", "W/link")
			w.append("W/.gitmodules", "[submodule \"x\"]\n\tpath = link/home\n")
		}, want: "changed W/.gitmodules: git's list of submodules has path = ",
	},
	{
		name: ".gitmodules with a command", plant: func(w *world) { w.append("W/.gitmodules", "[submodule \"x\"]\n\tupdate = !evil\n") },
		want: "changed W/.gitmodules: git's list of submodules has update = ",
	},
	{
		name: "a link in place of .gitmodules", plant: func(w *world) { w.rename("W/.gitmodules", "W/x"); w.symlink("x", "W/.gitmodules") },
		want: "replaced W/.gitmodules: git's list of submodules is a symbolic link",
	},
	{
		name: "a new worktree that leads elsewhere", layerOnly: true, plant: func(w *world) {
			w.write("C/worktrees/new/gitdir", w.main.Dir+"/.git\n")
			w.write("C/worktrees/new/commondir", "../..\n")
			w.write("C/worktrees/new/HEAD", "ref: refs/heads/main\n")
		}, want: "created C/worktrees/new: a worktree at ", says: "leads elsewhere",
	},
	{
		name: "a new worktree of another repository", layerOnly: true,
		plant: func(w *world) { w.write("C/worktrees/new/commondir", "/\n") }, want: "created C/worktrees/new: a worktree names another repository",
	},
	{
		name: "a new worktree with settings", layerOnly: true,
		plant: func(w *world) { w.write("C/worktrees/new/config.worktree", "[core] editor = evil\n") },
		want:  "created C/worktrees/new: a worktree sets core.editor",
	},
	{
		name: "a list of files that can't be read", plant: func(w *world) { w.write("G/index", "DIRC\x00\x00\x00\x09") },
		want: "changed G/index: git's list of files can't be read",
	},
}

func (w *world) chmod(name string, mode os.FileMode) {
	w.t.Helper()
	if err := os.Chmod(w.path(name), mode); err != nil {
		w.t.Fatal(err)
	}
}

// hooksPath configures an empty folder for hooks.
func (w *world) hooksPath(name string) {
	w.t.Helper()
	w.main.Git("config", "core.hooksPath", w.path(name))
	if err := os.MkdirAll(w.path(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func TestPlantings(t *testing.T) {
	for _, kind := range kinds {
		w := newWorld(t, kind, true)
		reset := w.keep()
		for _, w.layer = range []bool{true, false} {
			for _, p := range plantings {
				if p.kind != "" && p.kind != kind || p.layerOnly && kind == "linked" && !w.layer {
					continue
				}
				name := kind + "/landlock/"
				if w.layer {
					name = kind + "/mounts/"
				}
				t.Run(name+p.name, func(t *testing.T) {
					reset(t)
					tryPlanting(w, p)
				})
			}
		}
	}
}

func tryPlanting(w *world, p planting) {
	w.t.Helper()
	if p.before != nil {
		p.before(w)
	}
	s := w.snapshot()
	p.plant(w)
	for way, shift := range times {
		s.Shift(shift)
		got := w.show(s.Compare())
		s.Shift(-shift)
		want := w.shown(p.want)
		if !strings.HasPrefix(got, want) || !strings.Contains(got, p.says) || want != "" && strings.Count(got, "\n") != 1 || got == "" {
			w.t.Errorf("by %s:\n%swant one line:\n%s … %s", way, got, want, p.says)
		}
	}
}

// Without knowing what was there before, what is old and was not touched is
// not reported.
func TestOldNested(t *testing.T) {
	w := newWorld(t, "linked", true)
	w.nested("nest")
	w.work.Git("add", "nest")
	s := w.snapshot()
	s.Shift(time.Hour)
	s.Forget()
	if got := w.show(s.Compare()); got != "" {
		t.Errorf("nothing was done:\n%s", got)
	}
	w.work.Git("update-index", "--index-version", "4")
	if got := w.show(s.Compare()); !strings.HasPrefix(got, "created W/nest/.git: ") {
		t.Errorf("the list of files was touched:\n%s", got)
	}
}

// A worktree below the one that a command is given has its pointer in reach.
func TestWorktreeBelow(t *testing.T) {
	for _, layer := range []bool{true, false} {
		w := newWorld(t, "main", layer)
		w.main.WorktreeBelow()
		s := w.snapshot()
		s.Shift(time.Hour)
		if got := w.show(s.Compare()); got != "" {
			t.Errorf("nothing was done:\n%s", got)
		}
		s.Shift(-time.Hour)
		w.write("W/trees/below/.git", "gitdir: /evil\n")
		if got := w.show(s.Compare()); !strings.HasPrefix(got, "changed G/worktrees/below: a worktree at ") {
			t.Errorf("below:\n%s", got)
		}
	}
}

// What was wrong with a worktree before is no change, however lately it was made
// so.
func TestWorktreeOdd(t *testing.T) {
	w := newWorld(t, "main", false)
	w.write("C/worktrees/other/gitdir", "/elsewhere/x\n")
	s := w.snapshot()
	if got := w.show(s.Compare()); got != "" {
		t.Errorf("nothing was done:\n%s", got)
	}
	w.write("C/worktrees/other/gitdir", "/elsewhere/y\n")
	if got := w.show(s.Compare()); !strings.HasPrefix(got, "changed G/worktrees/other: a worktree is said to be at ") {
		t.Errorf("a change:\n%s", got)
	}
}

// A worktree that is a folder of the repository's working tree: git would find
// a repository in it first.
func TestSubfolder(t *testing.T) {
	w := newWorld(t, "main", true)
	sub := *w.main
	sub.Dir += "/sub"
	w.work = &sub
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(sub.Dir), NoCache: true}
	r, err := policy.Resolve(p, policy.Options{Environ: testenv.GitEnv(w.main.Home), MountLayer: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := tamper.Snapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Compare(); got != nil {
		t.Errorf("nothing was done: %v", got)
	}
	w.work.Git("init", "--quiet")
	w.write("W/HEAD", "ref: refs/heads/main\n")
	if got := w.show(s.Compare()); !strings.HasPrefix(got, "created W/.git: a pointer of git's\ncreated W/HEAD: a pointer of git's\n") {
		t.Errorf("changes:\n%s", got)
	}
}

// What the policy protects is compared with a repository and without one.
func TestChosen(t *testing.T) {
	base := testenv.Dir(t)
	for _, layer := range []bool{true, false} {
		for _, name := range []string{"keep", "folder/file"} {
			w := &world{t: t, base: base}
			w.write("B/keep", "kept\n")
			w.write("B/folder/file", "kept\n")
			p := policy.Policy{
				Mode: policy.WorkspaceWrite, Worktree: policy.Path(base), NoCache: true, NoProtect: true,
				Protect: []policy.Path{policy.Path(base + "/keep"), policy.Path(base + "/folder")},
			}
			r, err := policy.Resolve(p, policy.Options{Environ: []string{"HOME=/nonexistent"}, MountLayer: layer})
			if err != nil {
				t.Fatal(err)
			}
			s, err := tamper.Snapshot(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Compare(); got != nil {
				t.Errorf("nothing was done: %v", got)
			}
			w.write("B/"+name, "other\n")
			changes := s.Compare()
			if len(changes) != 1 || string(changes[0].Path) != base+"/"+name || changes[0].What != tamper.Changed {
				t.Errorf("changes = %v; want %s", changes, name)
			}
			for _, done := range s.Restore(changes) {
				if done.Err != nil {
					t.Error(done)
				}
			}
			if left := s.Compare(); left != nil {
				t.Errorf("after Restore: %v", left)
			}
		}
	}
}

// Nothing to protect is nothing to compare.
func TestNothing(t *testing.T) {
	w := newWorld(t, "main", false)
	for _, p := range []policy.Policy{
		{},
		{Mode: policy.ReadOnly, Worktree: policy.Path(w.main.Dir)},
		{Mode: policy.WorkspaceWrite, Worktree: policy.Path(w.base), NoCache: true},
		{Mode: policy.WorkspaceWrite, Worktree: policy.Path(w.main.Dir), NoCache: true, NoProtect: true},
	} {
		r, err := policy.Resolve(p, policy.Options{Environ: testenv.GitEnv(w.main.Home)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tamper.Snapshot(r)
		if err != nil {
			t.Fatal(err)
		}
		w.append("C/config", "[core] pager = evil\n")
		if got := s.Compare(); got != nil {
			t.Errorf("%v: %v; want nothing", p, got)
		}
	}
}
