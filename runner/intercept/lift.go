package intercept

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits bound what of a command's standard output is wanted: the first Head
// lines, and of these the last Tail. Zero doesn't bound.
type Limits struct {
	Head int `json:"head,omitempty"`
	Tail int `json:"tail,omitempty"`
}

// Or returns the limits, with those that are zero taken from others.
func (l Limits) Or(others Limits) Limits {
	return Limits{Head: cmp.Or(l.Head, others.Head), Tail: cmp.Or(l.Tail, others.Tail)}
}

// Trim returns a command without white space around it. What is inside stays,
// and so does a space at the end that a backslash makes a word.
func Trim(command string) string {
	command = strings.TrimLeft(command, " \t\r\n")
	trimmed := strings.TrimRight(command, " \t\r\n")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if slashes%2 == 1 && len(trimmed) < len(command) {
		trimmed = command[:len(trimmed)+1]
	}
	return trimmed
}

// LiftLimits takes a last stage "head -n N" or "tail -n N" off a pipeline, and
// returns the rest of the command, trimmed, and the limit. Otherwise the limits
// are zero and the command is only trimmed.
//
// It is done for one plain pipeline of simple commands and nothing else, with a
// literal number, of lines, and no further option or file; never if what would
// be left is a single command that changes the shell that runs it.
//
// A lifted command isn't quite what it was. Its exit status is that of the
// stage before. And nothing breaks its pipe: who lifts a Head has to stop the
// command once it has written that many lines, as head would, or one that
// never ends doesn't.
func LiftLimits(command string) (string, Limits) {
	command = Trim(command)
	f, err := parse(command)
	if err != nil || len(f.Stmts) != 1 || len(f.Last) > 0 {
		return command, Limits{}
	}
	all := f.Stmts[0]
	pipe, ok := all.Cmd.(*syntax.BinaryCmd)
	if !ok || pipe.Op != syntax.Pipe || !bareStmt(all) || int(pipe.Y.End().Offset()) != len(command) {
		return command, Limits{}
	}
	stages := stagesOf(pipe)
	if stages == nil || len(stages) == 2 && changesShell(stages[0]) {
		return command, Limits{}
	}
	limits := limitsOf(stages[len(stages)-1])
	if limits == (Limits{}) {
		return command, Limits{}
	}
	return Trim(command[:pipe.OpPos.Offset()]), limits
}

// bareStmt reports whether a statement is nothing but its command.
func bareStmt(s *syntax.Stmt) bool {
	return plain(s) && len(s.Redirs) == 0 && len(s.Comments) == 0 && !s.Semicolon.IsValid()
}

// stagesOf returns the simple commands of a plain pipeline, nil if it is none.
func stagesOf(pipe *syntax.BinaryCmd) (stages []*syntax.CallExpr) {
	s := pipe.Y
	if !bareStmt(s) {
		return nil
	}
	for {
		call, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return nil
		}
		stages = append(stages, call)
		if pipe == nil {
			slices.Reverse(stages)
			return stages
		}
		s = pipe.X
		pipe, ok = s.Cmd.(*syntax.BinaryCmd)
		if ok {
			if pipe.Op != syntax.Pipe || !bareStmt(s) || !plainStage(pipe.Y) {
				return nil
			}
			s = pipe.Y
			continue
		}
		if !plainStage(s) {
			return nil
		}
		pipe = nil
	}
}

// plainStage reports whether a stage may stay: redirections may, except for
// documents, which stand behind what is cut off.
func plainStage(s *syntax.Stmt) bool {
	doc := func(r *syntax.Redirect) bool { return r.Hdoc != nil }
	return plain(s) && len(s.Comments) == 0 && !slices.ContainsFunc(s.Redirs, doc)
}

// changers are commands that change the shell in which they run. In a pipeline
// that is a subshell.
var changers = []string{
	"cd", "pushd", "popd", "export", "unset", "set", "shopt", "umask", "ulimit", "alias", "unalias", "hash", "enable",
	"source", ".", "eval", "exec", "exit", "return", "break", "continue", "trap", "read", "mapfile", "readarray", "getopts",
	"builtin", "command", "wait", "shift", "declare", "local", "readonly", "typeset", "let", "disown", "fg", "bg", "history",
}

// changesShell reports whether a command may change its shell: by being one
// that does, or one of which that can't be told.
func changesShell(c *syntax.CallExpr) bool {
	first, ok := literal(c.Args[0])
	return !ok || slices.Contains(changers, first)
}

// limitsOf returns the limit that a command sets, if it is a plain head or
// tail.
func limitsOf(c *syntax.CallExpr) Limits {
	if len(c.Assigns) > 0 {
		return Limits{}
	}
	words := wordsOf(c.Args)
	n := countOf(words[1:])
	switch {
	case n == 0:
	case words[0] == "head":
		return Limits{Head: n}
	case words[0] == "tail":
		return Limits{Tail: n}
	}
	return Limits{}
}

// countOf returns the number in -n N, -nN, -N, --lines N or --lines=N, and 0 for
// anything else.
func countOf(args []string) int {
	var text string
	switch len(args) {
	case 1:
		for _, option := range []string{"--lines=", "-n", "-"} {
			var ok bool
			if text, ok = strings.CutPrefix(args[0], option); ok {
				break
			}
		}
	case 2:
		if args[0] == "-n" || args[0] == "--lines" {
			text = args[1]
		}
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
