package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What an answer says is what the kernel does, and what it says would grant a
// path does so.
func TestWhy(t *testing.T) {
	needLandlock(t)
	repo := testenv.Self().NewRepo(t)
	outside, home := testenv.Dir(t), testenv.Dir(t)
	t.Setenv("HOME", home)
	for _, dir := range []string{outside + "/dir", outside + "/hidden", outside + "/granted/kept"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{outside + "/file", outside + "/a b's", outside + "/dir/file", outside + "/hidden/file", home + "/there", repo.Dir + "/doomed", outside + "/granted/kept/file"} {
		if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		repo.Dir + "/out": outside + "/file", repo.Dir + "/dangling": outside + "/none", outside + "/in": repo.Dir + "/README",
		repo.Dir + "/odd": "sub/../../" + filepath.Base(repo.Dir) + "/README",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	do := map[policy.Op]string{
		policy.OpWrite: `: >>"$1"`, policy.OpCreate: `: >"$1"`, policy.OpMkdir: `mkdir -p "$1"`, policy.OpRemove: `rm "$1"`,
		policy.OpRename: `mv "$1" "$1.new"`, policy.OpRead: `test -f "$1" || test -n "$(ls "$1")"`,
	}
	for _, tt := range []struct {
		op     policy.Op
		path   string
		reason policy.Reason
		flag   string // in the flag
		text   string // in the text or the hint
	}{
		{policy.OpWrite, repo.Dir + "/README", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpWrite, repo.Dir + "/odd", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpCreate, repo.Dir + "/new", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpRemove, repo.Dir + "/doomed", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpWrite, "/dev/null", policy.ReasonGranted, "", "(device)"},
		{policy.OpRead, outside + "/file", policy.ReasonUnlimited, "", "read"},
		{policy.OpWrite, outside + "/in", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpRemove, outside + "/in", policy.ReasonNotGranted, "--rw " + outside, ""},
		{policy.OpWrite, outside + "/file", policy.ReasonNotGranted, "--rw " + outside + "/file", ""},
		{policy.OpWrite, outside + "/a b's", policy.ReasonNotGranted, "--rw '" + outside + `/a b'\''s'`, ""},
		{policy.OpRename, outside + "/file", policy.ReasonNotGranted, "--rw " + outside, ""},
		{policy.OpRemove, outside + "/dir/file", policy.ReasonNotGranted, "--rw " + outside + "/dir", ""},
		{policy.OpCreate, outside + "/none", policy.ReasonNotGranted, "--rw " + outside, ""},
		{policy.OpMkdir, outside + "/new/deep", policy.ReasonNotGranted, "--rw-create " + outside + "/new/deep", ""},
		{policy.OpWrite, repo.Dir + "/out", policy.ReasonNotGranted, "--rw " + outside + "/file", ""},
		{policy.OpCreate, repo.Dir + "/dangling", policy.ReasonNotGranted, "--rw " + outside, ""},
		{policy.OpWrite, home + "/there", policy.ReasonNotGranted, "--rw " + home + "/there", ""},
		{policy.OpCreate, home + "/rc", policy.ReasonNotGranted, "", "make the path first"},
		{policy.OpMkdir, home + "/.tool", policy.ReasonNotGranted, "--rw-create " + home + "/.tool", ""},
		{policy.OpWrite, outside + "/granted/new", policy.ReasonGranted, "", "(user)"},
		{policy.OpWrite, outside + "/granted/kept/file", policy.ReasonProtected, "", "--protect"},
		{policy.OpCreate, repo.Dir + "/.git/hooks/new", policy.ReasonProtected, "", "outside the sandbox"},
		{policy.OpWrite, repo.Dir + "/.git/config", policy.ReasonProtected, "", "git's configuration"},
		{policy.OpCreate, repo.Dir + "/.git/new", policy.ReasonGranted, "", "(worktree)"},
		{policy.OpRead, outside + "/hidden", policy.ReasonHidden, "", "--hide"},
	} {
		t.Run(string(tt.op)+" "+filepath.Base(tt.path), func(t *testing.T) {
			p := workspace(repo.Dir)
			p.Write = []policy.Path{policy.Path(outside + "/granted")}
			p.Protect = []policy.Path{policy.Path(outside + "/granted/kept")}
			p.Hide = []policy.Path{policy.Path(outside + "/hidden")}
			p.BestEffort, p.NoCache = true, true
			a, err := launch.Why(p, launch.Options{}, tt.path, tt.op)
			if err != nil {
				t.Fatal(err)
			}
			s := prepare(t, p)
			_, err = s.Command("sh", "-c", do[tt.op], "sh", tt.path).CombinedOutput()
			if done := err == nil; done != a.Allowed {
				t.Errorf("Why(%s %s) = %+v, and the command says %v", tt.op, tt.path, a, err)
			}
			restore(t, tt.path)
			alone(t, p, tt.path, tt.op, do[tt.op])
			if s.Applied().Backend != launch.BackendMountns && (tt.reason == policy.ReasonProtected || tt.reason == policy.ReasonHidden) {
				testenv.Skip(t, "needs a mount layer")
			}
			if a.Reason != tt.reason || !strings.Contains(a.Flag, tt.flag) || (tt.flag == "") != (a.Flag == "") || !strings.Contains(a.Text+a.Hint, tt.text) || !a.Permitted {
				t.Errorf("Why(%s %s) = %+v; want %s, flag %q, text %q", tt.op, tt.path, a, tt.reason, tt.flag, tt.text)
			}
			if again := s.Why(tt.path, tt.op); again.Reason != a.Reason {
				t.Errorf("the sandbox says %+v", again)
			}
			if tt.flag == "" || a.Missing == nil {
				return
			}
			if strings.HasPrefix(a.Flag, "--rw-create") {
				p.WriteCreate = append(p.WriteCreate, a.Missing.Path)
			} else {
				p.Write = append(p.Write, a.Missing.Path)
			}
			if out, err := prepare(t, p).Command("sh", "-c", do[tt.op], "sh", tt.path).CombinedOutput(); err != nil {
				t.Errorf("with %s: %v %s", a.Flag, err, out)
			}
			restore(t, tt.path)
		})
	}
}

// With folders of its own, what a command finds in /tmp isn't what the caller
// does.
func TestWhyPrivate(t *testing.T) {
	needLandlock(t)
	inside, _ := places(t)
	p := workspace(inside)
	p.PrivateTmp, p.BestEffort = true, true
	for path, own := range map[string]bool{"/tmp/x": true, "/dev/shm/x": true, "/dev/null": false, inside + "/x": false} {
		a, err := launch.Why(p, launch.Options{}, path, policy.OpWrite)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(a.Text, "command's own"); !a.Allowed || got != (own && prepare(t, p).Applied().Backend == launch.BackendMountns) {
			t.Errorf("Why(%s) = %+v; want the command's own: %v", path, a, own)
		}
	}
}

// alone compares an answer with what happens under Landlock alone, where what is
// protected or hidden isn't.
func alone(t *testing.T, p policy.Policy, path string, op policy.Op, script string) {
	t.Helper()
	p.Protect, p.Hide = nil, nil
	s, err := launch.Prepare(p, launch.Options{Backend: launch.BackendLandlock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	a := s.Why(path, op)
	if op == policy.OpRemove && a.Allowed {
		return // it is gone
	}
	out, err := s.Command("sh", "-c", script, "sh", path).CombinedOutput()
	if done := err == nil; done != a.Allowed {
		t.Errorf("under Landlock Why(%s %s) = %+v, and the command says %v %s", op, path, a, err, out)
	}
	if a.Allowed && a.Protected != "" && a.State != policy.VerifiedAfter {
		t.Errorf("under Landlock Why(%s %s) = %+v; want verified-after", op, path, a)
	}
}

// restore puts back what a granted command did.
func restore(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path + ".new"); err == nil {
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}
