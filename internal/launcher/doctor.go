package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// exitFound is the exit code of --doctor and --verify when they have looked,
// and found something.
const exitFound = 1

// doctor says what this machine holds. Its exit code is 0 only if that is
// every default promise.
func doctor(o *options) int {
	r, err := launch.Examine(context.Background(), string(o.policy.Worktree), launch.Options{Bwrap: o.bwrap})
	if err != nil {
		return fail(nil, err)
	}
	code := exitFound
	if r.Full() {
		code = 0
	}
	return printReport(o, r, reportText(r), code)
}

// printReport prints a value as JSON or its text, and returns code if that
// worked.
func printReport(o *options, v any, text string, code int) int {
	if o.json {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fail(nil, err)
		}
		text = string(b) + "\n"
	}
	if c := print(text); c != 0 {
		return c
	}
	return code
}

// reportText is the form for people.
func reportText(r *launch.Report) string {
	var b strings.Builder
	who := fmt.Sprintf("uid %d", os.Geteuid())
	fmt.Fprintf(&b, "kernel   Linux %s\nuser     %s\nbackend  %s\n", r.Kernel.Release, who, r.Backend)

	for _, usual := range []bool{true, false} {
		if usual {
			b.WriteString("\npromises of every run\n")
		} else {
			b.WriteString("\npromises on request\n")
		}
		var held []launch.Held
		for _, h := range r.Promises {
			if h.Default == usual {
				held = append(held, h)
			}
		}
		table(&b, len(held), func(i int) []string { return heldRow(held[i]) })
		for _, h := range held {
			if h.State != policy.Enforced && h.Mend != "" {
				fmt.Fprintf(&b, "  to have %s: %s\n", h.Promise, oneLine(h.Mend))
			}
		}
	}
	b.WriteString("\nmechanisms\n")
	checks(&b, r.Mechanisms)
	b.WriteString("\nthis machine\n")
	checks(&b, r.Checks)
	sockets(&b, r)
	if repo := r.Repo; repo != nil {
		b.WriteString("\nrepository\n")
		rows := [][]string{{"kind", string(repo.Kind)}, {"trusted", fmt.Sprint(repo.Trusted)}}
		for _, p := range []struct {
			name string
			path policy.Path
		}{{"worktree", repo.WorkTree}, {"git dir", repo.GitDir}, {"common dir", repo.CommonDir}} {
			if p.path != "" {
				rows = append(rows, []string{p.name, p.path.String()})
			}
		}
		if repo.Problem != nil {
			rows = append(rows, []string{"problem", oneLine(repo.Problem.Text)})
		}
		table(&b, len(rows), func(i int) []string { return rows[i] })
		if repo.Problem != nil && repo.Problem.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", oneLine(repo.Problem.Hint))
		}
	}
	if r.Full() {
		b.WriteString("\nThis machine holds every promise of every run.\n")
	} else {
		b.WriteString("\nThis machine doesn't hold every promise of every run.\n")
	}
	return b.String()
}

func heldRow(h launch.Held) []string {
	text := h.Why
	if h.State != policy.Absent {
		text = "by " + h.By
		if h.Why != "" {
			text += ": " + h.Why
		}
		if h.With != "" {
			text += ", with " + h.With
		}
		if h.Rest != "" {
			text += "; the rest " + h.Rest
		}
	}
	return []string{string(h.Promise), string(h.State), oneLine(text)}
}

func checks(b *strings.Builder, list []launch.Check) {
	table(b, len(list), func(i int) []string {
		return []string{list[i].Name, string(list[i].Grade), oneLine(list[i].Text)}
	})
	for _, c := range list {
		if c.Mend != "" {
			fmt.Fprintf(b, "  %s, mend: %s\n", c.Name, oneLine(c.Mend))
		}
	}
}

// sockets lists what leads to programs outside.
func sockets(b *strings.Builder, r *launch.Report) {
	held := false
	for _, h := range r.Promises {
		held = held || h.Promise == policy.PromisePathSockets && h.State == policy.Enforced
	}
	switch {
	case len(r.Sockets) == 0:
		b.WriteString("\nno well-known socket of a program outside is within reach of this user\n")
		return
	case held:
		b.WriteString("\nsockets within reach of this user, which commands can't connect to\n")
	default:
		b.WriteString("\nsockets within reach of this user, so that commands can escape by them\n")
	}
	table(b, len(r.Sockets), func(i int) []string { return []string{r.Sockets[i].What, r.Sockets[i].Path.String()} })
}

// oneLine keeps what others wrote from looking like lines of ours.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, s)
}
