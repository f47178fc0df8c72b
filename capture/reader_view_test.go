package capture

import (
	"fmt"
	"strings"
	"testing"
)

func TestRenderedPages(t *testing.T) {
	redraw := "start\n"
	for i := range 300 {
		if i > 0 {
			redraw += "\x1b[2A"
		}
		redraw += fmt.Sprintf("\x1b[2Ka: %d\n\x1b[2Kb: %d\n", i, i)
	}
	redraw += "done\n"
	for _, tc := range []struct {
		name string
		in   string
		view View
		want string
	}{
		{"frames", frames(5000) + "done\n", View{Render: true}, "1:[" + strings.Repeat("#", 50) + "] 5000/5000 2:done"},
		{"redrawn lines", redraw, View{Render: true}, "1:start 2:a: 299 3:b: 299 602:done"},
		{"CRLF", "one\r\ntwo\r\n", View{Render: true}, "1:one 2:two"},
		{"cleared", "one\ntwo\n\x1b[H\x1b[2Jthree\n", View{Render: true}, "3:three"},
		{"folded", "one\n" + strings.Repeat("\x1b[1mwaiting for it\x1b[m\n", 50) + "two\n", View{Render: true, Fold: true}, "1:one 2:waiting for itx50 52:two"},
		{"not rendered", "a\rb\n", View{}, "1:a\rb"},
	} {
		p, err := NewReader(newText([]byte(tc.in))).With(tc.view).Page(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(p.Lines); got != tc.want || p.End != int64(len(tc.in)) || !p.Complete() {
			t.Errorf("%s: %q, to %d; want %q, to %d", tc.name, got, p.End, tc.want, len(tc.in))
		}
	}
}

// TestRenderedPagesJoin puts pages of coloured text together, which are cut anywhere,
// inside sequences too.
func TestRenderedPagesJoin(t *testing.T) {
	r := newRand(12)
	parts := []string{"\x1b[1;31m", "\x1b[0m", "\x1b]0;a title\x07", "\x1b]8;;http://x\x1b\\", "word", "日本", "é", "\n", "\n", "\r\n", "\t", " 123"}
	for range 300 {
		var in strings.Builder
		for range r.IntN(300) {
			in.WriteString(parts[r.IntN(len(parts))])
		}
		v := View{Render: true}
		want, _ := v.Show([]byte(in.String()))
		rd := NewReader(newText([]byte(in.String()))).With(v)
		var got strings.Builder
		for at := int64(0); ; {
			p, err := rd.Page(t.Context(), at, 4+r.Int64N(60))
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range p.Lines {
				if n := lineEnds([]byte(in.String()[:l.Offset])) + 1; l.Number != n {
					t.Fatalf("line %q at %d has number %d; want %d", l.Text, l.Offset, l.Number, n)
				}
				got.WriteString(l.Text)
				if !l.Unfinished && (i < len(p.Lines)-1 || !p.Complete() || strings.HasSuffix(want, "\n")) {
					got.WriteByte('\n')
				}
			}
			if p.Complete() {
				break
			}
			at = p.Next
		}
		if got.String() != want {
			t.Fatalf("pages of %q show %q; want %q", in.String(), got.String(), want)
		}
	}
}

// TestRenderedPageReach shows a page of a stream that never comes to anything.
func TestRenderedPageReach(t *testing.T) {
	all := []byte(strings.Repeat("\rworking", (maxReach+1<<20)/8))
	r := NewReader(newText(all)).With(View{Render: true})
	p, err := r.Page(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(p.Lines); got != "1:working>" || p.End < maxReach || p.End > maxReach+blockSize {
		t.Errorf("page to %d: %.100q", p.End, got)
	}
	if p, err = r.Page(t.Context(), p.Next, 0); err != nil || listed(p.Lines) != "<1:working" || !p.Complete() {
		t.Errorf("the next page: %.100q, %v", listed(p.Lines), err)
	}
}

// TestRenderedLimit shows that a page holds no more than the limit, but for a line's
// rest.
func TestRenderedLimit(t *testing.T) {
	all := []byte(strings.Repeat("\x1b[1mcolour\x1b[0m ", 40000))
	p, err := NewReader(newText(all)).With(View{Render: true}).Page(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Lines[0].Text); len(p.Lines) != 1 || n < 1000 || n > 1000+pieceSize {
		t.Errorf("%d lines, the first of %d bytes", len(p.Lines), n)
	}
}

// TestRedactPages looks at a stream through pages of all sizes and offsets: no part of
// a secret may be seen.
func TestRedactPages(t *testing.T) {
	token := made()["github-token"][0]
	all := []byte("first line\nmy " + token + " and " + token + "\n\x1b[1mghp\x1b[0m" + token[3:] + "\n" + aKey + "\nlast\n")
	for _, v := range []View{{}, {Render: true}} {
		v.Redact = NewRedactor(nil, true)
		r := NewReader(newText(all)).With(v)
		for limit := int64(4); limit < 60; limit++ {
			for offset := range int64(len(all)) {
				p, err := r.Page(t.Context(), offset, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range p.Lines {
					if leaks(l.Text, token) || strings.Contains(l.Text, "pAIB") {
						t.Fatalf("page of %d bytes at %d shows %q (%+v)", limit, offset, l.Text, v)
					}
				}
			}
		}
	}
}

// leaks reports whether three characters of the secret's middle are shown.
func leaks(text, secret string) bool {
	for i := 4; i+3 < len(secret); i++ {
		if strings.Contains(text, secret[i:i+3]) {
			return true
		}
	}
	return false
}

func TestRedactSearch(t *testing.T) {
	token := made()["github-token"][0]
	all := []byte("token " + token + "\n" + aKey + "\ntoken done\n" + strings.Repeat("fill\n", maxWhole/2) + aKey + "\n")
	r := NewReader(newText(all)).With(View{Redact: NewRedactor(nil, true)})
	for pattern, want := range map[string]string{
		"token":    "1:token [redacted github-token]! 26:token done!",
		"ghp_":     "",
		"MIIEpAIB": "",
		"last":     "",
	} {
		m, err := r.Search(t.Context(), Query{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(m.Lines); got != want {
			t.Errorf("search for %q: %q; want %q", pattern, got, want)
		}
		if want != "" && m.Redacted != 1 {
			t.Errorf("search for %q: %d secrets; want 1", pattern, m.Redacted)
		}
	}
	// From inside the key.
	m, err := r.Search(t.Context(), Query{Pattern: "MIIE|done", From: Place{Offset: int64(strings.Index(string(all), "MII")), Lines: 4}})
	if err != nil || listed(m.Lines) != "26:token done!" {
		t.Errorf("search from inside a key: %q, %v", listed(m.Lines), err)
	}
}
