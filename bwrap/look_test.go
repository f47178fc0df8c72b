package bwrap

import (
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// userSupport is that of an ordinary user.
var userSupport = Support{Path: "/usr/bin/bwrap", UserNS: true, PidNS: true, NetNS: true}

// strip takes out what differs from machine to machine.
func strip(es []Entry, top string) []Entry {
	out := make([]Entry, len(es))
	for i, e := range es {
		e.Dev, e.Ino = 0, 0
		e.Path = strings.Replace(e.Path, top, "TOP", 1)
		e.Source = strings.Replace(e.Source, top, "TOP", 1)
		out[i] = e
	}
	return out
}

func TestLook(t *testing.T) {
	top := testenv.Dir(t)
	mkdir(t, top+"/wt/sub")
	mkdir(t, top+"/real")
	write(t, top+"/wt/file", "x")
	symlink(t, "real", top+"/rel")
	symlink(t, top+"/rel", top+"/abs")
	symlink(t, "loop", top+"/loop")
	rw := policy.Read | policy.Write
	for _, tt := range []struct {
		name    string
		grant   policy.Grant
		want    []Entry
		links   []Link
		skipped string // why
		err     error
	}{
		{name: "a folder", grant: policy.Grant{Path: top + "/wt", Access: rw}, want: []Entry{dir(Open, "TOP/wt")}},
		{name: "not clean", grant: policy.Grant{Path: top + "//wt/./sub/..", Access: rw}, want: []Entry{dir(Open, "TOP/wt")}},
		{name: "a file", grant: policy.Grant{Path: top + "/wt/file", Access: rw}, want: []Entry{file(Open, "TOP/wt/file")}},
		{name: "with ioctl", grant: policy.Grant{Path: top + "/wt", Access: rw | policy.Ioctl, Optional: true}, want: []Entry{try(dir(Device, "TOP/wt"))}},
		{name: "to read", grant: policy.Grant{Path: top + "/wt", Access: policy.Read}, want: []Entry{dir(Shown, "TOP/wt")}},
		{name: "to connect", grant: policy.Grant{Path: top + "/wt/file", Access: policy.Connect}, want: []Entry{file(Shown, "TOP/wt/file")}},
		{name: "links", grant: policy.Grant{Path: top + "/abs", Access: rw}, want: []Entry{dir(Open, "TOP/real")}, links: []Link{{"TOP/abs", "TOP/rel"}, {"TOP/rel", "real"}}},
		{name: "links, refused", grant: policy.Grant{Path: top + "/abs", Access: rw, NoSymlinks: true}, err: syscall.ELOOP},
		{name: "links, skipped", grant: policy.Grant{Path: top + "/abs", Access: rw, NoSymlinks: true, Optional: true}, skipped: "there is a symbolic link in it"},
		{name: "no links", grant: policy.Grant{Path: top + "/wt", Access: rw, NoSymlinks: true}, want: []Entry{dir(Open, "TOP/wt")}},
		{name: "a loop", grant: policy.Grant{Path: top + "/loop", Access: rw}, err: syscall.ELOOP},
		{name: "missing", grant: policy.Grant{Path: top + "/none", Access: rw}, err: syscall.ENOENT},
		{name: "missing, optional", grant: policy.Grant{Path: top + "/none", Access: rw, Optional: true}, skipped: "no such file or directory"},
		{name: "beneath a file, optional", grant: policy.Grant{Path: top + "/wt/file/x", Access: rw, Optional: true}, skipped: "not a directory"},
		{name: "too long", grant: policy.Grant{Path: top + "/" + strings.Repeat("x", 300), Access: rw, Optional: true}, err: syscall.ENAMETOOLONG},
		{name: "/proc", grant: policy.Grant{Path: "/proc", Access: policy.Read}},
		{name: "a link into /proc", grant: policy.Grant{Path: "/dev/stdin", Access: policy.Read}, links: []Link{{"/dev/stdin", "/proc/self/fd/0"}}},
		{name: "to write in /proc", grant: policy.Grant{Path: "/proc/sys/kernel", Access: rw}, err: errInProc},
		{name: "everything", grant: policy.Grant{Path: "/", Access: rw | policy.Ioctl}, want: []Entry{dir(Device, "/")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Look(userSupport, &policy.Resolved{Grants: []policy.Grant{tt.grant}}, Options{})
			if tt.err != nil {
				var ge *GrantError
				if !errors.As(err, &ge) || ge.Path != tt.grant.Path || !errors.Is(err, tt.err) {
					t.Fatalf("Look = %+v, %v; want %v", l, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Look = %v", err)
			}
			if got := strip(l.Entries, top); len(got) != len(tt.want) || len(got) > 0 && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Entries = %+v; want %+v", got, tt.want)
			}
			for i := range l.Links {
				l.Links[i].Path = strings.Replace(l.Links[i].Path, top, "TOP", 1)
				l.Links[i].Target = strings.Replace(l.Links[i].Target, top, "TOP", 1)
			}
			if !reflect.DeepEqual(l.Links, tt.links) {
				t.Errorf("Links = %+v; want %+v", l.Links, tt.links)
			}
			switch {
			case tt.skipped == "":
				if len(l.Skipped) > 0 || len(l.Applied) != 1 {
					t.Errorf("Applied = %v, Skipped = %v; want it applied", l.Applied, l.Skipped)
				}
			case len(l.Applied) > 0 || len(l.Skipped) != 1 || l.Skipped[0].Why != tt.skipped || l.Skipped[0].Grant != tt.grant:
				t.Errorf("Applied = %v, Skipped = %v; want it skipped: %s", l.Applied, l.Skipped, tt.skipped)
			}
			for _, e := range l.Entries {
				if e.Ino == 0 {
					t.Errorf("%+v has no identity", e)
				}
			}
		})
	}
}

func TestLookConflicts(t *testing.T) {
	top := testenv.Dir(t)
	mkdir(t, top+"/wt")
	mkdir(t, top+"/tmp")
	symlink(t, "wt", top+"/link")
	r := &policy.Resolved{Grants: []policy.Grant{
		{Path: top + "/link", Access: policy.Write, Origin: policy.FromUser},
		{Path: top + "/tmp", Access: policy.Write, Origin: policy.FromTmp},
	}}
	named := *r
	named.Grants = append(named.Grants, policy.Grant{Path: top + "/tmp", Access: policy.Write, Origin: policy.FromUser})
	for _, tt := range []struct {
		name string
		r    *policy.Resolved
		o    Options
		path string
	}{
		{"fine", r, Options{PrivateTmp: true, Hide: []string{top + "/none"}}, ""},
		{"hidden, and granted by name", r, Options{Hide: []string{top + "/wt"}}, top + "/wt"},
		{"the same, by a link", r, Options{Hide: []string{top + "/link"}}, top + "/wt"},
		{"private, and granted by name", &named, Options{PrivateTmp: true}, top + "/tmp"},
		{"granted twice", &named, Options{}, ""},
		{"everything hidden", r, Options{Hide: []string{"/"}}, "/"},
		{"devices hidden", r, Options{Hide: []string{"/dev"}}, "/dev"},
		{"/proc hidden", r, Options{Hide: []string{"/proc/self"}}, "/proc/self"},
	} {
		_, err := Look(userSupport, tt.r, tt.o)
		var conflict *ConflictError
		if (err != nil) != (tt.path != "") || err != nil && (!errors.As(err, &conflict) || conflict.Path != tt.path) {
			t.Errorf("%s: Look = %v; want a conflict about %q", tt.name, err, tt.path)
		}
	}
	if _, err := Look(userSupport, &policy.Resolved{Policy: policy.Policy{Mode: policy.Unconfined}}, Options{}); err == nil {
		t.Error("Look in a mode of unconfined succeeded")
	}
	for _, p := range []policy.Protected{{Path: top + "/gone", Kind: policy.Frozen}, {Path: top + "/link", Kind: policy.Frozen}} {
		var ge *GrantError
		if _, err := Look(userSupport, &policy.Resolved{Protect: []policy.Protected{p}}, Options{}); !errors.As(err, &ge) || ge.Path != p.Path {
			t.Errorf("Look with %+v = %v; want a GrantError", p, err)
		}
	}
	// A socket is left alone where bwrap can't cover it.
	socket := listen(t, "unix", top+"/socket")
	old := userSupport
	old.Version = Version{0, 4, 1}
	l, err := Look(old, r, Options{Hide: []string{socket}})
	if err != nil || len(l.Skipped) != 1 || l.Skipped[0].Grant.Path != socket || l.ModeOption {
		t.Errorf("Look for an old bwrap = %+v, %v; want the socket skipped", l, err)
	}
}

func TestLookNamespaces(t *testing.T) {
	root := userSupport
	root.Root, root.UserNS, root.Caps = true, false, 1<<0|1<<5
	rootless := userSupport
	rootless.Root = true
	setuid := userSupport
	setuid.Setuid, setuid.UserNS = true, false
	noPid := userSupport
	noPid.PidNS = false
	signals := policy.Policy{IPC: policy.IPC{AllowSignals: true}}
	for _, tt := range []struct {
		name           string
		s              Support
		p              policy.Policy
		user, pid, net bool
		caps           []string
	}{
		{name: "an ordinary user", s: userSupport, pid: true},
		{name: "who may signal", s: userSupport, p: signals},
		{name: "without a pid namespace", s: noPid},
		{name: "setuid", s: setuid, pid: true},
		{name: "setuid, and who may signal, but not reach other mounts", s: setuid, p: signals, pid: true},
		{name: "without network", s: userSupport, p: policy.Policy{Network: policy.Network{Mode: policy.NetworkNone}}, pid: true, net: true},
		// It has only two of the default ones.
		{name: "root", s: root, pid: true, caps: []string{"chown", "kill"}},
		{name: "root, who may signal", s: root, p: signals, pid: true, caps: []string{"chown", "kill"}},
		{name: "root, without any", s: root, p: policy.Policy{Caps: []string{"none"}}, pid: true, caps: []string{}},
		{name: "root, with one", s: root, p: policy.Policy{Caps: []string{"kill", "sys_time"}}, pid: true, caps: []string{"kill"}},
		{name: "root in a user namespace", s: rootless, user: true, pid: true, caps: []string{"chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"}},
	} {
		l, err := Look(tt.s, &policy.Resolved{Policy: tt.p}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if l.NewUser != tt.user || l.NewPid != tt.pid || l.NewNet != tt.net || !reflect.DeepEqual(l.Caps, tt.caps) || l.KeepCaps {
			t.Errorf("%s: Look = %+v; want user %v, pid %v, net %v, caps %q", tt.name, l, tt.user, tt.pid, tt.net, tt.caps)
		}
	}
	if l, err := Look(root, &policy.Resolved{Policy: policy.Policy{Caps: []string{"all"}}}, Options{}); err != nil || !l.KeepCaps {
		t.Errorf("Look with all capabilities = %+v, %v", l, err)
	}
}

// TestCapabilities looks at what root really keeps.
func TestCapabilities(t *testing.T) {
	u := testenv.Self()
	if u.UID != 0 {
		return // an ordinary user has none
	}
	r, _ := wt(t, u)
	for _, tt := range []struct {
		caps []string
		user bool
		want string
	}{
		{nil, false, "00000000000000fb"},
		{[]string{"none"}, false, "0000000000000000"},
		{[]string{"chown"}, false, "0000000000000001"},
		{nil, true, "00000000000000fb"},
		{[]string{"none"}, true, "0000000000000000"},
	} {
		r.Policy.Caps = tt.caps
		b := newBox(t, u, r, Options{Init: true})
		if tt.user {
			s := b.s
			s.UserNS = true
			l, err := Look(s, r, Options{Init: true})
			if err != nil {
				t.Fatal(err)
			}
			b.l = l
		}
		got := b.sh("while read -r name value; do case $name in CapEff:) echo $value; esac; done </proc/self/status")
		// The test's own root may have less.
		if got != tt.want+"\n" && b.s.Caps&0xfb == 0xfb {
			t.Errorf("with %q, and a user namespace %v, the capabilities are %s; want %s", tt.caps, tt.user, got, tt.want)
		}
	}
}

func TestArgsFile(t *testing.T) {
	testenv.CheckFDs(t)
	f, err := ArgsFile([]string{"--bind", "/a\n\xff", "", "/b"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if want := "--bind\x00/a\n\xff\x00\x00/b\x00"; err != nil || string(got) != want {
		t.Errorf("ArgsFile = %q, %v; want %q", got, err, want)
	}
	if name, err := os.Readlink("/proc/self/fd/" + strings.TrimPrefix(f.Name(), "/")); err == nil {
		t.Errorf("it has the name %q", name)
	}
}
