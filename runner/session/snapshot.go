package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
)

// Snapshot is what a user's own start-up file makes of bash: functions, aliases
// and options.
type Snapshot struct {
	text string
}

// String returns the snapshot as a script.
func (s *Snapshot) String() string { return s.text }

// maxSnapshot bounds a snapshot, in bytes.
const maxSnapshot = 1 << 20

// unwanted are options that make sense only where somebody types, or that a
// running shell can't take.
var unwanted = []string{
	"emacs", "vi", "history", "histexpand", "monitor", "notify", "ignoreeof", "interactive-comments", "noexec", "onecmd",
	"privileged", "errexit", "login_shell", "restricted_shell",
}

// Take runs an interactive bash, which reads ~/.bashrc, and takes a snapshot of
// it. It is a matter of seconds at most, where it doesn't fail; a session works
// without one, too. The configuration's own snapshot and prefix play no part.
func Take(ctx context.Context, c Config) (*Snapshot, error) {
	if c.Starter == nil {
		return nil, errors.New("session: there is no starter")
	}
	if c.Shell == "" {
		c.Shell = "/bin/bash"
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	mark := newMark()
	script := `{ builtin shopt -p; builtin set +o; builtin echo ` + mark + `; builtin declare -f; builtin alias -p; builtin echo ` + mark + `; } >&3`
	out, _, err := c.capture(ctx, maxSnapshot, []string{c.Shell, "-i", "-c", script}, nil, 3)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	parts := bytes.Split(out, []byte(mark+"\n"))
	if len(parts) != 3 {
		return nil, &StartError{Err: errors.New("the start-up file ends the shell, or says more than a snapshot holds")}
	}
	var b strings.Builder
	for line := range strings.Lines(string(parts[0])) {
		words := strings.Fields(line)
		if len(words) == 3 && !slices.Contains(unwanted, words[2]) {
			b.WriteString(line)
		}
	}
	b.Write(parts[1])
	return &Snapshot{text: b.String()}, nil
}
