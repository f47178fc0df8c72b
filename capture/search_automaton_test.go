package capture

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkAutomaton compares an automaton with package regexp on a text and its parts.
func checkAutomaton(p *pattern, text []byte) error {
	for _, begin := range []bool{true, false} {
		for _, end := range []bool{true, false} {
			got, known := p.auto.match(text, begin, end)
			if want := p.part(begin, end).Match(text); known && got != want {
				return fmt.Errorf("%q matches %q (begin %v, end %v): %v; want %v", p.re, text, begin, end, got, want)
			}
		}
	}
	return nil
}

func TestAutomaton(t *testing.T) {
	r := newRand(13)
	patterns := append([]string{
		`\bé`, `é\b`, `\B`, `\b`, `^\b`, `\b$`, `^$|x`, `(?m)^ok$`, `[[:upper:]]`, `[^\x00-\x7f]`, `\pL+\d`, `\p{Greek}`, `[é-ü]`, `k\b`, `ſ`,
		`(?s).`, `a*`, `(a|b)*a(a|b)(a|b)`, `^(ok|no)+$`, `[^ ]+ [^ ]+ [^ ]+`, `.{3,5}`, `(?-i)OK`, `\x{10FFFF}|\x{FFFD}`, `$^`, `$ok`, `ok^`, `(^|x)ok`,
	}, somePatterns...)
	for _, text := range patterns {
		p, _, err := compile(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if p.auto == nil {
			t.Fatalf("%q: no automaton", text)
		}
		for range 400 {
			line := []byte(strings.ReplaceAll(string(randomLines(r, r.IntN(20))), "\n", " "))
			if err := checkAutomaton(p, line); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAutomatonForgets has a pattern with more states than are kept, which goes on
// to be right and then gives up.
func TestAutomatonForgets(t *testing.T) {
	r := newRand(14)
	p, _, err := compile("(a|b)*a(a|b){14}x", false)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		line := make([]byte, 1000)
		for i := range line {
			line[i] = "abx"[r.IntN(3*200)/299]
		}
		if err := checkAutomaton(p, line); err != nil {
			t.Fatal(err)
		}
		if n := len(p.auto.table) * 8; n > 2*maxAutomaton {
			t.Fatalf("the table has %d bytes", n)
		}
		if p.auto.forgotten > maxForgotten {
			break
		}
	}
	if _, known := p.auto.match([]byte("a"), true, true); known {
		t.Error("the automaton hasn't given up")
	}
}

func TestAutomatonTooLarge(t *testing.T) {
	for _, text := range []string{"(abc[x-z]){700}", strings.Repeat(`\pL`, 1500)} {
		p, _, err := compile(text, false)
		if err != nil || p.auto != nil {
			t.Errorf("%.20q: %v, automaton %v; want none", text, err, p.auto != nil)
		}
		if err == nil && p.match([]byte("no"), true, true) {
			t.Errorf("%.20q matches", text)
		}
	}
}

func FuzzAutomaton(f *testing.F) {
	for _, p := range somePatterns {
		f.Add(p, []byte("an Error or \u017f\u212a warning \xff"))
	}
	f.Fuzz(func(t *testing.T, text string, line []byte) {
		if len(text) > 60 || len(line) > 1000 || !utf8.ValidString(text) {
			return
		}
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			return
		}
		p, _, err := compile(text, false)
		if err != nil || p.auto == nil {
			return
		}
		for i, c := range line {
			if c == '\n' {
				line[i] = ' '
			}
		}
		if err := checkAutomaton(p, line); err != nil {
			t.Error(err)
		}
	})
}
