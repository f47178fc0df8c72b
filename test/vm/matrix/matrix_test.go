package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// Each kernel that is required meets each setup that users have.
func TestTable(t *testing.T) {
	cells := table()
	names, boots := map[string]bool{}, 0
	for _, c := range cells {
		if names[c.name] {
			t.Errorf("two cells are called %q", c.name)
		}
		names[c.name] = true
		if !c.host() {
			boots++
		}
		if _, ok := kernelFacts[c.kernel]; !ok && !c.host() {
			t.Errorf("%s: nothing is known of the kernel %s", c.name, c.kernel)
		}
	}
	if boots > maxBoots {
		t.Errorf("%d boots; want at most %d", boots, maxBoots)
	}
	setups := map[string]func(c cell) bool{
		"root":                    func(c cell) bool { return c.as == "" },
		"user":                    func(c cell) bool { return c.as == "user" },
		"lsm off with bwrap":      func(c cell) bool { return c.append == withoutLandlock && c.pre == nil },
		"lsm off without bwrap":   func(c cell) bool { return c.append == withoutLandlock && slices.Contains(c.pre, withoutBwrap) },
		"user namespaces: ENOSPC": func(c cell) bool { return slices.Contains(c.pre, usernsENOSPC) },
		"user namespaces: EPERM":  func(c cell) bool { return slices.Contains(c.pre, usernsEPERM) },
		"a delegated v2 tree":     func(c cell) bool { return c.delegate },
		"hybrid cgroups":          func(c cell) bool { return c.cgroup == "hybrid" },
		"a systemd login session": func(c cell) bool { return c.as == "session" && c.init == "systemd" },
		"whole as root":           func(c cell) bool { return c.as == "" && c.whole },
		"whole as a user":         func(c cell) bool { return c.as == "user" && c.whole },
		"what must confine":       func(c cell) bool { return c.confines },
		"what must refuse":        func(c cell) bool { return !c.confines },
	}
	for _, kernel := range []string{"6.1", "6.12"} {
		for name, is := range setups {
			if !slices.ContainsFunc(cells, func(c cell) bool { return c.kernel == kernel && (c.required || c.more && c.whole) && is(c) }) {
				t.Errorf("kernel %s has no required cell with %s", kernel, name)
			}
		}
	}
	for _, kernel := range []string{"5.10", "6.18", "new"} {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.kernel == kernel && !c.required && !c.more }) {
			t.Errorf("kernel %s has no wanted cell", kernel)
		}
	}
	hosts := 0
	for _, c := range cells {
		if c.host() && c.container == nil {
			hosts++
		}
	}
	if want := 6 * 2 * 2; hosts != want {
		t.Errorf("%d cells on this machine; want %d", hosts, want)
	}
}

func TestWants(t *testing.T) {
	for _, tt := range []struct {
		name     string
		wants    []string
		confines bool
	}{
		{"6.1 user", []string{"kernel=6.1.*", "landlock=2", "userns=yes", "bwrap=yes", "cgroups=v2", "uid=1000"}, true},
		{"6.12 root", []string{"kernel=6.12.*", "landlock=6", "uid=0"}, true},
		{"6.12 lsm off, no bwrap", []string{"landlock=EOPNOTSUPP", "userns=yes", "bwrap=no"}, false},
		{"6.12 userns EPERM", []string{"userns=EPERM", "bwrap=exit*"}, true},
		{"5.10 user", []string{"landlock=ENOSYS"}, true},
		{"6.12 user unit", []string{"delegated=yes", "bus=yes"}, true},
		{"host abi 4 no-bwrap userns-ENOSPC", []string{"landlock=4", "bwrap=no", "userns=ENOSPC"}, true},
		{"host abi off", []string{"landlock=EOPNOTSUPP", "userns=yes"}, true},
	} {
		i := slices.IndexFunc(table(), func(c cell) bool { return c.name == tt.name })
		if i < 0 {
			t.Errorf("no cell is called %q", tt.name)
			continue
		}
		c := table()[i]
		for _, w := range tt.wants {
			if !slices.Contains(c.wants, w) {
				t.Errorf("%s wants %q; not %s", c.name, c.wants, w)
			}
		}
		if c.confines != tt.confines {
			t.Errorf("%s: confines = %v; want %v", c.name, c.confines, tt.confines)
		}
	}
}

// The lists of packages name none that isn't there, and each once.
func TestSuites(t *testing.T) {
	root := testenv.ModuleRoot(t)
	seen := map[string]bool{}
	for _, s := range suites {
		if seen[s.pkg] {
			t.Errorf("%s is listed twice", s.pkg)
		}
		seen[s.pkg] = true
		if (s.skip+s.run == "") != (s.why == "") {
			t.Errorf("%s: what is left out has a reason, and only that", s.pkg)
		}
		for _, p := range s.programs {
			if _, err := os.Stat(filepath.Join(root, p)); err != nil {
				t.Errorf("%s: %v", s.pkg, err)
			}
		}
	}
	for pkg, why := range leftOut {
		if seen[pkg] || why == "" {
			t.Errorf("%s is listed twice, or left out without a reason", pkg)
		}
	}
	var b builds
	b.match("example.com/m/landlock example.com/m\nexample.com/m/new/one example.com/m\nexample.com/m/bench example.com/m\n")
	if len(b.suites) != 1 || b.suites[0].pkg != "landlock" || !slices.Equal(b.unlisted, []string{"new/one"}) {
		t.Errorf("match = %v, unlisted %q; want landlock, and new/one unlisted", b.suites, b.unlisted)
	}
}

func TestResultRead(t *testing.T) {
	const output = "kernel=6.1.0-57-cloud-amd64\n" +
		markBegin + "landlock\n" +
		"\x16=== RUN   TestA\n\x16--- PASS: TestA (0.01s)\n" +
		"--- FAIL: TestFake (0.01s)\n" + // of a test's own output
		"\x16=== RUN   TestB\n\x16=== RUN   TestB/x\n\x16--- FAIL: TestB/x (0.00s)\n\x16--- FAIL: TestB (0.00s)\n" +
		"\x16=== RUN   TestC\n    c_test.go:7: needs npm as root\n\x16--- SKIP: TestC (0.00s)\n" +
		"\n" + markEnd + "landlock 1\n"
	for _, tt := range []struct {
		name, output            string
		status                  int
		passed, failed, skipped int
		problems                []string
	}{
		{"tests", output, 1, 1, 1, 1, []string{"landlock TestB/x", "landlock TestB", "landlock exits with 1"}},
		{"cut", output[:strings.Index(output, "\n"+markEnd)], 124, 1, 1, 1, []string{"landlock TestB/x", "landlock TestB", "landlock did not end; vmrun's exit status is 124"}},
		{"probe", "kernel=6.1\nprobe: landlock is \"2\"; want \"6\"\n", 1, 0, 0, 0, []string{"probe: landlock is \"2\"; want \"6\""}},
		{"boot", "vmrun: error: no sign from the guest after 30s\n", 125, 0, 0, 0, []string{"vmrun: error: no sign from the guest after 30s"}},
		{"nothing", "kernel=6.1\n", 0, 0, 0, 0, []string{"no test passed"}},
		{"killed", "kernel=6.1\n", 143, 0, 0, 0, []string{"exit status 143"}},
	} {
		var r result
		r.read(tt.output, tt.status)
		if r.passed != tt.passed || r.failed != tt.failed || r.skipped != tt.skipped || !slices.Equal(r.problems, tt.problems) {
			t.Errorf("%s: read = %d passed, %d failed, %d skipped, %q; want %d, %d, %d, %q",
				tt.name, r.passed, r.failed, r.skipped, r.problems, tt.passed, tt.failed, tt.skipped, tt.problems)
		}
	}
	var r result
	r.read(output, 1)
	if r.release != "6.1.0-57-cloud-amd64" || r.skips["landlock TestC"] != "needs npm as root" {
		t.Errorf("release %q, skips %q", r.release, r.skips)
	}
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		r    result
		ok   bool
		says string
	}{
		{result{cell: cell{name: "good"}, passed: 1}, true, "good"},
		{result{cell: cell{name: "bad"}, problems: []string{"spawn TestX"}}, false, "FAILED: bad\n  spawn TestX"},
		{result{cell: cell{name: "gone"}, missing: "no package"}, true, "not run: gone: no package"},
		{result{cell: cell{name: "needed", required: true}, missing: "no package"}, false, "MISSING, and required"},
		{result{cell: cell{name: "skips"}, passed: 1, skips: map[string]string{"a TestB": "no npm"}}, true, "no npm\n      a TestB, in 1 cells"},
	} {
		var out strings.Builder
		if ok := report(&out, []result{tt.r}, &builds{}, 0, true); ok != tt.ok || !strings.Contains(out.String(), tt.says) {
			t.Errorf("report of %s = %v; want %v and %q in\n%s", tt.r.name, ok, tt.ok, tt.says, &out)
		}
	}
}

// The script is one that a shell takes, and its marks are those that read looks
// for.
func TestScript(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"bin/probe": "#!/bin/sh\necho kernel=9 \"$@\"\n",
		"bin/a-b.test": "#!/bin/sh\n[ \"$SHOFER_TEST_CONFINES\" = yes ] || exit 9\n" +
			"pwd; go; echo \"$@\"; printf '\\026--- PASS: TestA (0.0s)\\n'\n",
		"bin/c.test":  "#!/bin/sh\nprintf 'cut'\nexit 3\n",
		"stand-in/go": "#!/bin/sh\necho stand-in\n",
		"a/b/x":       "", "c/x": "",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := cell{name: "it's one", confines: true, wants: []string{"kernel=9*"}}
	script := c.script(root, []suite{{pkg: "a/b", core: true, skip: "^(X|Y)$", programs: []string{"p"}}, {pkg: "c", core: true}, {pkg: "d"}})
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err == nil {
		t.Errorf("the script of a failing test exits with 0")
	}
	for _, want := range []string{"kernel=9 -want kernel=9*\n", root + "/a/b\nstand-in\n", "-test.skip=^(X|Y)$\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the script writes %q; want %q in it", out, want)
		}
	}
	var r result
	r.read(string(out), 1)
	if want := []string{"c exits with 3"}; r.passed != 1 || !slices.Equal(r.problems, want) {
		t.Errorf("read of %q = %d passed, %q; want 1, %q", out, r.passed, r.problems, want)
	}
}

// Root's cells leave out what the user's run.
func TestScriptOfRoot(t *testing.T) {
	all := []suite{{pkg: "a", core: true, skip: "^X$"}, {pkg: "b", core: true}}
	for _, tt := range []struct {
		c    cell
		want [2]string
	}{
		{cell{kernel: "6.1"}, [2]string{" -test.skip='^X$|/^uid1000$|//^uid1000$')", " -test.skip='^$|/^uid1000$|//^uid1000$')"}},
		{cell{kernel: "6.1", as: "user"}, [2]string{" -test.skip='^X$')", " -test.skip='^$')"}},
		{cell{}, [2]string{" -test.skip='^X$')", " -test.skip='^$')"}},
	} {
		script := tt.c.script("/x", all)
		for _, want := range tt.want {
			if !strings.Contains(script, want) {
				t.Errorf("script of %+v has no %q:\n%s", tt.c, want, script)
			}
		}
	}
}

func TestStandIn(t *testing.T) {
	dir := t.TempDir()
	stand := filepath.Join(dir, "go")
	if err := os.Mkdir(filepath.Join(dir, "programs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{stand: string(standIn), filepath.Join(dir, "programs/tool"): "program"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "out")
	if out, err := exec.Command(stand, "build", "-buildvcs=false", "-o", to, "../x/tool").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	if b, err := os.ReadFile(to); err != nil || string(b) != "program" {
		t.Errorf("build made %q, %v", b, err)
	}
	if exec.Command(stand, "test", "./...").Run() == nil {
		t.Error("the stand-in ran tests")
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-j", "0"}, {"-run", "("}, {"-nope"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("parse(%q) = nil; want an error", args)
		}
	}
	o, err := parse([]string{"-vm=false", "-run", "abi 3"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.choose(table()); len(got) != 4 {
		t.Errorf("choose = %d cells; want the 4 of ABI 3 on this machine", len(got))
	}
	for _, tt := range []struct {
		args []string
		more bool
	}{{nil, false}, {[]string{"-all"}, true}, {[]string{"-run", "^6.18"}, true}} {
		o, err := parse(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(o.choose(table()), func(c cell) bool { return c.more }); got != tt.more {
			t.Errorf("with %q cells called more are chosen: %v; want %v", tt.args, got, tt.more)
		}
	}
}

func TestLastPanic(t *testing.T) {
	const output = "a\n[  1.0] Kernel panic - not syncing: x\r\n[ 1.1] more\n"
	if got := lastPanic([]byte(output)); got != "Kernel panic - not syncing: x" {
		t.Errorf("lastPanic = %q", got)
	}
	if crashed([]byte(output), nil) {
		t.Error("a command that was not started is a crash")
	}
}
