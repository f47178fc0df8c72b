package tamper_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// verify returns what Verify finds in the working tree, one line each.
func (w *world) verify() ([]tamper.Finding, string) {
	w.t.Helper()
	list, err := tamper.Verify(w.work.Dir, testenv.GitEnv(w.main.Home))
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range list {
		b.WriteString(w.showFinding(f) + "\n")
	}
	return list, b.String()
}

func (w *world) showFinding(f tamper.Finding) string {
	path := string(f.Path)
	for _, root := range []string{"G", "C", "W", "B"} {
		if rest, ok := strings.CutPrefix(path, w.path(root)); ok && (rest == "" || rest[0] == '/') {
			path = root + rest
			break
		}
	}
	return string(f.Severity) + " " + path + " " + f.Key + ": " + f.Text
}

// found is what Verify finds after something was planted. Some plantings can't
// be told from what people do: those are looked at only before and after.
var found = map[string]string{
	"hook":                      "note C/hooks/pre-commit",
	"hook by another name":      "note C/hooks/pre-commit",
	"a link in place of config": "",
	"config":                    "danger C/config core.fsmonitor",
	"config.worktree":           "G/config.worktree core.sshcommand",
	"attributes":                "warning C/info/attributes filter=x",
	"commondir":                 "danger C/commondir",
	"own commondir":             "danger W/.git",
	"gitdir":                    "danger W/.git",
	".git":                      "W/.git",
	"modules":                   "danger G/modules/vendor/lib/config core.fsmonitor",
	"hooks of modules":          "note G/modules/vendor/lib/hooks/post-checkout",
	"hooks of core.hooksPath":   "warning W/.hooks/pre-commit",
	"an include":                "danger C/config include.path",
	"a gitlink":                 "danger W/sub/deep/.git/config core.fsmonitor: git status enters",
	"a gitlink in a submodule":  "danger W/vendor/lib/deep/.git/config core.fsmonitor: git status enters",
	"a pointer at a gitlink":    "danger W/bare/config core.fsmonitor: git status enters",
	"a hook at a gitlink":       "warning W/nest/.git/hooks/post-index-change : git status enters",
	"a submodule's pointer":     "danger W/evil/.git/config core.fsmonitor: git status enters",

	".gitmodules out of the worktree":      "danger W/.gitmodules : git's list of submodules has path",
	".gitmodules through a link":           "danger W/.gitmodules : git's list of submodules has path",
	".gitmodules with a command":           "danger W/.gitmodules : git's list of submodules has update",
	"a link in place of .gitmodules":       "danger W/.gitmodules : git's list of submodules is a symbolic link",
	"a new worktree that leads elsewhere":  "danger C/worktrees/new : a worktree at ",
	"a new worktree of another repository": "danger C/worktrees/new : a worktree names another repository",
	"a new worktree with settings":         "danger C/worktrees/new : a worktree sets core.editor",
	"a list of files that can't be read":   "warning G/index",
}

func TestVerify(t *testing.T) {
	for _, kind := range kinds {
		w := newWorld(t, kind, true)
		reset := w.keep()
		tried := 0
		for _, p := range plantings {
			want, ok := found[p.name]
			if !ok || p.kind != "" && p.kind != kind {
				continue
			}
			tried++
			t.Run(kind+"/"+p.name, func(t *testing.T) {
				reset(t)
				if _, got := w.verify(); got != "" {
					t.Fatalf("before:\n%s", got)
				}
				if p.before != nil {
					p.before(w)
				}
				p.plant(w)
				list, got := w.verify()
				if want = strings.TrimPrefix(w.shown(" "+want), " "); !strings.Contains(got, want) {
					t.Errorf("found:\n%swant %q", got, want)
				}
				w.lookAt(list)
			})
		}
		if tried < 20 {
			t.Errorf("only %d plantings were tried", tried)
		}
	}
}

// lookAt does what the findings say, and fails the test if that executes what
// was planted.
func (w *world) lookAt(list []tamper.Finding) {
	w.t.Helper()
	w.remove("B/ran")
	for _, f := range list {
		if r := testenv.Run(w.t, w.main.Command("bash", "-c", f.Look)); r.Code != 0 && !strings.Contains(r.Stderr, "No such file") {
			w.t.Errorf("%s: %v", f.Look, r)
		}
	}
	if _, err := os.Lstat(w.path("B/ran")); err == nil {
		w.t.Error("looking executed what was planted")
	}
}

// What only a look at the worktree finds.
func TestVerifyMore(t *testing.T) {
	w := newWorld(t, "main", true)
	reset := w.keep()
	for _, tt := range []struct {
		name  string
		plant func()
		want  string
	}{
		{"a repository in a folder", func() { w.nested("a/b/c") }, "danger W/a/b/c/.git/config core.fsmonitor: git in this folder"},
		{
			"a bare repository", func() {
				w.sh("mkdir x; git init -q --bare x/bare")
				w.append("W/x/bare/config", "[core]\nfsmonitor = ./evil\n")
			}, "danger W/x/bare/config core.fsmonitor: git in this folder",
		},
		{"a driver", func() { w.sh("git config diff.x.textconv ./tool") }, "danger G/config diff.*.textconv"},
		{"a driver outside", func() { w.sh("git config diff.x.textconv 'tool -x'") }, "warning G/config diff.*.textconv"},
		{"large files", func() { w.sh("git config filter.lfs.clean 'git-lfs clean -- %f'") }, "note G/config filter.*.clean"},
		{"an alias", func() { w.sh("git config alias.x '!ls'") }, "warning G/config alias.x"},
		{"a pager", func() { w.sh("git config core.pager 'less -R'") }, "warning G/config core.pager"},
		{"a URL", func() { w.sh("git config remote.x.url 'ext::sh -c evil'") }, "danger G/config remote.*.url"},
		{"the user's hooks", func() {
			w.main.WriteHome(".gitconfig", "[core]\n\thooksPath = .hooks\n")
			w.script("W/.hooks/pre-push")
		}, "warning W/.hooks/pre-push"},
		{"the user's include", func() { w.main.WriteHome(".gitconfig", "[include]\n\tpath = /tmp/nothing\n") }, "include.path"},
		{"an included file", func() {
			w.sh("git config include.path ../inc")
			w.write("W/inc", "[core]\n\tsshCommand = x\n")
		}, "W/inc core.sshcommand"},
		{"alternates", func() { w.write("C/objects/info/alternates", "/nowhere\n") }, "warning G/objects/info/alternates"},
		{"a rebase", func() { w.write("G/rebase-merge/git-rebase-todo", "pick x\nexec evil -y\n") }, `git rebase --continue would run "evil -y"`},
		{"an old remote", func() { w.write("C/remotes/origin", "URL: x\n") }, "warning G/remotes/origin"},
		{"a hook that is a link", func() {
			w.script("W/tool")
			w.symlink("../../tool", "C/hooks/pre-commit")
		}, "warning G/hooks/pre-commit"},
		{"a worktree below", func() {
			w.sh("git worktree add -q below")
			w.write("W/below/.git", "gitdir: /evil\n")
		}, "danger G/worktrees/below"},
		{"no repository", func() { w.remove("W/.git"); w.remove("W/vendor"); w.nested("x"); w.remove("W/.git") }, "danger W/x/.git/config"},
		{"odd names", func() { w.nested("it's \x1b[31m odd\n") }, `danger W/it's`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reset(t)
			w.main.WriteHome(".gitconfig", "[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
			tt.plant()
			list, got := w.verify()
			if !strings.Contains(got, tt.want) {
				t.Errorf("found:\n%swant %q", got, tt.want)
			}
			w.lookAt(list)
			for _, f := range list {
				if text := f.Text + f.Look; strings.ContainsAny(text, "\x1b\n") {
					t.Errorf("%q isn't fit for a terminal", text)
				}
			}
		})
	}
}

// A monitor runs with an ordinary git status, and not with the safe one.
func TestSafeGit(t *testing.T) {
	w := newWorld(t, "main", true)
	w.nested("x")
	w.work.Git("add", "x")
	w.script("B/evil")
	w.sh("git config core.fsmonitor '" + w.path("B/evil") + "'; git config diff.external '" + w.path("B/evil") + "'")
	w.script("C/hooks/post-index-change")
	w.append("W/README", "more\n")
	for _, do := range []string{" status", " diff --no-ext-diff --no-textconv", " log -p -1", " ls-files", " branch -a", " worktree list", " config --list", " show"} {
		w.remove("B/ran")
		// Unconfined here, so that git's settings alone have to do.
		_, git, _ := strings.Cut(tamper.SafeGit(w.work.Dir), " -- ")
		r := testenv.Run(t, w.main.Command("bash", "-c", git+do))
		if _, err := os.Lstat(w.path("B/ran")); err == nil || r.Code != 0 {
			t.Errorf("%s executed what was planted: %v", do, r)
		}
	}
	w.work.TryGit("status")
	if _, err := os.Lstat(w.path("B/ran")); err != nil {
		t.Errorf("an ordinary git status did not: %v", err)
	}
}

func TestVerifyErrors(t *testing.T) {
	if _, err := tamper.Verify("/nonexistent/worktree", nil); err == nil {
		t.Error("no error for a folder that isn't there")
	}
}
