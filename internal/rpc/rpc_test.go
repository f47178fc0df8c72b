package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// serveHelper is a server on its standard streams.
func serveHelper(args []string) int {
	e, err := local.New(local.Config{Policy: testPolicy(args[0]), Supervisor: local.Self})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := Serve(context.Background(), Config{Runner: runner.Config{Executor: e}}, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestInfo(t *testing.T) {
	c := newSession(t, Config{Version: "v1"})
	var got struct {
		Protocol  int
		Version   string
		Store     bool
		Authority struct{ Name string }
	}
	c.ok("info", nil, &got)
	if got.Protocol != Protocol || got.Version != "v1" || !got.Store || got.Authority.Name != "local" {
		t.Errorf("info: %+v", got)
	}
	c.ok("info", params{}, nil)
	c.line(`{"id": 0, "method": "info", "params": null}`)
	if m := c.next(); m.Error != nil || string(m.ID) != "0" {
		t.Errorf("info with null: %+v", m)
	}
}

func TestRun(t *testing.T) {
	c := newSession(t, Config{})
	one, three := 1, 3
	tests := []struct {
		p    params
		want func(r result) bool
	}{
		{params{"command": "echo out; echo err >&2; exit 3"}, func(r result) bool {
			return r.Stdout.Text == "out\n" && r.Stderr.Text == "err\n" && *r.ExitCode == three && r.State == "exited"
		}},
		{params{"argv": []string{"printf", "%s", "a b"}}, func(r result) bool { return r.Stdout.Text == "a b" }},
		{params{"command": "echo out; echo err >&2", "merge": true}, func(r result) bool {
			return r.Merged.Text == "out\nerr\n" && r.Stdout == nil
		}},
		{params{"command": "cat", "stdin": "in <&>"}, func(r result) bool { return r.Stdout.Text == "in <&>" }},
		{params{"command": "cat", "stdin_base64": []byte{0, 255}}, func(r result) bool {
			return r.Stdout.Encoding == "base64" && r.Stdout.Text == "AP8="
		}},
		{params{"command": "cat"}, func(r result) bool { return *r.ExitCode == 0 && r.Stdout.Bytes == 0 }},
		{params{"command": "pwd", "dir": "sub"}, func(r result) bool { return strings.HasSuffix(r.Stdout.Text, "/sub\n") }},
		{params{"command": `echo "$A$SHOFER_B${HOME-unset}"`, "env": []string{"A=a"}, "managed": []string{"SHOFER_B=b"}, "unset": []string{"HOME"}}, func(r result) bool {
			return r.Stdout.Text == "abunset\n"
		}},
		{params{"command": "sleep 60", "timeout_ms": 50, "stop": []any{}}, func(r result) bool {
			return r.TimedOut && r.ExitCode == nil && r.KilledBy == "timeout" && r.State == "killed"
		}},
		{params{"command": "echo x; sleep 60", "idle_timeout_ms": 50, "stop": []any{params{"signal": "TERM", "wait_ms": 2000}}}, func(r result) bool {
			return r.TimedOut && r.KilledBy == "idle"
		}},
		{params{"command": "trap 'exit 1' TERM; sleep 60 & wait", "timeout_ms": 3000, "stop": []any{params{"signal": "TERM", "wait_ms": 30_000}}}, func(r result) bool {
			return r.TimedOut && r.ExitCode != nil && *r.ExitCode == one
		}},
		{params{"command": "tty; stty size", "terminal": params{"rows": 7, "cols": 9}}, func(r result) bool {
			return strings.HasPrefix(r.Merged.Text, "/dev/pts/") && strings.Contains(r.Merged.Text, "7 9")
		}},
		{params{"command": "seq 10000", "keep": "tail", "budget": 20, "label": "numbers"}, func(r result) bool {
			return strings.HasSuffix(r.Stdout.Text, "bytes omitted...]\n9998\n9999\n10000\n") && r.Stdout.Truncated && r.Label == "numbers"
		}},
		{params{"command": "nonesuch-command"}, func(r result) bool { return *r.ExitCode == 127 }},
	}
	var info struct{ Authority struct{ Dir string } }
	c.ok("info", nil, &info)
	if err := os.Mkdir(filepath.Join(info.Authority.Dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if r := c.run(tt.p); !tt.want(r) {
			b, _ := json.MarshalIndent(r, "", "  ")
			t.Errorf("run(%v): %s", tt.p, b)
		}
	}
}

func TestErrors(t *testing.T) {
	c := newSession(t, Config{})
	ended := c.run(params{"command": "true"})
	tests := []struct {
		method string
		p      params
		want   string
	}{
		{"run", params{}, "EMPTY_COMMAND"},
		{"run", params{"command": " "}, "EMPTY_COMMAND"},
		{"run", params{"command": "a", "argv": []string{"a"}}, "INVALID_INPUT"},
		{"run", params{"command": "true", "dir": "/nonesuch"}, "BAD_DIRECTORY"},
		{"start", params{"argv": []string{"/nonesuch"}}, "START_FAILED"},
		{"run", params{"argv": []string{"/nonesuch"}}, "START_FAILED"},
		{"run", params{"command": "true", "stdin": "", "stdin_base64": ""}, "INVALID_PARAMS"},
		{"run", params{"command": "true", "stop": []any{params{"signal": "SIGNONE"}}}, "INVALID_PARAMS"},
		{"run", params{"command": "true", "env": []string{"SHOFER_X=1"}}, "INVALID_INPUT"},
		{"resolve", params{"command": "true", "timeout_ms": 1 << 61}, "INVALID_PARAMS"},
		{"get", params{"command": "x"}, "UNKNOWN_ID"},
		{"wait", params{"command": "x"}, "UNKNOWN_ID"},
		{"kill", params{"command": "x"}, "UNKNOWN_ID"},
		{"write", params{"command": ended.ID, "text": "x"}, "NO_STDIN"},
		{"close_stdin", params{"command": ended.ID}, "NO_STDIN"},
		{"resize", params{"command": ended.ID, "rows": 1, "cols": 1}, "NO_TERMINAL"},
		{"feedback", params{"command": ended.ID, "text": "x"}, "ENDED"},
		{"read", params{"artifact": "../etc/passwd"}, "UNKNOWN_ARTIFACT"},
		{"read", params{"artifact": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "UNKNOWN_ARTIFACT"},
		{"read", params{"artifact": "cmd-1.txt"}, "UNKNOWN_ARTIFACT"},
		{"approve", params{"approval": "a1"}, "UNKNOWN_APPROVAL"},
		{"unsubscribe", params{"subscription": "s1"}, "UNKNOWN_SUBSCRIPTION"},
		{"subscribe", params{"command": "x"}, "UNKNOWN_ID"},
	}
	for _, tt := range tests {
		if got := c.code(tt.method, tt.p); got != tt.want {
			t.Errorf("%s(%v): %s; want %s", tt.method, tt.p, got, tt.want)
		}
	}
	m := c.call("run", params{"argv": []string{"/nonesuch"}})
	var r result
	if err := json.Unmarshal(m.Error.Result, &r); err != nil || r.State != "failed" || r.HandedOff || r.ErrorCode != "START_FAILED" {
		t.Errorf("what is known of a command that could not start: %+v, %v", r, err)
	}
}

// TestMalformed: nonsense is answered, and is not the end.
func TestMalformed(t *testing.T) {
	c := newSession(t, Config{})
	tests := []struct{ line, id, code string }{
		{`nonsense`, "null", CodeInvalidRequest},
		{`{`, "null", CodeInvalidRequest},
		{`[]`, "null", CodeInvalidRequest},
		{`null`, "null", CodeInvalidRequest},
		{`{}`, "null", CodeInvalidRequest},
		{"\x00\xff", "null", CodeInvalidRequest},
		{`{"id": 1, "method": "info"} trailing`, "null", CodeInvalidRequest},
		{`{"method": "info"}`, "null", CodeInvalidRequest},
		{`{"id": null, "method": "info"}`, "null", CodeInvalidRequest},
		{`{"id": 1.5, "method": "info"}`, "null", CodeInvalidRequest},
		{`{"id": {}, "method": "info"}`, "null", CodeInvalidRequest},
		{`{"id": "` + strings.Repeat("x", 300) + `", "method": "info"}`, "null", CodeInvalidRequest},
		{`{"id": -1}`, "-1", CodeInvalidRequest},
		{`{"id": -1, "method": 1}`, "-1", CodeInvalidRequest},
		{`{"id": -1, "method": "info", "Method": "run"}`, "-1", CodeInvalidRequest},
		{`{"id": -1, "method": "nonesuch"}`, "-1", CodeUnknownMethod},
		{`{"id": -1, "method": "info", "params": {"x": 1}}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "run", "params": {"command": "true", "policy": {}}}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "run", "params": []}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "run", "params": {"command": 1}}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "read", "params": {"command": "x", "artifact": "y"}}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "read", "params": {"command": "x", "offset": -1}}`, "-1", CodeInvalidParams},
		{`{"id": -1, "method": "subscribe", "params": {"events": ["x"]}}`, "-1", CodeInvalidParams},
		{strings.Repeat("x", 17<<20), "null", CodeInvalidRequest},
	}
	for _, tt := range tests {
		c.line(tt.line)
		m := c.next()
		if m.Error == nil || m.Error.Code != tt.code || string(m.ID) != tt.id {
			t.Errorf("%.80s: %s, %+v; want %s, %s", tt.line, m.ID, m.Error, tt.id, tt.code)
		}
	}
	if r := c.run(params{"command": "true"}); *r.ExitCode != 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestDuplicateID(t *testing.T) {
	c := newSession(t, Config{})
	id, answer := c.send("run", params{"command": "sleep 60"})
	c.running(1)
	c.line(`{"id": ` + id + `, "method": "info"}`)
	if m := c.next(); string(m.ID) != "null" || m.Error.Code != CodeDuplicateID {
		t.Errorf("a second request of that id: %+v", m)
	}
	var aborted struct{ Aborted int }
	c.ok("abort", params{"request": json.RawMessage(id)}, &aborted)
	if m := c.await(answer); aborted.Aborted != 1 || m.Error != nil {
		t.Errorf("abort: %+v; %+v", aborted, m)
	}
}

func TestConcurrent(t *testing.T) {
	c := newSession(t, Config{})
	_, slow := c.send("run", params{"command": "sleep 60"})
	if r := c.run(params{"command": "echo quick"}); r.Stdout.Text != "quick\n" {
		t.Errorf("%+v", r)
	}
	c.running(2)
	var answers []<-chan got
	for range 50 {
		_, a := c.send("resolve", params{"command": "true"})
		answers = append(answers, a)
	}
	for _, a := range answers {
		if m := c.await(a); m.Error != nil {
			t.Errorf("%+v", m.Error)
		}
	}
	c.ok("abort", nil, nil)
	var r result
	if m := c.await(slow); json.Unmarshal(m.Result, &r) != nil || !r.Aborted || r.KilledBy != "abort" {
		t.Errorf("aborted: %+v", m)
	}
}

func TestTooManyRequests(t *testing.T) {
	c := newSession(t, Config{})
	r := c.start(params{"command": "sleep 60"})
	for range MaxRequests {
		c.send("wait", params{"command": r.ID})
	}
	if got := c.code("get", params{"command": r.ID}); got != CodeTooManyRequests {
		t.Errorf("one more: %s", got)
	}
}

// TestLife starts a command in the background, and does to it all that can be
// done.
func TestLife(t *testing.T) {
	c := newSession(t, Config{})
	r := c.start(params{"command": `while read -r x; do echo "got $x"; done; echo end`, "open_stdin": true, "owner": "o"})
	if r.State != "running" || r.Pid == nil || *r.Pid <= 0 {
		t.Fatalf("start: %+v", r)
	}
	of := params{"command": r.ID}
	var answers []<-chan got
	want := ""
	for i := range 50 { // in order, although nobody waits
		_, a := c.send("write", params{"command": r.ID, "text": fmt.Sprintf("%d\n", i)})
		answers = append(answers, a)
		want += fmt.Sprintf("got %d\n", i)
	}
	for _, a := range answers {
		if m := c.await(a); m.Error != nil {
			t.Errorf("write: %+v", m.Error)
		}
	}
	var text string
	for offset := int64(0); len(text) < len(want); {
		var d struct {
			Text      string
			Next      int64
			Live, End bool
		}
		c.ok("read", params{"command": r.ID, "offset": offset, "limit": 100, "wait_ms": 10_000}, &d)
		text += d.Text
		offset = d.Next
		if !d.Live || d.End {
			t.Fatalf("read: %+v", d)
		}
	}
	if text != want {
		t.Errorf("read: %q; want %q", text, want)
	}
	var l struct{ Commands []result }
	c.ok("list", params{"live": true}, &l)
	if len(l.Commands) != 1 || l.Commands[0].ID != r.ID || l.Commands[0].Stdout.Text != fmt.Sprintf("[...%d bytes omitted...]\n", len(want)) || l.Commands[0].Stdout.Bytes != int64(len(want)) {
		t.Errorf("list: %+v", l)
	}
	c.ok("list", params{"owner": "other"}, &l)
	if len(l.Commands) != 0 {
		t.Errorf("list of another owner: %+v", l)
	}
	c.ok("wait", params{"command": r.ID, "timeout_ms": 1}, &r)
	if r.State != "running" {
		t.Errorf("wait: %+v", r)
	}
	var b struct{ Backgrounded bool }
	if c.ok("background", of, &b); !b.Backgrounded {
		t.Errorf("background: %+v", b)
	}
	if c.ok("background", of, &b); b.Backgrounded {
		t.Errorf("background again: %+v", b)
	}
	c.ok("write", params{"command": r.ID, "base64": "bGFzdAo=", "close": true}, nil)
	if c.ok("wait", of, &r); r.State != "exited" || !strings.HasSuffix(r.Stdout.Text, "got last\nend\n") {
		t.Errorf("wait: %+v", r)
	}
	var k struct {
		Killed bool
		Result result
	}
	if c.ok("kill", of, &k); k.Killed || k.Result.KilledBy != "" {
		t.Errorf("kill of one that has ended: %+v", k)
	}
	r = c.start(params{"command": "trap '' TERM; sleep 60"})
	if c.ok("kill", params{"command": r.ID, "stop": []any{}}, &k); !k.Killed || k.Result.KilledBy != "kill" {
		t.Errorf("kill: %+v", k)
	}
	c.ok("list", params{}, &l)
	if len(l.Commands) != 2 {
		t.Errorf("list: %+v", l)
	}
}

// TestBackground: whoever waits goes on, with what there is.
func TestBackground(t *testing.T) {
	c := newSession(t, Config{})
	if r := c.run(params{"command": "sleep 60", "soft_timeout_ms": 50}); r.State != "backgrounded" {
		t.Errorf("after the soft timeout: %+v", r)
	}
	_, answer := c.send("run", params{"command": "echo so far; sleep 60", "label": "mine"})
	var l struct{ Commands []result }
	for len(l.Commands) < 2 || l.Commands[1].Stdout.Bytes == 0 {
		c.ok("list", nil, &l)
	}
	c.ok("feedback", params{"command": l.Commands[1].ID, "text": "go on"}, nil)
	var r result
	if m := c.await(answer); json.Unmarshal(m.Result, &r) != nil || r.State != "backgrounded" || r.Stdout.Text != "so far\n" || !slices.Equal(r.Feedback, []string{"go on"}) {
		t.Errorf("after feedback: %+v", r)
	}
	// It is nobody's any more.
	c.ok("abort", nil, nil)
	if c.ok("get", params{"command": r.ID}, &r); r.State != "backgrounded" {
		t.Errorf("after an abort: %+v", r)
	}
}

func TestBlockedWrite(t *testing.T) {
	c := newSession(t, Config{})
	r := c.start(params{"command": "sleep 60", "open_stdin": true})
	id, answer := c.send("write", params{"command": r.ID, "text": strings.Repeat("x", 1<<20)})
	_, second := c.send("close_stdin", params{"command": r.ID})
	c.ok("abort", params{"request": json.RawMessage(id)}, nil)
	if m := c.await(answer); m.Error == nil || m.Error.Code != CodeAborted {
		t.Errorf("write: %+v", m)
	}
	c.ok("kill", params{"command": r.ID}, nil)
	if m := c.await(second); m.Error == nil || m.Error.Code != "NO_STDIN" {
		t.Logf("close_stdin of one that was killed meanwhile: %s %+v", m.Result, m.Error)
	}
}

func TestResolve(t *testing.T) {
	c := newSession(t, Config{Runner: runner.Config{MaxTimeout: time.Minute}})
	var s struct {
		Argv    []string
		Timeout int64 `json:"timeout_ms"`
		Notes   []string
	}
	c.ok("resolve", params{"command": " true ", "timeout_ms": 3_600_000, "terminal": params{"rows": 1, "cols": 2}}, &s)
	if s.Argv[len(s.Argv)-1] != "true" || s.Timeout != 60_000 || len(s.Notes) != 1 {
		t.Errorf("resolve: %+v", s)
	}
}

// TestReadArtifact reads what didn't fit in memory, through the command and
// through the store.
func TestReadArtifact(t *testing.T) {
	c := newSession(t, Config{})
	r := c.run(params{"command": "seq 100000; printf '\\377'"})
	if r.Stdout.Artifact == nil || !r.Stdout.Truncated {
		t.Fatalf("no artifact: %+v", r.Stdout)
	}
	for _, p := range []params{{"command": r.ID}, {"command": r.ID, "stream": "stdout"}, {"artifact": *r.Stdout.Artifact}} {
		var d struct {
			Stream, Text, Encoding string
			Next, Size             int64
			End                    bool
		}
		p["offset"], p["limit"] = r.Stdout.Bytes-8, 7
		c.ok("read", p, &d)
		if d.Text != "100000\n" || d.End || d.Stream != "stdout" || d.Size != r.Stdout.Bytes || d.Encoding != "utf-8" {
			t.Errorf("read(%v): %+v", p, d)
		}
		p["offset"], p["limit"] = d.Next, 0
		c.ok("read", p, &d)
		if d.Text != "/w==" || !d.End || d.Encoding != "base64" {
			t.Errorf("read(%v): %+v", p, d)
		}
	}
}

func TestSearch(t *testing.T) {
	c := newSession(t, Config{})
	r := c.run(params{"command": "seq 100000"})
	type found struct {
		Lines        []struct{ Number, Offset int64 }
		Total, Shown int64
		Next         string
		Invalid      string
	}
	for _, p := range []params{{"command": r.ID}, {"artifact": *r.Stdout.Artifact}} {
		var m found
		p["pattern"], p["limit"] = "^1234.$", 40
		c.ok("search", p, &m)
		if m.Total != 10 || m.Lines[0].Number != 12340 || m.Shown >= 10 {
			t.Errorf("search(%v): %+v", p, m)
		}
		p["from"], p["limit"], p["after"] = m.Next, 0, 1
		shown := m.Shown
		c.ok("search", p, &m)
		if m.Total != 10 || m.Shown+shown != 10 || m.Lines[len(m.Lines)-1].Number != 12350 {
			t.Errorf("search(%v): %+v", p, m)
		}
	}
	var m found
	if c.ok("search", params{"command": r.ID, "pattern": "("}, &m); m.Invalid == "" || m.Total != 0 {
		t.Errorf("search for what is no expression: %+v", m)
	}
	for _, p := range []params{
		{"command": r.ID, "from": "x"}, {"command": r.ID, "pattern": strings.Repeat("x", 1<<20)},
	} {
		if got := c.code("search", p); got != CodeInvalidParams {
			t.Errorf("search(%.60v): %s", p, got)
		}
	}
}
