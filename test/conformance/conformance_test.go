package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestMain(m *testing.M) {
	code := testenv.Main(m, nil)
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // nothing depends on it any more
	}
	os.Exit(code)
}

var buildDir string

// build builds this program, once, without the race detector.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "shofer-conformance-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	exe := filepath.Join(dir, "conformance")
	ctx, cancel := context.WithTimeout(context.Background(), conformTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", exe, "../conformance")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return exe, nil
})

// conform runs the program as u and returns its report on one launcher, and the
// exit code.
func conform(t *testing.T, u testenv.User, args ...string) (report, int) {
	t.Helper()
	reports, code := conformAll(t, u, args...)
	if len(reports) != 1 {
		t.Fatalf("%d reports; want 1", len(reports))
	}
	return reports[0], code
}

// conformTime bounds a run of the program, on slow machines too.
const conformTime = 10 * time.Minute

// conformAll is like conform, for any number of launchers.
func conformAll(t *testing.T, u testenv.User, args ...string) ([]report, int) {
	t.Helper()
	testenv.NeedTool(t, "go")
	exe, err := build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), conformTime)
	defer cancel()
	cmd := testenv.CommandContext(ctx, t, exe, append([]string{"--json", "--dir", u.Dir(t)}, args...)...)
	u.Apply(cmd)
	r := testenv.Run(t, cmd)
	var p printed
	if err := json.Unmarshal([]byte(r.Stdout), &p); err != nil {
		t.Fatalf("conformance %q: %v: %v", args, err, r)
	}
	return p.Reports, r.Code
}

// everything is what came of all launchers that the tests look at, by user: one
// run of the program, which tries everything without a sandbox only once.
var everything = map[testenv.User]map[string]report{}

const (
	nothing = "/usr/bin/env"
	own     = "shofer-sandbox"
)

// slow says that this is an emulated machine, on which less is tried.
var slow = os.Getenv("SHOFER_TEST_VM") != ""

// tryAll returns the reports for u, by the launchers' names.
func tryAll(t *testing.T, u testenv.User) map[string]report {
	t.Helper()
	if all, ok := everything[u]; ok {
		return all
	}
	names := []string{nothing}
	args := []string{"--launcher", nothing}
	for _, o := range ours {
		if slow && strings.Contains(o.options, "--backend") {
			continue
		}
		names = append(names, o.name)
		args = append(args, "--launcher", testenv.BuildLauncher(t)+" "+o.options+" {tree} --")
	}
	if !slow {
		names = append(names, peers[0].name)
		args = append(args, "--launcher", peers[0].command)
	}
	reports, code := conformAll(t, u, args...)
	if code != 0 || len(reports) != len(names) {
		t.Fatalf("exit %d, %d reports; want 0, %d", code, len(reports), len(names))
	}
	all := map[string]report{}
	for i, r := range reports {
		all[names[i]] = r
	}
	everything[u] = all
	return all
}

func (r result) String() string {
	return fmt.Sprintf("%s/%s is %s: %s", r.Family, r.Check, r.Verdict, r.Why)
}

// Without a sandbox every refusal is broken, and every control works.
func TestUnconfined(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r := tryAll(t, u)[nothing]
		tried, all := map[string]int{}, 0
		for _, x := range r.Results {
			want := broken
			if x.Kind == "control" {
				want = held
			}
			switch {
			case x.Verdict == want:
				tried[x.Family]++
				all++
			case x.Verdict != none || x.Why == "not tried":
				t.Errorf("without a sandbox %v", x)
			default:
				t.Log(x)
			}
		}
		for _, f := range families {
			// Containers let nobody mount, nor write to the kernel's files, and some
			// kernels let only root inject.
			if tried[f] == 0 && !slices.Contains([]string{"mount", "system", "terminal"}, f) {
				t.Errorf("nothing of %s could be tried", f)
			}
		}
		if all < 150 {
			t.Errorf("%d checks could be tried; want 150 or more", all)
		}
	})
}

// unborn are ways to plant what doesn't exist, or must be replaced: they are
// found afterwards, not refused.
var unborn = []string{"attributes", "info-swapped", "worktree-config", "repository-commondir", "other-worktree"}

// packed are what git can't do where the common folder isn't granted.
var packed = []string{"git-delete-branch", "git-pack-refs", "git-gc", "git-rebase"}

// promised reports whether a check is part of what the launcher promises, with
// what it says that it applies.
func promised(x result, said launch.Applied, supervised bool) bool {
	enforced := func(p policy.Promise) bool {
		return slices.ContainsFunc(said.Features, func(f policy.Feature) bool { return f.Promise == p && f.State == policy.Enforced })
	}
	switch x.Family {
	case "control":
		return !slices.Contains(packed, x.Check) || said.Backend != launch.BackendLandlock
	case "write", "detour", "mount", "system":
		return enforced(policy.PromiseWrite)
	case "signal":
		return enforced(policy.PromiseSignals)
	case "socket":
		if strings.HasPrefix(x.Check, "abstract") {
			return enforced(policy.PromiseAbstractSockets)
		}
		return enforced(policy.PromisePathSockets)
	case "git":
		return enforced(policy.PromiseProtect) && !slices.Contains(unborn, x.Check)
	case "lifetime":
		return supervised
	case "ipc":
		return false
	}
	return true
}

// What the launcher promises, with each backend, is held.
func TestLauncher(t *testing.T) {
	launcher := testenv.BuildLauncher(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		reports := tryAll(t, u)
		repo := u.NewRepo(t).WorktreeBeside()
		for _, o := range ours {
			r, ok := reports[o.name]
			if !ok {
				continue
			}
			t.Run(strings.TrimPrefix(o.name, own+" "), func(t *testing.T) {
				args := append([]string{"--explain", "--json"}, strings.Fields(o.options)...)
				explained := testenv.Run(t, repo.Command(launcher, append(args, repo.Dir)...))
				checkPromised(t, r, explained, strings.Contains(o.options, "--supervise"))
			})
		}
	})
}

// checkPromised holds a report against what the launcher says.
func checkPromised(t *testing.T, r report, explained testenv.Result, supervised bool) {
	t.Helper()
	if (r.Refused != "") != (explained.Code != 0) {
		t.Fatalf("it refused with %q, and --explain: %v", r.Refused, explained)
	}
	if r.Refused != "" {
		t.Logf("refused: %s", r.Refused)
		return
	}
	var said launch.Applied
	if err := json.Unmarshal([]byte(explained.Stdout), &said); err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Verdict == broken && promised(x, said, supervised) {
			t.Errorf("%v", x)
		}
	}
	t.Logf("%s: %d held, %d broken, %d n.a.", said.Backend, r.count(held), r.count(broken), r.count(none))
}

// Of bubblewrap it is known what it holds.
func TestBubblewrap(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		u.NeedTool(t, "bwrap")
		r := tryAll(t, u)[peers[0].name]
		if r.Refused != "" {
			t.Fatal(r.Refused)
		}
		want := map[string]verdict{
			"control/git-commit": held, "control/inside-rename-away": held, "control/not-found": broken,
			"write/open-wronly": held, "write/truncate": held, "write/rename-here": held, "detour/uring-openat": held,
			"descriptor/leaked-file": broken, "process/ptrace-attach": held, "signal/kill": held,
			"socket/abstract-connect": broken, "socket/path-connect": broken, "ipc/sysv-memory": held,
			"environment/GIT_DIR": broken, "git/hook": broken, "git/config": broken, "lifetime/launcher-killed": held,
		}
		for _, x := range r.Results {
			if v, ok := want[x.Family+"/"+x.Check]; ok && x.Verdict != v && x.Verdict != none {
				t.Errorf("%v; want %s", x, v)
			}
		}
	})
}

func TestExitCodes(t *testing.T) {
	u := testenv.Self()
	if r, code := conform(t, u, "--run", "^control/shell$", "--launcher", "/usr/bin/env"); code != 0 || len(r.Results) != 1 {
		t.Errorf("exit %d, %v; want 0", code, r)
	}
	if r, code := conform(t, u, "--run", "^git/hook$", "--launcher", "/usr/bin/env"); code != exitBroken || len(r.Results) != 1 {
		t.Errorf("exit %d, %v; want %d", code, r, exitBroken)
	}
	if r, code := conform(t, u, "--run", "^control/shell$", "--launcher", "/bin/false"); code != exitRefused || r.Refused == "" {
		t.Errorf("exit %d, %v; want %d", code, r, exitRefused)
	}
	for _, args := range [][]string{{"x"}, {"--run", "("}, {"--run", "^none$"}, {"--launcher", "'"}, {"--launcher", ""}} {
		exe, err := build()
		if err != nil {
			t.Fatal(err)
		}
		if r := testenv.Run(t, testenv.Command(t, exe, args...)); r.Code != exitUsage {
			t.Errorf("%q: %v; want exit %d", args, r, exitUsage)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"a b  c", []string{"a", "b", "c"}},
		{`a 'b c' "d\"e" f\ g ''`, []string{"a", "b c", `d"e`, "f g", ""}},
		{`'a\'`, []string{`a\`}},
		{"", nil},
	} {
		if got, err := split(tt.text); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("split(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"'a", `"a`, `a\`} {
		if got, err := split(text); err == nil {
			t.Errorf("split(%q) = %q; want an error", text, got)
		}
	}
}

func TestJudge(t *testing.T) {
	refusal, control := check{"f", "r", false}, check{"f", "c", true}
	for _, tt := range []struct {
		name         string
		c            check
		without, got outcome
		want         verdict
	}{
		{"refused", refusal, outcome{}, outcome{Err: "EACCES"}, held},
		{"done", refusal, outcome{}, outcome{}, broken},
		{"refused, and yet", refusal, outcome{}, outcome{Err: "EACCES", Effect: true}, broken},
		{"done elsewhere", refusal, outcome{Effect: true}, outcome{}, held},
		{"done", refusal, outcome{Effect: true}, outcome{Effect: true}, broken},
		{"can't be done", refusal, outcome{Err: "EPERM"}, outcome{Err: "EPERM"}, none},
		{"can be done only inside", refusal, outcome{Err: "EPERM"}, outcome{}, none},
		{"not here", refusal, outcome{Skip: "no disk"}, outcome{Skip: "no disk"}, none},
		{"not there inside", refusal, outcome{}, outcome{Skip: "no disk"}, held},
		{"lost", refusal, outcome{}, outcome{Lost: "gone"}, broken},
		{"works", control, outcome{}, outcome{}, held},
		{"doesn't work", control, outcome{}, outcome{Err: "EXDEV"}, broken},
		{"works nowhere", control, outcome{Err: "EXDEV"}, outcome{Err: "EXDEV"}, none},
	} {
		name := tt.c.String()
		if got := judge(tt.c, outcomes{name: tt.without}, outcomes{name: tt.got}); got.Verdict != tt.want {
			t.Errorf("%s %s: judge = %v; want %s", tt.c.kind(), tt.name, got, tt.want)
		}
	}
	if got := judge(refusal, outcomes{}, outcomes{}); got.Verdict != none {
		t.Errorf("judge of what was not tried = %v", got)
	}
}

// The checks have names of their own and known families.
func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allChecks() {
		if seen[c.String()] {
			t.Errorf("two checks are called %s", c)
		}
		seen[c.String()] = true
		if !slices.Contains(families, c.family) || c.control != (c.family == "control") {
			t.Errorf("%s is a %s of the family %s", c, c.kind(), c.family)
		}
	}
	if len(seen) < 120 {
		t.Errorf("%d checks; want 120 or more", len(seen))
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	reports := []report{
		{Launcher: "one", Results: []result{
			{"write", "a", "refusal", held, ""}, {"write", "b", "refusal", broken, ""}, {"git", "c", "refusal", none, "not here"},
		}},
		{Launcher: "two", Refused: "no namespaces"},
	}
	if err := print(&out, reports, options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"broken write/b: was done\n", "1 held, 1 broken, 1 n.a.", "runs nothing here: no namespaces", "write  1/1/0  -"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("print = %q; want %q in it", out.String(), want)
		}
	}
	if errors.Is(print(&out, reports, options{json: true}), errors.ErrUnsupported) {
		t.Error("no JSON")
	}
}
