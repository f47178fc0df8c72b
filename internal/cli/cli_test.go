package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What makes one command alone makes the one of that name.
func TestRoot(t *testing.T) {
	var all []string
	for _, c := range (&program{}).root(nil).Commands() {
		all = append(all, c.Name())
	}
	names := slices.Sorted(slices.Values(commandNames))
	if slices.Sort(all); !slices.Equal(all, names) {
		t.Errorf("there are %q; want %q", all, names)
	}
	for _, name := range commandNames {
		got := (&program{}).root([]string{"-q", "--state", "run", name, "ps"}).Commands()
		if len(got) != 1 || got[0].Name() != name {
			t.Errorf("%s makes %d commands", name, len(got))
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"nosuch"}, {"--nosuch", "run"}, {"--", "run"}, {"__complete", "run", ""}} {
		if got := (&program{}).root(args).Commands(); len(got) != len(commandNames) && len(args) > 0 && args[0] != "--" {
			t.Errorf("%q makes %d commands", args, len(got))
		}
	}
	p := &program{state: "kept"}
	if p.root([]string{"--state", "x", "run"}); p.state != "" {
		t.Errorf("looking at the options set the state to %q", p.state)
	}
}

// TestHelpWidth: every help fits a terminal of 80 columns.
func TestHelpWidth(t *testing.T) {
	var see func(cmd *cobra.Command)
	see = func(cmd *cobra.Command) {
		var b strings.Builder
		cmd.SetOut(&b)
		help(cmd, nil)
		for line := range strings.Lines(b.String()) {
			// The usage stays on one line.
			if len(line) > 81 && !strings.HasPrefix(line, "Usage: ") {
				t.Errorf("the help of %s has a line of %d columns: %s", cmd.CommandPath(), len(line)-1, line)
			}
		}
		for _, c := range cmd.Commands() {
			see(c)
		}
	}
	see((&program{}).root(nil))
}

// TestFlagErrors: they name the option, and what is wrong with its value, once.
func TestFlagErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"run --timeout abc true", `--timeout: "abc" isn't a time, such as 90, 90s, 1m30s or none`},
		{"run --rw", "option --rw needs a value"},
		{"logs -n x id", `--tail: "x" isn't a whole number`},
		{"ps --all=maybe", `--all: "maybe" is neither true nor false`},
		{"start --ready-port 99999 true", "--ready-port: 99999 is out of range"},
		{"run --env A true", `--env: "A" isn't of the form NAME=VALUE`},
		{"run --timeot 3 true", "unknown option --timeot"},
	} {
		args := strings.Fields(tt.args)
		root := (&program{}).root(args)
		root.SetArgs(args)
		if err := root.Execute(); err == nil || err.Error() != tt.want {
			t.Errorf("runner %s: %v; want %s", tt.args, err, tt.want)
		}
	}
}
