package intercept_test

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

func TestLiftLimits(t *testing.T) {
	type limits = intercept.Limits
	for _, tt := range []struct {
		command, rest string
		want          limits
	}{
		{"make | head -n 20", "make", limits{Head: 20}},
		{"make | head -20", "make", limits{Head: 20}},
		{"make | head -n20", "make", limits{Head: 20}},
		{"make | head --lines=20", "make", limits{Head: 20}},
		{"make | head --lines 20", "make", limits{Head: 20}},
		{"make | tail -n 5", "make", limits{Tail: 5}},
		{"make | tail -5", "make", limits{Tail: 5}},
		{" \tmake  -j 4 | 'head' -n \"3\" \n", "make  -j 4", limits{Head: 3}},
		{"make 2>&1 | tail -n 5", "make 2>&1", limits{Tail: 5}},
		{"X=1 make | grep -v x | sort | head -n 5", "X=1 make | grep -v x | sort", limits{Head: 5}},
		{"cd x | cat | head -n 5", "cd x | cat", limits{Head: 5}},
		{"a 'b | head -n 1' | head -n 2", "a 'b | head -n 1'", limits{Head: 2}},
		{"a $(b | head -n 1) | head -n 2", "a $(b | head -n 1)", limits{Head: 2}},
		{"a | head -n 1 | head -n 2", "a | head -n 1", limits{Head: 2}},
		{"a \\\n | head -n 2", "a \\\n", limits{Head: 2}},

		{"head -n 5", "head -n 5", limits{}},
		{"make | head", "make | head", limits{}},
		{"make | head -n 5 f", "make | head -n 5 f", limits{}},
		{"make | head -n 0", "make | head -n 0", limits{}},
		{"make | head -n -5", "make | head -n -5", limits{}},
		{"make | tail -n +5", "make | tail -n +5", limits{}},
		{"make | head -c 5", "make | head -c 5", limits{}},
		{"make | head -5c", "make | head -5c", limits{}},
		{"make | head -n 5k", "make | head -n 5k", limits{}},
		{"make | head -n $n", "make | head -n $n", limits{}},
		{"make | head -n 5 -q", "make | head -n 5 -q", limits{}},
		{"make | tail -f -n 5", "make | tail -f -n 5", limits{}},
		{"make | tail -n 99999999999999999999", "make | tail -n 99999999999999999999", limits{}},
		{"make | head -n 5 | sort", "make | head -n 5 | sort", limits{}},
		{"make | head -n 5; x", "make | head -n 5; x", limits{}},
		{"x; make | head -n 5", "x; make | head -n 5", limits{}},
		{"x\nmake | head -n 5", "x\nmake | head -n 5", limits{}},
		{"x && make | head -n 5", "x && make | head -n 5", limits{}},
		{"make | head -n 5 || x", "make | head -n 5 || x", limits{}},
		{"make | head -n 5 &", "make | head -n 5 &", limits{}},
		{"make | head -n 5;", "make | head -n 5;", limits{}},
		{"make | head -n 5 > f", "make | head -n 5 > f", limits{}},
		{"make | X=1 head -n 5", "make | X=1 head -n 5", limits{}},
		{"make |& head -n 5", "make |& head -n 5", limits{}},
		{"make |& x | head -n 5", "make |& x | head -n 5", limits{}},
		{"! make | head -n 5", "! make | head -n 5", limits{}},
		{"time make | head -n 5", "time make | head -n 5", limits{}},
		{"(make) | head -n 5", "(make) | head -n 5", limits{}},
		{"{ make; x; } | head -n 5", "{ make; x; } | head -n 5", limits{}},
		{"for i in a; do b; done | head -n 5", "for i in a; do b; done | head -n 5", limits{}},
		{"cat <<E | head -n 5\na\nE", "cat <<E | head -n 5\na\nE", limits{}},
		{"make | # why\nhead -n 5", "make", limits{Head: 5}},
		{"make | head -n 5 # why", "make | head -n 5 # why", limits{}},
		{"cd x | head -n 5", "cd x | head -n 5", limits{}},
		{"export A=1 | head -n 5", "export A=1 | head -n 5", limits{}},
		{"exec make | head -n 5", "exec make | head -n 5", limits{}},
		{"$x y | head -n 5", "$x y | head -n 5", limits{}},
		{"A=1 | head -n 5", "A=1 | head -n 5", limits{}},
		{"echo 'a | head -n 5'", "echo 'a | head -n 5'", limits{}},
		{"echo 'a | head -n 5", "echo 'a | head -n 5", limits{}},
		{"", "", limits{}},
	} {
		rest, got := intercept.LiftLimits(tt.command)
		if got != tt.want || intercept.Trim(rest) != intercept.Trim(tt.rest) {
			t.Errorf("LiftLimits(%q) = %q, %+v; want %q, %+v", tt.command, rest, got, tt.rest, tt.want)
		}
	}
}

// What a lifted command writes, cut, is what the whole one wrote.
func TestLiftedOutput(t *testing.T) {
	testenv.NeedTool(t, "bash")
	for _, command := range []string{
		"seq 100 | head -n 7",
		"seq 100 | tail -7",
		"seq 100 | sort -rn | grep 5 | head -n 4",
		"printf 'a\\nb' | tail -n 1",
		"seq 3 | head -n 50",
		"bash -c 'echo out; echo err >&2' 2>&1 | tail -n 2",
	} {
		rest, l := intercept.LiftLimits(command)
		if l == (intercept.Limits{}) {
			t.Errorf("LiftLimits(%q) lifts nothing", command)
		}
		want := testenv.Output(t, testenv.Command(t, "bash", "-c", command))
		lines := strings.SplitAfter(testenv.Output(t, testenv.Command(t, "bash", "-c", rest)), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if l.Head > 0 {
			lines = lines[:min(l.Head, len(lines))]
		}
		if l.Tail > 0 {
			lines = lines[max(0, len(lines)-l.Tail):]
		}
		if got := strings.Join(lines, ""); got != want {
			t.Errorf("%q writes %q; %q cut to %+v is %q", command, want, rest, l, got)
		}
	}
}

func TestTrim(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{" \n\t", ""},
		{" a  b \r\n", "a  b"},
		{`a \ `, `a \ `},
		{`a \   `, `a \ `},
		{`a \\ `, `a \\`},
		{`a \`, `a \`},
	} {
		if got := intercept.Trim(tt.in); got != tt.want {
			t.Errorf("Trim(%q) = %q; want %q", tt.in, got, tt.want)
		}
	}
}

func TestLimitsOr(t *testing.T) {
	type limits = intercept.Limits
	for _, tt := range []struct{ a, b, want limits }{
		{limits{}, limits{Head: 1, Tail: 2}, limits{Head: 1, Tail: 2}},
		{limits{Head: 3}, limits{Head: 1, Tail: 2}, limits{Head: 3, Tail: 2}},
		{limits{Tail: 3}, limits{}, limits{Tail: 3}},
	} {
		if got := tt.a.Or(tt.b); got != tt.want {
			t.Errorf("%+v.Or(%+v) = %+v; want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}
