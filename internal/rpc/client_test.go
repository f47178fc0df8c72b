package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
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

// compiled has the schema's definitions, in the strict form: what isn't described
// is an error.
var compiled = sync.OnceValues(func() (func(def string) *jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		return nil, err
	}
	strict(doc)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("rpc.schema.json", doc); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return func(def string) *jsonschema.Schema {
		mu.Lock()
		defer mu.Unlock()
		return c.MustCompile("rpc.schema.json#/$defs/" + def)
	}, nil
})

// strict lets no object have fields that its schema doesn't name.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, sub := range v {
			if key != "oneOf" || v["additionalProperties"] == nil {
				strict(sub)
			}
		}
		if _, ok := v["properties"]; ok && v["type"] != nil {
			v["additionalProperties"] = false
		}
	case []any:
		for _, sub := range v {
			strict(sub)
		}
	}
}

// check holds a JSON value against a definition of the schema.
func check(t testing.TB, def string, text []byte) {
	t.Helper()
	schemas, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v: %s", def, err, text)
		return
	}
	if err := schemas(def).Validate(value); err != nil {
		t.Errorf("%s: %v\nin %s", def, err, text)
	}
}

// got is a message as the host reads it.
type got struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code, Message, Hint string
		Result              json.RawMessage
	}
	Approval *struct {
		ID        string
		Spec      json.RawMessage
		Withdrawn bool
	}
	Subscription string
	Event        *struct {
		Seq            uint64
		ID, Kind, Text string
		Result         *result
	}
	Output *struct {
		ID, Stream, Text, Encoding string
		From, Next, Lost           int64
	}
	Dropped *struct{ Events int }
}

// result is what the tests look at of a result.
type result struct {
	ID, State, Label   string
	ExitCode           *int `json:"exit_code"`
	Pid                *int
	TimedOut           bool   `json:"timed_out"`
	KilledBy           string `json:"killed_by"`
	HandedOff          bool   `json:"handed_off"`
	Aborted            bool
	Stdout, Stderr     *out
	Merged             *out
	Feedback           []string
	Sandbox            *struct{ Mode string }
	Error              string
	ErrorCode          string `json:"error_code"`
	DurationMillis     int64  `json:"duration_ms"`
	InferredSignalName string `json:"inferred_signal"`
}

type out struct {
	Text, Encoding string
	Bytes          int64 `json:"total_bytes"`
	Truncated      bool
	Artifact       *string
}

// client is a host: it holds all that it writes and reads against the schema.
type client struct {
	t      testing.TB
	mu     sync.Mutex // of what follows
	in     io.WriteCloser
	count  int
	wait   map[string]chan got
	method map[string]string
	// rest has what answers no request.
	rest chan got
	gone chan struct{} // closed when nothing more comes
}

// newClient talks to a server over its streams.
func newClient(t testing.TB, in io.WriteCloser, out io.Reader) *client {
	c := &client{
		t: t, in: in, wait: map[string]chan got{}, method: map[string]string{},
		rest: make(chan got, 100_000), gone: make(chan struct{}),
	}
	go c.read(out)
	return c
}

func (c *client) read(r io.Reader) {
	defer close(c.gone)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				c.t.Errorf("half a line: %q", line)
			}
			return
		}
		check(c.t, "message", line)
		var m got
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Errorf("%v: %s", err, line)
			continue
		}
		c.mu.Lock()
		to, ok := c.wait[string(m.ID)]
		method := c.method[string(m.ID)]
		delete(c.wait, string(m.ID))
		c.mu.Unlock()
		switch {
		case ok:
			if m.Error == nil {
				check(c.t, "result_"+method, m.Result)
			}
			to <- m
		default:
			c.rest <- m
		}
	}
}

// line writes a line as it is.
func (c *client) line(s string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, s+"\n"); err != nil {
		c.t.Errorf("write: %v", err)
	}
}

// send writes a request and returns where its answer comes.
func (c *client) send(method string, params any) (id string, answer <-chan got) {
	c.t.Helper()
	c.mu.Lock()
	c.count++
	id = strconv.Itoa(c.count)
	if c.count%2 == 0 {
		id = fmt.Sprintf("%q", "r"+id)
	}
	to := make(chan got, 1)
	c.wait[id], c.method[id] = to, method
	c.mu.Unlock()
	q := map[string]any{"id": json.RawMessage(id), "method": method}
	if params != nil {
		q["params"] = params
	}
	b, err := json.Marshal(q)
	if err != nil {
		c.t.Fatal(err)
	}
	check(c.t, "request", b)
	c.line(string(b))
	return id, to
}

// await returns an answer.
func (c *client) await(answer <-chan got) got {
	c.t.Helper()
	select {
	case m := <-answer:
		return m
	case <-c.gone:
		select {
		case m := <-answer:
			return m
		default:
		}
		c.t.Fatal("the server is gone")
	case <-time.After(time.Minute):
		c.t.Fatal("no answer")
	}
	panic("not reached")
}

type params = map[string]any

// call makes a request and returns its answer.
func (c *client) call(method string, p any) got {
	c.t.Helper()
	_, answer := c.send(method, p)
	return c.await(answer)
}

// ok makes a request that must succeed, and reads its result.
func (c *client) ok(method string, p, to any) {
	c.t.Helper()
	m := c.call(method, p)
	if m.Error != nil {
		c.t.Fatalf("%s(%v): %+v", method, p, m.Error)
	}
	if to != nil {
		if err := json.Unmarshal(m.Result, to); err != nil {
			c.t.Fatal(err)
		}
	}
}

// run runs a command.
func (c *client) run(p params) (r result) {
	c.t.Helper()
	c.ok("run", p, &r)
	return r
}

func (c *client) start(p params) (r result) {
	c.t.Helper()
	c.ok("start", p, &r)
	return r
}

// running waits until n commands run, or have run.
func (c *client) running(n int) {
	c.t.Helper()
	for have := -1; have < n; {
		var l struct{ Commands []result }
		c.ok("list", nil, &l)
		have = 0
		for _, r := range l.Commands {
			if r.State != "queued" {
				have++
			}
		}
	}
}

// code makes a request that must fail, and returns the code.
func (c *client) code(method string, p any) string {
	c.t.Helper()
	m := c.call(method, p)
	if m.Error == nil {
		return "no error: " + string(m.Result)
	}
	return m.Error.Code
}

// next returns the next message that answers nothing.
func (c *client) next() got {
	c.t.Helper()
	return c.await(c.rest)
}

// runnerConfig is the configuration of the tests' servers.
func runnerConfig(t testing.TB, set ...func(*local.Config)) runner.Config {
	t.Helper()
	dir := testenv.Self().Dir(t)
	lc := local.Config{Policy: testPolicy(dir)}
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

// session is a server in this process, and its client.
type session struct {
	*client
	served chan error // what Serve returned
}

func newSession(t testing.TB, c Config) *session {
	t.Helper()
	return newSessionFor(context.WithoutCancel(t.Context()), t, c)
}

func newSessionFor(ctx context.Context, t testing.TB, c Config) *session {
	t.Helper()
	if c.Runner.Executor == nil {
		rc := runnerConfig(t)
		c.Runner.Executor, c.Runner.Store = rc.Executor, rc.Store
	}
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	s := &session{newClient(t, inW, outR), make(chan error, 1)}
	go func() {
		err := Serve(ctx, c, inR, outW)
		inR.Close()
		outW.Close()
		s.served <- err
	}()
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-s.gone
		outR.Close()
	})
	return s
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// end closes the input and returns what Serve did.
func (s *session) end() error {
	s.t.Helper()
	s.mu.Lock()
	_ = s.in.Close()
	s.mu.Unlock()
	select {
	case err := <-s.served:
		s.served <- nil
		return err
	case <-time.After(time.Minute):
		return errors.New("it doesn't return")
	}
}

// testPolicy is what the tests' commands may do.
func testPolicy(dir string) policy.Policy {
	return policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(dir), NoCache: true}
}
