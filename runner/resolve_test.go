package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

func TestNew(t *testing.T) {
	tests := []struct {
		name string
		c    Config
		want error
	}{
		{"no executor", Config{}, ErrNilExecutor},
		{"zero", Config{Executor: &fake{}}, nil},
		{"negative timeout", Config{Executor: &fake{}, Timeout: -5}, ErrInvalidConfig},
		{"no timeout", Config{Executor: &fake{}, Timeout: None}, ErrInvalidConfig},
		{"no timeout, allowed", Config{Executor: &fake{}, Timeout: None, AllowNoTimeout: true}, nil},
		{"bad leftover", Config{Executor: &fake{}, Leftover: "x"}, ErrInvalidConfig},
		{"bad keep", Config{Executor: &fake{}, Keep: "x"}, ErrInvalidConfig},
		{"bad signal", Config{Executor: &fake{}, Stop: []StopStep{{Signal: 99}}}, ErrInvalidConfig},
		{"negative budget", Config{Executor: &fake{}, Budget: -1}, ErrInvalidConfig},
		{"empty prefix", Config{Executor: &fake{}, NoTimeoutFor: []string{" "}}, ErrInvalidConfig},
	}
	for _, tt := range tests {
		if _, err := New(tt.c); !errors.Is(err, tt.want) {
			t.Errorf("%s: New() = %v; want %v", tt.name, err, tt.want)
		}
	}
}

// What a request asks for becomes a spec, or a reason why not.
func TestResolve(t *testing.T) {
	rules, bad := intercept.New(intercept.DefaultRules())
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	c := Config{
		Executor: &fake{}, Shell: []string{"/bin/bash"}, Dir: "/src/project", MaxTimeout: 10 * time.Minute,
		NoTimeoutFor: []string{"npm run"}, Intercept: rules, Tools: []string{"read"}, Lift: true,
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	long := "echo " + strings.Repeat("x", maxArg)
	tests := []struct {
		name string
		q    Request
		want func(s *Spec) bool
		err  error
	}{
		{"empty", Request{}, nil, ErrEmptyCommand},
		{"white space", Request{Command: " \n\t"}, nil, ErrEmptyCommand},
		{"empty program", Request{Argv: []string{""}}, nil, ErrEmptyCommand},
		{"both", Request{Command: "x", Argv: []string{"x"}}, nil, ErrInvalidInput},
		{"NUL", Request{Command: "a\x00b"}, nil, ErrInvalidInput},
		{"trimmed", Request{Command: "  a  b \n"}, func(s *Spec) bool { return s.Command == "a  b" && s.Argv[2] == "a  b" }, nil},
		{"shell", Request{Command: "x", Shell: []string{"/bin/bash", "-o", "pipefail"}}, func(s *Spec) bool {
			return slices.Equal(s.Argv, []string{"/bin/bash", "-o", "pipefail", "-c", "x"})
		}, nil},
		{"no shell", Request{Argv: []string{"a", "b c"}}, func(s *Spec) bool { return slices.Equal(s.Argv, []string{"a", "b c"}) && s.Command == "" }, nil},
		{"long", Request{Command: long}, func(s *Spec) bool {
			return slices.Equal(s.Argv, []string{"/bin/bash", "/dev/fd/3"}) && string(s.Script) == long+"\n"
		}, nil},
		{"long, as an argument", Request{Command: long, Transport: TransportArgv}, nil, ErrInvalidInput},
		{"transport", Request{Command: "x", Transport: "mail"}, nil, ErrInvalidInput},
		{"relative folder", Request{Command: "x", Dir: "sub/../web"}, func(s *Spec) bool { return s.Dir == "/src/project/web" }, nil},
		{"its timeout", Request{Command: "x", Timeout: time.Minute}, func(s *Spec) bool { return s.Timeout == time.Minute }, nil},
		{"the usual timeout", Request{Command: "x"}, func(s *Spec) bool { return s.Timeout == 2*time.Minute }, nil},
		{"too long a timeout", Request{Command: "x", Timeout: time.Hour}, func(s *Spec) bool {
			return s.Timeout == 10*time.Minute && len(s.Notes) == 1 && strings.Contains(s.Notes[0], "1h0m0s")
		}, nil},
		{"no timeout, not allowed", Request{Command: "x", Timeout: None}, func(s *Spec) bool { return s.Timeout == 10*time.Minute && len(s.Notes) == 1 }, nil},
		{"exempt", Request{Command: "npm run dev"}, func(s *Spec) bool { return s.Timeout == 0 }, nil},
		{"exempt without a shell", Request{Argv: []string{"npm", "run", "it's"}}, func(s *Spec) bool { return s.Timeout == 0 }, nil},
		{"exempt, but asked for", Request{Command: "npm run dev", Timeout: time.Second}, func(s *Spec) bool { return s.Timeout == time.Second }, nil},
		{"not exempt", Request{Command: "npm run dev; rm x"}, func(s *Spec) bool { return s.Timeout == 2*time.Minute }, nil},
		{"negative timeout", Request{Command: "x", IdleTimeout: -7}, nil, ErrInvalidInput},
		{"stop", Request{Command: "x", Stop: []StopStep{{syscall.SIGINT, time.Second}}}, func(s *Spec) bool { return s.Stop[0].Signal == syscall.SIGINT }, nil},
		{"bad stop", Request{Command: "x", Stop: []StopStep{{0, 0}}}, nil, ErrInvalidInput},
		{"bad leftover", Request{Command: "x", Leftover: "x"}, nil, ErrInvalidInput},
		{"bad keep", Request{Command: "x", Keep: "x"}, nil, ErrInvalidInput},
		{"negative budget", Request{Command: "x", Budget: -1}, nil, ErrInvalidInput},
		{"managed name among others", Request{Command: "x", Env: []string{"SHOFER_A=1"}}, nil, ErrInvalidInput},
		{"other name among the managed", Request{Command: "x", Managed: []string{"A=1"}}, nil, ErrInvalidInput},
		{"environment", Request{Command: "x", Env: []string{"A=1"}, Managed: []string{"SHOFER_A=2"}}, func(s *Spec) bool {
			return slices.Contains(s.Env, "A=1") && slices.Contains(s.Env, "SHOFER_A=2") && !slices.Contains(s.Env, "API_KEY=x")
		}, nil},
		{"lifted head", Request{Command: "make | head -n 3"}, func(s *Spec) bool { return s.Command == "make" && s.Lines.Head == 3 && len(s.Notes) == 1 }, nil},
		{"lifted tail", Request{Command: "make | tail -5"}, func(s *Spec) bool { return s.Command == "make" && s.Lines.Tail == 5 && s.Keep == KeepTail }, nil},
		{"not lifted", Request{Command: "make | head -n 3 | sort"}, func(s *Spec) bool { return s.Lines == (intercept.Limits{}) }, nil},
		{"intercepted", Request{Command: "cat README.md"}, nil, ErrInvalidInput},
		{"terminal", Request{Command: "x", Terminal: &Size{24, 80}}, func(s *Spec) bool { return s.Merge && !slices.Contains(s.Env, "TERM=dumb") }, nil},
	}
	for _, tt := range tests {
		s, err := r.Resolve(tt.q)
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: Resolve() = %v; want %v", tt.name, err, tt.err)
			continue
		}
		if err == nil && !tt.want(s) {
			t.Errorf("%s: Resolve() = %s", tt.name, s)
		}
	}
	var blocked *BlockedError
	if _, err := r.Resolve(Request{Command: "cat README.md"}); !errors.As(err, &blocked) || blocked.Suggestion.Tool != "read" {
		t.Errorf("a command that a tool does better: %v; want the tool", err)
	}
}

// A spec says where each of its values came from, and no secret.
func TestSpecExplains(t *testing.T) {
	r, err := New(Config{Executor: &fake{}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Resolve(Request{Command: "x", Timeout: 24 * time.Hour, Env: []string{"PASSWORD=hunter2"}, Stdin: []byte("hunter2")})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{string(text), s.String(), fmt.Sprint(s.Origins)} {
		if strings.Contains(out, "hunter2") {
			t.Errorf("a secret is shown: %s", out)
		}
	}
	from := map[string]From{}
	for _, o := range s.Origins {
		from[o.Field] = o.From
	}
	for field, want := range map[string]From{
		"shell": FromDefault, "dir": FromDefault, "timeout": FromCap, "soft_timeout": FromDefault, "idle_timeout": FromDefault,
		"stop": FromDefault, "leftover": FromDefault, "budget": FromDefault, "keep": FromDefault, "transport": FromDefault,
	} {
		if from[field] != want {
			t.Errorf("the origin of %s is %q; want %q", field, from[field], want)
		}
	}
	if !strings.Contains(string(text), `"name":"API_KEY","layer":"scrub","action":"dropped"`) {
		t.Errorf("the dropped credential isn't listed: %s", text)
	}
}

func TestKeepLines(t *testing.T) {
	tests := []struct {
		o    Output
		n    int
		want string
		gone int64
	}{
		{Output{Head: []byte("a\nb\nc\n")}, 2, "b\nc\n", 2},
		{Output{Head: []byte("a\nb\nc")}, 2, "b\nc", 2},
		{Output{Head: []byte("a\nb\n")}, 5, "", 0},
		{Output{Head: []byte("a\n")}, 1, "", 0},
		{Output{Head: []byte("x"), Tail: []byte("a\nb\n"), Omitted: 7}, 1, "b\n", 10},
		{Output{}, 3, "", 0},
		{Output{Head: []byte("a\n")}, 0, "", 0},
	}
	for _, tt := range tests {
		before := string(tt.o.Head)
		tt.o.keepLines(tt.n)
		if string(tt.o.Tail) != tt.want || tt.o.Omitted != tt.gone {
			t.Errorf("keepLines(%d) leaves %q, %d omitted; want %q, %d", tt.n, tt.o.Tail, tt.o.Omitted, tt.want, tt.gone)
		}
		if tt.want == "" && string(tt.o.Head) != before {
			t.Errorf("keepLines(%d) leaves %q of %q; want all", tt.n, tt.o.Head, before)
		}
	}
}
