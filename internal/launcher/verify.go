package launcher

import (
	"fmt"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// verification is what --verify --json prints.
type verification struct {
	Worktree policy.Path `json:"worktree"`
	// Suspicious says that there is more than notes.
	Suspicious bool             `json:"suspicious"`
	Findings   []tamper.Finding `json:"findings"`
	// Look is the beginning of a command by which git in the worktree starts
	// nothing by itself, and what it has to start is confined.
	Look string `json:"look"`
}

// verify says what git in the worktree would execute or follow that a command
// could have put there. Its exit code is 0 if nothing of it is suspicious.
func verify(o *options) int {
	found, err := tamper.Verify(string(o.policy.Worktree), os.Environ())
	if err != nil {
		return fail(nil, &launch.SetupError{Stage: launch.StagePolicy, Err: err})
	}
	v := verification{Worktree: o.policy.Worktree, Findings: found, Look: tamper.SafeGit(string(o.policy.Worktree))}
	if v.Findings == nil {
		v.Findings = []tamper.Finding{}
	}
	code := 0
	for _, f := range found {
		if f.Severity != tamper.Note {
			v.Suspicious, code = true, exitFound
		}
	}
	return printReport(o, v, v.text(), code)
}

// text is the form for people.
func (v verification) text() string {
	var b strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "%s\n  look: %s\n", oneLine(f.String()), oneLine(f.Look))
	}
	if v.Suspicious {
		fmt.Fprintf(&b, "\nUntil this is understood, run git there only as in\n  %s status\n", oneLine(v.Look))
	} else {
		fmt.Fprintf(&b, "nothing suspicious in %s\n", v.Worktree)
	}
	return b.String()
}
