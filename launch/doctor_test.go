package launch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func heldIn(t *testing.T, r *launch.Report, p policy.Promise) launch.Held {
	t.Helper()
	i := slices.IndexFunc(r.Promises, func(h launch.Held) bool { return h.Promise == p })
	if i < 0 {
		t.Fatalf("the report has no promise %s", p)
	}
	return r.Promises[i]
}

func checkIn(t *testing.T, list []launch.Check, name string) launch.Check {
	t.Helper()
	i := slices.IndexFunc(list, func(c launch.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("the report has no check %s: %v", name, list)
	}
	return list[i]
}

// TestExamine: it agrees with what the parts say, has each promise once, and
// leaves nothing behind.
func TestExamine(t *testing.T) {
	testenv.CheckFDs(t)
	tmp := t.TempDir()
	env := append(os.Environ(), "TMPDIR="+tmp)
	r, err := launch.Examine(t.Context(), "", launch.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	seen := map[policy.Promise]bool{}
	for _, h := range r.Promises {
		if seen[h.Promise] {
			t.Errorf("%s is listed twice", h.Promise)
		}
		seen[h.Promise] = true
		if (h.State == policy.Absent) != (h.By == "") || h.State == policy.Absent && h.Why == "" {
			t.Errorf("%+v: what is absent has a reason, and the rest a mechanism", h)
		}
	}
	for _, p := range []policy.Promise{
		policy.PromiseWrite, policy.PromiseProtect, policy.PromiseMetadata, policy.PromiseDeviceIoctl,
		policy.PromiseSignals, policy.PromiseAbstractSockets, policy.PromisePathSockets,
	} {
		if !heldIn(t, r, p).Default {
			t.Errorf("%s is not a default promise", p)
		}
	}
	for _, p := range []policy.Promise{
		policy.PromiseRead, policy.PromiseHide, policy.PromisePrivateTmp, policy.PromiseNetwork, policy.PromiseLimits,
	} {
		if heldIn(t, r, p).Default {
			t.Errorf("%s is a default promise", p)
		}
	}
	if s := landlock.Probe(); s.ABI >= 3 {
		if h := heldIn(t, r, policy.PromiseWrite); h.State != policy.Enforced {
			t.Errorf("write = %+v; want enforced with ABI %d", h, s.ABI)
		}
		if c := checkIn(t, r.Checks, "start"); c.Grade != launch.OK {
			t.Errorf("start: %+v", c)
		}
	}
	layered := checkIn(t, r.Mechanisms, "mountns").Grade == launch.OK
	switch h := heldIn(t, r, policy.PromiseMetadata); {
	case h.By == bwrap.Name && h.With == "": // where Landlock doesn't hold writes
		if heldIn(t, r, policy.PromiseWrite).By != bwrap.Name {
			t.Errorf("metadata = %+v; and write isn't held so", h)
		}
	case (h.State == policy.Enforced) != layered || layered && h.With != "--strict-metadata":
		t.Errorf("metadata = %+v; want it by the mount layer (%v), with an option", h, layered)
	}

	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back launch.Report
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&back); err != nil || !reflect.DeepEqual(&back, r) {
		t.Errorf("the report is not the same after JSON: %v\n%+v\n%+v", err, back, *r)
	}
}

func TestFull(t *testing.T) {
	enforced, absent := policy.Feature{State: policy.Enforced}, policy.Feature{State: policy.Absent}
	fault := []launch.Check{{Name: "start", Grade: launch.Fault}}
	for _, tt := range []struct {
		r    launch.Report
		want bool
	}{
		{launch.Report{Promises: []launch.Held{{Feature: enforced, Default: true}, {Feature: absent}}}, true},
		{launch.Report{Promises: []launch.Held{{Feature: absent, Default: true}}}, false},
		{launch.Report{Promises: []launch.Held{{Feature: policy.Feature{State: policy.VerifiedAfter}, Default: true}}}, false},
		{launch.Report{Promises: []launch.Held{{Feature: enforced, Default: true}}, Checks: fault}, false},
	} {
		if got := tt.r.Full(); got != tt.want {
			t.Errorf("Full(%+v) = %v; want %v", tt.r, got, tt.want)
		}
	}
}

func TestExamineWorktree(t *testing.T) {
	repo := testenv.Self().NewRepo(t)
	work := repo.WorktreeBeside()
	r, err := launch.Examine(t.Context(), work.Dir, launch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &launch.RepoFound{
		Kind: policy.RepoLinked, WorkTree: policy.Path(work.Dir), GitDir: policy.Path(repo.Dir + "/.git/worktrees/" + filepath.Base(work.Dir)),
		CommonDir: policy.Path(repo.Dir + "/.git"), Trusted: true,
	}
	if !reflect.DeepEqual(r.Repo, want) {
		t.Errorf("repo = %+v; want %+v", r.Repo, want)
	}

	// A pointer that nothing confirms is named.
	if err := os.WriteFile(work.Dir+"/.git", []byte("gitdir: "+repo.Dir+"/.git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = launch.Examine(t.Context(), work.Dir, launch.Options{})
	if err != nil || r.Repo == nil || r.Repo.Trusted || r.Repo.Problem == nil {
		t.Errorf("a pointer that was rewritten: %+v, %v; want a problem", r, err)
	}

	plain := t.TempDir()
	if r, err := launch.Examine(t.Context(), plain, launch.Options{}); err != nil || r.Repo != nil {
		t.Errorf("no repository: %+v, %v; want none", r, err)
	}
	var setup *launch.SetupError
	if _, err := launch.Examine(t.Context(), plain+"/nonexistent", launch.Options{}); !errors.As(err, &setup) {
		t.Errorf("no worktree: %v; want a SetupError", err)
	}
}

// TestExamineSockets: those are listed that this user may connect to, once
// each.
func TestExamineSockets(t *testing.T) {
	run := testenv.Dir(t)
	listen := func(name string) string {
		path := run + "/" + name
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return path
	}
	want := []launch.Socket{
		{Path: policy.Path(listen("elsewhere")), What: "Docker"},
		{Path: policy.Path(listen("docker.sock")), What: "Docker"},
		{Path: policy.Path(listen("bus")), What: "user bus"},
		{Path: policy.Path(listen("tmux-" + strconv.Itoa(os.Getuid()) + "/default")), What: "tmux"},
	}
	closed := listen("podman/podman.sock")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(run+"/wayland-0", nil, 0o600); err != nil { // no socket
		t.Fatal(err)
	}
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+run, "DOCKER_HOST=unix://"+run+"/elsewhere",
		"DBUS_SESSION_BUS_ADDRESS=unix:path="+run+"/bus,guid=0", "TMUX_TMPDIR="+run, "TMUX=")
	r, err := launch.Examine(t.Context(), "", launch.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		n := 0
		for _, s := range r.Sockets {
			if s == w {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%v is listed %d times; want 1: %v", w, n, r.Sockets)
		}
	}
	for _, s := range r.Sockets {
		if string(s.Path) == run+"/wayland-0" || string(s.Path) == closed && os.Getuid() != 0 {
			t.Errorf("%v is listed", s)
		}
	}
}

// TestExamineBwrap: the bubblewrap that is asked about is the one that is
// named.
func TestExamineBwrap(t *testing.T) {
	r, err := launch.Examine(t.Context(), "", launch.Options{Bwrap: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Mechanisms {
		if m.Name == "bwrap" && (m.Grade == launch.OK || m.Mend == "") {
			t.Errorf("of /bin/true it is said: %+v", m)
		}
	}
}
