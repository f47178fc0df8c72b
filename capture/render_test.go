package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShow(t *testing.T) {
	rendered := View{Render: true}
	folded := View{Render: true, Fold: true}
	for _, tc := range []struct {
		name string
		view View
		in   string
		want string
	}{
		{"empty", rendered, "", ""},
		{"plain", rendered, "one\ntwo\n", "one\ntwo\n"},
		{"no end", rendered, "one\ntwo", "one\ntwo"},
		{"empty lines", rendered, "\n\none\n\n", "\n\none\n\n"},
		{"CRLF", rendered, "one\r\ntwo\r\n", "one\ntwo\n"},
		{"CR CR LF", rendered, "one\r\r\ntwo\r\r\n", "one\ntwo\n"},
		{"tabs", rendered, "a\tb\n\tc\t\n", "a\tb\n\tc\t\n"},
		{"trailing blanks", rendered, "a  \n", "a  \n"},
		{"runes", rendered, "é日本😀e\u0301\n", "é日本😀e\u0301\n"},
		{"not UTF-8", rendered, "a\xffb\xe2\x82\n\xf0\x9f\x98", "a\uFFFDb\uFFFD\uFFFD\n\uFFFD\uFFFD\uFFFD"},
		{"controls", rendered, "a\x00b\x07c\x7fd\x0e\n", "abcd\n"},
		{"second set of controls", rendered, "a\u0085b\u009bc\n", "abc\n"},

		{"progress", rendered, "10%\r20%\r100%\n", "100%\n"},
		{"shorter over longer", rendered, "loading\rdone\n", "doneing\n"},
		{"erase to the end", rendered, "loading\r\x1b[Kdone\n", "done\n"},
		{"erase after", rendered, "loading\rdone\x1b[K\n", "done\n"},
		{"erase line", rendered, "loading\x1b[2K\rdone\n", "done\n"},
		{"erase before", rendered, "loading\x1b[3D\x1b[1K\n", "     ng\n"},
		{"backspace", rendered, "abcd\b\b\bXY\n", "aXYd\n"},
		{"overstrike", rendered, "N\bNA\bAM\bME\bE _\bf\n", "NAME f\n"},
		{"spinner", rendered, "|\b/\b-\b\\\bdone\n", "done\n"},
		{"backspace at the edge", rendered, "\b\ba\n", "a\n"},
		{"erase characters", rendered, "abcdef\x1b[4D\x1b[2X\n", "ab  ef\n"},
		{"delete characters", rendered, "abcdef\x1b[4D\x1b[2P\n", "abef\n"},
		{"insert blanks", rendered, "abcd\x1b[2D\x1b[2@\n", "ab  cd\n"},
		{"columns", rendered, "\x1b[10Gx\x1b[3Gy\n", "  y      x\n"},
		{"over a wide one", rendered, "日本\rab\n", "ab本\n"},
		{"over half of one", rendered, "日本\rx\n", "x 本\n"},
		{"over half of another", rendered, "a日本\r\x1b[2Cx\n", "a x本\n"},
		{"over a tab", rendered, "a\tb\r\x1b[3Cx\n", "a  x    b\n"},
		{"tab over text", rendered, "abcdefghij\r\tX\n", "abcdefghXj\n"},
		{"combining after moving", rendered, "abc\b\b\u0301\n", "a\u0301bc\n"},

		{"colours", rendered, "\x1b[1;31merror\x1b[0m: \x1b[38;2;1;2;3mx\x1b[m\n", "error: x\n"},
		{"subparameters", rendered, "\x1b[4:3mx\x1b[0m\n", "x\n"},
		{"title", rendered, "\x1b]0;a title\x07x\x1b]2;“é”\x1b\\y\n", "xy\n"},
		{"link", rendered, "\x1b]8;;https://example.com\x1b\\here\x1b]8;;\x1b\\\n", "here\n"},
		{"device string", rendered, "a\x1bP1;2|0123\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e\n", "abcde\n"},
		{"character set", rendered, "\x1b(Ba\x1b)0b\x1b#8c\n", "abc\n"},
		{"modes", rendered, "\x1b[?25la\x1b[?2004hb\x1b=\x1b>\x1b[?1049h\n", "ab\n"},
		{"queries", rendered, "a\x1b[c\x1b[6n\x1b[>cb\n", "ab\n"},
		{"unfinished", rendered, "a\x1b[31", "a"},
		{"unfinished at the end of a line", rendered, "a\x1b]0;title\nb\x1b[3\nc\n", "a\nb\nc\n"},
		{"a rune in a sequence", rendered, "a\x1b[3éb\n", "aéb\n"},
		{"a control in a sequence", rendered, "abc\x1b[\r1CX\n", "aXc\n"},
		{"cancelled", rendered, "a\x1b]0;x\x18b\x1b[3\x1ac\n", "abc\n"},
		{"escape twice", rendered, "a\x1b\x1b[31mb\n", "ab\n"},
		{"huge parameter", rendered, "a\x1b[99999999999999999999Cb\x1b[18446744073709551617Dc\n", "c" + strings.Repeat(" ", defaultReach-2) + "b\n"},

		{"as far as there is text", rendered, strings.Repeat("x", 300) + "\r\x1b[299Cy\x1b[290Gz\n", strings.Repeat("x", 289) + "zxxxxxxxxxy\n"},
		{"right in a wide screen", View{Render: true, Screen: Screen{Columns: 1000}}, "\x1b[999Cx\n", strings.Repeat(" ", 999) + "x\n"},
		{"not back by going right", rendered, strings.Repeat("x", 300) + "\x1b[Cy\n", strings.Repeat("x", 300) + "y\n"},

		{"cursor up", rendered, "a: 0%\nb: 0%\n\x1b[2Aa: 9%\nb: 9%\ndone\n", "a: 9%\nb: 9%\ndone\n"},
		{"up and erase", rendered, "one\ntwo\nthree\n\x1b[3A\x1b[J1\n", "1\n"},
		{"up beyond the top", rendered, "one\ntwo\n\x1b[99AX\n", "Xne\ntwo\n"},
		{"previous line", rendered, "one\ntwo\n\x1b[FX\x1b[EY\n", "one\nXwo\nY\n"},
		{"down", rendered, "one\ntwo\x1b[A\x1b[2BX\n", "one\ntwo\n   X\n"},
		{"down and back", rendered, "one\x1b[999B\x1b[999A\n", "one\n"},
		{"next to last at the end", rendered, "one\ntwo\n\x1b[2A", "one\ntwo\n"},
		{"saved cursor", rendered, "ab\x1b7cd\nef\x1b8X\n", "abXd\nef"},
		{"saved cursor, other form", rendered, "ab\x1b[scd\x1b[uX\n", "abXd\n"},
		{"reverse index", rendered, "one\ntwo\x1bMX\n", "oneX\ntwo"},
		{"index", rendered, "one\x1bDtwo\x1bEx\n", "one\n   two\nx\n"},
		{"insert lines", rendered, "one\ntwo\x1b[L\rx\n", "one\nx\ntwo"},
		{"delete lines", rendered, "one\ntwo\nthree\x1b[2A\x1b[M\n", "two\nthree"},
		{"clear", rendered, "one\ntwo\n\x1b[H\x1b[2J\x1b[3Jthree\n", "three\n"},
		{"clear, other form", rendered, "one\ntwo\n\x1b[H\x1b[Jthree\n", "three\n"},
		{"reset", rendered, "one\ntwo\n\x1bcthree\n", "three\n"},
		{"clear alone", rendered, "one\x1b[2J", ""},
		{"erase above", rendered, "one\ntwo\nthree\x1b[A\x1b[1J\n", "\n\nthree"},
		{"position", rendered, "\x1b[3;2Hx\x1b[1;1Hy", "y\n\n x"},
		{"watch", rendered, strings.Repeat("\x1b[H\x1b[2Jframe\nof two\n", 9), "frame\nof two\n"},
		{"home", rendered, strings.Repeat("\x1b[Hframe\x1b[K\nof two\x1b[K\n\x1b[J", 9), "frame\nof two\n"},

		{"folded", folded, strings.Repeat("waiting for it\n", 100) + "done\n", "waiting for it\n<previous line repeated 99 additional times>\ndone\n"},
		{"folded at the end", folded, strings.Repeat("waiting for it\n", 100), "waiting for it\n<previous line repeated 99 additional times>\n"},
		{"not worth folding", folded, "\n\n\nx\nx\n", "\n\n\nx\nx\n"},
		{"folded when rendered", folded, strings.Repeat("wait\rwaiting for it\n", 9), "waiting for it\n<previous line repeated 8 additional times>\n"},
		{"unfinished isn't folded", folded, strings.Repeat("waiting for it\n", 9) + "waiting for it", "waiting for it\n<previous line repeated 8 additional times>\nwaiting for it"},
		{"folded only", View{Fold: true}, strings.Repeat("\x1b[1mwaiting\r\n", 9), "\x1b[1mwaiting\r\n<previous line repeated 8 additional times>\n"},

		{"frames", folded, frames(5000), "[" + strings.Repeat("#", 50) + "] 5000/5000\n"},
		{"narrow", View{Render: true, Screen: Screen{Columns: 4}}, "abcdefghij\rXY\nk\n", "abcdefghXY\nk\n"},
		{"exactly", View{Render: true, Screen: Screen{Columns: 4}}, "abcd\nefgh\rX\n", "abcd\nXfgh\n"},
		{"wide at the edge", View{Render: true, Screen: Screen{Columns: 4}}, "abc日\n", "abc日\n"},
		{"few rows", View{Render: true, Screen: Screen{Rows: 2}}, "a\nb\nc\n\x1b[9AX\n", "a\nb\nX\n"},
	} {
		got, _ := tc.view.Show([]byte(tc.in))
		if got != tc.want {
			t.Errorf("%s: Show(%.100q) = %.200q; want %.200q", tc.name, tc.in, got, tc.want)
		}
		for n := 1; n < 4; n++ {
			if by := showBy(tc.view, []byte(tc.in), n); by != got {
				t.Errorf("%s: by %d bytes %.200q; want %.200q", tc.name, n, by, got)
			}
		}
	}
}

// frames is n frames of a progress bar.
func frames(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "\r\x1b[2K[%-50s] %d/%d", strings.Repeat("#", 50*i/n), i, n)
	}
	return b.String() + "\n"
}

// showBy shows a text that is written n bytes at a time.
func showBy(v View, in []byte, n int) string {
	var b strings.Builder
	r := NewRenderer(&b, v)
	for len(in) > 0 {
		k := min(n, len(in))
		_, _ = r.Write(in[:k])
		in = in[k:]
	}
	_ = r.Close()
	return b.String()
}

// terminal is a screen without anything clever: all rows are cells, and none of them
// goes away.
type terminal struct {
	cells [][]rune
	fed   map[int]bool
	y, x  int
}

func (t *terminal) put(c rune) {
	for len(t.cells) <= t.y {
		t.cells = append(t.cells, nil)
	}
	for len(t.cells[t.y]) <= t.x {
		t.cells[t.y] = append(t.cells[t.y], 0)
	}
	t.cells[t.y][t.x] = c
	t.x++
}

func (t *terminal) row() *[]rune {
	for len(t.cells) <= t.y {
		t.cells = append(t.cells, nil)
	}
	return &t.cells[t.y]
}

func (t *terminal) do(op string, n int) string {
	r := t.row()
	switch op {
	case "text":
		for i := range n {
			t.put(rune('a' + i))
		}
		return "abcdefghijklm"[:n]
	case "\n":
		t.y++
		t.x = 0
		t.row()
		t.fed[t.y] = true
	case "\r":
		t.x = 0
	case "\b":
		t.x = max(0, t.x-1)
	case "A":
		t.y = max(0, t.y-n)
	case "B":
		t.y = min(t.y+n, 99)
	case "C":
		t.x += n
	case "D":
		t.x = max(0, t.x-n)
	case "G":
		t.x = n - 1
	case "K":
		if t.x < len(*r) {
			*r = (*r)[:t.x]
		}
	case "P":
		if t.x < len(*r) {
			*r = append((*r)[:t.x], (*r)[min(len(*r), t.x+n):]...)
		}
	case "@":
		if t.x < len(*r) {
			*r = append((*r)[:t.x:t.x], append(make([]rune, n), (*r)[t.x:]...)...)
		}
	case "X":
		for i := t.x; i < min(t.x+n, len(*r)); i++ {
			(*r)[i] = 0
		}
	case "J":
		if t.x < len(*r) {
			*r = (*r)[:t.x]
		}
		for i := t.y + 1; i < len(t.cells); i++ {
			t.cells[i], t.fed[i] = nil, false
		}
	}
	if strings.Contains("\n\r\b", op) {
		return op
	}
	if op == "K" || op == "J" {
		return "\x1b[" + op
	}
	return fmt.Sprintf("\x1b[%d%s", n, op)
}

func (t *terminal) String() string {
	n := len(t.cells)
	for n > 0 && strings.Trim(string(t.cells[n-1]), "\x00") == "" && !t.fed[n-1] {
		n--
	}
	var rows []string
	for _, r := range t.cells[:n] {
		rows = append(rows, strings.TrimRight(strings.ReplaceAll(string(r), "\x00", " "), " "))
	}
	return strings.Join(rows, "\n")
}

// TestScreenModel compares with a simple terminal, with text written at random times
// so that rows change between their two forms.
func TestScreenModel(t *testing.T) {
	r := newRand(8)
	ops := []string{"text", "text", "text", "\n", "\n", "\r", "\b", "A", "B", "C", "D", "G", "K", "P", "@", "X", "J"}
	for range 5000 {
		model := &terminal{fed: map[int]bool{}}
		var in strings.Builder
		for range r.IntN(40) {
			in.WriteString(model.do(ops[r.IntN(len(ops))], 1+r.IntN(12)))
		}
		got, _ := View{Render: true, Screen: Screen{Rows: 100}}.Show([]byte(in.String()))
		// Nobody wrote the blanks at a line's end.
		if want := model.String(); got != want {
			t.Fatalf("Show(%q) = %q; want %q", in.String(), got, want)
		}
	}
}

// TestPlainStays shows that text without control characters stays as it is.
func TestPlainStays(t *testing.T) {
	r := newRand(9)
	for range 300 {
		in := strings.ToValidUTF8(string(randomLines(r, r.IntN(900))), "?")
		in = strings.Map(func(c rune) rune {
			if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
				return -1
			}
			return c
		}, in)
		for _, columns := range []int{0, 7} {
			if got := showBy(View{Render: true, Screen: Screen{Columns: columns}}, []byte(in), 1+r.IntN(50)); got != in {
				t.Fatalf("shown at %d columns: %.500q; want %.500q", columns, got, in)
			}
		}
	}
}

// checkRender checks what holds for any input: it doesn't matter in which portions it
// comes, and the outcome is text that rendering leaves alone.
func checkRender(in []byte, v View, portion int) error {
	got := showBy(v, in, max(1, len(in)))
	if by := showBy(v, in, portion); by != got {
		return fmt.Errorf("by %d bytes %q; want %q", portion, by, got)
	}
	if !utf8.ValidString(got) {
		return fmt.Errorf("%q isn't UTF-8", got)
	}
	if i := strings.IndexFunc(got, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 }); i >= 0 {
		return fmt.Errorf("%q has a control character at %d", got, i)
	}
	if again, _ := v.Show([]byte(got)); again != got {
		return fmt.Errorf("once more: %q; want %q", again, got)
	}
	return nil
}

var escapes = []string{
	"\x1b[A", "\x1b[2B", "\x1b[3C", "\x1b[D", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1J", "\x1b[2J", "\x1b[H", "\x1b[3;5H", "\x1b[5G", "\x1b[2d",
	"\x1b[2L", "\x1b[M", "\x1b[2P", "\x1b[3@", "\x1b[2X", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b]0;t\x07", "\x1b[31m", "\x1b", "\r", "\b", "\t", "\n", "\x1b[E", "\x1b[F",
	"日", "e\u0301", "\xff",
}

func TestRenderAnything(t *testing.T) {
	r := newRand(10)
	for range 3000 {
		var in []byte
		for range r.IntN(60) {
			if r.IntN(2) == 0 {
				in = append(in, escapes[r.IntN(len(escapes))]...)
			} else {
				in = append(in, "some text"[:r.IntN(10)]...)
			}
		}
		v := View{Render: true, Screen: Screen{Rows: 1 + r.IntN(9), Columns: 2 + r.IntN(20)}}
		if err := checkRender(in, v, 1+r.IntN(9)); err != nil {
			t.Fatalf("%v for %q at %+v", err, in, v.Screen)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, e := range escapes {
		f.Add([]byte("one\ntwo"+e+"three\n"), 3, 5, 7)
	}
	f.Fuzz(func(t *testing.T, in []byte, rows, columns, portion int) {
		if len(in) > 4<<10 {
			return
		}
		v := View{Render: true, Screen: Screen{Rows: rows & 31, Columns: columns & 63}}
		if err := checkRender(in, v, max(1, portion&15)); err != nil {
			t.Errorf("%v at %+v", err, v.Screen)
		}
	})
}

// TestRenderBounded writes much without an end of a line, and looks at what is held.
func TestRenderBounded(t *testing.T) {
	n := 0
	r := NewRenderer(writerFunc(func(p []byte) (int, error) {
		n += len(p)
		return len(p), nil
	}), View{Render: true, Fold: true, Redact: NewRedactor(nil, true)})
	chunk := bytes.Repeat([]byte("\x1b[1mnever ending \x1b[0m"), 1000)
	text := 1000 * len("never ending ")
	for range 200 {
		if _, err := r.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if cap(r.out) > 4<<20 || cap(r.redact.held) > 4*maxHeld {
			t.Fatalf("%d and %d bytes held", cap(r.out), cap(r.redact.held))
		}
	}
	if err := r.Close(); err != nil || n != 200*text {
		t.Errorf("%d bytes, %v; want %d", n, err, 200*text)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestRendererPasses shows that a view of nothing holds nothing back, such as a prompt,
// and the others no more than they have to.
func TestRendererPasses(t *testing.T) {
	for _, tc := range []struct {
		name string
		view View
		in   string
		want string
	}{
		{"nothing", View{}, "Password: ", "Password: "},
		{"folded", View{Fold: true}, "one\ntwo\nthr", "one\ntwo\n"},
		{"redacted", View{Redact: NewRedactor(nil, true)}, "one\ntwo\nthr", "one\ntwo\n"},
		{"rendered", View{Render: true, Screen: Screen{Rows: 2}}, "one\ntwo\nthree\nfour", "one\ntwo\n"},
	} {
		var b strings.Builder
		r := NewRenderer(&b, tc.view)
		if _, err := r.Write([]byte(tc.in)); err != nil || b.String() != tc.want {
			t.Errorf("%s: after Write(%q) %q, %v; want %q", tc.name, tc.in, b.String(), err, tc.want)
		}
		if err := r.Close(); err != nil || b.String() != tc.in {
			t.Errorf("%s: after Close %q, %v; want %q", tc.name, b.String(), err, tc.in)
		}
	}
}

func TestRendererFails(t *testing.T) {
	failed := errors.New("full")
	r := NewRenderer(writerFunc(func([]byte) (int, error) { return 0, failed }), View{})
	for range 2 {
		if n, err := r.Write([]byte("one\ntwo\n")); n != 0 || !errors.Is(err, failed) {
			t.Errorf("Write = %d, %v; want 0 and the writer's error", n, err)
		}
	}
	if err := r.Close(); !errors.Is(err, failed) {
		t.Errorf("Close = %v; want the writer's error", err)
	}
}

func BenchmarkRender(b *testing.B) {
	r := newRand(1)
	for name, in := range map[string][]byte{
		"plain":  wordsAt(r, 8<<20),
		"colour": bytes.ReplaceAll(wordsAt(r, 8<<20), []byte("INFO"), []byte("\x1b[32mINFO\x1b[0m")),
		"frames": []byte(strings.Repeat(frames(500), 200)),
		"runes":  bytes.Repeat([]byte("日本語のテキスト é ß\n"), 200000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				w := NewRenderer(io.Discard, View{Render: true})
				_, _ = w.Write(in)
				_ = w.Close()
			}
		})
	}
}

// wordsAt is a log of n bytes for benchmarks.
func wordsAt(r *rand.Rand, n int) []byte {
	words := strings.Fields("request handled by worker connection from upstream cache refresh completed compiling module testing value=30s retry queue GET /api/v1/items 200 user session latency")
	b := make([]byte, 0, n+4096)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "2026-11-30T17:%02d:%02d.%03dZ [worker-%d] INFO", i/60000%60, i/1000%60, i%1000, r.IntN(16))
		for range 3 + r.IntN(12) {
			b = append(append(b, ' '), words[r.IntN(len(words))]...)
		}
		if r.IntN(2000) == 0 {
			b = append(b, " ERROR: something failed badly"...)
		}
		b = append(b, '\n')
	}
	return b[:n]
}

// randomLines returns n bytes with lines of all lengths, runes of all lengths, and
// bytes that aren't UTF-8.
func randomLines(r *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		switch r.IntN(8) {
		case 0:
			b = append(b, '\n')
		case 1:
			b = append(b, "\r\n"...)
		case 2:
			b = append(b, byte(r.IntN(256)))
		case 3:
			b = utf8.AppendRune(b, []rune{'é', '€', '😀', 'ß', '\u0301', '日'}[r.IntN(6)])
		default:
			b = append(b, "error Warning fail ok done 42 "[r.IntN(20):][:r.IntN(10)]...)
		}
	}
	return b[:n]
}
