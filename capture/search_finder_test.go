package capture

import (
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFinder compares the places found with those where a literal is.
func TestFinder(t *testing.T) {
	r := newRand(6)
	letters := []rune("abckKsSxX.éÉßſ\u212a日")
	word := func(n int) string {
		var w []rune
		for range n {
			w = append(w, letters[r.IntN(len(letters))])
		}
		return string(w)
	}
	for range 3000 {
		var set []string
		for range 1 + r.IntN(4) {
			w := []rune(word(1 + r.IntN(5)))
			for i, c := range w {
				w[i] = foldRune(c)
			}
			set = append(set, string(w))
		}
		f := newFinder(literals{set: set, pure: true})
		if f == nil {
			continue
		}
		b := []byte(word(r.IntN(60)))
		h := f.in(b)
		last := -1
		for i := range b {
			is := slices.ContainsFunc(set, func(s string) bool { return hasPrefixFold(b[i:], s) })
			at, sure := h.next(i)
			if at >= 0 && at < max(i, last) {
				t.Fatalf("next(%d) in %q of %q = %d after %d", i, b, set, at, last)
			}
			last = at
			// A part of the literal may be what is found.
			if is && (at < 0 || at > i+maxLiteral) {
				t.Fatalf("next(%d) in %q of %q = %d", i, b, set, at)
			}
			if at >= 0 && sure && !slices.ContainsFunc(set, func(s string) bool { return hasPrefixFold(b[at:], s) }) {
				t.Fatalf("next(%d) in %q of %q = %d is sure", i, b, set, at)
			}
		}
	}
}

func hasPrefixFold(b []byte, s string) bool {
	for _, want := range s {
		c, n := utf8.DecodeRune(b)
		if n == 0 || foldRune(c) != want {
			return false
		}
		b = b[n:]
	}
	return true
}

func TestLiterals(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		want    string
		pure    bool
	}{
		{"error", "error", true},
		{"ERROR|Failed", "error failed", true},
		{"error|errno", "errno error", true},
		{"colou?r", "color colour", true},
		{"^error", "error", false},
		{"worker-[12].*failed", "worker-1 worker-2", false},
		{`\d+ms`, "ms", false},
		{`\d+`, "0 1 2 3 4 5 6 7 8 9", false},
		{`[[:alpha:]]+`, "", false},
		{"(?:foo|bar)+x*baz", "baz", false},
		{"a|b*", "", false},
		{"x{3}yz", "yz", false},
		{"(?-i:Error)", "error", false},
		{"[Ee]rror", "error", true},
		{".*", "", false},
		{"", "", false},
		{`tab\tend`, "tab\tend", true},
		{`a\nb`, "a\nb", false},
		{"(a|b|c|d|e|f|g|h|i)(a|b|c|d|e|f|g|h|i)rest", "rest", false},
	} {
		tree, err := syntax.Parse(tc.pattern, syntax.Perl|syntax.FoldCase)
		if err != nil {
			t.Fatal(err)
		}
		got := requiredLiterals(tree)
		slices.Sort(got.set)
		if s := strings.Join(got.set, " "); s != tc.want || got.pure != tc.pure {
			t.Errorf("requiredLiterals(%q) = %q, %v; want %q, %v", tc.pattern, s, got.pure, tc.want, tc.pure)
		}
	}
}
