package capture

import (
	"strings"
	"testing"
)

func TestPageText(t *testing.T) {
	ten := strings.Repeat("line\n", 9) + "a longer line"
	live := newText([]byte("one\ntw"))
	live.live = true
	waiting := newText(nil)
	waiting.live = true
	const id = ID("cmd-1706119234567.txt")
	for _, tc := range []struct {
		name          string
		src           *text
		view          View
		offset, limit int64
		want          string
	}{
		{"complete", newText([]byte("one\ntwo\n")), View{}, 0, 0, "Total size: 8 bytes | Showing bytes 0-8 | COMPLETE\n\n1 | one\n2 | two\n"},
		{"truncated", newText([]byte(strings.Repeat("0123456\n", 6656))), View{}, 0, 16, "Total size: 52.0KB | Showing bytes 0-16 | TRUNCATED\n\n1 | 0123456\n2 | 0123456\n"},
		{"numbers padded", newText([]byte(ten)), View{}, 35, 0, "Total size: 58 bytes | Showing bytes 35-58 | COMPLETE\n\n 8 | line\n 9 | line\n10 | a longer line\n"},
		{"parts", newText([]byte("abcdef\nghijkl\n")), View{}, 2, 8, "Total size: 14 bytes | Showing bytes 2-10 | TRUNCATED\n\n1 | …cdef\n2 | ghi…\n"},
		{"live", live, View{}, 0, 0, "Total size: 6 bytes | Showing bytes 0-6 | COMPLETE\n\n1 | one\n2 | tw…\n"},
		{"nothing yet", waiting, View{}, 0, 0, "Total size: 0 bytes | Showing bytes 0-0 | COMPLETE\n\n(nothing more so far; the command is running)\n"},
		{"empty", newText(nil), View{}, 0, 0, "Total size: 0 bytes | Showing bytes 0-0 | COMPLETE\n\n(no output)\n"},
		{"the end", newText([]byte("x\n")), View{}, 9, 0, "Total size: 2 bytes | Showing bytes 2-2 | COMPLETE\n\n(nothing more)\n"},
		{"gap after", newText([]byte("one\ntwo\nthree\n")).without(4, 8), View{}, 0, 0, "Total size: 14 bytes | Showing bytes 0-4 | TRUNCATED\n\n1 | one\n[...4 bytes omitted...]\n"},
		{"gap before", newText([]byte("one\ntwo\nthree\n")).without(4, 8), View{}, 5, 0, "Total size: 14 bytes | Showing bytes 8-14 | COMPLETE\n\n[...4 bytes omitted...]\n3 | …three\n"},
		{"folded", newText([]byte(strings.Repeat("waiting for it\n", 9) + "done\n")), View{Fold: true}, 0, 0, "Total size: 140 bytes | Showing bytes 0-140 | COMPLETE\n\n 1 | waiting for it\n   | <previous line repeated 8 additional times>\n10 | done\n"},
		{"redacted", newText([]byte("hunter2 hunter2\nhunter2\n")), View{Redact: NewRedactor([]string{"hunter2"}, false)}, 0, 0, "Total size: 24 bytes | Showing bytes 0-24 | COMPLETE\n\n1 | [redacted] [redacted]\n2 | [redacted]\n[3 secrets redacted]\n"},
	} {
		p, err := NewReader(tc.src).With(tc.view).Page(t.Context(), tc.offset, tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		want := "[Command Output: cmd-1706119234567.txt]\n" + tc.want
		if got := p.Text(id); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, want)
		}
	}
}

func TestMatchesText(t *testing.T) {
	all := strings.Repeat("ok\n", 40) + "an error\nok\nFAILED\n" + strings.Repeat("error\n", 40)
	const id = ID("cmd-1706119234567.txt")
	for _, tc := range []struct {
		name  string
		query Query
		want  string
	}{
		{"all", Query{Pattern: "an error|failed"}, "(search: \"an error|failed\")\nTotal matches: 2 | Showing first 2\n\n   41 | an error\n   43 | FAILED\n"},
		{"none", Query{Pattern: "nothing"}, "(search: \"nothing\")\nTotal size: 379 bytes\n\nNo matches found for the search pattern.\n"},
		{"truncated", Query{Pattern: "error", Limit: 30}, "(search: \"error\")\nTotal matches: 41 | Showing first 2\n\n   41 | an error\n   44 | error\n"},
		{"context", Query{Pattern: "an error|FAILED$", Before: 1}, "(search: \"an error|FAILED$\")\nTotal matches: 2 | Showing first 2\n\n   40 | ok\n   41 | an error\n   42 | ok\n   43 | FAILED\n"},
		{"apart", Query{Pattern: "an |FAILED$", After: 1, Limit: 4}, "(search: \"an |FAILED$\")\nTotal matches: 2 | Showing first 1\n\n   41 | an error\n"},
		{"invalid", Query{Pattern: "an (err"}, "(search: \"an (err\")\nTotal size: 379 bytes\nNot a valid regular expression (missing closing ): an (err); searched for the text as it is.\n\nNo matches found for the search pattern.\n"},
		{"later", Query{Pattern: "error", From: Place{Offset: 361, Lines: 80, Matches: 38}}, "(search: \"error\")\nTotal matches: 41 | Showing 39-41\n\n   81 | error\n   82 | error\n   83 | error\n"},
	} {
		m, err := NewReader(newText([]byte(all))).Search(t.Context(), tc.query)
		if err != nil {
			t.Fatal(err)
		}
		want := "[Command Output: cmd-1706119234567.txt] " + tc.want
		if got := m.Text(id); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, want)
		}
	}
}
