package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes that aren't the command's own.
const (
	exitTimeout  = 124
	exitFailed   = 125
	exitNoExec   = 126
	exitNotFound = 127
	exitSignal   = 128 // and the signal's number
)

// usageError says what is wrong with the command line, and what would be
// right.
type usageError struct{ why, hint string }

func (e *usageError) Error() string { return e.why }

// hinted is an error with what would mend it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// hintOf returns what would mend an error, or "".
func hintOf(err error) string {
	var u *usageError
	var h *hinted
	var pol *policy.Error
	switch {
	case errors.As(err, &u):
		return u.hint
	case errors.As(err, &h):
		return h.hint
	case errors.As(err, &pol):
		return pol.Hint
	}
	if hint := runner.Hint(err); hint != "" {
		return hint
	}
	return launch.Hint(err)
}

// textOf returns what an error says. A policy that is wrong isn't a sandbox that
// is unavailable, even where it was found out on the way there.
func textOf(err error) string {
	var p *policy.Error
	if errors.As(err, &p) {
		return p.Error()
	}
	return strings.TrimPrefix(err.Error(), "runner: ")
}

// fail says what went wrong and returns the exit code for it.
func (p *program) fail(err error) int {
	say("error: " + textOf(err))
	if h := hintOf(err); h != "" {
		say("hint: " + h)
	}
	return exitCodeOf(err)
}

// failJSON is fail for those who asked for JSON: they get the error on standard
// output, too.
func (p *program) failJSON(err error) error {
	_ = printJSON(struct {
		Error string `json:"error"`
		Code  string `json:"error_code"`
		Hint  string `json:"hint,omitempty"`
	}{textOf(err), errorCode(err), hintOf(err)}) // the error itself is said anyway
	return err
}

func errorCode(err error) string {
	var u *usageError
	var pol *policy.Error
	var setup *launch.SetupError
	switch {
	case errors.As(err, &u), errors.As(err, &pol):
		return "INVALID_INPUT"
	case errors.As(err, &setup):
		return runner.SandboxCode
	}
	return runner.ErrorCode(err)
}

// exitCodeOf is the exit code for an error before or beside a command.
func exitCodeOf(err error) int {
	var start *runner.StartError
	switch {
	case !errors.As(err, &start):
		return exitFailed
	case errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	}
	return exitNoExec
}

// say writes a line to standard error.
func say(line string) {
	line = strings.ReplaceAll(line, "\n", `\n`)
	if !strings.HasPrefix(line, "hint:") {
		line = "runner: " + line
	}
	_, _ = os.Stderr.WriteString(line + "\n")
}

// printJSON writes a value to standard output.
func printJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// flagError says what is wrong with an option.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see " + cmd.CommandPath() + " --help"
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		return &usageError{"--" + invalid.GetFlag().Name + ": " + invalidValue(invalid), hint}
	case errors.As(err, &missing):
		return &usageError{"option --" + missing.GetFlag().Name + " needs a value", hint}
	case !errors.As(err, &unknown):
		return &usageError{err.Error(), hint}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := unknown.GetSpecifiedName()
	if near := nearest.Word(name, names); near != "" {
		hint = "did you mean --" + near + "?"
	}
	if len(name) == 1 {
		return &usageError{"unknown option -" + name, hint}
	}
	return &usageError{"unknown option --" + name, hint}
}

// invalidValue says what is wrong with an option's value.
func invalidValue(e *pflag.InvalidValueError) string {
	var number *strconv.NumError
	switch {
	case !errors.As(e, &number):
		return e.Unwrap().Error()
	case e.GetFlag().Value.Type() == "bool":
		return strconv.Quote(e.GetValue()) + " is neither true nor false"
	case errors.Is(number, strconv.ErrRange):
		return e.GetValue() + " is out of range"
	}
	return strconv.Quote(e.GetValue()) + " isn't a whole number"
}

// noCommand refuses operands where a command of the program is wanted.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	hint := "one of " + strings.Join(names, ", ")
	if near := nearest.Word(args[0], names); near != "" {
		hint = "did you mean " + cmd.CommandPath() + " " + near + "?"
	}
	return &usageError{fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0]), hint}
}

// setupError makes an error of the policy a sandbox's.
func setupError(err error) error {
	var p *policy.Error
	if errors.As(err, &p) {
		return &hinted{err, p.Hint}
	}
	return err
}
