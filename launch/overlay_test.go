package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// TestCacheOverlay: what the user's own pip has shows through, what a command
// writes is there for the next one, and the user's own stays as it is.
func TestCacheOverlay(t *testing.T) {
	needLayer(t)
	testenv.CheckFDs(t)
	repo := testenv.Self().NewRepo(t)
	wt := repo.WorktreeBeside()
	home := testenv.Dir(t)
	theirs := home + "/.cache/pip"
	for path, text := range map[string]string{
		wt.Dir + "/pyproject.toml": "", theirs + "/http/a/entry": "theirs\n", theirs + "/wheels/old": "old\n", theirs + "/private/x": "p",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append(testenv.GitEnv(home), "HOME="+home)
	s, err := launch.Prepare(workspace(wt.Dir), launch.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if b := s.Applied().Backend; b != launch.BackendMountns {
		t.Fatalf("the backend is %s", b)
	}
	out := output(t, s, wt.Dir, `cd "$PIP_CACHE_DIR" && cat http/a/entry && echo ours >http/a/entry && echo new >http/a/new &&
		mkdir -p wheels/deep && mv wheels/old wheels/deep/moved && rm -r private && ln http/a/new link && cat http/a/entry && ls
		echo x >>"$HOME/.cache/pip/http/a/entry" || echo refused`)
	wants(t, out, "theirs\nours\nhttp\nlink\nwheels\n", "refused")
	out = output(t, s, wt.Dir, `cd "$PIP_CACHE_DIR" && cat http/a/entry http/a/new wheels/deep/moved && ls wheels`)
	wants(t, out, "ours\nnew\nold\ndeep\n")

	// At the same time: each has what was there, and neither disturbs the other.
	first, second := ask(t, s, wt.Dir), ask(t, s, wt.Dir)
	for _, line := range []string{
		`cat http/a/entry http/a/new; test -e both || echo none`,
		`echo b >both.tmp && mv both.tmp both && cat both && mkdir -p folder && echo x >folder/$$ && echo 1`,
	} {
		for _, a := range []*asked{first, second} {
			if got := a.do(`cd "$PIP_CACHE_DIR"; ` + line); got != "ours;new;none;\n" && got != "b;1;\n" {
				t.Errorf("at the same time: %s: %q", line, got)
			}
		}
	}
	first.end()
	second.end()
	out = output(t, s, wt.Dir, `cd "$PIP_CACHE_DIR" && cat both; ls -d http; echo more >more && echo written`)
	wants(t, out, "b\nhttp\nwritten\n")

	// What is written to is out of reach, but by the mount.
	out = output(t, s, wt.Dir, `d=$(dirname "$PIP_CACHE_DIR"); ls "$d"; echo x >"$d/0/upper/x"; mkdir "$d/9"; mv "$d/0" "$d/1"; rmdir "$PIP_CACHE_DIR"; echo done`)
	if strings.Count(out, "denied") < 3 || !strings.HasSuffix(out, "done\n") {
		t.Errorf("beside the mount:\n%s", out)
	}
	for path, want := range map[string]string{"http/a/entry": "theirs\n", "wheels/old": "old\n", "private/x": "p"} {
		if b, err := os.ReadFile(filepath.Join(theirs, path)); string(b) != want || err != nil {
			t.Errorf("the user's own %s is %q, %v", path, b, err)
		}
	}
	if list, err := os.ReadDir(theirs + "/http/a"); len(list) != 1 || err != nil {
		t.Errorf("the user's own cache has %v, %v", list, err)
	}
}
