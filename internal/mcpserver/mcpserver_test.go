package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// TestTools: what a model is told is what is so, and what it can say is named.
func TestTools(t *testing.T) {
	c := newClient(t, Config{Version: "v1"})
	if got := c.InitializeResult(); got.ServerInfo.Version != "v1" || got.Instructions == "" {
		t.Errorf("the server says: %+v", got)
	}
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"execute_command":     {"command", "cwd", "head", "interactive", "tail", "timeout", "tty"},
		"read_command_output": {"artifact_id", "limit", "offset", "search", "wait"},
		"list_commands":       {},
		"kill_command":        {"id"},
		"write_stdin":         {"close", "id", "text"},
	}
	for _, tool := range tools.Tools {
		var schema struct {
			Type                 string
			Properties           map[string]struct{ Description string }
			AdditionalProperties any
		}
		b, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(b, &schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for name, p := range schema.Properties {
			names = append(names, name)
			if p.Description == "" {
				t.Errorf("%s: %s has no description", tool.Name, name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want[tool.Name]) || schema.Type != "object" || schema.AdditionalProperties == nil {
			t.Errorf("%s takes %q: %s; want %q and nothing else", tool.Name, names, b, want[tool.Name])
		}
		delete(want, tool.Name)
		if tool.Name != "execute_command" {
			continue
		}
		for _, part := range []string{
			"(60 if absent", "continues running in the background and you receive the output so far", "after 3600 seconds",
			"The folder is " + c.dir + " ", "[...N bytes omitted...]", "read_command_output", "[sandbox: file access denied",
		} {
			if !strings.Contains(tool.Description, part) {
				t.Errorf("the description of execute_command lacks %q: %s", part, tool.Description)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}

// TestExecute holds the texts to the letter.
func TestExecute(t *testing.T) {
	c := newClient(t, Config{Runner: runner.Config{Stop: runner.Immediate}})
	hasty := newClient(t, Config{Runner: runner.Config{Timeout: 3 * time.Second, Stop: runner.Immediate}})
	if err := os.Mkdir(filepath.Join(c.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	const inline = "Command executed in terminal within working directory 'DIR'.\nExit code: "
	tests := []struct {
		a      args
		want   string // a regular expression for all
		failed bool
	}{
		{args{"command": "echo out; echo err >&2"}, q(inline + "0\nOutput:\nout\nerr\n"), false},
		{args{"command": "exit 3"}, q(inline + "3\nOutput:\n(no output)"), false},
		{args{"command": "echo a; (exit 5) | true"}, q(inline + "0\nOutput:\na\n\n[the stages of the last pipeline exited with 5, 0]"), false},
		{args{"command": "pwd", "cwd": "sub"}, q("Command executed in terminal within working directory 'DIR/sub'.\nExit code: 0\nOutput:\nDIR/sub\n"), false},
		{args{"command": "cat; echo end", "cwd": nil, "timeout": nil, "head": nil, "tail": nil, "interactive": nil, "tty": nil}, q(inline + "0\nOutput:\nend\n"), false},
		{args{"command": `printf '\033[31mred\033[0m\n10%%\r20%%\n'`}, q(inline + "0\nOutput:\nred\n20%\n"), false},
		{args{"command": "seq 100000"}, q("Command executed in 'DIR'. Exit code: 0\n\nOutput (575.1KB) persisted. Artifact ID: ") + "[0-9A-Z]{26}" +
			q("\n\nPreview:\n1\n2\n") + "(?s:.*)\n" + `\[\.\.\.[0-9]+ bytes omitted\.\.\.\]` + "\n(?s:.*)" + q("99999\n100000\n\nUse read_command_output tool to view full output if needed."), false},
		{args{"command": "echo so far; sleep 60", "timeout": 0}, q("The command was terminated after exceeding a user-configured 3s timeout. Do not try to re-run the command.\nCommand executed in terminal within working directory 'DIR'.\nExit code: unknown\nOutput:\nso far\n"), true},
		{args{"command": "kill -SEGV $$"}, q("The command was ended by signal 11 (segmentation fault).\n"+inline+"unknown\nOutput:\n(no output)") + "(?s:.*)", false},
		{args{"command": "echo so far; sleep 60", "timeout": 2}, q("Command is still running in working directory 'DIR' after ") + `[0-9]+(\.[0-9])?s` + q(", and goes on in the background. Id: ID\nOutput so far (7 bytes):\nso far\n\nUse read_command_output with this id and offset 7 to see what comes next, and kill_command to end it."), false},
		{args{"command": "seq 100", "head": 2, "tail": 1}, q("Command executed in 'DIR'. Exit code: 0\n\nOutput (292 bytes) persisted. Artifact ID: ID\n\nPreview:\n1\n2\n[...284 bytes omitted...]\n100\n\nUse read_command_output tool to view full output if needed."), false},
		{args{"command": "seq 3", "head": 2, "tail": 1}, q(inline + "0\nOutput:\n1\n2\n3\n"), false},
		{args{"command": "seq 100000", "tail": 1}, q("Command executed in 'DIR'. Exit code: 0\n\nOutput (575.1KB) persisted. Artifact ID: ") + "[0-9A-Z]{26}" + q("\n\nPreview:\n[...588888 bytes omitted...]\n100000\n\nUse read_command_output tool to view full output if needed."), false},
		{args{"command": "tty; stty size", "tty": true}, q(inline+"0\nOutput:\n") + `/dev/pts/[0-9]+` + q("\n40 120\n"), false},
		{args{"command": "true", "cwd": "/nonesuch"}, q("Error: working directory does not exist: /nonesuch"), true},
		{args{"command": " "}, q("Error: runner: command must not be empty"), true},
		{args{"command": "true", "timeout": -1}, q("Error: runner: input is invalid: -1 seconds"), true},
		{args{"command": "true", "head": -1}, q("Error: runner: input is invalid: head and tail are numbers of lines"), true},
	}
	for _, tt := range tests {
		c := c
		if tt.a["timeout"] == 0 {
			c = hasty
		}
		text, r, failed := c.call("execute_command", tt.a)
		if got := c.within(text, r); !regexp.MustCompile("^"+tt.want+"$").MatchString(got) || failed != tt.failed {
			t.Errorf("execute_command(%v): %v\n%s\nwant %v\n%s", tt.a, failed, got, tt.failed, tt.want)
		}
	}
	_, r := c.ok("execute_command", args{"command": "seq 100000; exit 4"})
	if *r.ExitCode != 4 || !r.Merged.Truncated || r.Merged.Artifact == nil || r.State != "exited" || r.Sandbox.Mode != "workspace-write" {
		t.Errorf("structured: %+v", r)
	}
}

func q(s string) string { return regexp.QuoteMeta(s) }

// TestDenied: what the sandbox refused is said, and under which mode.
func TestDenied(t *testing.T) {
	c := newClient(t, Config{})
	outside := filepath.Join(testenv.Self().Dir(t), "x")
	text, r := c.ok("execute_command", args{"command": "echo x > " + outside})
	if !strings.Contains(text, "\n[sandbox: file access denied under workspace-write mode]\ndenied: write "+outside) || *r.ExitCode == 0 {
		t.Errorf("a write outside: %s", text)
	}
}

// TestExtraArguments: a model can't say more than is named, in no call.
func TestExtraArguments(t *testing.T) {
	c := newClient(t, Config{})
	good := map[string]args{
		"execute_command":     {"command": "true"},
		"read_command_output": {"artifact_id": "x"},
		"list_commands":       {},
		"kill_command":        {"id": "x"},
		"write_stdin":         {"id": "x"},
	}
	for tool, a := range good {
		for _, extra := range []string{"env", "stdin", "policy", "sandbox", "sandbox_permissions", "shell", "timeout_ms", "Command", "argv", "budget"} {
			bad := args{extra: "x"}
			for k, v := range a {
				bad[k] = v
			}
			if text, _, failed := c.call(tool, bad); !failed || !strings.Contains(text, extra) {
				t.Errorf("%s(%v): %v, %s", tool, bad, failed, text)
			}
		}
	}
	if text, _ := c.ok("list_commands", nil); text != "No commands." {
		t.Errorf("something has run: %s", text)
	}
}

// TestBackground: a command that goes on can be seen, read, answered and ended.
func TestBackground(t *testing.T) {
	c := newClient(t, Config{})
	_, r := c.ok("execute_command", args{"command": "while read -r x; do echo got $x; done; echo end", "timeout": 0.1, "interactive": true})
	if r.State != "backgrounded" || r.ExitCode != nil {
		t.Fatalf("%+v", r)
	}
	text, w := c.ok("write_stdin", args{"id": r.ID, "text": "one\n"})
	if !strings.Contains(text, "offset 0 ") {
		t.Errorf("write_stdin: %s", text)
	}
	text, d := c.ok("read_command_output", args{"artifact_id": r.ID, "offset": w.Offset, "wait": 30})
	want := "[Command Output: ID]\nTotal size: 8 bytes | Showing bytes 0-8 | COMPLETE\n\n1 | got one\n"
	if got := c.within(text, r); !strings.HasPrefix(got, want) || !strings.Contains(got, "read at offset 8.") || !d.Live || d.Next != 8 || d.Command.State != "backgrounded" {
		t.Errorf("read_command_output: %s\n%+v\nwant %s", got, d, want)
	}
	text, l := c.ok("list_commands", nil)
	if len(l.Commands) != 1 || l.Commands[0].ID != r.ID || !strings.Contains(text, r.ID+" | backgrounded | ") {
		t.Errorf("list_commands: %s", text)
	}
	c.ok("write_stdin", args{"id": r.ID, "close": true})
	_, d = c.ok("read_command_output", args{"artifact_id": r.ID, "offset": 8, "wait": 30})
	if d.Next != 12 {
		t.Errorf("after the end of the input: %+v", d)
	}
	if text, _, failed := c.call("write_stdin", args{"id": r.ID, "text": "x"}); !failed {
		t.Errorf("write to a closed input: %s", text)
	}

	_, r = c.ok("execute_command", args{"command": "echo up; sleep 60", "timeout": 0.1})
	c.ok("read_command_output", args{"artifact_id": r.ID, "wait": 30})
	text, k := c.ok("kill_command", args{"id": r.ID})
	if k.KilledBy != "kill" || !strings.HasPrefix(text, "The command was killed.\n") || !strings.HasSuffix(text, "up\n") || testenv.Lives(r.Pid) {
		t.Errorf("kill_command: %s, %+v", text, k)
	}
	if _, k = c.ok("kill_command", args{"id": r.ID}); k.KilledBy != "kill" {
		t.Errorf("kill_command again: %+v", k)
	}
	_, r = c.ok("execute_command", args{"command": "cat", "timeout": 0.1, "tty": true})
	c.ok("write_stdin", args{"id": r.ID, "text": "line\n", "close": true})
	// The output has ended a moment before the command is known to have.
	deadline := time.Now().Add(time.Minute)
	for {
		_, d = c.ok("read_command_output", args{"artifact_id": r.ID, "offset": 100, "wait": 30})
		if d.Command.State != "backgrounded" || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if d.Command.State != "exited" {
		t.Errorf("cat at a terminal after ^D: %+v", d.Command)
	}
}

func TestUnknown(t *testing.T) {
	c := newClient(t, Config{})
	for tool, a := range map[string]args{
		"read_command_output": {"artifact_id": "../etc/passwd"}, "kill_command": {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "write_stdin": {"id": ""},
	} {
		if _, r, failed := c.call(tool, a); !failed || r.Code != "UNKNOWN_ID" {
			t.Errorf("%s(%v): %v, %+v", tool, a, failed, r)
		}
	}
	if _, _, _, err := c.try(t.Context(), "nonesuch", nil); err == nil {
		t.Error("a tool that there isn't was called")
	}
}

func TestRead(t *testing.T) {
	c := newClient(t, Config{})
	_, r := c.ok("execute_command", args{"command": "seq 100000"})
	for _, id := range []string{r.ID, *r.Merged.Artifact} {
		text, d := c.ok("read_command_output", args{"artifact_id": id})
		if !strings.HasPrefix(text, "[Command Output: "+id+"]\nTotal size: 575.1KB | Showing bytes 0-40960 | TRUNCATED\n\n") || d.Complete || d.Next != 40960 {
			t.Errorf("read_command_output: %.200s\n%+v", text, d)
		}
		text, d = c.ok("read_command_output", args{"artifact_id": id, "offset": -7})
		if !strings.Contains(text, "| COMPLETE\n\n100000 | 100000\n") || !d.Complete {
			t.Errorf("the end: %s", text)
		}
		text, d = c.ok("read_command_output", args{"artifact_id": id, "search": "^9999.$"})
		if !strings.HasPrefix(text, "[Command Output: "+id+"] (search: \"^9999.$\")\nTotal matches: 10 | Showing first 10\n\n99990 | 99990\n") || d.Matches != 10 {
			t.Errorf("search: %s", text)
		}
		if text, _ = c.ok("read_command_output", args{"artifact_id": id, "search": "("}); !strings.Contains(text, "searched for the text as it is") {
			t.Errorf("search for what isn't an expression: %s", text)
		}
		if _, d = c.ok("read_command_output", args{"artifact_id": id, "search": "", "limit": 10}); d.Next != 10 {
			t.Errorf("search for nothing: %+v", d)
		}
	}
}

// TestCancel: whoever no longer waits for a command ends it, unless it goes on
// without being waited for.
func TestCancel(t *testing.T) {
	c := newClient(t, Config{})
	_, stays := c.ok("execute_command", args{"command": "sleep 60", "timeout": 0.05})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			if _, l, _, err := c.try(t.Context(), "list_commands", nil); err != nil || len(l.Commands) == 2 && l.Commands[1].Pid != 0 {
				cancel()
				return
			}
		}
	}()
	if _, _, _, err := c.try(ctx, "execute_command", args{"command": "sleep 60"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		_, l := c.ok("list_commands", nil)
		if l.Commands[0].ID != stays.ID || l.Commands[0].State != "backgrounded" {
			t.Fatalf("the one in the background: %+v", l.Commands[0])
		}
		if l.Commands[1].Aborted && l.Commands[1].KilledBy == "abort" && !testenv.Lives(l.Commands[1].Pid) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the one that was cancelled: %+v", l.Commands[1])
		}
	}
}

func TestProgress(t *testing.T) {
	c := newClient(t, Config{})
	p := &mcp.CallToolParams{Name: "execute_command", Arguments: args{"command": "echo out; until [ -e enough ]; do sleep 0.1; done"}}
	p.SetProgressToken("token")
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), p)
		ended <- err
	}()
	last := 0.0
	for seen := 0; seen < 2; {
		var n *mcp.ProgressNotificationParams
		select {
		case n = <-c.progress:
		case err := <-ended:
			t.Fatalf("the call has ended: %v", err)
		}
		if n.ProgressToken != "token" || n.Progress <= last {
			t.Errorf("progress: %+v after %v", n, last)
		}
		if last = n.Progress; strings.HasSuffix(n.Message, ", 4 bytes of output") {
			seen++
		} else if seen > 0 || !strings.HasSuffix(n.Message, ", 0 bytes of output") { // it may have taken its time
			t.Errorf("progress: %+v", n)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c.ok("execute_command", args{"command": "sleep 1.2"})
	for len(c.progress) > 0 {
		if n := <-c.progress; n.ProgressToken != "token" {
			t.Errorf("progress that nobody asked for: %+v", n)
		}
	}
}

// TestProcess: a server in a process of its own ends everything when its input
// ends, when nobody reads its output, and when it is killed.
func TestProcess(t *testing.T) {
	for _, way := range []string{"input", "output", "kill"} {
		t.Run(way, func(t *testing.T) {
			cmd := testenv.Helper(t, "serve", testenv.Self().Dir(t))
			inR, inW := pipe(t)
			outR, outW := pipe(t)
			cmd.Stdin, cmd.Stdout = inR, outW
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			inR.Close()
			outW.Close()
			r := newRaw(t, inW, outR)
			r.initialize()
			var got struct {
				StructuredContent result
			}
			r.call("tools/call", args{"name": "execute_command", "arguments": args{"command": "setsid sleep 60 & sleep 60", "timeout": 0.2}}, &got)
			pid := got.StructuredContent.Pid
			if pid == 0 {
				t.Fatalf("%+v", got)
			}
			switch way {
			case "input":
				inW.Close()
			case "output":
				outR.Close()
				r.line(`{"jsonrpc": "2.0", "id": "last", "method": "ping"}`)
			case "kill":
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			err := cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); way == "input" && code != 0 || way == "output" && code != 1 || way == "kill" && code != -1 {
				t.Errorf("exit code %d: %v", code, err)
			}
			inW.Close()
			outR.Close()
			testenv.AwaitEnd(t, pid)
		})
	}
}

func TestServeContext(t *testing.T) {
	rc := runnerConfig(t)
	inR, inW := pipe(t)
	defer inW.Close()
	defer inR.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	if err := Serve(ctx, Config{Runner: rc}, inR, io.Discard); !errors.Is(err, errStop) {
		t.Errorf("Serve: %v; want %v", err, errStop)
	}
	if err := Serve(t.Context(), Config{}, inR, io.Discard); !errors.Is(err, runner.ErrNilExecutor) {
		t.Errorf("Serve without an executor: %v", err)
	}
}

// TestRedact: a model sees no secrets, in no form.
func TestRedact(t *testing.T) {
	c := newClient(t, Config{Redact: capture.NewRedactor([]string{"sesame-open-17"}, true)})
	text, r := c.ok("execute_command", args{"command": "echo a sesame-'open'-17 b"})
	if strings.Contains(text, "sesame-open") || strings.Contains(r.Merged.Text, "sesame-open") || !strings.Contains(text, "[note: secrets that were hidden: 1]") {
		t.Errorf("execute_command: %s, %+v", text, r.Merged)
	}
	if text, _ = c.ok("read_command_output", args{"artifact_id": r.ID}); strings.Contains(text, "sesame-open") || !strings.Contains(text, "[1 secret redacted]") {
		t.Errorf("read_command_output: %s", text)
	}
}

// TestNoStore: without one, what was left out is lost, and that is said.
func TestNoStore(t *testing.T) {
	e, err := local.New(local.Config{Policy: testPolicy(testenv.Self().Dir(t))})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{Runner: runner.Config{Executor: e}})
	text, _ := c.ok("execute_command", args{"command": "seq 100000"})
	if !strings.HasSuffix(text, "What was omitted is lost.") {
		t.Errorf("without a store: %s", text[max(0, len(text)-200):])
	}
}
