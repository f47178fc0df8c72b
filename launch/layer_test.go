package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func needLayer(t *testing.T) {
	t.Helper()
	needLandlock(t)
	if err := mountns.Probe(os.Getuid() == 0); err != nil {
		testenv.Skip(t, "no mount layer: %v", err)
	}
}

// held reports how a promise is held.
func held(t *testing.T, s *launch.Sandbox, p policy.Promise) policy.Feature {
	t.Helper()
	for _, f := range s.Applied().Features {
		if f.Promise == p {
			return f
		}
	}
	t.Fatalf("no feature %s", p)
	return policy.Feature{}
}

// output runs a script and returns all that it writes.
func output(t *testing.T, s *launch.Sandbox, dir, script string, args ...string) string {
	t.Helper()
	c := s.Command("sh", append([]string{"-c", script}, args...)...)
	c.Dir = dir
	c.Env = append(c.Environ(), "LC_ALL=C")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Logf("%v", err)
	}
	return string(out)
}

// wants fails t for each line that out lacks.
func wants(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(out, l) {
			t.Errorf("output lacks %q:\n%s", l, out)
		}
	}
}

func TestProtectAndHide(t *testing.T) {
	needLayer(t)
	testenv.CheckFDs(t)
	inside, outside := places(t)
	for _, f := range []string{inside + "/kept/file", inside + "/secret/key", inside + "/token", outside + "/key"} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte("content\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := workspace(inside)
	p.Protect = []policy.Path{policy.Path(inside + "/kept")}
	p.Hide = []policy.Path{policy.Path(inside + "/secret"), policy.Path(inside + "/token"), policy.Path(outside), "/nonexistent/at/all"}
	s := prepare(t, p)
	for _, promise := range []policy.Promise{policy.PromiseProtect, policy.PromiseHide} {
		if f := held(t, s, promise); f.State != policy.Enforced || f.By != mountns.Name {
			t.Errorf("%s is %s by %q", promise, f.State, f.By)
		}
	}
	out := output(t, s, inside, `
		cat kept/file; echo x > kept/file; echo x > kept/new; rm -r kept; mv kept gone
		ls secret | wc -l; wc -c < token; ls "$0" | wc -l; echo x > free && echo written`, outside)
	wants(t, out, "content", "kept/file: Read-only", "kept/new: Read-only", "'kept'", "0\n0\n0\n", "written")
	if b, err := os.ReadFile(inside + "/kept/file"); string(b) != "content\n" || err != nil {
		t.Errorf("kept/file is %q, %v", b, err)
	}
	if b, err := os.ReadFile(inside + "/token"); string(b) != "content\n" || err != nil {
		t.Errorf("token is %q, %v", b, err)
	}
}

// A worktree in /tmp, and what else is granted there, stays; the rest is new.
func TestPrivateTmp(t *testing.T) {
	needLayer(t)
	testenv.CheckFDs(t)
	work, err := os.MkdirTemp("/tmp", "launch-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	granted := filepath.Join(work+"-granted", "deep")
	if err := os.MkdirAll(granted, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(granted)) })
	p := workspace(work)
	p.PrivateTmp = true
	p.Write = []policy.Path{policy.Path(granted)}
	s := prepare(t, p)
	if f := held(t, s, policy.PromisePrivateTmp); f.State != policy.Enforced {
		t.Errorf("private-tmp is %s: %s", f.State, f.Why)
	}
	out := output(t, s, work, `
		ls /tmp | grep -v "^$(basename "$PWD")" | wc -l; ls /dev/shm | wc -l; ls /dev/pts | grep -v ptmx | wc -l
		echo a > here && echo b > "$0/there" && n=$(basename "$PWD")-new; echo c > /tmp/$n && echo d > /dev/shm/$n && echo written
		script -qc "echo a terminal" /dev/null`, granted)
	wants(t, out, "0\n0\n0\nwritten", "a terminal")
	for path, want := range map[string]bool{work + "/here": true, granted + "/there": true, work + "-new": false, "/dev/shm/" + filepath.Base(work) + "-new": false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s outside: %v; want there %v", path, err, want)
		}
	}
}

func TestStrictMetadata(t *testing.T) {
	needLayer(t)
	testenv.CheckFDs(t)
	inside, outside := places(t)
	file := outside + "/file"
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	p := workspace(inside)
	p.StrictMetadata = true
	s := prepare(t, p)
	if f := held(t, s, policy.PromiseMetadata); f.State != policy.Enforced {
		t.Errorf("metadata is %s: %s", f.State, f.Why)
	}
	out := output(t, s, inside, `
		chmod 600 "$0"; chown "$(id -u)" "$0"; touch -d 2001-01-01 "$0"; chmod 700 "$(dirname "$0")"
		touch own && chmod 600 own && touch -d 2001-01-01 own && echo > /dev/null && echo x > /tmp/$$ && rm /tmp/$$ && echo done`, file)
	wants(t, out, "Read-only file system", "done")
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("mode %v, time %v; want %v, %v", after.Mode(), after.ModTime(), before.Mode(), before.ModTime())
	}
}

// What a mount layer would hold is refused, or reported, where it isn't wanted.
func TestNoLayer(t *testing.T) {
	needLandlock(t)
	inside, _ := places(t)
	p := workspace(inside)
	p.NoCache = true
	p.Hide = []policy.Path{policy.Path(inside)}
	if _, err := launch.Prepare(p, launch.Options{}); err == nil || !strings.Contains(err.Error(), "holds the worktree") {
		t.Errorf("hiding the worktree: %v", err)
	}
	p.Hide = []policy.Path{"/etc/passwd"}
	if _, err := launch.Prepare(p, launch.Options{Backend: launch.BackendLandlock}); err == nil || !strings.Contains(err.Error(), "hide") {
		t.Errorf("hide without a mount layer: %v", err)
	}
	p.BestEffort = true
	s, err := launch.Prepare(p, launch.Options{Backend: launch.BackendLandlock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if f := held(t, s, policy.PromiseHide); f.State != policy.Absent || f.Why == "" {
		t.Errorf("hide is %s: %q", f.State, f.Why)
	}
}
