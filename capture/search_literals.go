package capture

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLiterals is how many literals a pattern may come down to.
	maxLiterals = 64
	// maxLiteral is how long, in runes, one gets at most.
	maxLiteral = 32
)

// literals is what a pattern comes down to: each text that matches contains one of
// set, in any case, and one of each of also. Strings are of runes that foldRune
// returns.
type literals struct {
	// set is nil when nothing is known.
	set []string
	// pure is set when each line that contains one of set also matches.
	pure bool
	also [][]string
}

// maxAlso is how many sets are worth looking for.
const maxAlso = 3

// requiredLiterals returns the literals of a pattern.
func requiredLiterals(re *syntax.Regexp) literals {
	k := learn(re)
	if k.finite && useful(k.exact) {
		for _, s := range k.exact {
			// A line's end isn't part of it.
			k.pure = k.pure && !strings.ContainsAny(s, "\r\n")
		}
		return literals{set: k.exact, pure: k.pure}
	}
	if len(k.required) == 0 {
		return literals{}
	}
	slices.SortStableFunc(k.required, func(a, b []string) int { return cmp.Compare(rarity(a), rarity(b)) })
	return literals{set: k.required[0], also: k.required[1:min(len(k.required), 1+maxAlso)]}
}

// knowledge is what is known of the texts that a part of a pattern matches.
type knowledge struct {
	// finite is set when each of them is one of exact, but for case.
	finite bool
	exact  []string
	// pure is set when, besides, each of exact matches in any case.
	pure bool
	// required are sets of which each of the texts contains a string.
	required [][]string
}

// needs returns all sets of which each text contains a string.
func (k knowledge) needs() [][]string {
	if k.finite && useful(k.exact) {
		return [][]string{k.exact}
	}
	return k.required
}

// best returns the set of needs that says most, or nil.
func (k knowledge) best() []string {
	var best []string
	for _, n := range k.needs() {
		if best == nil || rarity(n) < rarity(best) {
			best = n
		}
	}
	return best
}

// empty is what is known of the empty text.
var empty = knowledge{finite: true, exact: []string{""}, pure: true}

func learn(re *syntax.Regexp) knowledge {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return empty
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		k := empty
		k.pure = false
		return k
	case syntax.OpLiteral:
		return learnLiteral(re)
	case syntax.OpCharClass:
		return learnClass(re)
	case syntax.OpCapture:
		return learn(re.Sub[0])
	case syntax.OpQuest:
		return union(empty, learn(re.Sub[0]))
	case syntax.OpPlus:
		return knowledge{required: learn(re.Sub[0]).needs()}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return knowledge{required: learn(re.Sub[0]).needs()}
		}
	case syntax.OpConcat:
		return learnConcat(re.Sub)
	case syntax.OpAlternate:
		k := learn(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			k = union(k, learn(sub))
		}
		return k
	}
	return knowledge{}
}

func learnLiteral(re *syntax.Regexp) knowledge {
	k := knowledge{finite: true, pure: true}
	var s strings.Builder
	for _, r := range re.Rune {
		if unicode.SimpleFold(r) != r && re.Flags&syntax.FoldCase == 0 {
			k.pure = false
		}
		// Each byte that isn't UTF-8 matches this rune.
		if r == utf8.RuneError {
			return knowledge{}
		}
		s.WriteRune(foldRune(r))
	}
	k.exact = []string{s.String()}
	return k
}

func learnClass(re *syntax.Regexp) knowledge {
	n := 0
	for i := 0; i < len(re.Rune); i += 2 {
		n += int(re.Rune[i+1]-re.Rune[i]) + 1
		if n > 16 || re.Rune[i+1] >= utf8.RuneError && re.Rune[i] <= utf8.RuneError {
			return knowledge{}
		}
	}
	in := map[rune]bool{}
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			in[r] = true
		}
	}
	k := knowledge{finite: true, pure: true}
	seen := map[rune]bool{}
	for r := range in {
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			k.pure = k.pure && in[o]
		}
		if f := foldRune(r); !seen[f] {
			seen[f] = true
			k.exact = append(k.exact, string(f))
		}
	}
	return k
}

// learnConcat multiplies what is finite as long as it stays small.
func learnConcat(subs []*syntax.Regexp) knowledge {
	all := empty
	run := empty // of the parts since the last one that isn't finite
	for _, sub := range subs {
		k := learn(sub)
		if product, ok := cross(run, k); ok {
			run = product
			continue
		}
		all.finite = false
		all.required = append(all.required, run.needs()...)
		run = empty
		if k.finite {
			run = k
		} else {
			all.required = append(all.required, k.required...)
		}
	}
	if all.finite {
		return run
	}
	all.required = append(all.required, run.needs()...)
	return all
}

// cross returns what is known of one text after the other, if it is finite and
// small.
func cross(a, b knowledge) (knowledge, bool) {
	if !a.finite || !b.finite || len(a.exact)*len(b.exact) > maxLiterals {
		return knowledge{}, false
	}
	k := knowledge{finite: true, pure: a.pure && b.pure}
	for _, s := range a.exact {
		for _, t := range b.exact {
			if utf8.RuneCountInString(s)+utf8.RuneCountInString(t) > maxLiteral {
				return knowledge{}, false
			}
			k.exact = append(k.exact, s+t)
		}
	}
	return k, true
}

// union returns what is known of a text of which one or the other is known.
func union(a, b knowledge) knowledge {
	k := knowledge{}
	if a.finite && b.finite && len(a.exact)+len(b.exact) <= maxLiterals {
		k.finite, k.pure = true, a.pure && b.pure
		k.exact = slices.Concat(a.exact, b.exact)
	}
	if x, y := a.best(), b.best(); x != nil && y != nil && len(x)+len(y) <= maxLiterals {
		k.required = [][]string{slices.Concat(x, y)}
	}
	return k
}

// useful reports whether a set of strings says anything: the empty string is in
// every text.
func useful(set []string) bool {
	for _, s := range set {
		if s == "" {
			return false
		}
	}
	return len(set) > 0
}

// rarity estimates how often one of the strings begins at some byte of a log.
func rarity(set []string) float64 {
	sum := 0.0
	for _, s := range set {
		p := 1.0
		for i := range len(s) {
			switch c := s[i]; {
			case strings.IndexByte(" etaoinsr", c) >= 0:
				p *= 0.06
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
				p *= 0.02
			default:
				p *= 0.01
			}
		}
		sum += p
	}
	return sum
}

// foldRune returns the rune that stands for all that differ from r by case: the
// small letter if it is one of ASCII, else the first.
func foldRune(r rune) rune {
	first := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		first = min(first, o)
	}
	if 'A' <= first && first <= 'Z' {
		first += 'a' - 'A'
	}
	return first
}
