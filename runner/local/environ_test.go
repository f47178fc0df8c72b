package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// The folders that the environment names are those that are granted, whoever
// starts the command, and only what the environment has is in it.
func TestEnviron(t *testing.T) {
	for way, set := range ways {
		t.Run(way, func(t *testing.T) {
			home := testenv.Self().Dir(t)
			c := configOf(testenv.Self().Dir(t), set)
			c.Policy.NoCache = false
			c.Options.Environ = []string{
				"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SOME_TOKEN=hidden-value", "BASH_FUNC_f%%=() { echo function; }", "KEPT=a=b",
			}
			e, err := local.New(c)
			if err != nil {
				t.Fatal(err)
			}
			r := newRunner(t, runner.Config{Executor: e})
			const script = `f; echo "$KEPT,$SOME_TOKEN,$SET"
				[ -z "$XDG_CACHE_HOME" ] || { mkdir -p "$XDG_CACHE_HOME" && echo x >"$XDG_CACHE_HOME/file" || exit; }
				[ -z "$GOCACHE" ] || { mkdir -p "$GOCACHE" && echo x >"$GOCACHE/file"; }`
			res := run(t, r, runner.Request{Command: script, Env: []string{"SET=this"}})
			if got := string(res.Stdout.Text()); got != "function\na=b,,this\n" || res.ExitCode != 0 {
				t.Errorf("code %d, %q, %q", res.ExitCode, got, res.Stderr.Text())
			}
			found, err := filepath.Glob(filepath.Join(home, ".cache/shofer-sandbox/*/xdg/file"))
			if err != nil || (len(found) != 1) != (way == "unconfined") {
				t.Errorf("caches: %q, %v", found, err)
			}
			if way == "unconfined" {
				return
			}
			// Nor is it found where a process with it can be looked at.
			res = run(t, r, runner.Request{Command: `grep -sl hidden-value /proc/[0-9]*/environ`})
			if got := string(res.Stdout.Text()); got != "" {
				t.Errorf("what was dropped is in %q", strings.Fields(got))
			}
		})
	}
}
