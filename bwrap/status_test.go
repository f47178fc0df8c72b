package bwrap

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestReadStatus(t *testing.T) {
	const pid = `{ "child-pid": 42, "mnt-namespace": 4026532179, "pid-namespace": 4026532180 }` + "\n"
	begun := Status{Pid: 42, Namespaces: map[string]uint64{"mnt": 4026532179, "pid": 4026532180}}
	ended := begun
	ended.Ended, ended.Code = true, 137
	for _, tt := range []struct {
		name, text string
		want       Status
		err        string
	}{
		{"nothing", "", Status{}, ""},
		{"setup failed", pid, begun, ""},
		{"ended", pid + `{ "exit-code": 137 }` + "\n", ended, ""},
		{"ended with 0", `{"child-pid":1}` + "\n" + `{"exit-code":0}` + "\n", Status{Pid: 1, Namespaces: map[string]uint64{}, Ended: true}, ""},
		{"something new", pid + `{ "news": [1, {"a": null}] }` + "\n" + `{ "exit-code": 137, "signal": "KILL" }` + "\n", ended, ""},
		{"in one object", `{"child-pid":1,"exit-code":3}` + "\n", Status{Pid: 1, Namespaces: map[string]uint64{}, Ended: true, Code: 3}, ""},
		{"cut off", pid + `{ "exit-code": 13`, begun, "unexpected EOF"},
		{"cut off before its end", pid + `{ "exit-code": 137 }`, begun, "unexpected EOF"},
		{"no JSON", "bwrap: no\n", Status{}, "line 1 of the status: not a JSON object"},
		{"an empty line", pid + "\n", begun, "line 2 of the status: not a JSON object"},
		{"a list", "[1]\n", Status{}, "not a JSON object"},
		{"two in a line", pid + "{}{}\n", begun, "something follows"},
		{"half an object", pid + `{"exit-code": 1` + "\n", begun, "not a JSON object"},
		{"a member twice", `{"child-pid":1,"child-pid":2}` + "\n", Status{}, "is there twice"},
		{"a second pid", pid + pid, begun, "a second child-pid"},
		{"a second end", pid + `{"exit-code":137}` + "\n" + `{"exit-code":0}` + "\n", ended, "a second exit-code"},
		{"the end first", `{"exit-code":0}` + "\n", Status{}, "before the child-pid"},
		{"pid 0", `{"child-pid":0}` + "\n", Status{}, "child-pid is not a number from 1"},
		{"pid -1", `{"child-pid":-1}` + "\n", Status{}, "child-pid is not a number"},
		{"half a pid", `{"child-pid":1.5}` + "\n", Status{}, "child-pid is not a number"},
		{"a pid as text", `{"child-pid":"1"}` + "\n", Status{}, "child-pid is not a number"},
		{"code 256", pid + `{"exit-code":256}` + "\n", begun, "exit-code is not a number from 0 to 255"},
		{"no code", pid + `{"exit-code":null}` + "\n", begun, "exit-code is not a number"},
		{"an odd namespace", `{"child-pid":1,"pid-namespace":"x"}` + "\n", Status{}, "pid-namespace is not a number"},
		{"too long", pid + strings.Repeat(" ", statusLimit) + "\n", begun, "line 2 of the status: the line is too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				got, err := ReadStatus(r)
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("ReadStatus(%q) = %+v; want %+v", tt.text, got, tt.want)
				}
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("ReadStatus(%q) = %v; want %q", tt.text, err, tt.err)
				}
			}
		})
	}
	broken := errors.New("broken")
	if _, err := ReadStatus(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("ReadStatus of a broken stream = %v", err)
	}
}

// TestNext sees each object as soon as it is there.
func TestNext(t *testing.T) {
	r, w := io.Pipe()
	d := NewStatusReader(r)
	go io.WriteString(w, `{"child-pid":7}`+"\n")
	if s, err := d.Next(); err != nil || s.Pid != 7 || s.Ended {
		t.Errorf("Next = %+v, %v; want the pid", s, err)
	}
	go func() {
		io.WriteString(w, `{"exit-code":1}`+"\n")
		w.Close()
	}()
	for range 3 { // the last state stays
		s, err := d.Next()
		if s.Code != 1 || !s.Ended || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("Next = %+v, %v; want the end", s, err)
		}
	}
}

// TestStatusOfBwrap reads what the real one says.
func TestStatusOfBwrap(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, _ := wt(t, u)
		for _, tt := range []struct {
			script string
			ended  bool
			code   int
		}{{"exit 0", true, 0}, {"exit 1", true, 1}, {"exit 125", true, 125}, {"kill -9 $$", true, 137}} {
			// In a pid namespace whose first process it is, nobody can kill
			// itself.
			b := newBox(t, u, r, Options{})
			got := b.run("/bin/sh", "-c", tt.script)
			s, err := ReadStatus(strings.NewReader(b.status))
			if err != nil || s.Pid <= 0 || s.Namespaces["pid"] == 0 || s.Ended != tt.ended || s.Code != tt.code || got.Code != tt.code {
				t.Errorf("%s: %v: status %q is %+v, %v; want %+v", tt.script, got, b.status, s, err, tt)
			}
		}
		// bwrap exits with 1, too, when it can't do its work.
		b := newBox(t, u, r, Options{})
		b.l.Entries = append(b.l.Entries, Entry{Path: "/nonexistent", Kind: Open})
		got := b.run("/bin/true")
		s, err := ReadStatus(strings.NewReader(b.status))
		if err != nil || s.Ended || got.Code != 1 || !strings.Contains(got.Stderr, "/nonexistent") {
			t.Errorf("a mount that can't be made: %v: status %q is %+v, %v", got, b.status, s, err)
		}
	})
}

func FuzzReadStatus(f *testing.F) {
	f.Add(`{ "child-pid": 42, "mnt-namespace": 4026532179 }` + "\n" + `{ "exit-code": 3 }` + "\n")
	f.Add(`{"child-pid":1,"a":{"b":[null,"\n"]}}` + "\n{")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadStatus(strings.NewReader(text))
		if s.Ended && s.Pid == 0 || s.Code < 0 || s.Code > 255 || s.Pid < 0 || !s.Ended && s.Code != 0 {
			t.Errorf("ReadStatus(%q) = %+v, %v", text, s, err)
		}
		if err == nil && text != "" && !strings.HasSuffix(text, "\n") {
			t.Errorf("ReadStatus(%q) = %+v; the last line has no end", text, s)
		}
	})
}
