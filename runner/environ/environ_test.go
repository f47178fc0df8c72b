package environ_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/environ"
)

// plain are layers without hardening.
func plain(l environ.Layers) environ.Layers {
	l.Hardening.Off = true
	return l
}

func TestLayers(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   environ.Layers
		want []string
	}{
		{"nothing", plain(environ.Layers{}), nil},
		{"ambient", plain(environ.Layers{Ambient: []string{"B=2", "A=1=1", "E="}}), []string{"B=2", "A=1=1", "E="}},
		{"the last of a name", plain(environ.Layers{Ambient: []string{"A=1", "B=2", "A=3"}}), []string{"B=2", "A=3"}},
		{"no entries", plain(environ.Layers{Ambient: []string{"", "A", "=C:=x", "B=2"}}), []string{"B=2"}},
		{
			"caller over ambient",
			plain(environ.Layers{Ambient: []string{"A=1", "B=2"}, Caller: []string{"A=3", "C=4"}}),
			[]string{"A=3", "B=2", "C=4"},
		},
		{"unset", plain(environ.Layers{Ambient: []string{"A=1", "B=2"}, Unset: []string{"A", "C"}}), []string{"B=2"}},
		{
			"unset and set",
			plain(environ.Layers{Ambient: []string{"A=1"}, Unset: []string{"A"}, Caller: []string{"A=2"}}),
			[]string{"A=2"},
		},
		{"scrubbed", plain(environ.Layers{Ambient: []string{"A=1", "MY_TOKEN=x"}}), []string{"A=1"}},
		{"the caller's credential", plain(environ.Layers{Ambient: []string{"MY_TOKEN=x"}, Caller: []string{"MY_TOKEN=y"}}), []string{"MY_TOKEN=y"}},
		{
			"managed is not inherited",
			plain(environ.Layers{Ambient: []string{"SHOFER_ID=old", "SHOFER_OLD=x", "A=1"}, Managed: []string{"SHOFER_ID=new"}}),
			[]string{"A=1", "SHOFER_ID=new"},
		},
		{
			"managed is not scrubbed",
			plain(environ.Layers{Managed: []string{"SHOFER_TOKEN=x"}}),
			[]string{"SHOFER_TOKEN=x"},
		},
		{
			"caller over hardening",
			environ.Layers{Hardening: environ.Hardening{Lift: guards}, Caller: []string{"CI=false", "FORCE_COLOR=1"}, Unset: hardenedBut("CI", "LANG")},
			[]string{"CI=false", "LANG=C.UTF-8", "FORCE_COLOR=1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, decisions, err := environ.Build(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) && len(got)+len(tt.want) > 0 {
				t.Errorf("Build() = %q; want %q", got, tt.want)
			}
			agree(t, got, decisions)
		})
	}
}

// agree fails t unless the last decision about each name is what happened.
func agree(t *testing.T, env []string, decisions []environ.Decision) {
	t.Helper()
	last := map[string]environ.Action{}
	for _, d := range decisions {
		last[d.Name] = d.Action
		if d.Reason == "" || d.Layer == "" {
			t.Errorf("decision without a reason or layer: %+v", d)
		}
	}
	seen := map[string]bool{}
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] {
			t.Errorf("bad entry for %q", name)
		}
		seen[name] = true
		if a := last[name]; a != environ.Kept && a != environ.Set {
			t.Errorf("%s is there; its last decision is %q", name, a)
		}
	}
	for name, a := range last {
		if a != environ.Dropped && !seen[name] {
			t.Errorf("%s is not there; its last decision is %q", name, a)
		}
	}
}

// hardened are the entries of an empty environment.
func hardened(t testing.TB, h environ.Hardening) []string {
	t.Helper()
	env, _, err := environ.Build(environ.Layers{Hardening: h})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

var guards = []string{
	"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL", "EDITOR", "GIT_TERMINAL_PROMPT",
	"GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "GCM_INTERACTIVE",
}

// hardenedBut are the names that hardening sets, except some.
func hardenedBut(except ...string) (names []string) {
	env, _, _ := environ.Build(environ.Layers{})
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.Contains(except, name) {
			names = append(names, name)
		}
	}
	return names
}

func value(env []string, name string) string {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			return v
		}
	}
	return "(unset)"
}

func TestGuards(t *testing.T) {
	var caller []string
	for _, name := range guards {
		caller = append(caller, name+"=mine")
	}
	env, decisions, err := environ.Build(environ.Layers{Caller: caller, Unset: []string{"GIT_TERMINAL_PROMPT"}})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, env, decisions)
	for _, name := range guards {
		if got := value(env, name); got == "mine" || got == "(unset)" {
			t.Errorf("%s = %q; want the guard's", name, got)
		}
		i := slices.IndexFunc(decisions, func(d environ.Decision) bool { return d.Name == name && d.Layer == environ.Guard })
		if i < 0 {
			t.Errorf("no decision says that the guard sets %s", name)
		}
	}
	for what, h := range map[string]environ.Hardening{
		"off": {Off: true}, "lifted": {Lift: guards}, "at a terminal": {Terminal: true},
	} {
		env, _, err := environ.Build(environ.Layers{Caller: caller, Hardening: h})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range guards {
			if got := value(env, name); got != "mine" {
				t.Errorf("%s: %s = %q; want the caller's", what, name, got)
			}
		}
	}
}

func TestHardening(t *testing.T) {
	env := hardened(t, environ.Hardening{})
	for name, want := range map[string]string{
		"PAGER": "cat", "GIT_PAGER": "cat", "AWS_PAGER": "", "LESS": "FRX", "TERM": "dumb", "NO_COLOR": "1", "CI": "true",
		"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS": "false", "DEBIAN_FRONTEND": "noninteractive", "EDITOR": environ.NoEditor,
	} {
		if got := value(env, name); got != want {
			t.Errorf("%s = %q; want %q", name, got, want)
		}
	}
	env = hardened(t, environ.Hardening{Terminal: true})
	for name, want := range map[string]string{
		"PAGER": "cat", "LESS": "FRX", "TERM": "xterm-256color", "NO_COLOR": "(unset)", "CI": "(unset)",
		"GIT_TERMINAL_PROMPT": "(unset)", "EDITOR": "(unset)",
	} {
		if got := value(env, name); got != want {
			t.Errorf("at a terminal %s = %q; want %q", name, got, want)
		}
	}
	env, decisions, err := environ.Build(environ.Layers{Ambient: []string{
		"BASH_ENV=/x", "ENV=/x", "FORCE_COLOR=3", "COLORTERM=truecolor", "GPG_TTY=/dev/pts/1", "TERM=xterm", "HOME=/h",
	}})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, env, decisions)
	for _, name := range []string{"BASH_ENV", "ENV", "FORCE_COLOR", "COLORTERM", "GPG_TTY"} {
		if got := value(env, name); got != "(unset)" {
			t.Errorf("%s = %q; want it dropped", name, got)
		}
	}
	if value(env, "TERM") != "dumb" || value(env, "HOME") != "/h" {
		t.Errorf("TERM, HOME = %q, %q", value(env, "TERM"), value(env, "HOME"))
	}
}

func TestLocale(t *testing.T) {
	for _, tt := range []struct {
		ambient    string
		name, want string
	}{
		{"", "LANG", "C.UTF-8"},
		{"LANG=", "LANG", "C.UTF-8"},
		{"LANG=de_DE.UTF-8", "LC_CTYPE", "(unset)"},
		{"LANG=de_DE.utf8", "LC_CTYPE", "(unset)"},
		{"LANG=C", "LC_CTYPE", "C.UTF-8"},
		{"LANG=de_DE", "LC_CTYPE", "C.UTF-8"},
		{"LANG=de_DE.UTF-8 LC_CTYPE=POSIX", "LC_CTYPE", "C.UTF-8"},
		{"LANG=C LC_CTYPE=en_US.UTF-8", "LC_CTYPE", "en_US.UTF-8"},
		{"LC_ALL=C LANG=de_DE.UTF-8", "LC_ALL", "C.UTF-8"},
		{"LC_ALL=fr_FR.UTF-8 LANG=C", "LC_ALL", "fr_FR.UTF-8"},
	} {
		env, _, err := environ.Build(environ.Layers{Ambient: strings.Fields(tt.ambient)})
		if err != nil {
			t.Fatal(err)
		}
		if got := value(env, tt.name); got != tt.want {
			t.Errorf("after %q %s = %q; want %q", tt.ambient, tt.name, got, tt.want)
		}
	}
}

func TestEntryErrors(t *testing.T) {
	for _, tt := range []struct {
		in    environ.Layers
		layer environ.Layer
		name  string
	}{
		{environ.Layers{Caller: []string{"SHOFER_ID=secret"}}, environ.Caller, "SHOFER_ID"},
		{environ.Layers{Caller: []string{"secret"}}, environ.Caller, ""},
		{environ.Layers{Caller: []string{"=secret"}}, environ.Caller, ""},
		{environ.Layers{Caller: []string{"A=secret\x00B"}}, environ.Caller, "A"},
		{environ.Layers{Unset: []string{"SHOFER_ID"}}, environ.Caller, "SHOFER_ID"},
		{environ.Layers{Unset: []string{""}}, environ.Caller, ""},
		{environ.Layers{Managed: []string{"ID=secret"}}, environ.Namespace, "ID"},
		{environ.Layers{Managed: []string{"SHOFER_=secret"}}, environ.Namespace, "SHOFER_"},
		{environ.Layers{Managed: []string{"SHOFER_ID"}}, environ.Namespace, ""},
	} {
		env, _, err := environ.Build(tt.in)
		var e *environ.EntryError
		if !errors.As(err, &e) || e.Layer != tt.layer || e.Name != tt.name || env != nil {
			t.Errorf("Build(%+v) = %q, %#v; want an EntryError of %s %q", tt.in, env, err, tt.layer, tt.name)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the value: %v", err)
		}
	}
}

// Build neither changes nor keeps what it is given.
func TestBuildIsPure(t *testing.T) {
	in := func() environ.Layers {
		return environ.Layers{
			Ambient: []string{"A=1", "A=2", "X_TOKEN=t", "SHOFER_X=1"}, Caller: []string{"B=1"}, Managed: []string{"SHOFER_A=1"},
			Scrub: environ.Scrub{Allow: []string{"a"}}, Hardening: environ.Hardening{Lift: []string{"CI"}},
		}
	}
	l, want := in(), fmt.Sprintf("%+v", in())
	first, _, err := environ.Build(l)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(first, "\n")
	for i := range first {
		first[i] = "changed"
	}
	second, _, err := environ.Build(l)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", l); got != want {
		t.Errorf("Build changed its argument to %s", got)
	}
	if strings.Join(second, "\n") != text {
		t.Errorf("Build() = %q the second time; want %q", second, text)
	}
}

// With the environment git says why it can't start an editor, asks nobody for a
// password and starts no pager.
func TestGit(t *testing.T) {
	testenv.NeedTool(t, "git")
	env, _, err := environ.Build(environ.Layers{
		Ambient: append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null"),
		Caller:  []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	run := func(script string) testenv.Result {
		cmd := testenv.Command(t, "sh", "-c", script)
		cmd.Dir, cmd.Env = dir, slices.Concat(env, cmd.Env[len(cmd.Env)-1:])
		return testenv.Run(t, cmd)
	}
	if r := run("git init -q && git commit -q --allow-empty"); r.Code == 0 || !strings.Contains(r.Stderr, "there is no editor in an unattended run") {
		t.Errorf("git commit without a message: %v", r)
	}
	if r := run("GIT_EDITOR='echo subject >' git commit -q --allow-empty && git --paginate log --format=%s"); r.Stdout != "subject\n" {
		t.Errorf("git commit with an editor of the command's own: %v", r)
	}
	if r := run("printf 'protocol=https\nhost=example.invalid\n' | git -c credential.helper= credential fill"); r.Code == 0 || !strings.Contains(r.Stderr, "prompts disabled") {
		t.Errorf("git credential fill: %v", r)
	}
}

func BenchmarkBuild(b *testing.B) {
	l := environ.Layers{Managed: []string{"SHOFER_ID=x"}, Caller: []string{"A=b"}}
	for i := range 60 {
		l.Ambient = append(l.Ambient, fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("/usr/lib/x:", 10)))
	}
	for b.Loop() {
		if _, _, err := environ.Build(l); err != nil {
			b.Fatal(err)
		}
	}
}
