package rpc

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// TestSchemaOfResults: results and events are described as the runner describes
// them.
func TestSchemaOfResults(t *testing.T) {
	type schema struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	var ours, theirs schema
	if err := errors.Join(json.Unmarshal(Schema(), &ours), json.Unmarshal(runner.Schema(), &theirs)); err != nil {
		t.Fatal(err)
	}
	for _, def := range []string{"result", "event", "output", "usage", "sandbox"} {
		got := slices.Sorted(maps.Keys(ours.Defs[def].Properties))
		if want := slices.Sorted(maps.Keys(theirs.Defs[def].Properties)); !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", def, got, want)
		}
	}
}

// TestSchema: it names the methods that there are, and the codes of errors.
func TestSchema(t *testing.T) {
	var doc struct {
		Defs struct {
			Request struct {
				Properties struct{ Method struct{ Enum []string } }
			}
			Kind  struct{ Enum []runner.EventKind }
			Error struct {
				Properties struct{ Code struct{ Examples []string } }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(doc.Defs.Request.Properties.Method.Enum))
	if want := slices.Sorted(maps.Keys(methods)); !slices.Equal(got, want) {
		t.Errorf("methods of the schema: %q; want %q", got, want)
	}
	if !slices.Equal(doc.Defs.Kind.Enum, kinds) {
		t.Errorf("events of the schema: %q; want %q", doc.Defs.Kind.Enum, kinds)
	}
	schemas, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	for name := range methods {
		schemas("result_" + name)
	}
	for _, bad := range []string{`{"id": 1, "method": "run", "params": {"policy": {}}}`, `{"method": "info"}`, `{"id": 1, "method": "x"}`} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if schemas("request").Validate(v) == nil {
			t.Errorf("the schema takes %s", bad)
		}
	}
}
