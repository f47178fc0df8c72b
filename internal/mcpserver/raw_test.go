package mcpserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// raw is a client that knows nothing but JSON.
type raw struct {
	t     testing.TB
	in    io.Writer
	out   *bufio.Reader
	count int
}

func newRaw(t testing.TB, in io.Writer, out io.Reader) *raw {
	return &raw{t: t, in: in, out: bufio.NewReader(out)}
}

func (r *raw) line(s string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, s+"\n"); err != nil {
		r.t.Errorf("write: %v", err)
	}
}

// message is a line from the server.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
}

func (r *raw) next() (m message) {
	r.t.Helper()
	b, err := r.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || m.JSONRPC != "2.0" {
		r.t.Fatalf("%q: %v", b, err)
	}
	return m
}

// call makes a request, which must succeed.
func (r *raw) call(method string, params, to any) {
	r.t.Helper()
	r.count++
	b, err := json.Marshal(params)
	if err != nil {
		r.t.Fatal(err)
	}
	r.line(fmt.Sprintf(`{"jsonrpc": "2.0", "id": %d, "method": %q, "params": %s}`, r.count, method, b))
	m := r.next()
	if m.Error != nil || string(m.ID) != fmt.Sprint(r.count) {
		r.t.Fatalf("%s: %+v", method, m)
	}
	if err := json.Unmarshal(m.Result, to); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) initialize() {
	r.t.Helper()
	var got struct {
		ProtocolVersion string
		Capabilities    struct{ Tools *struct{} }
		ServerInfo      struct{ Name string }
	}
	r.call("initialize", args{
		"protocolVersion": "2025-06-18", "capabilities": args{}, "clientInfo": args{"name": "raw", "version": "1"},
	}, &got)
	if got.ProtocolVersion != "2025-06-18" || got.Capabilities.Tools == nil || got.ServerInfo.Name != "runner" {
		r.t.Errorf("initialize: %+v", got)
	}
	r.line(`{"jsonrpc": "2.0", "method": "notifications/initialized"}`)
}

// TestRaw: a client that isn't the SDK's, and one that writes nonsense.
func TestRaw(t *testing.T) {
	w := serve(t, Config{})
	r := newRaw(t, w.in, w.out)
	for _, tt := range []struct {
		line string
		code int
	}{
		{"nonsense", -32700},
		{`{"jsonrpc": "2.0", "id": 1`, -32700},
		{`{"jsonrpc": "1.0", "id": 1, "method": "ping"}`, -32600},
		{`{}`, -32600},
		{`17`, -32600},
		{`[]`, -32700},
		{`[17]`, -32600},
		{strings.Repeat("x", 17<<20), -32700},
	} {
		r.line(tt.line)
		if m := r.next(); m.Error == nil || m.Error.Code != tt.code || string(m.ID) != "null" {
			t.Errorf("%.60s: %+v; want %d", tt.line, m, tt.code)
		}
	}
	r.initialize()
	var got struct {
		Content           []struct{ Type, Text string }
		StructuredContent result
		IsError           bool
	}
	r.call("tools/call", args{"name": "execute_command", "arguments": args{"command": "echo hello"}}, &got)
	if len(got.Content) != 1 || got.Content[0].Type != "text" || !strings.HasSuffix(got.Content[0].Text, "Output:\nhello\n") || got.StructuredContent.Merged.Text != "hello\n" {
		t.Errorf("execute_command: %+v", got)
	}
	r.line(`[{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": "b", "method": "ping"}]`)
	ids := string(r.next().ID) + string(r.next().ID)
	if ids != `"a""b"` && ids != `"b""a"` {
		t.Errorf("a batch is answered by %s", ids)
	}

	// A call that is cancelled by the client's own message ends its command.
	r.line(`{"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "execute_command", "arguments": {"command": "sleep 60"}}}`)
	for got.StructuredContent.Commands = nil; len(got.StructuredContent.Commands) < 2 || got.StructuredContent.Commands[1].Pid == 0; {
		r.call("tools/call", args{"name": "list_commands"}, &got)
	}
	r.line(`{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow", "reason": "enough"}}`)
	if m := r.next(); string(m.ID) != `"slow"` || !strings.Contains(string(m.Result), "Command execution was aborted by the user.") {
		t.Errorf("the call that was cancelled: %s %s %+v", m.ID, m.Result, m.Error)
	}
	testenv.AwaitEnd(t, got.StructuredContent.Commands[1].Pid)

	// Everything ends with the input.
	r.call("tools/call", args{"name": "execute_command", "arguments": args{"command": "sleep 60", "timeout": 0.05}}, &got)
	r.line(`{"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": {"name": "execute_command", "arguments": {"command": "sleep 60"}}}`)
	w.end(t)
	if testenv.Lives(got.StructuredContent.Pid) {
		t.Error("the command in the background lives")
	}
}
