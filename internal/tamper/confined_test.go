package tamper_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// sandbox prepares a sandbox with a mount layer for the working tree.
func (w *world) sandbox(t *testing.T) *launch.Sandbox {
	t.Helper()
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(w.work.Dir), NoCache: true}
	s, err := launch.Prepare(p, launch.Options{Environ: testenv.GitEnv(w.main.Home)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := w.confined(t, s, "true")
	if a := s.Applied(); a.Backend != launch.BackendMountns {
		testenv.Skip(t, "no mount layer: %v %v", a, r)
	}
	return s
}

// confined runs a shell script in the sandbox and returns what it wrote, with
// "failed" at its end if it did.
func (w *world) confined(t *testing.T, s *launch.Sandbox, script string) string {
	t.Helper()
	return w.confinedAfter(t, s, func() {}, script)
}

// confinedAfter is confined for a script that begins when the host has done
// something meanwhile, and what it is about is covered by a mount again.
func (w *world) confinedAfter(t *testing.T, s *launch.Sandbox, host func(), script string) string {
	t.Helper()
	script = `echo up; read -r _ || :
		n=0; until grep -q " $1/config " /proc/self/mountinfo || [ $n = 1000 ]; do n=$((n+1)); sleep 0.01; done
		` + script
	c := s.Command("sh", "-ec", script, w.path("C"), w.path("G"), w.path("W"))
	c.Args[3] = "sh"
	c.Args = append(c.Args[:4], w.path("C"), w.path("G"), w.path("W"))
	c.Dir = w.work.Dir
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	host()
	_ = in.Close()
	end := ""
	if err := c.Wait(); err != nil {
		end = "failed\n"
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + end
}

// tries are what a confined command tries; in the scripts $1 is the repository,
// $2 git's folder for the working tree and $3 the working tree.
var tries = []struct {
	script string
	// found is what is found afterwards; empty if the kernel refuses it.
	found string
	kind  string
}{
	{script: `echo x >"$1/hooks/pre-commit"`},
	{script: `mv "$1/hooks/pre-commit.sample" "$1/hooks/pre-commit"`},
	{script: `chmod +x "$1/hooks/pre-commit.sample"`},
	{script: `mv "$1/hooks" "$1/h"`},
	{script: `rm -rf "$1/hooks"`},
	{script: `ln -sfn /tmp "$1/hooks" && test -L "$1/hooks"`},
	{script: `echo x >>"$1/config"`},
	{script: `git config core.fsmonitor evil`},
	{script: `echo x >"$1/c" && mv "$1/c" "$1/config"`},
	{script: `ln "$1/config" "$1/c" && echo x >>"$1/c"`},
	{script: `mv "$1/config" "$1/c"`},
	{script: `rm -f "$1/config"`},
	{script: `mv "$1" "$1.old"`},
	{script: `mv "$1/worktrees" "$1/w"`},
	{script: `mkdir "$1/worktrees/new"`},
	{script: `echo x >"$1/worktrees/other/gitdir"`},
	{script: `echo x >"$1/worktrees/other/config.worktree"`},
	{script: `echo x >"$2/commondir"`, kind: "linked"},
	{script: `echo x >"$2/gitdir"`, kind: "linked"},
	{script: `mv "$2" "$2.old"`, kind: "linked"},
	{script: `echo x >"$3/.git"`, kind: "linked"},
	{script: `mv "$3/.git" "$3/g"`},
	{script: `rm -f "$3/.git" && mkdir "$3/.git"`, kind: "linked"},
	{script: `echo x >>"$2/modules/vendor/lib/hooks/post-checkout"`},
	{script: `mv "$2/modules/vendor" "$2/modules/v"`},
	{script: `mv "$2/modules" "$2/m"`},
	{script: `echo x >>"$1/modules/vendor/lib/config"`, kind: "linked"},
	{script: `echo x >"$3/.untracked/pre-commit"`},
	{script: `mv "$3/.untracked" "$3/u"`},
	{script: `umount "$1/hooks"`},
	{script: `umount -l "$1/config"`},
	{script: `mount -o remount,bind,rw "$1/hooks"`},
	{script: `mount --bind /tmp "$1/hooks"`},
	{script: `unshare -m true`},
	{script: `unshare -Ur sh -c 'echo x >>"$0/config"' "$1"`},

	{script: `printf '[core]\n\tpager = x\n' >>"$2/modules/vendor/lib/config"`, found: "changed G/modules/vendor/lib/config: git's configuration now sets core.pager"},
	{script: `echo x >"$1/commondir"`, found: "created C/commondir"},
	{script: `echo '[core] pager = x' >"$2/config.worktree"`, found: "created G/config.worktree: git's configuration now sets core.pager"},
	{script: `mkdir -p "$1/info" && echo '* filter=x' >"$1/info/attributes"`, found: "created C/info/attributes"},
	{script: `git init -q nest && git -C nest commit -q --allow-empty -m x && git -C nest config core.fsmonitor x && git add nest`, found: "created W/nest/.git: git status enters"},
	{script: `printf '[submodule "x"]\npath = ../x\n' >>.gitmodules`, found: "changed W/.gitmodules"},
	{script: `cp -r "$2/modules/vendor/lib" evil && echo 'gitdir: ../../evil' >vendor/lib/.git`, found: "W/vendor/lib/.git: the pointer of a submodule leads to"},
}

func TestConfined(t *testing.T) {
	for _, test := range []struct {
		kind  string
		after bool // the host's own git config
	}{{"main", false}, {"linked", false}, {"main", true}, {"linked", true}} {
		kind := test.kind
		t.Run(fmt.Sprint(kind, " after git config ", test.after), func(t *testing.T) {
			w := newWorld(t, kind, true)
			w.hooksPath("W/.untracked")
			box := w.sandbox(t)
			host := func() {}
			if test.after {
				w.main.Git("config", "user.name", "Author")
				host = func() { w.main.Git("config", "user.name", "Author") } // the same, in another file
			}
			s := w.snapshot()
			for _, try := range tries {
				if try.kind != "" && try.kind != kind {
					continue
				}
				out := w.confinedAfter(t, box, host, try.script)
				changes := s.Compare()
				got := w.show(changes)
				switch {
				case try.found == "" && (!strings.HasSuffix(out, "failed\n") || got != ""):
					t.Errorf("%s: was not refused\n%s%s", try.script, out, got)
				case try.found != "" && !strings.Contains(got, strings.TrimPrefix(w.shown(" "+try.found), " ")):
					t.Errorf("%s:\n%s%swant %q", try.script, out, got, try.found)
				}
				for _, r := range s.Restore(changes) {
					if r.Err != nil {
						t.Error(r)
					}
				}
				w.work.TryGit("reset", "--quiet", "--hard")
				w.remove("W/nest")
			}
			for _, do := range [][]string{{"status"}, {"commit", "--allow-empty", "--message", "outside"}, {"worktree", "list"}, {"fsck"}} {
				if r := w.work.TryGit(do...); r.Code != 0 {
					t.Error(r)
				}
			}
		})
	}
}

// After the host's own git config the name is free for the command: that is
// seen.
func TestConfinedAfterHost(t *testing.T) {
	for _, kind := range kinds {
		w := newWorld(t, kind, true)
		box := w.sandbox(t)
		s := w.snapshot()
		c := box.Command("sh", "-c", `echo up; read _; printf '[core]\n\tfsmonitor = evil\n' >>"$0/config"; echo x >"$0/hooks/pre-commit"`, w.path("C"))
		c.Dir = w.work.Dir
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		w.main.Git("config", "user.name", "Another")
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		_ = c.Wait()
		got := w.show(s.Compare())
		if !strings.HasPrefix(got, w.shown("changed C/config: git's configuration")) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s:\n%swant config and nothing else", kind, got)
		}
		if _, err := os.Lstat(w.path("C/hooks/pre-commit")); err == nil {
			t.Error("the hooks folder is open")
		}
	}
}
