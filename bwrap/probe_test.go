package bwrap

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// probeMain prints what Probe finds, for tests that run it on another machine.
func probeMain(args []string) int {
	s := Probe(context.Background(), args[0])
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return 98
	}
	return 0
}

// probed runs cmd, which ends in a helper's probe, and returns what it found.
func probed(t *testing.T, cmd *exec.Cmd) Support {
	t.Helper()
	r := testenv.Run(t, cmd)
	var s Support
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("%v: %v", err, r)
	}
	if s.Usable() == (s.Reason() != "") {
		t.Errorf("usable is %v, and the reason %q", s.Usable(), s.Reason())
	}
	return s
}

func TestProbe(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		need(t, u)
		s := probed(t, u.Helper(t, "probe", os.Getenv(bwrapVar)))
		if !s.Usable() || s.Version.String() == "" || !s.Tried || !s.PidNS || !s.NetNS || s.Root != (u.UID == 0) || s.Reason() != "" || s.Mend() != "" {
			t.Errorf("Probe = %+v; want one that works", s)
		}
		if u.UID != 0 && s.UserNS == s.Setuid {
			t.Errorf("Probe = %+v; a user namespace is for who isn't root, and where bwrap isn't setuid", s)
		}
	})
	for _, path := range []string{"", "/usr/bin/bwrap"} {
		if f := Find(path); f.Usable() && (f.Tried || f.Version != (Version{}) || !f.PidNS) {
			t.Errorf("Find(%q) = %+v; it can't know that", path, f)
		}
	}
}

// TestProbeElsewhere probes on machines that don't let bwrap do its work.
func TestProbeElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  []string
		want []Cause
		word string
	}{
		// Where this process isn't root, root's files look like nobody's there.
		{"no user namespaces", []string{"nouserns", "-uid", "1000", "--"}, []Cause{NoNamespaces, Untrusted}, "namespace"},
		{"a seccomp filter", []string{"llsim", "-abi", "0", "-no-userns", "--"}, []Cause{Filtered}, "seccomp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := testenv.Ordinary()
			if s := need(t, u); s.Setuid {
				testenv.Skip(t, "bubblewrap is setuid here")
			}
			testenv.NeedTool(t, "go")
			tool, err := tool(tt.run[0])
			if err != nil {
				t.Fatal(err)
			}
			cmd := u.Helper(t, "probe", os.Getenv(bwrapVar))
			if tt.run[0] == "nouserns" {
				cmd.SysProcAttr = nil
				if os.Getuid() != 0 {
					tt.run = []string{"nouserns", "--"}
					tt.word = "trusted"
				}
			}
			cmd.Args = append(append([]string{tool}, tt.run[1:]...), append([]string{cmd.Path}, cmd.Args[1:]...)...)
			cmd.Path = tool
			s := probed(t, cmd)
			ok := false
			for _, c := range tt.want {
				ok = ok || s.Cause == c
			}
			if !ok || !strings.Contains(s.Reason(), tt.word) || s.Mend() == "" {
				t.Errorf("Probe = %+v, %q, %q; want one of %v", s, s.Reason(), s.Mend(), tt.want)
			}
		})
	}
	// In a sandbox of ours nothing can be mounted.
	t.Run("inside", func(t *testing.T) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			r, _ := wt(t, u)
			b := newBox(t, u, r, Options{Init: true})
			_ = b.u.Helper(t, "probe")
			start := time.Now()
			got := b.run("/usr/bin/env", helperEnv+"probe", "/proc/self/fd/4", b.s.Path)
			var s Support
			if err := json.Unmarshal([]byte(got.Stdout), &s); err != nil || s.Usable() || s.Reason() == "" {
				t.Errorf("Probe in a sandbox = %+v, %v (%v)", s, err, got)
			}
			if took := time.Since(start); took > probeTime+30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	})
}

var toolDir string

// tool builds one of this project's test programs, once.
func tool(name string) (string, error) {
	toolsOnce.Do(func() {
		if toolDir, toolsErr = os.MkdirTemp("", "shofer-tools-"); toolsErr != nil {
			return
		}
		if toolsErr = os.Chmod(toolDir, 0o755); toolsErr != nil { // for the ordinary user
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*testenv.CommandTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", toolDir+"/", "../test/nouserns", "../test/llsim")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			toolsErr = fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	})
	return filepath.Join(toolDir, name), toolsErr
}

var (
	toolsOnce sync.Once
	toolsErr  error
)

// TestProbeOthers probes programs that aren't bwrap, or are broken.
func TestProbeOthers(t *testing.T) {
	// A child whose command line names the program, to be found by it.
	const child = `sh -c "sleep 60; :" "$0" & `
	const version = `test "$*" = --version && echo bubblewrap 0.8.0 && exit; `
	for _, tt := range []struct {
		name, script string
		wait         time.Duration
		want         Cause
		detail       string
	}{
		{"fails", "echo one >&2; echo two >&2; exit 1", 0, Broken, "exit status 1"},
		{"says something else", "echo bubbles 1.0", 0, Broken, errVersion.Error()},
		{"says much", "yes bubblewrap 0.8.0", 300 * time.Millisecond, TimedOut, ""},
		{"old", "echo bubblewrap 0.3.3", 0, TooOld, ""},
		{"old, and fails", `test "$*" = --version && echo bubblewrap 0.1.8 && exit; exit 1`, 0, TooOld, ""},
		{"can't mount", version + `printf 'one\ntwo \001\n' >&2; exit 1`, 0, Refused, "two ?"},
		{"hangs", version + "sleep 60", 300 * time.Millisecond, TimedOut, ""},
		{"hangs, with children of its own", version + child + "sleep 61", 300 * time.Millisecond, TimedOut, ""},
		{"leaves a child that holds its output", version + child + "exit 1", 0, Refused, "exit status 1"},
		{"leaves one in a session of its own", version + "setsid sleep 3 & exit 1", 0, Refused, "exit status 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.CheckFDs(t)
			if tt.want == Refused {
				need(t, testenv.Self()) // or the machine has a better reason
			}
			path := testenv.Dir(t) + "/bwrap"
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if tt.wait != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.wait)
				defer cancel()
			}
			start := time.Now()
			s := Probe(ctx, path)
			if s.Cause != tt.want || s.Detail != tt.detail && tt.detail != "" || s.Usable() || s.Reason() == "" || s.Mend() == "" || !s.Tried {
				t.Errorf("Probe = %+v, %q; want cause %d, %q", s, s.Reason(), tt.want, tt.detail)
			}
			if took := time.Since(start); took > tt.wait+30*time.Second {
				t.Errorf("it took %v", took)
			}
			left := running(t, path)
			for end := time.Now().Add(30 * time.Second); len(left) > 0 && time.Now().Before(end); left = running(t, path) {
				time.Sleep(10 * time.Millisecond) // what was killed is just ending
			}
			if len(left) > 0 {
				t.Errorf("left alive: %s", left)
			}
		})
	}
}

// running returns the processes whose command line names path.
func running(t *testing.T, path string) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		b, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(b), path) {
			pids = append(pids, line)
		}
	}
	return pids
}

func TestFindTrust(t *testing.T) {
	u := testenv.Self()
	script := []byte("#!/bin/sh\n")
	for _, tt := range []struct {
		name string
		make func(dir string) string
		want Cause
		word string
	}{
		{"fine", func(dir string) string { return dir + "/bwrap" }, 0, ""},
		{"fine, by a link", func(dir string) string { return symlink(t, dir+"/bwrap", dir+"/link") }, 0, ""},
		{"missing", func(dir string) string { return dir + "/none" }, Missing, "no such file"},
		{"a folder", func(dir string) string { return dir }, Untrusted, "is not a file"},
		{"not executable", func(dir string) string { return chmod(t, dir+"/bwrap", 0o644) }, Missing, "permission denied"},
		{"relative", func(string) string { return "bwrap" }, Untrusted, "not an absolute path"},
		{"everybody may write", func(dir string) string { return chmod(t, dir+"/bwrap", 0o757) }, Untrusted, "can be written to by others"},
		{"everybody may replace it", func(dir string) string { chmod(t, dir, 0o777); return dir + "/bwrap" }, Untrusted, "can be written to by others"},
		{"a sticky folder", func(dir string) string { chmod(t, dir, 0o777|os.ModeSticky); return dir + "/bwrap" }, 0, ""},
		{"everybody may replace a folder above", func(dir string) string {
			mkdir(t, dir+"/a/b")
			if err := os.Rename(dir+"/bwrap", dir+"/a/b/bwrap"); err != nil {
				t.Fatal(err)
			}
			chmod(t, dir+"/a", 0o777)
			return dir + "/a/b/bwrap"
		}, Untrusted, "/a can be written to"},
		{"everybody may replace the link", func(dir string) string {
			mkdir(t, dir+"/l")
			symlink(t, dir+"/bwrap", dir+"/l/link")
			chmod(t, dir+"/l", 0o777)
			return dir + "/l/link"
		}, Untrusted, "/l can be written to"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := u.Dir(t)
			if err := os.WriteFile(dir+"/bwrap", script, 0o755); err != nil {
				t.Fatal(err)
			}
			path := tt.make(dir)
			s := Find(path)
			if s.Cause != tt.want || !strings.Contains(s.Reason(), tt.word) || s.Usable() != (tt.want == 0) {
				t.Errorf("Find(%q) = %+v, %q; want cause %d, %q", path, s, s.Reason(), tt.want, tt.word)
			}
		})
	}
}

// TestFindOwner takes another user, so only root can make it.
func TestFindOwner(t *testing.T) {
	if os.Getuid() != 0 {
		// The same, from the other side: root's files are trusted.
		if s := Find("/bin/sh"); s.Cause != 0 {
			t.Errorf("Find of a file of root's = %+v", s)
		}
		return
	}
	for _, tt := range []struct {
		name string
		make func(path string)
		want Cause
		word string
	}{
		{"another's file", func(p string) { chown(t, p, 1000, 0) }, Untrusted, "belongs to somebody else"},
		{"another's folder", func(p string) { chown(t, filepath.Dir(p), 1000, 0) }, Untrusted, "belongs to somebody else"},
		{"a group may write", func(p string) { chown(t, p, 0, 1000); chmod(t, p, 0o775) }, Untrusted, "can be written to by others"},
		{"root's group may write", func(p string) { chmod(t, p, 0o775) }, 0, ""},
		{"setuid", func(p string) { chmod(t, p, 0o755|os.ModeSetuid) }, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := testenv.Dir(t) + "/bwrap"
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			tt.make(path)
			s := Find(path)
			if s.Cause != tt.want || !strings.Contains(s.Reason(), tt.word) {
				t.Errorf("Find = %+v, %q; want cause %d, %q", s, s.Reason(), tt.want, tt.word)
			}
			if want := tt.name == "setuid"; s.Setuid != want {
				t.Errorf("Setuid = %v; want %v", s.Setuid, want)
			}
		})
	}
	u := testenv.Ordinary()
	path := u.Dir(t) + "/bwrap"
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho bubblewrap 0.8.0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	chown(t, path, u.UID, u.GID)
	if s := probed(t, u.Helper(t, "probe", path)); !s.Usable() || s.Setuid {
		t.Errorf("Probe of the caller's own = %+v", s)
	}
	// setuid, but not root's.
	chmod(t, path, 0o755|os.ModeSetuid)
	if s := probed(t, u.Helper(t, "probe", path)); s.Cause != Untrusted {
		t.Errorf("Probe of one that is setuid to the caller = %+v", s)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func chown(t *testing.T, path string, uid, gid int) {
	t.Helper()
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCause(t *testing.T) {
	ok := evidence{proc: true, seccomp: "0", noNewPrivs: "0", maxUser: "10000"}
	with := func(f func(*evidence)) evidence {
		e := ok
		f(&e)
		return e
	}
	for _, tt := range []struct {
		name string
		e    evidence
		want Cause
	}{
		{"no /proc", evidence{}, NoProc},
		{"nothing is wrong with namespaces", ok, Refused},
		{"Ubuntu 24.04", with(func(e *evidence) { e.apparmor = "1" }), AppArmor},
		{"the same, where making one is refused", with(func(e *evidence) { e.apparmor = "1"; e.clone = syscall.EACCES }), AppArmor},
		{"the same as root", with(func(e *evidence) { e.apparmor = "1"; e.root = true }), Refused},
		{"AppArmor without the restriction", with(func(e *evidence) { e.apparmor = "0" }), Refused},
		{"turned off", with(func(e *evidence) { e.maxUser = "0"; e.clone = syscall.ENOSPC }), NoNamespaces},
		{"turned off, as older kernels say it", with(func(e *evidence) { e.clone = syscall.EUSERS }), NoNamespaces},
		{"too deep", with(func(e *evidence) { e.clone = syscall.ENOSPC }), NoNamespaces},
		{"Debian before 11", with(func(e *evidence) { e.unpriv = "0"; e.clone = syscall.EPERM }), RootOnly},
		{"the same as root in a container", with(func(e *evidence) { e.unpriv = "0"; e.clone = syscall.EPERM; e.root = true; e.seccomp = "2" }), Filtered},
		{"Docker", with(func(e *evidence) { e.clone = syscall.EPERM; e.seccomp = "2" }), Filtered},
		{"Docker on Ubuntu 24.04", with(func(e *evidence) { e.apparmor = "1"; e.clone = syscall.EPERM; e.seccomp = "2" }), Filtered},
		{"a chroot", with(func(e *evidence) { e.clone = syscall.EPERM }), Refused},
		{"no CONFIG_USER_NS", with(func(e *evidence) { e.clone = syscall.EINVAL; e.maxUser = "" }), NotBuilt},
		{"setuid under no_new_privs", with(func(e *evidence) { e.setuid = true; e.noNewPrivs = "1" }), NoPrivileges},
		{"the same as root", with(func(e *evidence) { e.setuid = true; e.noNewPrivs = "1"; e.root = true }), Refused},
	} {
		if got := tt.e.cause(); got != tt.want {
			t.Errorf("%s: cause(%+v) = %d; want %d", tt.name, tt.e, got, tt.want)
		}
	}
	for c := Missing; c <= Refused; c++ {
		s := Support{Cause: c, Detail: "detail"}
		if s.Reason() == "" || s.Mend() == "" || s.Usable() {
			t.Errorf("cause %d has the reason %q and the mend %q", c, s.Reason(), s.Mend())
		}
	}
	if s := (Support{Cause: AppArmor}); strings.Contains(s.Mend(), "sysctl") {
		t.Errorf("the mend for AppArmor is %q; it must not turn it off for all", s.Mend())
	}
	e := collect(Support{}, func() error { return unix.ENOSPC })
	if !e.proc || e.seccomp == "" || e.noNewPrivs == "" || e.maxUser == "" || e.cause() != NoNamespaces {
		t.Errorf("collect = %+v", e)
	}
}

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Version
		ok   bool
	}{
		{"bubblewrap 0.8.0\n", Version{0, 8, 0}, true},
		{"bubblewrap 0.11\n", Version{0, 11, 0}, true},
		{"bubblewrap 1.2.3-rc1\n", Version{1, 2, 3}, true},
		{"bubblewrap 0.12.0.dirty", Version{0, 12, 0}, true},
		{"bubblewrap 0.5+git", Version{0, 5, 0}, true},
		{"bubblewrap 4", Version{}, false},
		{"bubblewrap 4x", Version{}, false},
		{"bubblewrap ", Version{}, false},
		{"bubblewrap 0.", Version{}, false},
		{"bubblewrap 0.99999999999999999999.1", Version{}, false},
		{"bwrap 0.8.0", Version{}, false},
		{"", Version{}, false},
	} {
		got, ok := ParseVersion(tt.text)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("ParseVersion(%q) = %v, %v; want %v, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
	order := []Version{{0, 4, 0}, {0, 4, 1}, {0, 5, 0}, {0, 11, 0}, {1, 0, 0}}
	for i, v := range order {
		for j, w := range order {
			if v.less(w) != (i < j) {
				t.Errorf("%v less than %v = %v", v, w, v.less(w))
			}
		}
	}
	if (Version{0, 4, 1}).coversAnything() || !(Version{0, 5, 0}).coversAnything() || !(Version{}).coversAnything() {
		t.Error("coversAnything is wrong")
	}
}
