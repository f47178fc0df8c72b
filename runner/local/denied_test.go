package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
)

// A refusal of the sandbox is told from every other failure.
func TestDenials(t *testing.T) {
	repo := testenv.Self().NewRepo(t)
	outside := testenv.Self().Dir(t)
	if err := os.WriteFile(filepath.Join(outside, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := executor(t, func(c *local.Config) { c.Policy.Worktree = policy.Path(repo.Dir) })
	r := newRunner(t, runner.Config{Executor: e})
	for name, tt := range map[string]struct {
		command string
		path    string // "" if it isn't a denial
		hint    string
	}{
		"redirection":   {"echo >" + outside + "/new", outside + "/new", "--rw " + outside},
		"touch":         {"LC_ALL=C touch " + outside + "/new", outside + "/new", "--rw " + outside},
		"touch, UTF-8":  {"LC_ALL=C.UTF-8 touch " + outside + "/new", outside + "/new", "--rw"},
		"truncate":      {"truncate -s 0 " + outside + "/file", outside + "/file", "--rw"},
		"mkdir":         {"mkdir " + outside + "/new", outside + "/new", "--rw"},
		"relative":      {"cd " + outside + " && mkdir ./new", "", ""}, // nobody says where it was
		"python":        {`python3 -c 'open("` + outside + `/new", "w")'`, outside + "/new", "--rw"},
		"git config":    {"git config a.b c", filepath.Join(repo.Dir, ".git/config"), "outside the sandbox"},
		"missing file":  {"cat " + outside + "/none", "", ""},
		"grep":          {"grep x /dev/null", "", ""},
		"words alone":   {"echo permission denied >&2; exit 1", "", ""},
		"a test's text": {"echo \"want: open '/nowhere/at/all': permission denied\" >&2; exit 1", "", ""},
		"no write":      {"cd /proc/1 && : >mem", "", ""},
		"executing":     {outside + "/file", "", ""},
		"inside":        {"echo \"$PWD/x: Permission denied\" >&2; exit 1", "", ""},
		"success":       {"touch " + outside + "/new; true", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(tt.command, "python3") {
				testenv.NeedTool(t, "python3")
			}
			res := run(t, r, runner.Request{Command: tt.command})
			d := res.Sandbox.Denials
			switch {
			case tt.path == "":
				if res.Sandbox.Denied || len(d) > 0 {
					t.Errorf("Denials = %+v; want none", d)
				}
			case len(d) != 1 || string(d[0].Path) != tt.path || !strings.Contains(d[0].Hint, tt.hint) || !res.Sandbox.Denied:
				t.Errorf("Denials = %+v of %q; want %s with %q", d, res.Stderr.Text(), tt.path, tt.hint)
			}
		})
	}
}

// With a trace, what was refused is known whatever the command prints, and when
// it succeeds, too.
func TestTraced(t *testing.T) {
	if err := seccomp.ProbeWitness(); err != nil {
		testenv.Skip(t, "%v", err)
	}
	for name, supervisor := range map[string]string{"direct": "", "supervised": local.Self} {
		t.Run(name, func(t *testing.T) {
			repo := testenv.Self().NewRepo(t)
			outside := testenv.Self().Dir(t)
			e := executor(t, func(c *local.Config) {
				c.Policy.Worktree = policy.Path(repo.Dir)
				c.Options.TraceDenials = true
				c.Supervisor = supervisor
			})
			if e.Authority().SurvivesHost {
				t.Error("a traced command survives its host; want that denied")
			}
			r := newRunner(t, runner.Config{Executor: e})
			res := run(t, r, runner.Request{Command: "cd " + outside + "; for i in 1 2; do mkdir ./new 2>/dev/null; done; true"})
			box := res.Sandbox
			if res.ExitCode != 0 || !box.Traced || !box.Denied || len(box.Denials) != 1 || len(box.Untraced) > 0 {
				t.Fatalf("code %d, %+v", res.ExitCode, box)
			}
			d := box.Denials[0]
			if d.Source != runner.SourceTrace || string(d.Path) != outside+"/new" || d.Program != "mkdir" || d.Pid <= 0 ||
				!strings.HasPrefix(d.Call, "mkdir") || d.Count != 2 || string(d.Missing) != outside+"/new" ||
				!strings.Contains(d.Hint, "--rw-create "+outside+"/new") || d.Line != "" {
				t.Errorf("%+v", d)
			}
			if res = run(t, r, runner.Request{Command: "echo 'touch: cannot touch /etc/x: Permission denied' >&2; exit 1"}); res.Sandbox.Denied || !res.Sandbox.Traced {
				t.Errorf("what is only said: %+v", res.Sandbox)
			}
		})
	}
}
