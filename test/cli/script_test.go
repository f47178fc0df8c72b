package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// TestScripts runs the scripts in testdata. Each has a home and a git
// repository, tree, of its own, outside of all that is granted.
func TestScripts(t *testing.T) {
	testenv.NeedTool(t, "git")
	exe := testenv.BuildRunner(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		WorkdirRoot:         testenv.Dir(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for name, v := range map[string]string{
				"PATH":                filepath.Dir(exe) + ":" + os.Getenv("PATH"),
				"HOME":                e.WorkDir + "/home",
				"XDG_STATE_HOME":      "",
				"XDG_CACHE_HOME":      "",
				"GIT_CONFIG_GLOBAL":   "/dev/null",
				"GIT_CONFIG_NOSYSTEM": "1",
				"TERM":                "dumb",
			} {
				e.Setenv(name, v)
			}
			tree := e.WorkDir + "/tree"
			for _, dir := range []string{tree, e.WorkDir + "/home"} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			e.Cd = tree
			cmd := exec.Command("git", "init", "-q", tree)
			cmd.Env = e.Vars
			return cmd.Run()
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a program, which must exit with the given code.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE program [argument...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d; want %d", got, want)
	}
}
