package launcher

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// explain prints what a run would be granted and runs nothing. Its exit code
// tells whether the command would be started.
func explain(o *options) int {
	a, err := launch.Explain(o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap, TryScope: true})
	if err != nil {
		return fail(nil, o.inOptions(err))
	}
	code := 0
	if len(a.Unmet) > 0 {
		code = launch.ExitSetup
	}
	if o.json {
		b, err := json.MarshalIndent(a, "", "  ")
		if err != nil {
			return fail(nil, err)
		}
		if c := print(string(b) + "\n"); c != 0 {
			return c
		}
		return code
	}
	if c := print(text(a)); c != 0 {
		return c
	}
	return code
}

// text is the form for people.
func text(a *launch.Applied) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mode         %s\n", a.Mode)
	if a.Worktree != "" {
		fmt.Fprintf(&b, "worktree     %s\n", a.Worktree)
	}
	fmt.Fprintf(&b, "enforcement  %s, by %s\n", a.Enforcement, a.Backend)
	kernel := fmt.Sprintf("Linux %s, Landlock ABI %d", a.Kernel.Release, a.Kernel.LandlockABI)
	if a.Kernel.Why != "" {
		kernel = fmt.Sprintf("Linux %s: %s", a.Kernel.Release, a.Kernel.Why)
	}
	fmt.Fprintf(&b, "kernel       %s\n", kernel)
	if a.Cache != "" {
		fmt.Fprintf(&b, "cache        %s\n", a.Cache)
	}

	for i, dir := range a.Cgroup {
		name := "groups in"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(&b, "%-12s %s\n", name, dir)
	}

	b.WriteString("\npromises\n")
	table(&b, len(a.Features), func(i int) []string {
		f := a.Features[i]
		var text []string
		if f.By != "" {
			text = append(text, "by "+f.By)
		}
		if f.Why != "" {
			text = append(text, f.Why)
		}
		return []string{string(f.Promise), string(f.State), strings.Join(text, ": ")}
	})
	for _, f := range a.Features {
		if f.State == policy.Absent && f.Mend != "" {
			fmt.Fprintf(&b, "  to have %s: %s\n", f.Promise, f.Mend)
		}
	}

	b.WriteString("\ngranted\n")
	table(&b, len(a.Rules), func(i int) []string {
		r := a.Rules[i]
		return []string{r.Path.String(), strings.Join(r.Access, ","), string(r.Origin)}
	})

	if len(a.Env) > 0 {
		b.WriteString("\nenvironment\n")
		for _, e := range a.Env {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	if len(a.Notes) > 0 {
		b.WriteString("\nnotes\n")
		for _, n := range a.Notes {
			fmt.Fprintf(&b, "  %s: %s\n", n.Code, n.Text)
			if n.Hint != "" {
				fmt.Fprintf(&b, "    hint: %s\n", n.Hint)
			}
		}
	}
	if len(a.Unmet) > 0 {
		fmt.Fprintf(&b, "\nThe command would not be started: this machine can't hold what is required: %v\n", a.Unmet)
	}
	return b.String()
}

// table writes n rows in aligned columns.
func table(b *strings.Builder, n int, row func(int) []string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range n {
		fmt.Fprintf(w, "  %s\n", strings.Join(row(i), "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
}
