package intercept

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Complete reports whether a shell's commands are whole, rather than to be gone
// on with in the next line, as after an open quote, a here-document that hasn't
// ended, or a backslash. What can't be parsed otherwise is whole: bash says what
// is wrong with it.
func Complete(text string) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	var wrong syntax.ParseError
	switch {
	case errors.As(err, &wrong):
		return !wrong.Incomplete
	case err != nil:
		return true
	}
	line := strings.TrimSuffix(text, "\n")
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 0
}
