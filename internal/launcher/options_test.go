package launcher

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestParse(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	here := policy.Path(dir)
	o, err := parse([]string{
		"--mode", "read-only", "--read", "system", "--read=sub", "--connect-tcp", "443,80", "--bind-tcp", "none",
		"--env", "A=b", "--env=C=d=e", "--unsetenv", "X", "--caps", "none", "--require", "protect", "--best-effort",
		"--status-fd", "5", "--keep-fd", "7", "--keep-fd", "8", "--chdir", "/x", "--new-session", "wt", "--", "cmd", "--mode", "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := o.policy
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"mode", p.Mode, policy.ReadOnly},
		{"worktree", p.Worktree, here + "/wt"},
		{"command", strings.Join(o.command, "|"), "cmd|--mode|x"},
		{"env", strings.Join(p.Env.Set, "|"), "A=b|C=d=e"},
		{"unset", strings.Join(p.Env.Unset, "|"), "X"},
		{"status-fd", o.statusFD, 5},
		{"chdir", o.chdir, "/x"},
		{"new-session", o.newSession, true},
		{"best-effort", p.BestEffort, true},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %v; want %v", tt.what, tt.got, tt.want)
		}
	}
	if want := []policy.Path{policy.ReadSystem, here + "/sub"}; !slices.Equal(p.Read, want) {
		t.Errorf("read = %v; want %v", p.Read, want)
	}
	if !slices.Equal(p.Network.ConnectTCP, []uint16{443, 80}) || p.Network.BindTCP == nil || len(p.Network.BindTCP) != 0 || p.Network.BindUDP != nil {
		t.Errorf("network = %+v; want connect 443, 80, bind nothing by TCP, UDP unlimited", p.Network)
	}
	if !slices.Equal(o.keepFDs, []int{7, 8}) || !slices.Equal(p.Caps, []string{"none"}) || !slices.Equal(p.Require, []policy.Promise{policy.PromiseProtect}) {
		t.Errorf("keep-fd %v, caps %v, require %v", o.keepFDs, p.Caps, p.Require)
	}
}

func TestParseForms(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		command string
	}{
		{[]string{"/w", "true"}, "true"},
		{[]string{"/w", "--", "true"}, "true"},
		{[]string{"/w", "--", "--odd"}, "--odd"},
		{[]string{"--", "/w", "true", "--", "x"}, "true|--|x"},
		{[]string{"/w", "sh", "-c", "exit 3"}, "sh|-c|exit 3"},
	} {
		o, err := parse(tt.args)
		if err != nil || o.policy.Worktree != "/w" || strings.Join(o.command, "|") != tt.command {
			t.Errorf("parse(%q) = %+v, %v; want worktree /w, command %s", tt.args, o, err, tt.command)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct {
		args       []string
		want, hint string
	}{
		{nil, "the worktree directory is missing", "--help"},
		{[]string{""}, "the worktree directory is empty", "unset variable"},
		{[]string{"/"}, "the command is missing", "/ -- command"},
		{[]string{"/w", "--"}, "the command is missing", ""},
		{[]string{"/w", ""}, "the command is empty", "unset variable"},
		{[]string{"/w", "--rw", "x"}, `"--rw" comes after the worktree directory`, "before the directory"},
		{[]string{"--rv", "x", "/w", "true"}, "unknown option --rv", "--rw?"},
		{[]string{"-x", "/w", "true"}, "unknown option -x", "--help"},
		{[]string{"--connect", "1", "/w", "true"}, "unknown option --connect", "--connect-tcp?"},
		{[]string{"--memory", "1X", "/w", "true"}, "--memory 1X is not a size", "512M"},
		{[]string{"--memory", "0", "/w", "true"}, "--memory 0 leaves nothing", "leave it out"},
		{[]string{"--memory", "max", "/w", "true"}, "--memory max is not a size", ""},
		{[]string{"--swap", "-1", "/w", "true"}, "--swap -1 is not a size", ""},
		{[]string{"--memory", "9999999T", "/w", "true"}, "--memory 9999999T is too large a size", ""},
		{[]string{"--pids", "many", "/w", "true"}, "--pids many is not a whole number", ""},
		{[]string{"--cpus", "0", "/w", "true"}, "--cpus 0: not a number of processors", "1.5"},
		{[]string{"--cpus", "NaN", "/w", "true"}, "--cpus NaN", ""},
		{[]string{"--io-read", "/dev/x", "/w", "true"}, "--io-read /dev/x: not a rate", "/dev/sda:10M"},
		{[]string{"--io-write", ":1M", "/w", "true"}, "--io-write :1M: the device is empty", ""},
		{[]string{"--limits", "wanted", "/w", "true"}, "--limits wanted: no such choice", "best-effort"},
		{[]string{"--memry", "1G", "/w", "true"}, "unknown option --memry", "--memory?"},
		{[]string{"--rw"}, "option --rw needs a value", ""},
		{[]string{"--rw=", "/w", "true"}, "--rw is empty", "unset variable"},
		{[]string{"--explain=yes", "/w"}, "option --explain takes no value", ""},
		{[]string{"--status-fd", "1", "/w", "true"}, "--status-fd 1: not the number of a descriptor above 2", ""},
		{[]string{"--status-fd", "+5", "/w", "true"}, "--status-fd +5", ""},
		{[]string{"--keep-fd", "5", "--status-fd", "5", "/w", "true"}, "--keep-fd 5 is the descriptor of --status-fd", ""},
		{[]string{"--bind-tcp", "65536", "/w", "true"}, `--bind-tcp "65536" is not a port`, "65535"},
		{[]string{"--json", "/w", "true"}, "--json goes with --explain", "--status-fd"},
		{[]string{"--doctor", "--verify", "/w"}, "--doctor and --verify exclude each other", "run both"},
		{[]string{"--doctor", "--explain", "/w"}, "--explain has no effect with --doctor", "[worktree-dir]"},
		{[]string{"--bwrap", "/x", "--verify", "/w"}, "--bwrap has no effect with --verify", "<worktree-dir>"},
		{[]string{"--rw", "/x", "--verify", "/w"}, "--rw has no effect with --verify", "<worktree-dir>"},
		{[]string{"--verify", "/w", "--", "true"}, "--verify runs no command", "<worktree-dir>"},
		{[]string{"--doctor", "/w", "true"}, "--doctor runs no command", "[worktree-dir]"},
		{[]string{"--verify"}, "the worktree directory is missing", "--verify"},
		{[]string{"--doctor", ""}, "the worktree directory is empty", "unset variable"},
		{[]string{"--doctor=yes"}, "option --doctor takes no value", ""},
		{[]string{"--policy", "/nonexistent.json", "/w", "true"}, "policy file: open /nonexistent.json", ""},
	} {
		_, err := parse(tt.args)
		var setup *launch.SetupError
		if !errors.As(err, &setup) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(launch.Hint(err), tt.hint) {
			t.Errorf("parse(%q) = %v (hint: %s); want a SetupError with %q (hint: %s)", tt.args, err, launch.Hint(err), tt.want, tt.hint)
		}
	}
}

// The help has each option, and no other; and each is known by one of the
// three ways.
func TestUsage(t *testing.T) {
	var f flags
	var defined []string
	for _, name := range names {
		ways := 0
		for _, known := range []bool{f.toggle(new(options), name) != nil, f.value(name) != nil, f.list(name) != nil} {
			if known {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("--%s is known in %d ways; want one", name, ways)
		}
		defined = append(defined, "--"+name)
	}
	var listed []string
	for _, line := range strings.Split(usage, "\n") {
		if len(line) > 80 {
			t.Errorf("line is longer than 80 columns: %q", line)
		}
		if !strings.HasPrefix(line, "  -") {
			continue
		}
		for _, word := range strings.FieldsFunc(strings.SplitN(line+"  ", "   ", 2)[0], func(r rune) bool { return r == ' ' || r == ',' }) {
			if strings.HasPrefix(word, "--") {
				listed = append(listed, word)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(defined)
	if !slices.Equal(listed, defined) {
		t.Errorf("the help lists %v; want %v", listed, defined)
	}
}

// Nothing that parses leaves the worktree relative or the command empty.
func FuzzParse(f *testing.F) {
	f.Add("--rw\x00a\x00/w\x00--\x00true")
	f.Add("--policy\x00/nonexistent\x00/w\x00true")
	f.Add("--status-fd\x00999999999999\x00/w\x00true")
	f.Add("--env=A=b\x00--\x00w\x00true\x00-x")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		for i, a := range args {
			if strings.Contains(a, "policy") { // would read any file
				args[i] = "--mode"
			}
		}
		o, err := parse(args)
		if err != nil {
			var setup *launch.SetupError
			if !errors.As(err, &setup) {
				t.Errorf("parse(%q) = %v; want a SetupError", args, err)
			}
			return
		}
		if o.help || o.version || o.doctor && o.policy.Worktree == "" {
			return
		}
		if !filepath.IsAbs(string(o.policy.Worktree)) || !o.explain && !o.doctor && !o.verify && (len(o.command) == 0 || o.command[0] == "") {
			t.Errorf("parse(%q) = worktree %q, command %q", args, o.policy.Worktree, o.command)
		}
	})
}
