package intercept_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
	"mvdan.cc/sh/v3/syntax"
)

func TestWords(t *testing.T) {
	const u = intercept.Unknown
	for _, tt := range []struct {
		command string
		want    [][]string
	}{
		{"", nil},
		{"# only this", nil},
		{"a b c", [][]string{{"a", "b", "c"}}},
		{"a; b && c || d | e & f", [][]string{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}}},
		{`a 'b c' "d e" f\ g`, [][]string{{"a", "b c", "d e", "f g"}}},
		{`a "b\"c\$d\x" 'e\'`, [][]string{{"a", `b"c$d\x`, `e\`}}},
		{`a b"c"'d'`, [][]string{{"a", "bcd"}}},
		{"X=1 a >f <<<b", [][]string{{"a"}}},
		{"X=1", nil},
		{`a $x "$x" $(b c) *.go ~/d {1,2} $'\n' a?b [ab]`, [][]string{{"a", u, u, u, u, u, u, u, u, u}, {"b", "c"}}},
		{"$x y", [][]string{{u, "y"}}},
		{"if a; then b; else c; fi; while d; do e; done; f() { g; }; ( h )", [][]string{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"g"}, {"h"}}},
		{"export A=1; let x=1", [][]string{{"export", u}, {"let", u}}},
		{"a \\\n b", [][]string{{"a", "b"}}},
		{"a <<EOF\n$(b)\nEOF", [][]string{{"a"}, {"b"}}},
	} {
		got, err := intercept.Words(tt.command)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Words(%q) = %q, %v; want %q", tt.command, got, err, tt.want)
		}
	}
	for _, command := range []string{"a 'b", "a &&", "if a", ")", "a <<EOF |"} {
		var e syntax.ParseError
		if got, err := intercept.Words(command); !errors.As(err, &e) {
			t.Errorf("Words(%q) = %q, %v; want a ParseError", command, got, err)
		}
	}
}

// Words are those that bash sees.
func TestWordsAsBash(t *testing.T) {
	testenv.NeedTool(t, "bash")
	for _, command := range []string{
		`printf '%s\n' a b\ c 'd  e' "f\"g" h"i"'j' "k\l" '\m' n\o`,
		`printf '%s\n' 'a'"'"'b' "a'b" "\\" '' ""`,
		"printf '%s\\n' \"a\nb\" a\\\nb",
		`printf '%s\n' # comment`,
		`printf '%s\n' a#b "#c"`,
		`printf '%s\n' "a\` + "`" + `b"`,
	} {
		words, err := intercept.Words(command)
		if err != nil || len(words) != 1 {
			t.Fatalf("Words(%q) = %q, %v", command, words, err)
		}
		var want strings.Builder
		for _, w := range words[0][2:] {
			fmt.Fprintln(&want, w)
		}
		if len(words[0]) == 2 {
			want.WriteString("\n")
		}
		if got := testenv.Output(t, testenv.Command(t, "bash", "-c", command)); got != want.String() {
			t.Errorf("bash sees %q in %q; Words %q", got, command, words[0][2:])
		}
	}
}

func TestHasPrefix(t *testing.T) {
	for _, tt := range []struct {
		command string
		list    string // separated by commas
		want    bool
	}{
		{"npm run dev", "npm", true},
		{"npm run dev", "npm run", true},
		{"npm run dev", "npm run dev", true},
		{"  'npm'  r\\un dev", "npm run", true},
		{"npm", "npm", true},
		{"X=1 npm run dev 2>&1 &", "npm run", true},
		{"cd web && npm run dev", "npm", true},
		{"npm run a && npm run b", "npm", true},
		{"npm run a | tee log", "npm,tee", true},
		{"(cd x; npm start)", "npm start", true},
		{"'my prog' x", "'my prog'", true},
		{"npm run dev", "pnpm,yarn,npm", true},

		{"npm", "npm run", false},
		{"npmx", "npm", false},
		{"npm run-x", "npm run", false},
		{"npm t; anything", "npm", false},
		{"npm t\nanything", "npm", false},
		{"npm run $(anything)", "npm", false},
		{"npm run `anything`", "npm", false},
		{"npm run <(anything)", "npm", false},
		{"echo npm", "npm", false},
		{"cd x", "npm", false},
		{"$x run", "npm", false},
		{"npm $x", "npm run", false},
		{"'npm run' dev", "npm run", false},
		{"bash -c 'npm run dev'", "npm", false},
		{"npm run dev", "", false},
		{"npm 'unfinished", "npm", false},
		{"", "npm", false},
		{"# npm", "npm", false},
	} {
		got, err := intercept.HasPrefix(tt.command, strings.FieldsFunc(tt.list, func(r rune) bool { return r == ',' }))
		if got != tt.want || err != nil {
			t.Errorf("HasPrefix(%q, %q) = %v, %v; want %v", tt.command, tt.list, got, err, tt.want)
		}
	}
}

func TestBadPrefixes(t *testing.T) {
	bad := []string{"", "  ", "# x", "npm; rm", "npm | x", "X=1 npm", "npm > f", "npm &", "! npm", "npm $x", "npm *", "npm '", "(npm)", "X=1"}
	ok, err := intercept.HasPrefix("npm run", append(bad, "npm run"))
	if !ok {
		t.Error("a good prefix among bad ones doesn't count")
	}
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil || len(joined.Unwrap()) != len(bad) {
		t.Fatalf("the error is %v; want one for each of %d", err, len(bad))
	}
	for i, err := range joined.Unwrap() {
		var e *intercept.PrefixError
		if !errors.As(err, &e) || e.Prefix != bad[i] {
			t.Errorf("error %d is %#v; want a PrefixError for %q", i, err, bad[i])
		}
	}
	for _, p := range bad {
		if ok, _ := intercept.HasPrefix("npm run", []string{p}); ok {
			t.Errorf("the bad prefix %q names a command", p)
		}
	}
}

// Whatever the command, each of the functions returns, a prefix names a command
// only if every other simple command in it is the shell's own, and what is
// lifted can be put back.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		"npm run x | head -n 5", "a|b|tail -3", "a <<E | head -n 1\nx\nE", "cd x && npm t", "echo > f", "a `b` $(c) ${d:-$(e)}",
		"x() { y; }", "time a | head -1", "a |& head -1", "a \\\n| head -n 7 # c", "case x in y) z;; esac", "[[ a && b ]]", "((a))",
		"a\\", "'", "$'\\x'", "a \\ ", "{a,b}", "coproc x { y; }", "a | head -n 18446744073709551616",
	} {
		f.Add(s)
	}
	in, _ := intercept.New(intercept.DefaultRules())
	f.Fuzz(func(t *testing.T, command string) {
		if b := in.Check(command, allTools); b != nil && b.Command != command {
			t.Errorf("Check changes the command to %q", b.Command)
		}
		words, err := intercept.Words(command)
		ok, prefixErr := intercept.HasPrefix(command, []string{"npm run"})
		if prefixErr != nil || ok && (err != nil || len(words) == 0) {
			t.Fatalf("HasPrefix(%q) = %v, %v", command, ok, prefixErr)
		}
		seen := false
		for _, w := range words {
			if len(w) == 0 {
				t.Fatalf("Words(%q) has a command without words", command)
			}
			seen = seen || len(w) > 1 && w[0] == "npm" && w[1] == "run"
		}
		if ok && !seen {
			t.Errorf("HasPrefix(%q): %q", command, words)
		}
		rest, limits := intercept.LiftLimits(command)
		if limits == (intercept.Limits{}) {
			if rest != intercept.Trim(command) {
				t.Errorf("LiftLimits(%q) = %q without a limit", command, rest)
			}
			return
		}
		verb, n := "head", limits.Head
		if limits.Tail != 0 {
			verb, n = "tail", limits.Tail
		}
		again, restErr := intercept.Words(rest + fmt.Sprintf(" | %s -n %d", verb, n))
		if restErr != nil || n <= 0 || limits.Head != 0 && limits.Tail != 0 || len(again) != len(words) ||
			!reflect.DeepEqual(again[:len(again)-1], words[:len(words)-1]) {
			t.Errorf("LiftLimits(%q) = %q, %+v: %q, %v", command, rest, limits, again, restErr)
		}
	})
}
