package capture

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

const (
	// maxProgram is how many instructions a pattern may have for an automaton.
	maxProgram = 2000
	// maxAutomaton is how much memory its states take, in bytes, before they are
	// forgotten.
	maxAutomaton = 4 << 20
	// maxForgotten is how often that may happen before it isn't worth it.
	maxForgotten = 20
)

// automaton tells whether lines match a pattern, by one step for each character: the
// deterministic automaton of the pattern, made as it is needed. It says the same as
// package regexp and is several times as fast, since it doesn't look for where the
// match is. It isn't safe for use by several goroutines.
type automaton struct {
	prog     *syntax.Prog
	asserts  bool // the pattern has ^, $, \b or \B
	anchored bool // it begins with ^

	// A symbol is a character of ASCII, a class of other runes that no
	// instruction tells apart, the end of a line, or an end that isn't the
	// line's.
	bounds  []rune // the first runes of intervals beyond ASCII
	classes []int  // the symbols of the intervals
	samples []rune // a rune for each symbol
	symbols int
	lineEnd int

	// table has a row for each state and in it, for each symbol, where the row of
	// the next state begins, or 0 where that isn't known yet. No state has row 0;
	// accept and reject are rows where nothing changes any more.
	table          []int
	accept, reject int
	states         []autoState    // by row
	rows           map[string]int // by a state's contents
	start          [2]int         // the row at a place that isn't a line's beginning, and at one, or 0
	memory         int
	forgotten      int

	seen  []uint32 // by instruction, the last generation that had it
	gen   uint32
	stack []uint32
	set   []uint32
}

// autoState is a set of instructions that can be next.
type autoState struct {
	insts []uint32
	begin bool // at the line's beginning
	word  bool // the last character was part of a word
}

// newAutomaton returns the automaton of a pattern, or nil when it is too large.
func newAutomaton(tree *syntax.Regexp) *automaton {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil || len(prog.Inst) > maxProgram {
		return nil
	}
	a := &automaton{prog: prog, seen: make([]uint32, len(prog.Inst))}
	a.anchored = prog.StartCond()&(syntax.EmptyBeginText|syntax.EmptyBeginLine) != 0
	var runes []*syntax.Inst
	for i := range prog.Inst {
		switch in := &prog.Inst[i]; in.Op {
		case syntax.InstEmptyWidth:
			a.asserts = true
		case syntax.InstRune, syntax.InstRune1:
			runes = append(runes, in)
		}
	}
	return a.classify(runes)
}

// classify finds the classes of runes. It returns nil if there is too much to do.
func (a *automaton) classify(runes []*syntax.Inst) *automaton {
	a.bounds = []rune{utf8.RuneSelf}
	for _, in := range runes {
		if len(in.Rune) == 1 {
			r := in.Rune[0]
			a.bounds = append(a.bounds, r, r+1)
			for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
				a.bounds = append(a.bounds, o, o+1)
			}
			continue
		}
		for i := 0; i < len(in.Rune); i += 2 {
			a.bounds = append(a.bounds, in.Rune[i], in.Rune[i+1]+1)
		}
	}
	slices.Sort(a.bounds)
	a.bounds = slices.Compact(a.bounds)
	first, _ := slices.BinarySearch(a.bounds, utf8.RuneSelf)
	a.bounds = a.bounds[first:]
	if len(a.bounds)*len(runes) > 1<<20 {
		return nil
	}
	for c := range rune(utf8.RuneSelf) {
		a.samples = append(a.samples, c)
	}
	known := map[string]int{}
	for _, r := range a.bounds {
		matches := make([]byte, len(runes))
		for i, in := range runes {
			if in.MatchRune(r) {
				matches[i] = 1
			}
		}
		class, ok := known[string(matches)]
		if !ok {
			class = len(a.samples)
			known[string(matches)] = class
			a.samples = append(a.samples, r)
		}
		a.classes = append(a.classes, class)
	}
	a.lineEnd = len(a.samples)
	a.symbols = a.lineEnd + 2
	a.forget()
	return a
}

// forget makes the table anew.
func (a *automaton) forget() {
	a.table = append(a.table[:0], make([]int, 3*a.symbols)...)
	a.accept, a.reject = a.symbols, 2*a.symbols
	for i := range a.symbols {
		a.table[a.accept+i], a.table[a.reject+i] = a.accept, a.reject
	}
	a.states = append(a.states[:0], make([]autoState, 3)...)
	a.rows = map[string]int{}
	a.start = [2]int{}
	a.memory = 0
}

// match reports whether a line matches, or a part of one that has its beginning and its
// end or hasn't. It also reports whether it knows.
func (a *automaton) match(b []byte, begin, end bool) (is, known bool) {
	if a.forgotten > maxForgotten {
		return false, false
	}
	at := 0
	if begin {
		at = 1
	}
	s := a.start[at]
	if s == 0 {
		s = a.first(begin)
		a.start[at] = s
	}
	table := a.table
	for i := 0; i < len(b); {
		symbol := int(b[i])
		i++
		if symbol >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(b[i-1:])
			symbol = a.class(r)
			i += n - 1
		}
		next := table[s+symbol]
		if next == 0 {
			next = a.step(s, symbol)
			table = a.table
		}
		s = next
	}
	symbol := a.lineEnd
	if !end {
		symbol++
	}
	next := table[s+symbol]
	if next == 0 {
		next = a.step(s, symbol)
	}
	return next == a.accept, true
}

// class returns the symbol of a rune that isn't ASCII.
func (a *automaton) class(r rune) int {
	i := sort.Search(len(a.bounds), func(i int) bool { return a.bounds[i] > r })
	return a.classes[i-1]
}

// first returns the row to begin in.
func (a *automaton) first(begin bool) int {
	a.clear()
	if a.add(uint32(a.prog.Start), 0, false) {
		return a.accept
	}
	return a.row(begin, false)
}

// step returns the row after a symbol.
func (a *automaton) step(row, symbol int) int {
	forgotten := a.forgotten
	next := a.find(a.states[row/a.symbols], symbol)
	if a.forgotten == forgotten {
		a.table[row+symbol] = next
	}
	return next
}

func (a *automaton) find(s autoState, symbol int) int {
	ended := symbol >= a.lineEnd
	word := !ended && symbol < utf8.RuneSelf && isWord(byte(symbol))
	now := s.insts
	if a.asserts {
		var holds syntax.EmptyOp
		if s.begin {
			holds |= syntax.EmptyBeginText | syntax.EmptyBeginLine
		}
		if symbol == a.lineEnd {
			holds |= syntax.EmptyEndText | syntax.EmptyEndLine
		}
		if s.word != word {
			holds |= syntax.EmptyWordBoundary
		} else {
			holds |= syntax.EmptyNoWordBoundary
		}
		a.clear()
		for _, pc := range s.insts {
			if a.add(pc, holds, true) {
				return a.accept
			}
		}
		now = slices.Clone(a.set)
	}
	if ended {
		return a.reject
	}
	a.clear()
	for _, pc := range now {
		if in := &a.prog.Inst[pc]; matchesRune(in, a.samples[symbol]) && a.add(in.Out, 0, false) {
			return a.accept
		}
	}
	if !a.anchored {
		// A match can begin anywhere.
		a.add(uint32(a.prog.Start), 0, false)
	}
	if len(a.set) == 0 {
		return a.reject
	}
	return a.row(false, word && a.asserts)
}

func matchesRune(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	case syntax.InstRune, syntax.InstRune1:
		return in.MatchRune(r)
	}
	return false
}

// clear empties the set.
func (a *automaton) clear() {
	a.set = a.set[:0]
	a.gen++
	if a.gen == 0 {
		clear(a.seen)
		a.gen = 1
	}
}

// add adds an instruction and what follows it without a character to the set. What
// depends on the place is looked at with assert, and kept for later without. It
// reports whether that is a match.
func (a *automaton) add(pc uint32, holds syntax.EmptyOp, assert bool) (match bool) {
	a.stack = append(a.stack[:0], pc)
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if a.seen[pc] == a.gen {
			continue
		}
		a.seen[pc] = a.gen
		switch in := &a.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			a.stack = append(a.stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, in.Out)
		case syntax.InstEmptyWidth:
			if !assert {
				a.set = append(a.set, pc)
			} else if syntax.EmptyOp(in.Arg)&^holds == 0 {
				a.stack = append(a.stack, in.Out)
			}
		case syntax.InstMatch:
			return true
		case syntax.InstFail:
		default:
			a.set = append(a.set, pc)
		}
	}
	return false
}

// row returns the row of the set's state.
func (a *automaton) row(begin, word bool) int {
	slices.Sort(a.set)
	key := make([]byte, 1, 1+4*len(a.set))
	if begin {
		key[0] |= 1
	}
	if word {
		key[0] |= 2
	}
	for _, pc := range a.set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if row, ok := a.rows[string(key)]; ok {
		return row
	}
	if a.memory += 8*a.symbols + 8*len(a.set) + 128; a.memory > maxAutomaton {
		a.forgotten++
		a.forget()
	}
	row := len(a.table)
	a.table = append(a.table, make([]int, a.symbols)...)
	a.states = append(a.states, autoState{slices.Clone(a.set), begin, word})
	a.rows[string(key)] = row
	return row
}
