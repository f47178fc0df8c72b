package local_test

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// strict forbids what a schema doesn't name.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"]; ok {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			strict(x)
		}
	case []any:
		for _, x := range v {
			strict(x)
		}
	}
}

// What is written is what the schema says, and nothing else.
func TestSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(runner.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	strict(doc)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("runner.json", doc); err != nil {
		t.Fatal(err)
	}
	result, err1 := c.Compile("runner.json#/$defs/result")
	event, err2 := c.Compile("runner.json#/$defs/event")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	valid := func(s *jsonschema.Schema, v any) {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(text); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}

	for way, set := range ways {
		if way == "boxed" {
			continue // writes what the others do
		}
		var mu sync.Mutex
		kinds := map[runner.EventKind]int{}
		r := newRunner(t, runner.Config{
			Executor: executor(t, set),
			Observe: func(e runner.Event) {
				mu.Lock()
				defer mu.Unlock()
				kinds[e.Kind]++
				valid(event, e)
			},
		})
		for _, q := range []runner.Request{
			{Command: "echo out; echo err >&2; echo x >/proc/version; exit 3"},
			{Command: "printf '\\377'; seq 100000; kill -9 $$", Merge: true},
			{Command: "sleep 100 & sleep 100", Timeout: 100 * time.Millisecond},
			{Command: "sleep 100", SoftTimeout: 50 * time.Millisecond},
			{Argv: []string{"/no/such/program"}},
		} {
			s, err := r.Resolve(q)
			if err != nil {
				t.Fatal(err)
			}
			res, _ := r.Run(t.Context(), s) // an error is in it
			valid(result, res)
			if e, err := r.Get(res.ID); err == nil && !res.State.Final() {
				e.Feedback("hello")
				if _, err := e.Kill(t.Context(), nil); err != nil {
					t.Error(err)
				}
				valid(result, e.Result())
			}
		}
		mu.Lock()
		for _, k := range []runner.EventKind{
			runner.EventQueued, runner.EventHandedOff, runner.EventOutput, runner.EventFeedback, runner.EventBackgrounded,
			runner.EventStopping, runner.EventSignalled, runner.EventExited, runner.EventDrained, runner.EventSettled, runner.EventFailed,
		} {
			if kinds[k] == 0 {
				t.Errorf("%s: no event %q", way, k)
			}
		}
		mu.Unlock()
	}
}
