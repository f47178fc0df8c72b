package policy

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaNode is the part of JSON Schema that ours uses.
type schemaNode struct {
	Ref        string                `json:"$ref"`
	Type       string                `json:"type"`
	Enum       []string              `json:"enum"`
	Const      any                   `json:"const"`
	Items      *schemaNode           `json:"items"`
	AnyOf      []*schemaNode         `json:"anyOf"`
	Properties map[string]schemaNode `json:"properties"`
	Additional *bool                 `json:"additionalProperties"`
	Defs       map[string]schemaNode `json:"$defs"`
	About      string                `json:"description"`
}

// TestSchemaHoldsStruct compares the schema with the struct, each with the
// other: a field, a type or a word that only one of them has is an error.
func TestSchemaHoldsStruct(t *testing.T) {
	var root schemaNode
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	s := schemaWalker{t: t, defs: root.Defs}
	s.object("policy", root, reflect.TypeFor[Policy]())

	words := map[string][]string{
		"promise":    stringsOf(Promises()),
		"capability": Capabilities(),
	}
	for name, want := range words {
		if got := root.Defs[name].Enum; !slices.Equal(got, want) {
			t.Errorf("schema: %s is one of %q; want %q", name, got, want)
		}
	}
	if got, want := root.Properties["mode"].Enum, stringsOf([]Mode{ReadOnly, WorkspaceWrite, Unconfined}); !slices.Equal(got, want) {
		t.Errorf("schema: mode is one of %q; want %q", got, want)
	}
	if got, want := root.Defs["network"].Properties["mode"].Enum, stringsOf([]NetworkMode{NetworkAll, NetworkNone}); !slices.Equal(got, want) {
		t.Errorf("schema: network.mode is one of %q; want %q", got, want)
	}
	if got := root.Properties["read"].Items.AnyOf[0].Const; got != any(string(ReadSystem)) {
		t.Errorf("schema: read's preset is %v; want %q", got, ReadSystem)
	}
	if got, want := root.Properties["unix"].Items.AnyOf[0].Enum, stringsOf([]Path{UnixSSHAgent, UnixGPGAgent}); !slices.Equal(got, want) {
		t.Errorf("schema: unix's presets are %q; want %q", got, want)
	}
}

func stringsOf[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

type schemaWalker struct {
	t    *testing.T
	defs map[string]schemaNode
}

func (s *schemaWalker) follow(at string, n schemaNode) schemaNode {
	if n.Ref == "" {
		return n
	}
	name, ok := strings.CutPrefix(n.Ref, "#/$defs/")
	def, found := s.defs[name]
	if !ok || !found {
		s.t.Errorf("schema: %s refers to %q", at, n.Ref)
	}
	return def
}

func (s *schemaWalker) object(at string, n schemaNode, t reflect.Type) {
	if n.Type != "object" || n.Additional == nil || *n.Additional {
		s.t.Errorf("schema: %s is a %q with additionalProperties %v; want an object that allows none", at, n.Type, n.Additional)
	}
	var names []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		property, ok := n.Properties[name]
		if !ok {
			s.t.Errorf("schema: %s lacks %q", at, name)
			continue
		}
		if property.About == "" {
			s.t.Errorf("schema: %s.%s has no description", at, name)
		}
		s.value(at+"."+name, property, field.Type)
	}
	for name := range n.Properties {
		if !slices.Contains(names, name) {
			s.t.Errorf("schema: %s has %q, which %s lacks", at, name, t)
		}
	}
}

func (s *schemaWalker) value(at string, n schemaNode, t reflect.Type) {
	n = s.follow(at, n)
	if t == reflect.TypeFor[Path]() {
		s.path(at, n)
		return
	}
	want := ""
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		s.object(at, n, t)
		return
	case reflect.Slice:
		want = "array"
		items := n.Items
		if items == nil && len(n.AnyOf) > 0 {
			items = n.AnyOf[0].Items
		}
		if items == nil {
			s.t.Errorf("schema: %s has no items", at)
			return
		}
		s.value(at+"[]", *items, t.Elem())
	case reflect.String:
		want = "string"
	case reflect.Bool:
		want = "boolean"
	case reflect.Uint16, reflect.Int64:
		want = "integer"
	case reflect.Float64:
		want = "number"
	default:
		s.t.Errorf("no schema is known for %s of type %s", at, t)
	}
	if n.Type != want {
		s.t.Errorf("schema: %s is a %q; want %q", at, n.Type, want)
	}
}

// path wants the two forms of a path, presets aside.
func (s *schemaWalker) path(at string, n schemaNode) {
	if len(n.AnyOf) == 2 && n.AnyOf[1].Ref == "#/$defs/path" {
		n = s.follow(at, *n.AnyOf[1])
	}
	if len(n.AnyOf) != 2 || n.AnyOf[0].Type != "string" || n.AnyOf[1].Type != "object" {
		s.t.Errorf("schema: %s is no path: %+v", at, n)
		return
	}
	var names []string
	for field := range reflect.TypeFor[pathObject]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	for name := range n.AnyOf[1].Properties {
		if !slices.Contains(names, name) {
			s.t.Errorf("schema: a path has %q", name)
		}
	}
}

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestSchemaAgreesWithDecode holds both to the same answer, rules between
// fields aside.
func TestSchemaAgreesWithDecode(t *testing.T) {
	compiled := compileSchema(t)
	good := []string{
		`{}`,
		`{"mode": "workspace-write", "worktree": "/w", "write": ["/a", {"base64": "L/8="}]}`,
		`{"worktree": {"base64": "L/8=", "display": "/\\xff"}}`,
		`{"read": [], "unix": ["ssh-agent", "gpg-agent", "/run/x"]}`,
		`{"read": ["system", "/opt/x"]}`,
		`{"network": {"mode": "none"}}`,
		`{"network": {"mode": "all", "connect_tcp": [443], "bind_tcp": [0, 8080], "connect_udp": [], "bind_udp": [0]}}`,
		`{"ipc": {"allow_signals": true, "allow_abstract": false}}`,
		`{"env": {"clear": true, "unset": ["A"], "set": ["B=", "C=D=E"], "keep_git": true}}`,
		`{"caps": ["all"]}`, `{"caps": ["none"]}`, `{"caps": []}`, `{"caps": ["kill", "setuid"]}`,
		`{"require": ["protect", "limits"], "best_effort": true}`,
		`{"allow_broad": true, "no_protect": true, "no_cache": true}`,
		`{"limits": {}}`, `{"limits": {"memory": 1, "swap": -1, "pids": 4194304, "cpus": 0.5, "cpu_weight": 10000}}`,
		`{"limits": {"swap": 0, "cpus": 2, "io_read": [{"rate": 1}], "io_write": [{"device": "/dev/x", "rate": 1000}]}}`,
		`{"limits": {"oom_score_adj": -1000, "nofile": 9, "fsize": 1, "core": 0, "nice": -40, "best_effort": true}}`,
		`{"limits": {"cgroup": ["/sys/fs/cgroup/x"]}}`, `{"limits": {"cpus": 0, "cgroup_parent": "/sys/fs/cgroup/x"}}`,
	}
	bad := []string{
		`[]`, `null`, `"x"`, `1`,
		`{"mode": "readonly"}`, `{"mode": null}`, `{"mode": 1}`, `{"Mode": "read-only"}`, `{"modes": "read-only"}`,
		`{"worktree": "w"}`, `{"worktree": ["/w"]}`, `{"worktree": {}}`, `{"worktree": {"base64": "?"}}`,
		`{"worktree": {"base64": "L/8=", "x": 1}}`, `{"worktree": {"display": "/x"}}`,
		`{"write": "/a"}`, `{"write": ["a"]}`, `{"write": [1]}`, `{"write": [""]}`, `{"write": ["system"]}`,
		`{"read": ["sys"]}`, `{"unix": ["ssh"]}`, `{"read": {}}`,
		`{"network": "none"}`, `{"network": {"mode": "off"}}`, `{"network": {"x": 1}}`,
		`{"network": {"connect_tcp": [0]}}`, `{"network": {"connect_tcp": [65536]}}`, `{"network": {"bind_tcp": [-1]}}`,
		`{"network": {"bind_tcp": [1.5]}}`, `{"network": {"bind_tcp": ["80"]}}`, `{"network": {"bind_tcp": 80}}`,
		`{"ipc": {"allow_signals": 1}}`, `{"ipc": []}`,
		`{"env": {"set": ["A"]}}`, `{"env": {"set": ["=A"]}}`, `{"env": {"unset": [""]}}`, `{"env": {"unset": ["A=B"]}}`,
		`{"caps": ["CAP_KILL"]}`, `{"caps": ["all", "kill"]}`, `{"caps": "all"}`,
		`{"limits": []}`, `{"limits": {"memory": -1}}`, `{"limits": {"memory": "1G"}}`, `{"limits": {"memory": 9223372036854775808}}`,
		`{"limits": {"swap": -2}}`, `{"limits": {"swap": null}}`, `{"limits": {"pids": 4194305}}`, `{"limits": {"pids": 1.5}}`,
		`{"limits": {"cpus": 0.001}}`, `{"limits": {"cpus": -1}}`, `{"limits": {"cpus": "1"}}`, `{"limits": {"cpus": 1e999}}`,
		`{"limits": {"cpu_weight": 10001}}`, `{"limits": {"io_read": [{"rate": 0}]}}`, `{"limits": {"io_read": [{}]}}`,
		`{"limits": {"io_write": [{"device": "x", "rate": 1}]}}`, `{"limits": {"io_write": {"rate": 1}}}`,
		`{"limits": {"oom_score_adj": 1001}}`, `{"limits": {"nofile": -1}}`, `{"limits": {"fsize": -1}}`, `{"limits": {"core": -1}}`,
		`{"limits": {"nice": 40}}`, `{"limits": {"cgroup": "/x"}}`, `{"limits": {"cgroup": ["x"]}}`, `{"limits": {"cgroup_parent": "x"}}`,
		`{"limits": {"ram": 1}}`,
		`{"require": ["writes"]}`, `{"best_effort": "yes"}`, `{"allow_broad": 0}`,
	}
	check := func(text string, want bool) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := compiled.Validate(value); (err == nil) != want {
			t.Errorf("schema on %s: %v; want it to pass: %t", text, err, want)
		}
		p, err := Decode(strings.NewReader(text))
		if err == nil {
			err = p.Validate()
		}
		if (err == nil) != want {
			t.Errorf("Decode and Validate of %s = %v; want them to pass: %t", text, err, want)
		}
	}
	for _, text := range good {
		check(text, true)
	}
	for _, text := range bad {
		check(text, false)
	}
}

func TestSchemaAcceptsEncode(t *testing.T) {
	compiled := compileSchema(t)
	for _, p := range samplePolicies() {
		text, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); err != nil {
			t.Errorf("schema on %s: %v", text, err)
		}
	}
}
