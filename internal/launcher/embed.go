package launcher

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Option is an option of the launcher, for programs that take the same ones.
type Option struct {
	Name string
	// Value is what its value is called, as "PATH"; empty if it takes none.
	Value string
	Text  string
}

// OptionGroup is a section of the help.
type OptionGroup struct {
	Title   string
	Options []Option
}

// Options returns the options that the help has, one by one.
func Options() (groups []OptionGroup) {
	const indent, column = "  ", 25
	var last *Option
	for line := range strings.Lines(usage) {
		line = strings.TrimSuffix(line, "\n")
		switch rest, ok := strings.CutPrefix(line, indent); {
		case ok && strings.HasPrefix(rest, "--"):
			head, text, _ := strings.Cut(rest, "  ")
			name, value, _ := strings.Cut(head, " ")
			g := &groups[len(groups)-1]
			g.Options = append(g.Options, Option{strings.Trim(name, "-,"), value, strings.TrimSpace(text)})
			last = &g.Options[len(g.Options)-1]
		case last != nil && len(line) > column && strings.TrimSpace(line[:column]) == "":
			last.Text = strings.TrimSpace(last.Text + " " + line[column:])
		case strings.HasSuffix(line, ":") && !ok:
			groups = append(groups, OptionGroup{Title: line})
			last = nil
		default:
			last = nil
		}
	}
	return withOptions(groups)
}

// withOptions leaves out the sections without options.
func withOptions(groups []OptionGroup) (some []OptionGroup) {
	for _, g := range groups {
		if len(g.Options) > 0 {
			some = append(some, g)
		}
	}
	return some
}

// Policy reads options of the launcher that say what a command may do and by
// which backend that is held. The policy has no worktree, unless a policy file
// has one. Errors are [*launch.SetupError].
func Policy(args []string) (policy.Policy, launch.Options, error) {
	o := newOptions()
	var f flags
	rest, err := f.scan(o, args)
	if err == nil && len(rest) > 0 {
		err = usageError("not an option: "+rest[0], "")
	}
	if err == nil {
		err = f.apply(o)
	}
	return o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap, TraceDenials: o.trace}, err
}
