package intercept

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// What is longer, or has more parentheses, isn't parsed: the parser recurses,
// and Go ends a process whose stack grows too large.
const (
	maxLength = 64 << 10 // bytes
	maxParens = 4096
)

// ErrTooLarge says that a command line is too large to be parsed here.
var ErrTooLarge = errors.New("the command is too large to be parsed")

// parse parses a command line of bash.
func parse(command string) (*syntax.File, error) {
	if len(command) > maxLength || strings.Count(command, "(") > maxParens {
		return nil, ErrTooLarge
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, fmt.Errorf("parse the command: %w", err)
	}
	return f, nil
}

// Unknown stands for a word whose value only the shell can tell: one with an
// expansion, a pattern or braces.
const Unknown = "\x00"

// Words returns the words of all simple commands of a command line of bash, in
// the order in which they stand there: those in lists, pipelines, compound
// commands, functions and command substitutions too. Assignments before a
// command and redirections are no words of it; assignments alone make no
// command, except that the shell's declare, export, local, readonly, typeset
// and let are commands.
//
// The error is a [syntax.ParseError], wrapped, or [ErrTooLarge].
func Words(command string) ([][]string, error) {
	f, err := parse(command)
	if err != nil {
		return nil, err
	}
	var list [][]string
	for node := range syntax.Preorder(f) {
		switch c := node.(type) {
		case *syntax.CallExpr:
			if len(c.Args) > 0 {
				list = append(list, wordsOf(c.Args))
			}
		case *syntax.DeclClause:
			list = append(list, []string{c.Variant.Value, Unknown})
		case *syntax.LetClause:
			list = append(list, []string{"let", Unknown})
		}
	}
	return list, nil
}

func wordsOf(args []*syntax.Word) []string {
	words := make([]string, len(args))
	for i, w := range args {
		words[i] = Unknown
		if text, ok := literal(w); ok {
			words[i] = text
		}
	}
	return words
}

// literal returns the value of a word, if it is the same whenever it is
// evaluated.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if i == 0 && strings.HasPrefix(p.Value, "~") || !unescape(&b, p.Value) {
				return "", false
			}
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				unescapeQuoted(&b, lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape writes the value of unquoted text. It reports false for a pattern.
func unescape(b *strings.Builder, s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[', '{':
			return false
		case '\\':
			if i++; i == len(s) {
				b.WriteByte('\\')
				return true
			}
		}
		b.WriteByte(s[i])
	}
	return true
}

// unescapeQuoted writes the value of text between double quotes.
func unescapeQuoted(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
}

// quick are commands of the shell itself that are over at once and start
// nothing. A line isn't another for having them.
var quick = []string{
	":", "true", "false", "cd", "pushd", "popd", "pwd", "echo", "printf", "test", "[",
	"export", "declare", "typeset", "local", "readonly", "let", "unset", "set", "shopt", "umask", "exit", "return",
}

// PrefixError says that an entry of a list of prefixes is never used, and why.
type PrefixError struct {
	Prefix string
	Err    error
}

func (e *PrefixError) Error() string { return fmt.Sprintf("prefix %q: %v", e.Prefix, e.Err) }

// Unwrap returns the cause.
func (e *PrefixError) Unwrap() error { return e.Err }

// HasPrefix reports whether a command line is among those that a list of
// prefixes names: every simple command in it begins with the words of one of
// them, and there is one. "npm run" names "npm run dev", "cd web && npm run dev"
// and "'npm' run x 2>&1", but neither "npm runx" nor "npm run dev; rm x". Commands of
// the shell itself that are over at once may stand beside.
//
// A command line that can't be parsed is not among them. The error is about
// prefixes that can't be used: each is a [*PrefixError], joined by
// [errors.Join]; the others were used.
func HasPrefix(command string, prefixes []string) (bool, error) {
	var list [][]string
	var errs []error
	for _, p := range prefixes {
		words, err := prefixWords(p)
		if err != nil {
			errs = append(errs, &PrefixError{p, err})
			continue
		}
		list = append(list, words)
	}
	err := errors.Join(errs...)
	if len(list) == 0 {
		return false, err
	}
	commands, parseErr := Words(command)
	if parseErr != nil {
		return false, err
	}
	found := false
	for _, words := range commands {
		begins := func(prefix []string) bool {
			return len(words) >= len(prefix) && slices.Equal(words[:len(prefix)], prefix)
		}
		if slices.ContainsFunc(list, begins) {
			found = true
		} else if !slices.Contains(quick, words[0]) {
			return false, err
		}
	}
	return found, err
}

var (
	errNoWords  = errors.New("it has no words")
	errNoSimple = errors.New("it is no simple command")
	errUnknown  = errors.New("it has an expansion")
)

// prefixWords returns the words of a prefix, which is a simple command.
func prefixWords(prefix string) ([]string, error) {
	f, err := parse(prefix)
	if err != nil {
		return nil, err
	}
	if len(f.Stmts) == 0 {
		return nil, errNoWords
	}
	call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(f.Stmts) > 1 || len(call.Args) == 0 || len(call.Assigns) > 0 || !plain(f.Stmts[0]) || len(f.Stmts[0].Redirs) > 0 {
		return nil, errNoSimple
	}
	words := wordsOf(call.Args)
	if slices.Contains(words, Unknown) {
		return nil, errUnknown
	}
	return words, nil
}

// plain reports whether a statement is nothing but its command and
// redirections.
func plain(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown
}
