// Package intercept recognises commands for which there is a better tool, and
// parts of commands that a runner does better itself.
//
// An [Interceptor] compares the parsed command with rules, and names the tool
// that a rule suggests. [LiftLimits] takes a trailing "| head -n N" off.
// [Words] and [HasPrefix] look at the words of a command as bash would read
// them.
//
// Limitations: this routes, and secures nothing. A command has endless ways of
// being written, and what a shell evaluates at run time isn't known before. A
// command line that can't be parsed, or is longer than 64 KiB, isn't
// intercepted, and has no prefix.
package intercept

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Rule suggests a tool for commands of one kind.
type Rule struct {
	// Match is a regular expression, of Go's syntax, for the text of a simple
	// command (see [Interceptor.Check]). It may match anywhere in it.
	Match string `json:"match"`
	// Unless is one that must not match. Empty matches nothing.
	Unless string `json:"unless,omitempty"`
	// Tool is the name of the tool that is suggested. A rule is used only
	// where that tool is available.
	Tool string `json:"tool"`
	// Message says what to do instead.
	Message string `json:"message"`
}

// BadRule is a rule that is never used.
type BadRule struct {
	Index int // in the list that was given
	Rule  Rule
	Err   error
}

func (b *BadRule) Error() string { return fmt.Sprintf("interceptor rule %d: %v", b.Index, b.Err) }

// Unwrap returns the cause.
func (b *BadRule) Unwrap() error { return b.Err }

// Interceptor is a list of rules. It may be used by several goroutines at once.
type Interceptor struct {
	rules []compiled
}

type compiled struct {
	Rule
	match, unless *regexp.Regexp // unless may be nil
}

// New compiles rules. Those that can't be used are left out and returned; the
// others are in force.
func New(rules []Rule) (*Interceptor, []*BadRule) {
	in := &Interceptor{}
	var bad []*BadRule
	for i, r := range rules {
		c, err := compile(r)
		if err != nil {
			bad = append(bad, &BadRule{i, r, err})
			continue
		}
		in.rules = append(in.rules, c)
	}
	return in, bad
}

func compile(r Rule) (c compiled, err error) {
	c.Rule = r
	if r.Match == "" {
		return c, errors.New("it has no expression, and would match everything")
	}
	if r.Tool == "" {
		return c, errors.New("it suggests no tool")
	}
	if c.match, err = regexp.Compile(r.Match); err != nil {
		return c, err
	}
	if r.Unless != "" {
		c.unless, err = regexp.Compile(r.Unless)
	}
	return c, err
}

// Blocked says that a command was not to be run, and what is suggested in its
// place.
type Blocked struct {
	Tool    string `json:"tool"`
	Message string `json:"message"`
	// Command is the whole command, Part the text that matched.
	Command string `json:"command"`
	Part    string `json:"part"`
}

func (b *Blocked) Error() string {
	return fmt.Sprintf("Blocked: %s\n\nOriginal command: %s", b.Message, b.Command)
}

// Check returns what blocks a command, or nil. A rule blocks if it matches and
// its tool is among those that are available; the first such rule counts.
//
// Rules see each simple command of a list, of a group and at the beginning of a
// pipeline, one at a time: what a pipe feeds, or what stands in loops,
// functions and substitutions, no tool could replace. Its text begins with the
// name of the command, without assignments. Words stand one space apart, quoted
// only where it takes quotes. Each redirection follows on a line of its own,
// like "> file" or "2>& 1"; there are no other ends of lines.
func (in *Interceptor) Check(command string, tools []string) *Blocked {
	usable := slices.DeleteFunc(slices.Clone(in.rules), func(r compiled) bool { return !slices.Contains(tools, r.Tool) })
	if len(usable) == 0 {
		return nil
	}
	var parts []string
	if f, err := parse(command); err == nil { // else the shell will say
		parts = partsOf(nil, f.Stmts, command)
	}
	for _, r := range usable {
		for _, part := range parts {
			if r.match.MatchString(part) && (r.unless == nil || !r.unless.MatchString(part)) {
				return &Blocked{Tool: r.Tool, Message: r.Message, Command: command, Part: part}
			}
		}
	}
	return nil
}

// partsOf appends the texts that rules are compared with.
func partsOf(parts []string, list []*syntax.Stmt, source string) []string {
	for _, s := range list {
		switch c := s.Cmd.(type) {
		case *syntax.CallExpr:
			if len(c.Args) > 0 {
				parts = append(parts, textOf(c, s.Redirs, source))
			}
		case *syntax.BinaryCmd:
			parts = partsOf(parts, operands(c), source)
		case *syntax.Block:
			parts = partsOf(parts, c.Stmts, source)
		case *syntax.Subshell:
			parts = partsOf(parts, c.Stmts, source)
		case *syntax.TimeClause:
			if c.Stmt != nil {
				parts = partsOf(parts, []*syntax.Stmt{c.Stmt}, source)
			}
		}
	}
	return parts
}

// operands are the statements of a list, or the first of a pipeline.
func operands(c *syntax.BinaryCmd) []*syntax.Stmt {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		return []*syntax.Stmt{c.X}
	}
	return []*syntax.Stmt{c.X, c.Y}
}

// bare is a word that needs no quotes.
var bare = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// textOf is the text of a simple command.
func textOf(c *syntax.CallExpr, redirs []*syntax.Redirect, source string) string {
	var b strings.Builder
	for i, w := range c.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(wordText(w, source))
	}
	for _, r := range redirs {
		b.WriteByte('\n')
		if r.N != nil {
			b.WriteString(r.N.Value)
		}
		b.WriteString(r.Op.String() + " " + wordText(r.Word, source))
	}
	return b.String()
}

// wordText is a word in its simplest form, or as it stands in the source.
func wordText(w *syntax.Word, source string) string {
	if text, ok := literal(w); ok && bare.MatchString(text) {
		return text
	}
	return strings.ReplaceAll(source[w.Pos().Offset():w.End().Offset()], "\n", " ")
}
