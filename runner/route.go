package runner

import (
	"fmt"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

// BlockedError says that a rule of [Config.Intercept] suggests a tool for the
// command. Nothing has run. It matches [ErrInvalidInput].
type BlockedError struct {
	// Suggestion names the tool, and what it is better for.
	Suggestion intercept.Blocked
}

func (e *BlockedError) Error() string { return e.Suggestion.Error() }

// Unwrap returns ErrInvalidInput.
func (e *BlockedError) Unwrap() error { return ErrInvalidInput }

// route applies the rules to a command, and lifts its limits.
func (r *Runner) route(s *Spec, command string) (string, error) {
	if in := r.config.Intercept; in != nil {
		if b := in.Check(command, r.config.Tools); b != nil {
			return "", &BlockedError{*b}
		}
	}
	if !r.config.Lift {
		return command, nil
	}
	rest, limits := intercept.LiftLimits(command)
	if limits != (intercept.Limits{}) {
		s.Lines = limits
		s.Notes = append(s.Notes, fmt.Sprintf("run without its last stage, %q, which is done here", command[len(rest):]))
	}
	return rest, nil
}

// checkExempt checks the prefixes of commands without a timeout.
func (r *Runner) checkExempt() error {
	if _, err := intercept.HasPrefix("true", r.config.NoTimeoutFor); err != nil {
		return fmt.Errorf("%w: NoTimeoutFor: %w", ErrInvalidConfig, err)
	}
	return nil
}

// exempt reports whether a command has no timeout of the runner's own.
func (r *Runner) exempt(command string, argv []string) bool {
	if len(r.config.NoTimeoutFor) == 0 {
		return false
	}
	if command == "" {
		command = quote(argv)
	}
	ok, err := intercept.HasPrefix(command, r.config.NoTimeoutFor)
	return ok && err == nil
}

// quote writes words as a shell's command.
func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
