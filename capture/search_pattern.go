package capture

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
)

// pattern is what a search is for.
type pattern struct {
	re     *regexp.Regexp
	auto   *automaton // nil when the pattern is too large for it
	finder *finder    // nil when each line has to be looked at
	// also are for what each line must have, too.
	also []*finder
	// parts are for parts of a line, by whether the part is the line's
	// beginning and its end: there ^ and $ don't match at every edge.
	parts [2][2]*regexp.Regexp
}

// controls are the characters by which a line can look different when it is rendered,
// as far as searching goes.
var controls = [][]byte{{0x1b}, {'\r'}, {'\b'}}

// compile returns a pattern that doesn't tell capital letters from small ones, and
// why the text isn't a regular expression if it is taken as it is.
func compile(text string, rendered bool) (p *pattern, invalid string, err error) {
	tree, err := syntax.Parse(text, syntax.Perl|syntax.FoldCase)
	if err != nil {
		var cause *syntax.Error
		if errors.As(err, &cause) {
			invalid = string(cause.Code)
			if cause.Expr != "" {
				invalid += ": " + cause.Expr
			}
		} else {
			invalid = err.Error()
		}
		// A byte that isn't UTF-8 is the same to a pattern as any other such.
		text = regexp.QuoteMeta(string([]rune(text)))
		if tree, err = syntax.Parse(text, syntax.Perl|syntax.FoldCase); err != nil {
			return nil, "", err
		}
	}
	need := requiredLiterals(tree)
	p = &pattern{finder: newFinder(need), auto: newAutomaton(tree)}
	for _, set := range need.also {
		if f := newFinder(literals{set: set}); f != nil && !rendered {
			p.also = append(p.also, f)
		}
	}
	if p.re, err = regexp.Compile("(?i)" + text); err != nil {
		return nil, "", err
	}
	if p.finder != nil && rendered {
		for _, c := range controls {
			p.finder.alone(c, false)
		}
	}
	for i := range p.parts {
		for j := range p.parts[i] {
			p.parts[i][j] = p.re
		}
	}
	if !anchored(tree) {
		return p, invalid, nil
	}
	for _, part := range []struct{ begin, end int }{{0, 0}, {0, 1}, {1, 0}} {
		tree, err := syntax.Parse(text, syntax.Perl|syntax.FoldCase)
		if err != nil {
			return nil, "", err
		}
		unanchor(tree, part.begin == 0, part.end == 0)
		if p.parts[part.begin][part.end], err = regexp.Compile(tree.String()); err != nil {
			return nil, "", err
		}
	}
	return p, invalid, nil
}

// hopeless reports whether a line can't match.
func (p *pattern) hopeless(line []byte) bool {
	return slices.ContainsFunc(p.also, func(f *finder) bool { return !f.has(line) })
}

// match reports whether a part of a line matches.
func (p *pattern) match(b []byte, begin, end bool) bool {
	if p.auto != nil {
		if is, known := p.auto.match(b, begin, end); known {
			return is
		}
	}
	return p.part(begin, end).Match(b)
}

// part returns the expression for a part of a line.
func (p *pattern) part(begin, end bool) *regexp.Regexp {
	i, j := 0, 0
	if begin {
		i = 1
	}
	if end {
		j = 1
	}
	return p.parts[i][j]
}

// anchored reports whether a pattern asks for a line's beginning or end.
func anchored(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpEndLine, syntax.OpEndText:
		return true
	}
	for _, sub := range re.Sub {
		if anchored(sub) {
			return true
		}
	}
	return false
}

// unanchor makes what asks for a line's beginning or end match nowhere.
func unanchor(re *syntax.Regexp, begin, end bool) {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText:
		if begin {
			*re = syntax.Regexp{Op: syntax.OpNoMatch}
		}
	case syntax.OpEndLine, syntax.OpEndText:
		if end {
			*re = syntax.Regexp{Op: syntax.OpNoMatch}
		}
	}
	for _, sub := range re.Sub {
		unanchor(sub, begin, end)
	}
}
