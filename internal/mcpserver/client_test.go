package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(testenv.Main(m, testenv.Helpers{"serve": serveHelper}))
}

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

// testPolicy is what the tests' commands may do.
func testPolicy(dir string) policy.Policy {
	return policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(dir), NoCache: true}
}

// runnerConfig is the configuration of the tests' servers.
func runnerConfig(t testing.TB, set ...func(*local.Config)) runner.Config {
	t.Helper()
	lc := local.Config{Policy: testPolicy(testenv.Self().Dir(t))}
	for _, f := range set {
		f(&lc)
	}
	e, err := local.New(lc)
	if err != nil {
		t.Fatal(err)
	}
	store, err := capture.OpenStore(testenv.Self().Dir(t)+"/store", capture.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return runner.Config{Executor: e, Store: store}
}

// wires are a server in this process, and its streams.
type wires struct {
	in     *os.File // to the server
	out    *os.File // from it
	served chan error
	once   sync.Once
	dir    string
}

// serve begins a server.
func serve(t testing.TB, c Config) *wires {
	t.Helper()
	if c.Runner.Executor == nil {
		rc := runnerConfig(t)
		c.Runner.Executor, c.Runner.Store = rc.Executor, rc.Store
	}
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	w := &wires{in: inW, out: outR, served: make(chan error, 1), dir: c.Runner.Executor.Authority().Dir}
	go func() {
		err := Serve(context.WithoutCancel(t.Context()), c, inR, outW)
		inR.Close()
		outW.Close()
		w.served <- err
	}()
	t.Cleanup(func() { w.end(t) })
	return w
}

// end closes the input and waits for the server.
func (w *wires) end(t testing.TB) {
	t.Helper()
	w.once.Do(func() {
		w.in.Close()
		select {
		case err := <-w.served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the server doesn't end")
		}
		w.out.Close()
	})
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// client is the official SDK's.
type client struct {
	*mcp.ClientSession
	*wires
	t        testing.TB
	progress chan *mcp.ProgressNotificationParams
}

func newClient(t testing.TB, c Config) *client {
	t.Helper()
	k := &client{wires: serve(t, c), t: t, progress: make(chan *mcp.ProgressNotificationParams, 1000)}
	host := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { k.progress <- r.Params },
	})
	var err error
	k.ClientSession, err = host.Connect(t.Context(), &mcp.IOTransport{Reader: k.out, Writer: k.in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type args = map[string]any

// result is what the tests look at of structured content.
type result struct {
	ID, State, Error, Code string
	ExitCode               *int `json:"exit_code"`
	Pid                    int
	KilledBy               string `json:"killed_by"`
	Aborted                bool
	Merged                 *struct {
		Text      string
		Bytes     int64 `json:"total_bytes"`
		Truncated bool
		Artifact  *string
	}
	Sandbox  *struct{ Mode string }
	Commands []result
	Offset   int64
	Next     int64
	Matches  int64
	Complete bool
	Live     bool
	Command  *result
}

// try calls a tool.
func (c *client) try(ctx context.Context, tool string, a args) (text string, r result, failed bool, err error) {
	c.t.Helper()
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		return "", r, false, err
	}
	if len(res.Content) != 1 {
		c.t.Errorf("%s(%v): %d contents", tool, a, len(res.Content))
	}
	b, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return res.Content[0].(*mcp.TextContent).Text, r, res.IsError, err
}

// call calls a tool, which must answer.
func (c *client) call(tool string, a args) (text string, r result, failed bool) {
	c.t.Helper()
	text, r, failed, err := c.try(c.t.Context(), tool, a)
	if err != nil {
		c.t.Fatalf("%s(%v): %v", tool, a, err)
	}
	return text, r, failed
}

// ok calls a tool, which must not fail.
func (c *client) ok(tool string, a args) (string, result) {
	c.t.Helper()
	text, r, failed := c.call(tool, a)
	if failed {
		c.t.Fatalf("%s(%v): %s", tool, a, text)
	}
	return text, r
}

// within replaces the folder by DIR and an id by ID.
func (c *client) within(text string, r result) string {
	text = strings.ReplaceAll(text, c.dir, "DIR")
	if r.ID != "" {
		text = strings.ReplaceAll(text, r.ID, "ID")
	}
	return text
}

var errStop = errors.New("stop")
