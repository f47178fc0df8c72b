package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func samplePolicies() []Policy {
	return []Policy{
		{},
		{Mode: WorkspaceWrite, Worktree: "/w"},
		{
			Mode: WorkspaceWrite, Worktree: "/w\xff\xfe", Write: []Path{"/a b", "/<&>", "/line\nend"},
			WriteCreate: []Path{"/c"}, Read: []Path{}, AllowBroad: true, NoProtect: true,
			Network: Network{Mode: NetworkAll, ConnectTCP: []uint16{443, 65535}, BindTCP: []uint16{}, BindUDP: []uint16{0}},
			IPC:     IPC{AllowSignals: true, AllowAbstract: true},
			Unix:    []Path{UnixSSHAgent, "/run/x"},
			Env:     Env{Clear: true, Unset: []string{"A"}, Set: []string{"B=ü \"\\", "C="}, KeepGit: true},
			NoCache: true, Caps: []string{"kill"}, Require: []Promise{PromiseLimits}, BestEffort: true,
		},
		{Mode: Unconfined, Caps: []string{}},
		{Limits: Limits{
			Memory: 1 << 30, Swap: new(int64), Pids: 9, CPUs: 1.5, CPUWeight: 200,
			IORead: []IORate{{Rate: 1 << 20}}, IOWrite: []IORate{{Device: "/dev/x\xff", Rate: 1}},
			OOMScoreAdj: new(int64), OpenFiles: 9, FileSize: 9, Core: new(int64), Nice: -3, BestEffort: true, CgroupParent: "/sys/fs/cgroup/x",
		}},
		{Limits: Limits{Cgroup: []Path{"/sys/fs/cgroup/x"}}},
		{Network: Network{Mode: NetworkNone}, Read: []Path{ReadSystem}},
	}
}

func TestEncodeDecodes(t *testing.T) {
	for _, p := range samplePolicies() {
		text, err := p.Encode()
		if err != nil {
			t.Errorf("Encode(%+v): %v", p, err)
			continue
		}
		got, err := DecodeFile("p.json", text)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("DecodeFile(Encode(%+v)) = %+v, %v\n%s", p, got, err, text)
		}
		// A plain encoder has to give the same meaning.
		plain, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(bytes.NewReader(plain)); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", plain, got, err, p)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, p := range []Policy{
		{Worktree: "/a\x00b"},
		{Env: Env{Set: []string{"A=\xff"}}},
		{Env: Env{Unset: []string{"\xff"}}},
	} {
		if text, err := p.Encode(); err == nil {
			t.Errorf("Encode(%q) = %s; want an error", p, text)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		text, want string
	}{
		{"", "p.json:1:1: unexpected end of JSON input"},
		{"{", "p.json:1:1: unexpected end of JSON input"},
		{"{}\n{}", "p.json:2:1: invalid character '{' after top-level value"},
		{"{}x", "p.json:1:3: invalid character 'x' after top-level value"},
		{"{\n  \"write\": [\"/a\",]\n}", "p.json:2:18: invalid character ']' looking for beginning of value"},
		{"{\n  \"wirte\": []\n}", `p.json:2:3: wirte: unknown key, did you mean "write"?`},
		{`{"Write": []}`, `p.json:1:2: Write: unknown key, did you mean "write"?`},
		{`{"net": {}}`, `p.json:1:2: net: unknown key, did you mean "network"?`},
		{`{"network": {"conect_tcp": []}}`, `p.json:1:14: network.conect_tcp: unknown key, did you mean "connect_tcp"?`},
		{`{"zebra": 1}`, `p.json:1:2: zebra: unknown key`},
		{`{"": 1}`, `p.json:1:2: "": unknown key`},
		{`{"a.b\n": 1}`, `p.json:1:2: "a.b\n": unknown key`},
		{`{"mode": "read-only", "mode": "unconfined"}`, `p.json:1:23: mode: given twice`},
		{`{"mode": "read-only", "m\u006fde": "unconfined"}`, `p.json:1:23: mode: given twice`},
		{`{"mode": null}`, "p.json:1:10: mode: null is not allowed: leave the key out"},
		{`null`, "p.json:1:1: null is not allowed: leave the key out"},
		{`[]`, "p.json:1:1: an object is needed here, not a list"},
		{`{"mode": 3}`, "p.json:1:10: mode: a string is needed here, not a number"},
		{`{"mode": {"a": 1}}`, "p.json:1:10: mode: a string is needed here, not an object"},
		{`{"write": "/a"}`, "p.json:1:11: write: a list is needed here, not a string"},
		{`{"write": ["/a", true]}`, "p.json:1:18: write[1]: a string is needed here, not true or false"},
		{`{"no_cache": "yes"}`, "p.json:1:14: no_cache: true or false is needed here, not a string"},
		{`{"network": {"bind_tcp": [1, 70000]}}`, "p.json:1:30: network.bind_tcp[1]: 70000 is no whole number from 0 to 65535"},
		{`{"network": {"bind_tcp": [1e2]}}`, "p.json:1:27: network.bind_tcp[0]: 1e2 is no whole number from 0 to 65535"},
		{`{"network": {"bind_tcp": ["1"]}}`, "p.json:1:27: network.bind_tcp[0]: a number is needed here, not a string"},
		{`{"worktree": {"base64": "L/8="`, "p.json:1:30: unexpected end of JSON input"},
		{`{"worktree": {"bas64": "L/8="}}`, `p.json:1:15: worktree.bas64: unknown key, did you mean "base64"?`},
		{`{"worktree": {"base64": "!"}}`, "p.json:1:25: worktree.base64: not base64"},
		{`{"worktree": {"display": "/x"}}`, `p.json:1:14: worktree: a path object needs the key "base64"`},
		{`{"worktree": {"base64": "LwA="}}`, "contains a NUL byte"},
		{`{"worktree": "/\u0000"}`, "p.json:1:14: worktree: contains a NUL byte"},
		{`{"env": {"set": ["A=\u0000"]}}`, "p.json:1:18: env.set[0]: contains a NUL byte"},
		{"{\n\"worktree\": \"/\xff\"}", `p.json:2:15: not valid UTF-8: such a path is written as {"base64": …}`},
		{`{"worktree": "/\ud800"}`, "p.json:1:14: worktree: half of a surrogate pair, which stands for no text"},
		{`{"worktree": "/\udc00\ud800"}`, "half of a surrogate pair"},
		{`{"worktree": "/\ud800x"}`, "half of a surrogate pair"},
		{`{"worktree": "/\ud800\n"}`, "half of a surrogate pair"},
	}
	for _, test := range tests {
		_, err := DecodeFile("p.json", []byte(test.text))
		if _, ok := errors.AsType[*DecodeError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("DecodeFile(%q) = %v; want %s", test.text, err, test.want)
		}
	}
	if got, err := Decode(strings.NewReader(`{"worktree": "/\ud83d\ude00\\ud800"}`)); err != nil || got.Worktree != "/😀\\ud800" {
		t.Errorf("Decode of a whole pair = %q, %v", got.Worktree, err)
	}
}

func TestDecodeBounds(t *testing.T) {
	big := `{"write": ["/` + strings.Repeat("x", decodeLimit) + `"]}`
	if _, err := Decode(strings.NewReader(big)); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("Decode of too much = %v", err)
	}
	deep := strings.Repeat("[", 1<<20)
	if _, err := Decode(strings.NewReader(deep)); err == nil {
		t.Error("Decode of a deep nest = nil")
	}
	broken := errors.New("broken")
	if _, err := Decode(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("Decode of a broken reader = %v; want %v", err, broken)
	}
}

func TestPathJSON(t *testing.T) {
	tests := []struct {
		path Path
		text string
	}{
		{"", `""`},
		{"/a b", `"/a b"`},
		{"/ü\n", `"/ü\n"`},
		{"/\ufffd", "\"/\ufffd\""},
		{"/\xff", `{"base64":"L/8=","display":"\"/\\xff\""}`},
	}
	for _, test := range tests {
		text, err := json.Marshal([]Path{test.path})
		if want := "[" + test.text + "]"; err != nil || string(text) != want {
			t.Errorf("Marshal(%q) = %s, %v; want %s", test.path, text, err, want)
		}
		var back []Path
		if err := json.Unmarshal(text, &back); err != nil || len(back) != 1 || back[0] != test.path {
			t.Errorf("Unmarshal(%s) = %q, %v; want %q", text, back, err, test.path)
		}
	}
	for _, text := range []string{
		`1`, `"\u0000"`, `{}`, `{"base64":"AA=="}`, `{"base64":1}`, `{"base64":"L/8=","base64":"Lw=="}`,
		`{"base64":"L/8=","other":1}`, `[]`, `null`,
	} {
		path := Path("before")
		if err := json.Unmarshal([]byte(text), &path); (err == nil) != (text == "null") || path != "before" {
			t.Errorf("Unmarshal(%s) = %q, %v; want an error", text, path, err)
		}
	}
}

// FuzzDecode: what decodes survives a round trip, passes the schema if it
// validates, and never panics.
func FuzzDecode(f *testing.F) {
	for _, p := range samplePolicies() {
		text, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"worktree": {"base64": "L/8="}}`))
	f.Add([]byte(`{"write": ["/a"], "write": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := DecodeFile("", text)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatalf("Encode of what decoded from %q: %v", text, err)
		}
		back, err := DecodeFile("", again)
		if err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("round trip of %q: %+v, %v; want %+v", text, back, err, p)
		}
		_ = p.Validate()
		_ = p.String()
	})
}
