package intercept_test

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

var allTools = []string{"read", "search", "find", "edit", "write", "other"}

func TestDefaultRules(t *testing.T) {
	in, bad := intercept.New(intercept.DefaultRules())
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	for _, tt := range []struct{ command, tool, part string }{
		{"cat a.txt", "read", "cat a.txt"},
		{"'cat'  'a.txt'", "read", "cat a.txt"},
		{`c\at "a b"`, "read", `cat "a b"`},
		{"/bin/cat a", "read", "/bin/cat a"},
		{"X=1 cat a", "read", "cat a"},
		{"cat a 2>/dev/null", "read", "cat a\n2> /dev/null"},
		{"head -n 20 a", "read", "head -n 20 a"},
		{"tail -50 a", "read", "tail -50 a"},
		{"less a", "read", "less a"},
		{"cat *.md", "read", "cat *.md"},
		{"cd x && cat a", "read", "cat a"},
		{"true; cat a", "read", "cat a"},
		{"true\ncat a", "read", "cat a"},
		{"true & cat a", "read", "cat a"},
		{"{ cat a; }", "read", "cat a"},
		{"(cat a)", "read", "cat a"},
		{"time cat a", "read", "cat a"},
		{"! cat a", "read", "cat a"},
		{"cat a | wc -l", "read", "cat a"},
		{"grep -rn x .", "search", "grep -rn x ."},
		{"rg 'a b' src", "search", "rg 'a b' src"},
		{"find . -name '*.go'", "find", "find . -name '*.go'"},
		{"find", "find", "find"},
		{"fd x", "find", "fd x"},
		{"sed -i s/a/b/ f", "edit", "sed -i s/a/b/ f"},
		{"sed -E -i.bak 's/a/b/' f", "edit", "sed -E -i.bak s/a/b/ f"},
		{"sed -ni p f", "edit", "sed -ni p f"},
		{"perl -pi -e 's/a/b/' f", "edit", "perl -pi -e s/a/b/ f"},
		{"awk -i inplace 1 f", "edit", "awk -i inplace 1 f"},
		{"echo hi > f", "write", "echo hi\n> f"},
		{"echo hi>f", "write", "echo hi\n> f"},
		{"echo >f", "write", "echo\n> f"},
		{"printf x >> f", "write", "printf x\n>> f"},
		{"cat > f <<'EOF'\nx $y\nEOF", "write", "cat\n> f\n<< EOF"},
		{"cat <<EOF > f\nx\nEOF\n", "write", "cat\n<< EOF\n> f"},

		// What these tools can't replace.
		{"cat", "", ""},
		{"cat -", "", ""},
		{"make | cat", "", ""},
		{"make | grep x", "", ""},
		{"make 2>&1 | tail -n 5", "", ""},
		{"for f in *; do cat $f; done", "", ""},
		{"x=$(cat a)", "", ""},
		{"echo \"$(cat a)\"", "", ""},
		{"diff <(cat a) b", "", ""},
		{"f() { cat a; }", "", ""},
		{"if grep -q x f; then y; fi", "", ""},
		{"grep -q x f && y", "", ""},
		{"tail -f log", "", ""},
		{"tail -n 5 --follow log", "", ""},
		{"cat /proc/meminfo", "", ""},
		{"cat < in > out", "write", "cat\n< in\n> out"},
		{"cat a b > c", "write", "cat a b\n> c"},
		{"find . -exec rm {} +", "", ""},
		{"find . -delete", "", ""},
		{"find . -print0 | xargs -0 rm", "", ""},
		{"sed s/a/b/ f", "", ""},
		{"sed -n 1,5p f", "", ""},
		{"perl -MList::Util -e 1", "", ""},
		{"echo 'a > b'", "", ""},
		{"echo 'a\n> b'", "", ""},
		{"echo hi", "", ""},
		{"echo hi >&2", "", ""},
		{"echo hi > /dev/null", "", ""},
		{"echo $PATH > f", "", ""},
		{"date > f", "", ""},
		{"catalog a", "", ""},
		{"git grep x", "", ""},
		{"findmnt", "", ""},
		{"# cat a", "", ""},
		{"", "", ""},
		{"cat a 'unfinished", "", ""},
	} {
		b := in.Check(tt.command, allTools)
		switch {
		case b == nil && tt.tool == "":
		case b == nil:
			t.Errorf("Check(%q) blocks nothing; want %s", tt.command, tt.tool)
		case b.Tool != tt.tool || b.Part != tt.part || b.Command != tt.command || b.Message == "":
			t.Errorf("Check(%q) = %+v; want %s for %q", tt.command, *b, tt.tool, tt.part)
		}
	}
}

func TestAvailable(t *testing.T) {
	in, _ := intercept.New([]intercept.Rule{
		{Match: "^cat ", Tool: "first", Message: "use the first"},
		{Match: "^cat ", Tool: "second", Message: "use the second"},
	})
	for _, tt := range []struct {
		tools []string
		want  string
	}{
		{nil, ""},
		{[]string{"third"}, ""},
		{[]string{"second", "first"}, "first"},
		{[]string{"second"}, "second"},
	} {
		got := ""
		if b := in.Check("cat a", tt.tools); b != nil {
			got = b.Tool
		}
		if got != tt.want {
			t.Errorf("with %q Check suggests %q; want %q", tt.tools, got, tt.want)
		}
	}
	b := in.Check("cat a", []string{"first"})
	if got, want := b.Error(), "Blocked: use the first\n\nOriginal command: cat a"; got != want {
		t.Errorf("Error() = %q; want %q", got, want)
	}
}

func TestBadRules(t *testing.T) {
	in, bad := intercept.New([]intercept.Rule{
		{Match: "(", Tool: "t"},
		{Match: "a", Tool: "t", Unless: "["},
		{Match: "", Tool: "t"},
		{Match: "a"},
		{Match: "^good$", Tool: "t"},
	})
	if len(bad) != 4 {
		t.Fatalf("New() reports %v; want 4", bad)
	}
	for i, b := range bad {
		if b.Index != i || b.Err == nil || !strings.Contains(b.Error(), "rule") {
			t.Errorf("bad rule %d: %+v", i, b)
		}
	}
	var e *syntax.Error
	if !errors.As(bad[0], &e) {
		t.Errorf("bad[0] = %v; want the regular expression's error", bad[0])
	}
	if in.Check("good", []string{"t"}) == nil {
		t.Error("the good rule is not in force")
	}
}

// A command made to exhaust the parser is not parsed.
func TestTooLarge(t *testing.T) {
	in, _ := intercept.New([]intercept.Rule{{Match: "x", Tool: "t"}})
	for _, command := range []string{strings.Repeat("(", 10<<20), strings.Repeat("(", 60_000), "echo " + strings.Repeat("x", 1<<20)} {
		if b := in.Check(command, []string{"t"}); b != nil {
			t.Error("a command that is too large is blocked")
		}
		if _, err := intercept.Words(command); !errors.Is(err, intercept.ErrTooLarge) {
			t.Errorf("Words: %v; want ErrTooLarge", err)
		}
		if ok, err := intercept.HasPrefix(command, []string{"echo"}); ok || err != nil {
			t.Errorf("HasPrefix: %v, %v", ok, err)
		}
		if got, l := intercept.LiftLimits(command); got != command || l != (intercept.Limits{}) {
			t.Errorf("LiftLimits: %d bytes, %v", len(got), l)
		}
	}
}
