package launcher

import (
	"fmt"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/launch"
)

// why says what the command could do with one path. Its exit code is 0 if the
// sandbox would let it.
func why(o *options) int {
	a, err := launch.Why(o.policy, launch.Options{Backend: o.backend, Bwrap: o.bwrap}, o.why, o.op)
	if err != nil {
		return fail(nil, o.inOptions(err))
	}
	code := 0
	if !a.Allowed {
		code = exitFound
	}
	return printReport(o, a, answerText(a), code)
}

// answerText is the form for people.
func answerText(a *launch.Answer) string {
	var b strings.Builder
	word := "refused"
	if a.Allowed {
		word = "allowed"
	}
	fmt.Fprintf(&b, "%s  %s %s\n", word, a.Op, a.Path)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", name, oneLine(text))
		}
	}
	if a.Real != "" {
		row("leads to", a.Real.String())
	}
	row("why", a.Text)
	row("held by", a.By)
	if !a.Permitted {
		row("besides", "by its own permissions you couldn't do it either")
	}
	row("grant", a.Flag)
	row("hint", a.Hint)
	return b.String()
}
