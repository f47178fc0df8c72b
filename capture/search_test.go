package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// naive returns the numbers of the lines that match.
func naive(all []byte, pattern string) []int64 {
	re, err := regexp.Compile("(?i)" + pattern)
	if _, e := syntax.Parse(pattern, syntax.Perl); e != nil || err != nil {
		re = regexp.MustCompile("(?i)" + regexp.QuoteMeta(pattern))
	}
	var n []int64
	for i, line := range splitLines(all) {
		if re.Match(bytes.TrimSuffix(line, []byte{'\r'})) {
			n = append(n, int64(i+1))
		}
	}
	return n
}

func splitLines(all []byte) [][]byte {
	lines := bytes.Split(all, []byte{'\n'})
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// checkSearch searches in steps and compares what it finds with what there is.
func checkSearch(all []byte, q Query) error {
	want := naive(all, q.Pattern)
	lines := splitLines(all)
	r := NewReader(newText(all))
	var got []int64
	for {
		m, err := r.Search(context.Background(), q)
		if err != nil {
			return err
		}
		if m.Total != int64(len(want)) || m.First != int64(len(got)+1) {
			return fmt.Errorf("search for %q from %+v: total %d, first %d; want %d, %d", q.Pattern, q.From, m.Total, m.First, len(want), len(got)+1)
		}
		shown := int64(0)
		for i, l := range m.Lines {
			if i > 0 && l.Number <= m.Lines[i-1].Number {
				return fmt.Errorf("search for %q: line %d comes after line %d", q.Pattern, l.Number, m.Lines[i-1].Number)
			}
			if !l.Continued && !l.Unfinished && l.Text != string(lines[l.Number-1]) {
				return fmt.Errorf("search for %q: line %d is %q; want %q", q.Pattern, l.Number, l.Text, lines[l.Number-1])
			}
			if at := l.Offset; string(all[at:at+int64(len(l.Text))]) != l.Text {
				return fmt.Errorf("search for %q: line %d isn't at %d", q.Pattern, l.Number, at)
			}
			if l.Match {
				shown++
				got = append(got, l.Number)
			} else if !near(l.Number, m.Lines, q) {
				return fmt.Errorf("search for %q: line %d is shown for nothing", q.Pattern, l.Number)
			}
		}
		if m.Shown != shown {
			return fmt.Errorf("search for %q: shown %d; want %d", q.Pattern, m.Shown, shown)
		}
		if m.Complete() {
			break
		}
		if shown == 0 {
			return fmt.Errorf("search for %q: no way on from %+v", q.Pattern, m.Next)
		}
		word, err := m.Next.MarshalText()
		if err == nil {
			err = q.From.UnmarshalText(word)
		}
		if err != nil {
			return err
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("search for %q: lines %v; want %v", q.Pattern, got, want)
	}
	return nil
}

// near reports whether a line is in the context of a match.
func near(number int64, lines []Line, q Query) bool {
	return slices.ContainsFunc(lines, func(l Line) bool {
		return l.Match && number >= l.Number-int64(q.Before) && number <= l.Number+int64(q.After)
	})
}

var somePatterns = []string{
	"error", "error|fail", "err(or|no)", "ERR", "warn|done|42", "^error", "ok$", "^$", "", "x", "é", "ß", "日", "😀",
	`\d+`, `o.*k`, `(error|warning) +fail`, "e", "[ow]", "k", "s", "skip|task", `\bok\b`, "fail.?ok", "(", "a{2,1}", "[z-a]",
	`\x{FFFD}`, `r+o`, "(?:err|warn)[a-z]+", "o{2}", "(?-i:Warning)", "(?-i:ERROR)", "colou?r|done", "\r", "a\nb", "[^a-z]", "é€",
}

func TestSearchModel(t *testing.T) {
	r := newRand(4)
	for range 400 {
		all := randomLines(r, r.IntN(4000))
		q := Query{
			Pattern: somePatterns[r.IntN(len(somePatterns))],
			Before:  r.IntN(4), After: r.IntN(4), Limit: 1 + r.Int64N(500),
		}
		if err := checkSearch(all, q); err != nil {
			t.Fatalf("%v in %q", err, all)
		}
	}
}

// TestSearchBlocks searches in more than fits into a buffer.
func TestSearchBlocks(t *testing.T) {
	r := newRand(5)
	for range 6 {
		all := randomLines(r, 3<<20)
		if r.IntN(2) == 0 {
			// Few lines, of which some are longer than what is matched whole.
			for i, c := range all {
				if c == '\n' && r.IntN(20000) > 0 {
					all[i] = '.'
				}
			}
		}
		p := []string{"error", "warning|42 e", "k ok done$", "^é.*done", "error warning fail ok done 42"}[r.IntN(5)]
		q := Query{Pattern: p, Before: r.IntN(3), After: r.IntN(3), Limit: MaxLimit}
		if err := checkSearch(all, q); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, p := range somePatterns {
		f.Add([]byte("an Error\nor\r\ntwo \u017f\u212a warning\n"), p, 2, 1)
	}
	f.Fuzz(func(t *testing.T, all []byte, p string, limit, context int) {
		if len(p) > 100 || !utf8.ValidString(p) {
			return
		}
		q := Query{Pattern: p, Limit: int64(limit) & 0xff, Before: context & 3, After: context >> 2 & 3}
		if err := checkSearch(all, q); err != nil {
			t.Error(err)
		}
	})
}

func TestSearchTexts(t *testing.T) {
	live := newText([]byte("done\nerr"))
	live.live = true
	for _, tc := range []struct {
		name  string
		src   *text
		view  View
		query Query
		want  string
		total int64
	}{
		{"context", newText([]byte("a\nb\nX\nc\nd\ne\nX\n")), View{}, Query{Pattern: "x", Before: 1, After: 1}, "2:b 3:X! 4:c 6:e 7:X!", 2},
		{"overlapping context", newText([]byte("X\na\nX\nb\n")), View{}, Query{Pattern: "x", Before: 3, After: 3}, "1:X! 2:a 3:X! 4:b", 2},
		{"no end", live, View{}, Query{Pattern: "err"}, "2:err>!", 1},
		{"gap", newText([]byte("err\nerr 1 err\nerr\n")).without(7, 10), View{}, Query{Pattern: "err"}, "1:err! 2:err>! <2:err! 3:err!", 4},
		{"anchors at a gap", newText([]byte("err\nerr 1 err\nerr\n")).without(7, 10), View{}, Query{Pattern: "^err$"}, "1:err! 3:err!", 2},
		{"rendered", newText([]byte("e\x1b[31mrr\x1b[0m\nex\brr\nxxx\rerr\nerr\r\nn\r\n")), View{Render: true}, Query{Pattern: "^err$"}, "1:err! 2:err! 3:err! 4:err!", 4},
		{"not rendered", newText([]byte("e\x1b[31mrr\x1b[0m\n")), View{}, Query{Pattern: "err"}, "", 0},
		{"redacted", newText([]byte("my hunter2 is\nmy hunter3\n")), View{Redact: NewRedactor([]string{"hunter2"}, false)}, Query{Pattern: "my"}, "1:my [redacted] is! 2:my hunter3!", 2},
		{"no oracle", newText([]byte("my hunter2 is\n")), View{Redact: NewRedactor([]string{"hunter2"}, false)}, Query{Pattern: "hunt"}, "", 0},
	} {
		m, err := NewReader(tc.src).With(tc.view).Search(t.Context(), tc.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(m.Lines); got != tc.want || m.Total != tc.total {
			t.Errorf("%s: %q of %d; want %q of %d", tc.name, got, m.Total, tc.want, tc.total)
		}
	}
}

func TestSearchInvalid(t *testing.T) {
	all := []byte("f(x\nfx\nA[1]{\nb\xff\xfe\n")
	for pattern, want := range map[string]string{"f(x": "1:f(x!", "a[1": "3:A[1]{!", "(?=x)": "", "B\xfe\xff": "4:b\xff\xfe!"} {
		m, err := NewReader(newText(all)).Search(t.Context(), Query{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(m.Lines); got != want || m.Invalid == "" {
			t.Errorf("search for %q: %q, invalid %q; want %q", pattern, got, m.Invalid, want)
		}
	}
	if _, err := NewReader(newText(all)).Search(t.Context(), Query{Pattern: strings.Repeat("x", maxPattern+1)}); !errors.Is(err, ErrPattern) {
		t.Errorf("a very long pattern: %v; want ErrPattern", err)
	}
}

// TestSearchGoesOn searches a stream that grows, without finding anything twice.
func TestSearchGoesOn(t *testing.T) {
	src := newText(nil)
	src.live = true
	r := NewReader(src)
	var q Query
	q.Pattern = "err"
	seen := map[int64]string{}
	for i, part := range []string{"er", "r one\nok\n", "the err", "or\n", "err\n"} {
		src.add([]byte(part))
		if i == 4 {
			src.end()
		}
		m, err := r.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.Lines {
			seen[l.Number] = l.Text
		}
		if !m.Complete() || i == 4 && m.Total != 3 {
			t.Errorf("after %q: %+v", part, m)
		}
		q.From = m.Next
	}
	if got, want := fmt.Sprint(seen), "map[1:err one 3:the error 4:err]"; got != want {
		t.Errorf("found %s; want %s", got, want)
	}
}

// TestSearchLongLine finds a match anywhere in a long line, and its edges alone as
// edges.
func TestSearchLongLine(t *testing.T) {
	r := newRand(7)
	for range 6 {
		n := maxWhole + r.IntN(3*maxWhole)
		line := bytes.Repeat([]byte("abc déf "), n/9+1)
		at := r.IntN(len(line) - 20)
		copy(line[at:], " the needle! ")
		all := slices.Concat([]byte("first\n"), line, []byte("\nlast needle\n"))
		for pattern, want := range map[string]int64{
			"needle": 2, "the n[e]+dle!": 1, `\bneedle\b`: 2, "^abc": b2i(at > 3), "needle$": 1, "^needle": 0, "[x-z]": 0, "eedl": 2, `\beedl`: 0,
		} {
			m, err := NewReader(newText(all)).Search(t.Context(), Query{Pattern: pattern, Before: 1, After: 1})
			if err != nil {
				t.Fatal(err)
			}
			if m.Total != want {
				t.Fatalf("search for %q at %d of %d bytes: %d; want %d", pattern, at, len(line), m.Total, want)
			}
			for _, l := range m.Lines {
				if len(l.Text) > maxText || !bytes.Contains(all, []byte(l.Text)) {
					t.Fatalf("line %d shows %d bytes", l.Number, len(l.Text))
				}
				if l.Match && want == 2 && !strings.Contains(l.Text, "needle") {
					t.Fatalf("search for %q: line %d shows something else: %.50q", pattern, l.Number, l.Text)
				}
			}
			if want == 2 && (m.Lines[0].Text != "first" || m.Lines[1].Number != 2 || m.Lines[2].Text != "last needle") {
				t.Fatalf("search for %q: %d lines", pattern, len(m.Lines))
			}
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func TestPlace(t *testing.T) {
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{"", true},
		{"0.0.0", true},
		{"9223372036854775807.1.2", true},
		{"1.2", false},
		{"1.2.3.4", false},
		{"-1.2.3", false},
		{"1.2.x", false},
		{"9223372036854775808.1.2", false},
	} {
		var p Place
		err := p.UnmarshalText([]byte(tc.in))
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrPlace) {
			t.Errorf("UnmarshalText(%q) = %v; want ok %v", tc.in, err, tc.ok)
		}
	}
	b, err := json.Marshal(Matches{Lines: []Line{}, Next: Place{1, 2, 3}})
	if err != nil || !bytes.Contains(b, []byte(`"next":"1.2.3"`)) {
		t.Errorf("JSON %s, %v", b, err)
	}
	_, err = NewReader(newText(nil)).Search(t.Context(), Query{From: Place{Offset: -1}})
	if !errors.Is(err, ErrPlace) {
		t.Errorf("a search from before the beginning: %v; want ErrPlace", err)
	}
}

func BenchmarkSearch(b *testing.B) {
	all := wordsAt(newRand(1), 64<<20)
	for _, p := range []string{"error", "error|failed", "panic|fatal|timeout=31|refused", "zzzqq", "worker-1[0-9].*failed", "id", `[0-9]+ms`, `\d{4}-\d\d-\d\d \d`, `\d{5}`, "info"} {
		b.Run(p, func(b *testing.B) {
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				if _, err := NewReader(newText(all)).Search(b.Context(), Query{Pattern: p}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
