package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		p    Policy
		want string // field, value and why; empty if valid
		hint string
	}{
		{Policy{}, "", ""},
		{Policy{Mode: ReadOnly, Worktree: "/w"}, "", ""},
		{Policy{Mode: WorkspaceWrite, Worktree: "/w\xff\n", Write: []Path{"/a", "/a"}}, "", ""},
		{Policy{Mode: Unconfined, Write: []Path{"/a"}, Network: Network{Mode: NetworkAll}}, "", ""},
		{Policy{Caps: []string{"all"}}, "", ""},
		{Policy{Caps: DefaultCaps}, "", ""},
		{Policy{Read: []Path{"system", "/x"}, Unix: []Path{"ssh-agent", "gpg-agent", "/s"}}, "", ""},
		{Policy{Network: Network{Mode: NetworkNone, ConnectTCP: []uint16{}}}, "", ""},
		{Policy{Network: Network{BindTCP: []uint16{0}, ConnectUDP: []uint16{53}}}, "", ""},
		{Policy{Require: Promises(), BestEffort: true}, "", ""},

		{Policy{Mode: "writable"}, `mode "writable": no such mode`, "one of read-only, workspace-write, unconfined"},
		{Policy{Mode: "workspace"}, `mode "workspace": no such mode`, `did you mean "workspace-write"?`},
		{Policy{Mode: "readonly"}, `mode "readonly": no such mode`, `did you mean "read-only"?`},
		{Policy{Write: []Path{"/a"}}, `write "/a": not allowed in mode read-only`, "use mode workspace-write"},
		{Policy{Mode: ReadOnly, WriteCreate: []Path{"/a"}}, `write_create "/a": not allowed in mode read-only`, "use mode workspace-write"},
		{Policy{Mode: Unconfined, Read: []Path{}}, `read: nothing holds this in mode unconfined`, "use another mode, or leave it out"},
		{Policy{Mode: Unconfined, Network: Network{Mode: NetworkNone}}, `network: nothing holds this in mode unconfined`, "use another mode, or leave it out"},
		{Policy{Mode: Unconfined, Require: []Promise{PromiseWrite}}, `require "write": nothing holds this in mode unconfined`, "use another mode, or leave it out"},

		{Policy{Worktree: "w"}, `worktree "w": not an absolute path`, "write it out from / on: neither ~ nor a variable is expanded"},
		{Policy{Worktree: "/\x00"}, `worktree "/\x00": contains a NUL byte`, ""},
		{Policy{Mode: WorkspaceWrite, Write: []Path{"/a", ""}}, `write[1]: empty path`, ""},
		{Policy{Mode: WorkspaceWrite, Write: []Path{"~/x"}}, `write[0] "~/x": not an absolute path`, "write it out from / on: neither ~ nor a variable is expanded"},
		{Policy{Mode: WorkspaceWrite, WriteCreate: []Path{"system"}}, `write_create[0] "system": not an absolute path`, "write it out from / on: neither ~ nor a variable is expanded"},
		{Policy{Read: []Path{"/a", "sytem"}}, `read[1] "sytem": neither an absolute path nor a preset`, `did you mean "system"?`},
		{Policy{Read: []Path{"a/b"}}, `read[0] "a/b": not an absolute path`, "write it out from / on: neither ~ nor a variable is expanded"},
		{Policy{Unix: []Path{"ssh"}}, `unix[0] "ssh": neither an absolute path nor a preset`, `did you mean "ssh-agent"?`},
		{Policy{Unix: []Path{"docker"}}, `unix[0] "docker": neither an absolute path nor a preset`, "one of ssh-agent, gpg-agent"},

		{Policy{Network: Network{Mode: "off"}}, `network.mode "off": no such network mode`, "one of all, none"},
		{Policy{Network: Network{Mode: NetworkNone, ConnectTCP: []uint16{1}}}, `network.connect_tcp: network mode none allows no port`, "leave the mode out: a port list shuts every other port"},
		{Policy{Network: Network{ConnectTCP: []uint16{1, 0}}}, `network.connect_tcp[1] "0": no such port`, ""},

		{Policy{Env: Env{Unset: []string{"A", ""}}}, `env.unset[1]: empty name`, ""},
		{Policy{Env: Env{Unset: []string{"A=B"}}}, `env.unset[0] "A=B": a name has no "="`, "what removes a variable takes its name; to change it, set it"},
		{Policy{Env: Env{Unset: []string{"A\x00"}}}, `env.unset[0] "A\x00": contains a NUL byte`, ""},
		{Policy{Env: Env{Set: []string{"A"}}}, `env.set[0] "A": not of the form NAME=VALUE`, ""},
		{Policy{Env: Env{Set: []string{"=B"}}}, `env.set[0] "=B": empty name`, ""},
		{Policy{Env: Env{Set: []string{"A=\x00"}}}, `env.set[0] "A=\x00": contains a NUL byte`, ""},

		{Policy{Caps: []string{"CAP_KILL"}}, `caps[0] "CAP_KILL": no such capability`, `did you mean "kill"?`},
		{Policy{Caps: []string{"chwon"}}, `caps[0] "chwon": no such capability`, `did you mean "chown"?`},
		{Policy{Caps: []string{"zebra"}}, `caps[0] "zebra": no such capability`, `names are lower case and without "cap_", as in setuid`},
		{Policy{Caps: []string{"kill", "none"}}, `caps[1] "none": stands alone`, ""},
		{Policy{Require: []Promise{"write", "protection"}}, `require[1] "protection": no such promise`, `did you mean "protect"?`},
	}
	for _, test := range tests {
		err := test.p.Validate()
		if test.want == "" {
			if err != nil {
				t.Errorf("Validate(%+v) = %v; want nil", test.p, err)
			}
			continue
		}
		typed, ok := errors.AsType[*Error](err)
		if !ok || err.Error() != test.want || typed.Hint != test.hint {
			t.Errorf("Validate(%+v) = %v; want %s (hint %q)", test.p, err, test.want, test.hint)
			if ok {
				t.Errorf("	hint %q", typed.Hint)
			}
		}
	}
}

func TestRequired(t *testing.T) {
	tests := []struct {
		p    Policy
		want string
	}{
		{Policy{}, "write"},
		{Policy{Mode: WorkspaceWrite}, "write"},
		{Policy{Read: []Path{}}, "write read"},
		{Policy{Network: Network{Mode: NetworkAll}}, "write"},
		{Policy{Network: Network{Mode: NetworkNone}}, "write network"},
		{Policy{Network: Network{BindUDP: []uint16{}}}, "write network"},
		{Policy{Require: []Promise{PromiseLimits, PromiseProtect}}, "write protect limits"},
		{Policy{BestEffort: true, Read: []Path{}}, ""},
		{Policy{BestEffort: true, Require: []Promise{PromiseProtect, PromiseProtect}}, "protect"},
		{Policy{Mode: Unconfined}, ""},
	}
	for _, test := range tests {
		got := test.p.Required()
		if text := strings.Join(stringsOf(got), " "); text != test.want {
			t.Errorf("Required(%+v) = %q; want %q", test.p, text, test.want)
		}
		for _, promise := range Promises() {
			if test.p.Requires(promise) != slices.Contains(got, promise) {
				t.Errorf("Requires(%+v, %s) = %t", test.p, promise, test.p.Requires(promise))
			}
		}
	}
}

func TestPromisesDiffer(t *testing.T) {
	seen := map[Promise]bool{}
	for _, promise := range Promises() {
		if seen[promise] {
			t.Errorf("Promises() has %s twice", promise)
		}
		seen[promise] = true
	}
	if caps := Capabilities(); len(caps) != 41 || caps[21] != "sys_admin" || caps[40] != "checkpoint_restore" {
		t.Errorf("Capabilities() = %q", caps)
	}
	for _, name := range DefaultCaps {
		if !slices.Contains(Capabilities(), name) {
			t.Errorf("DefaultCaps has %q", name)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"write", "read", "network", "env", "unix"}
	for word, want := range map[string]string{
		"write": "write", "wirte": "write", "writes": "write", "wite": "write", "rite": "write",
		"net": "network", "networking": "network", "evn": "env", "e": "", "": "", "xyz": "", "nuix": "unix",
		"reda": "read", "completely": "",
	} {
		if got := nearest.Word(word, words); got != want {
			t.Errorf("Word(%q) = %q; want %q", word, got, want)
		}
	}
}

func TestPolicyString(t *testing.T) {
	want := `mode: read-only
worktree: none
read: everything
broad grants: refused
git's hooks, configuration and pointers: protected
/tmp, /dev/shm and /dev/pts: shared
metadata outside: left to the owner of the file
network: all
signals to processes outside: refused
abstract sockets outside: refused
limits: none
environment: the caller's
repository-local GIT_ variables: dropped
tool caches: redirected
capabilities: chown, dac_override, fowner, fsetid, kill, setgid, setuid
required: write
`
	if got := (Policy{}).String(); got != want {
		t.Errorf("String of the zero policy = %s\nwant %s", got, want)
	}
	want = `mode: workspace-write
worktree: "/w\xff\xfe"
write: /a b
write: /<&>
write: "/line\nend"
write, made if missing: /c
read: what is writable
broad grants: allowed
git's hooks, configuration and pointers: not protected
/tmp, /dev/shm and /dev/pts: shared
metadata outside: left to the owner of the file
network: all
connect by TCP: 443, 65535
bind TCP: no port
bind UDP: 0
signals to processes outside: allowed
abstract sockets outside: allowed
unix socket: ssh-agent
unix socket: /run/x
limits: none
environment: empty
unset: A
repository-local GIT_ variables: kept
set: "B=ü \"\\"
set: C=
tool caches: the user's
capabilities: kill
required: limits
`
	if got := samplePolicies()[2].String(); got != want {
		t.Errorf("String = %s\nwant %s", got, want)
	}
}

// TestPolicyStringShowsAll changes each field alone and wants to see it.
func TestPolicyStringShowsAll(t *testing.T) {
	zero := Policy{}.String()
	var try func(at reflect.Value, name string)
	full := reflect.ValueOf(samplePolicies()[2])
	try = func(at reflect.Value, name string) {
		for i := range at.NumField() {
			field := at.Type().Field(i)
			if field.Type.Kind() == reflect.Struct {
				try(at.Field(i), name+field.Name+".")
				continue
			}
			p := Policy{}
			target := reflect.ValueOf(&p).Elem()
			for part := range strings.SplitSeq(name+field.Name, ".") {
				target = target.FieldByName(part)
			}
			value := at.Field(i)
			if value.IsZero() {
				switch field.Type.Kind() {
				case reflect.Bool:
					value = reflect.ValueOf(true)
				case reflect.Slice:
					value = reflect.MakeSlice(field.Type, 1, 1)
				case reflect.Int64:
					value = reflect.ValueOf(int64(7))
				case reflect.Float64:
					value = reflect.ValueOf(7.5)
				case reflect.Pointer:
					value = reflect.New(field.Type.Elem())
				case reflect.String:
					value = reflect.ValueOf(Path("/x")).Convert(field.Type)
				}
			}
			if name+field.Name == "Network.Mode" {
				value = reflect.ValueOf(NetworkNone)
			}
			target.Set(value)
			if p.String() == zero {
				t.Errorf("String doesn't show %s%s = %s", name, field.Name, fmt.Sprint(value))
			}
		}
	}
	try(full, "")
}
