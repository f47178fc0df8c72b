package integration

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// TestExplain: it prints what would be granted, runs nothing and changes
// nothing, not even a folder that a run would make.
func TestExplain(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		repo := u.NewRepoAt(t, s.base+"/repo")
		work := repo.WorktreeBeside()
		repo.Git("config", "core.logAllRefUpdates", "false")
		s.must("rm", "-r", repo.Dir+"/.git/logs")
		before := snapshot(t, s.base)

		args := []string{"--backend", "landlock", "--rw", s.outside, "--explain"}
		create := s.base + "/made/by/run"
		r := testenv.Run(t, s.launch(append(args, work.Dir, "--", "touch", "ran")...))
		if r.Code != 0 || r.Stderr != "" {
			t.Fatalf("%v; want exit 0", r)
		}
		for _, want := range []string{work.Dir, s.outside, "landlock", "metadata", "path-sockets"} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("--explain doesn't name %s:\n%s", want, r.Stdout)
			}
		}

		args = append(args, "--json")
		r = testenv.Run(t, s.launch(append(args, work.Dir)...))
		var a launch.Applied
		dec := json.NewDecoder(strings.NewReader(r.Stdout))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&a); err != nil || r.Code != 0 {
			t.Fatalf("--explain --json: %v, %v", err, r)
		}
		var any map[string]any
		if err := json.Unmarshal([]byte(r.Stdout), &any); err != nil {
			t.Fatal(err)
		}
		checkKeys(t, "", any)
		if a.Backend != launch.BackendLandlock || a.Mode != policy.WorkspaceWrite || string(a.Worktree) != work.Dir {
			t.Errorf("--explain --json: %+v", a)
		}
		for _, want := range []string{work.Dir, repo.Dir + "/.git/objects", repo.Dir + "/.git/worktrees/beside", s.outside} {
			if !slices.ContainsFunc(a.Rules, func(r launch.Rule) bool { return string(r.Path) == want && slices.Contains(r.Access, "write") }) {
				t.Errorf("--explain --json has no write rule for %s", want)
			}
		}
		if r := testenv.Run(t, s.launch("--backend", "landlock", "--rw-create", create, "--explain", work.Dir)); r.Code != 0 || !strings.Contains(r.Stdout, create) {
			t.Errorf("--rw-create %s --explain: %v; want it to be named", create, r)
		}
		before.same(t, snapshot(t, s.base))

		// The run itself has the same rules, and makes what is missing.
		cmd := s.launch("--backend", "landlock", "--rw", s.outside, "--status-fd", "3", work.Dir, "true")
		record := s.status(cmd)
		if r := testenv.Run(t, cmd); r.Code != 0 {
			t.Fatal(r)
		}
		var applied launch.Applied
		b, err := json.Marshal(record()[0])
		if err == nil {
			err = json.Unmarshal(b, &applied)
		}
		if err != nil {
			t.Fatal(err)
		}
		explained := map[string]bool{}
		for _, rule := range a.Rules {
			explained[string(rule.Path)] = true
		}
		for _, rule := range applied.Rules {
			if !explained[string(rule.Path)] {
				t.Errorf("the run has a rule for %s, which --explain didn't name", rule.Path)
			}
		}
	})
}

// TestExplainUnmet: the exit code says whether the command would be started.
func TestExplainUnmet(t *testing.T) {
	s := newStage(t, testenv.Self())
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--backend", "landlock", "--require", "metadata", "--explain", "."}, 125, "would not be started"},
		{[]string{"--backend", "landlock", "--require", "metadata", "--explain", "--json", "."}, 125, `"unmet"`},
		{[]string{"--require", "signals", "--explain", "."}, 0, "signals"},
		{[]string{"--explain", "nonexistent"}, 125, ""},
		{[]string{"--explain", "--json", "nonexistent"}, 125, ""},
		{[]string{"--explain"}, 125, ""},
		{[]string{"--mode", "unconfined", "--explain", "."}, 0, "unconfined"},
		{[]string{"--mode", "read-only", "--explain", "."}, 0, "read-only"},
	} {
		r := testenv.Run(t, s.launch(tt.args...))
		if r.Code != tt.code || !strings.Contains(r.Stdout, tt.says) {
			t.Errorf("%q: %v; want exit %d and %q", tt.args, r, tt.code, tt.says)
		}
		if says := ownOutput(t, r); (tt.says == "") != (says.err != "") {
			t.Errorf("%q says %q", tt.args, says.err)
		}
	}
}

// TestVersion: one line, also where there is no worktree.
func TestVersion(t *testing.T) {
	s := newStage(t, testenv.Self())
	r := testenv.Run(t, s.launch("--version"))
	if !regexp.MustCompile(`^shofer-sandbox \S+ go1\S+ linux/\w+\n$`).MatchString(r.Stdout) || r.Code != 0 || r.Stderr != "" {
		t.Errorf("--version: %v", r)
	}
}

var optionName = regexp.MustCompile(`--[a-z][a-z-]*`)

// TestHelp: it names every option there is, and none that there isn't.
func TestHelp(t *testing.T) {
	s := newStage(t, testenv.Self())
	r := testenv.Run(t, s.launch("--help"))
	if short := testenv.Run(t, s.launch("-h")); r.Code != 0 || r.Stderr != "" || short.Stdout != r.Stdout {
		t.Errorf("--help: %v\n-h: %v", r, short)
	}
	// What an option's own line begins with, or the one with three of them.
	documented := map[string]bool{}
	for line := range strings.Lines(r.Stdout) {
		if strings.HasPrefix(line, "  --") {
			for _, name := range optionName.FindAllString(strings.SplitN(line, "   ", 2)[0], -1) {
				documented[name[2:]] = true
			}
		}
		if len(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("--help: a line is longer than a terminal: %s", line)
		}
	}
	defined := s.definedOptions()
	for name := range defined {
		if !documented[name] && !innerOptions[name] {
			t.Errorf("--help doesn't say what --%s is", name)
		}
	}
	for name := range documented {
		if !defined[name] {
			t.Errorf("--help names --%s, which there isn't", name)
		}
	}
	for _, code := range []string{"125", "126", "127", "128"} {
		if !strings.Contains(r.Stdout, code) {
			t.Errorf("--help doesn't say what exit status %s means", code)
		}
	}
}

// innerOptions are those by which the launcher starts itself again.
var innerOptions = map[string]bool{"guard-fd": true, "guard-policy": true, "shofer-scope-fd": true}

// definedOptions returns the launcher's options: of all words in its source
// those that it doesn't call unknown.
func (s *stage) definedOptions() map[string]bool {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.ModuleRoot(s.t), "internal", "launcher", "*.go"))
	if err != nil {
		s.t.Fatal(err)
	}
	defined, tried := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			name, err := strconv.Unquote(lit.Value)
			if err != nil || tried[name] || optionName.FindString("--"+name) != "--"+name {
				return true
			}
			tried[name] = true
			if r := testenv.Run(s.t, s.launch("--"+name)); !strings.Contains(r.Stderr, "unknown option") && !strings.Contains(r.Stderr, "not available") {
				defined[name] = true
			}
			return true
		})
	}
	if len(defined) < 10 {
		s.t.Fatalf("of %d words only these are options: %v", len(tried), defined)
	}
	return defined
}

// TestOutputClosed: what can't be printed is an error.
func TestOutputClosed(t *testing.T) {
	s := newStage(t, testenv.Self())
	for _, arg := range []string{"--help", "--version"} {
		r := testenv.Run(t, s.command("sh", "-c", `"$@" >/dev/full`, "sh", s.launcher, arg))
		if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "no space left") {
			t.Errorf("%s >/dev/full: %v; want exit 125 and the reason", arg, r)
		}
	}
	var out bytes.Buffer
	cmd := s.command("sh", "-c", `"$@" <&- >&- 2>&-`, "sh", s.launcher, ".", "--", "sh", "-c", ": >ran")
	cmd.Stdout = &out
	if r := testenv.Run(t, cmd); r.Code != 0 || s.must("ls") != "ran\n" {
		t.Errorf("with 0, 1 and 2 closed: %v; want the command to run", r)
	}
}
