package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var deviceGrants = []string{
	"rwi device /dev/null?", "rwi device /dev/zero?", "rwi device /dev/full?", "rwi device /dev/random?",
	"rwi device /dev/urandom?", "rwi device /dev/tty?", "rwi device /dev/ptmx?", "rwi device /dev/pts?",
	"rw device /dev/shm?",
}

// showGrants writes grants short: access, origin, path, then "?" for optional
// and "!" for no symbolic links.
func showGrants(grants []Grant) []string {
	var out []string
	for _, g := range grants {
		access := ""
		for i, c := range "rwic" {
			if g.Access&(1<<i) != 0 {
				access += string(c)
			}
		}
		s := fmt.Sprintf("%s %s %s", access, g.Origin, g.Path)
		if g.Optional {
			s += "?"
		}
		if g.NoSymlinks {
			s += "!"
		}
		out = append(out, s)
	}
	return out
}

func checkGrants(t *testing.T, r *Resolved, want ...string) {
	t.Helper()
	if got := showGrants(r.Grants); !slices.Equal(got, want) {
		t.Errorf("grants:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func mustResolve(t *testing.T, p Policy, o Options) *Resolved {
	t.Helper()
	r, err := Resolve(p, o)
	if err != nil {
		t.Fatalf("Resolve(%+v): %v", p, err)
	}
	return r
}

func TestResolveModes(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/w")
	env := []string{"HOME=/nonexistent"}
	r := mustResolve(t, Policy{}, Options{Environ: env})
	checkGrants(t, r, deviceGrants...)
	r = mustResolve(t, Policy{Mode: ReadOnly, Worktree: Path(root + "/w")}, Options{Environ: env})
	checkGrants(t, r, deviceGrants...)
	if r.Worktree != root+"/w" || r.Repo != nil || r.CacheDir != "" {
		t.Errorf("Resolve = %+v", r)
	}
	r = mustResolve(t, Policy{Mode: Unconfined, Worktree: Path(root + "/w")}, Options{Environ: env})
	checkGrants(t, r)
	r = mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/w"), NoCache: true}, Options{Environ: env})
	checkGrants(t, r, append([]string{"rw worktree " + root + "/w", "rw tmp /tmp?"}, deviceGrants...)...)
	r = mustResolve(t, Policy{Mode: WorkspaceWrite}, Options{Environ: env})
	checkGrants(t, r, append([]string{"rw tmp /tmp?"}, deviceGrants...)...)
}

func TestResolveWorktreeErrors(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/home/u/proj")
	mkdir(t, root+"/locked/x")
	symlink(t, "home/u", root+"/link")
	symlink(t, "loop", root+"/loop")
	write(t, root+"/file", "")
	env := []string{"HOME=" + root + "/home/u"}
	type test struct {
		path, home, want string
		is               error
	}
	tests := []test{
		{root + "/none", "", `worktree "` + root + `/none": does not exist`, fs.ErrNotExist},
		{root + "/file", "", `worktree "` + root + `/file": is not a folder`, syscall.ENOTDIR},
		{root + "/file/x", "", `worktree "` + root + `/file/x": does not exist: a part of it is not a folder`, syscall.ENOTDIR},
		{root + "/loop", "", `worktree "` + root + `/loop": symbolic links lead in a circle`, syscall.ELOOP},
		{root + "/" + strings.Repeat("x", 300), "", "file name too long", syscall.ENAMETOOLONG},
		{"/", "", `worktree "/": is the whole file system`, nil},
		{"/proc/self/root", "", `worktree "/proc/self/root": is the whole file system`, nil},
		{root + "/home/u", "", `worktree "` + root + `/home/u": is the home directory or holds it`, nil},
		{root + "/home", "", `worktree "` + root + `/home": is the home directory or holds it`, nil},
		{root + "/link", "", `worktree "` + root + `/link": leads to ` + root + `/home/u, which is the home directory or holds it`, nil},
		{root + "/home/u", root + "/link", `is the home directory or holds it`, nil},
		{root + "/home", root + "/link/", `is the home directory or holds it`, nil},
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(root+"/locked", 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(root+"/locked", 0o700)
		tests = append(tests, test{root + "/locked/x", "", "cannot be reached: permission denied", fs.ErrPermission})
	}
	for _, test := range tests {
		o := Options{Environ: env}
		if test.home != "" {
			o.Environ = []string{"HOME=" + test.home}
		}
		_, err := Resolve(Policy{Mode: WorkspaceWrite, Worktree: Path(test.path)}, o)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), test.want) || e.Field != "worktree" || e.Value != test.path {
			t.Errorf("Resolve(worktree %q) = %v; want %s", test.path, err, test.want)
			continue
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("Resolve(worktree %q) = %v; want it to be %v", test.path, err, test.is)
		}
		if broad := test.is == nil; broad != strings.Contains(e.Hint, "--allow-broad") {
			t.Errorf("Resolve(worktree %q): hint %q", test.path, e.Hint)
		}
		if test.is == nil {
			mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(test.path), AllowBroad: true, NoCache: true}, o)
			mustResolve(t, Policy{Worktree: Path(test.path)}, o)
		}
	}
	for _, path := range []string{root + "/home/u/proj", root + "/link/proj/", root + "/link/proj/../proj"} {
		r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(path), NoCache: true}, Options{Environ: env})
		if want := root + "/home/u/proj"; r.Worktree != want {
			t.Errorf("Resolve(worktree %q) = %q; want %q", path, r.Worktree, want)
		}
	}
}

// TestResolveHomeUnknown takes the home directory from the user list where the
// environment has none.
func TestResolveHomeUnknown(t *testing.T) {
	for _, line := range strings.Split(read(t, "/etc/passwd"), "\n") {
		fields := strings.Split(line, ":")
		if len(fields) < 7 || fields[2] != strconv.Itoa(os.Getuid()) {
			continue
		}
		for _, env := range [][]string{nil, {"HOME="}, {"HOME=relative"}} {
			if got := homeDir(env); got != fields[5] {
				t.Errorf("homeDir(%q) = %q; want %q", env, got, fields[5])
			}
		}
		return
	}
	if got := homeDir(nil); got != "" {
		t.Errorf("homeDir without a user = %q", got)
	}
}

func TestResolveTmp(t *testing.T) {
	root := testDir(t)
	outside := outsideTmp(t)
	mkdir(t, outside+"/home/tmp")
	mkdir(t, outside+"/other")
	mkdir(t, root+"/below")
	symlink(t, outside+"/other", root+"/link")
	symlink(t, outside, outside+"/home/up")
	home := outside + "/home"
	tests := []struct {
		tmpdir string
		broad  bool
		want   string
		note   string
	}{
		{"", false, "", ""},
		{"/tmp", false, "", ""},
		{"/tmp/", false, "", ""},
		{root + "/below", false, "", ""},
		{outside + "/none", false, "", ""},
		{outside + "/other", false, outside + "/other", ""},
		{root + "/link", false, outside + "/other", ""},
		{home + "/tmp", false, home + "/tmp", ""},
		{home, false, "", "tmp-broad"},
		{home, true, home, ""},
		{home + "/up", false, "", "tmp-broad"},
		{"/", false, "", "tmp-broad"},
		{"/", true, "/", ""},
		{"/sys/fs/cgroup", false, "", "tmp-broad"},
		{"relative", false, "", "tmp-broad"},
	}
	for _, test := range tests {
		env := []string{"HOME=" + home, "TMPDIR=" + test.tmpdir}
		r := mustResolve(t, Policy{Mode: WorkspaceWrite, AllowBroad: test.broad}, Options{Environ: env})
		want := []string{"rw tmp /tmp?"}
		if test.want != "" {
			want = append(want, "rw tmp "+test.want+"?")
		}
		checkGrants(t, r, append(want, deviceGrants...)...)
		if codes(r.Notes) != test.note {
			t.Errorf("TMPDIR=%s: notes %+v; want %q", test.tmpdir, r.Notes, test.note)
		}
		// Never redirected: sockets have short names (108 bytes).
		if !slices.Contains(r.Env, "TMPDIR="+test.tmpdir) {
			t.Errorf("TMPDIR=%s became %q", test.tmpdir, r.Env)
		}
	}
	r := mustResolve(t, Policy{Mode: WorkspaceWrite}, Options{Environ: []string{"HOME=/tmp/u"}})
	if codes(r.Notes) != "tmp-broad" {
		t.Errorf("a home directory in /tmp: notes %+v", r.Notes)
	}
}

// outsideTmp returns a new folder that is not in /tmp.
func outsideTmp(t *testing.T) string {
	t.Helper()
	for _, base := range []string{"/var/tmp", "/dev/shm"} {
		dir, err := os.MkdirTemp(base, "policy-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { remove(t, dir) })
		return realPath(t, dir)
	}
	t.Fatal("no folder for temporary files but /tmp")
	return ""
}

func TestResolveWrite(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/home/u")
	mkdir(t, root+"/dir")
	write(t, root+"/file", "")
	symlink(t, root+"/home", root+"/link")
	env := []string{"HOME=" + root + "/home/u"}
	resolve := func(p Policy) (*Resolved, error) {
		p.Mode = WorkspaceWrite
		return Resolve(p, Options{Environ: env})
	}
	r, err := resolve(Policy{
		Write:       []Path{"/proc/self/attr", Path(root + "/dir"), Path(root + "/file"), Path(root + "/link/u/../u/../../dir"), "/dev/null", Path(root + "/dir")},
		WriteCreate: []Path{Path(root + "/new/a/b/"), Path(root + "/file")},
	})
	if err != nil {
		t.Fatal(err)
	}
	user := []string{"!/proc/self/attr", "/dir", "/file", "/link/u/../u/../../dir", "!/dev/null", "/dir", "/new/a/b/", "/file"}
	var want []string
	for _, path := range user {
		full, absolute := strings.CutPrefix(path, "!")
		if !absolute {
			full = root + path
		}
		want = append(want, "rwi user "+full)
	}
	checkGrants(t, r, slices.Concat([]string{"rw tmp /tmp?"}, deviceGrants, want)...)
	if !isFolder(root + "/new/a/b") {
		t.Error("WriteCreate made nothing")
	}

	tests := []struct {
		p          Policy
		want, hint string
	}{
		{Policy{Write: []Path{"/dev/null", Path(root + "/none")}}, `write[1] "` + root + `/none": does not exist`, "--rw-create"},
		{Policy{Write: []Path{Path(root + "/file/x")}}, `is not a folder`, ""},
		{Policy{WriteCreate: []Path{Path(root + "/file/x")}}, `write_create[0] "` + root + `/file/x": `, ""},
		{Policy{WriteCreate: []Path{"/proc/nope/x"}}, `cannot be made: `, ""},
		{Policy{Write: []Path{"/"}}, `is the whole file system`, "--allow-broad"},
		{Policy{Write: []Path{Path(root + "/home")}}, `is the home directory or holds it`, "--allow-broad"},
		{Policy{Write: []Path{Path(root + "/link")}}, `leads to ` + root + `/home, which`, "--allow-broad"},
		{Policy{WriteCreate: []Path{Path(root + "/link/u")}}, `leads to ` + root + `/home/u, which`, "--allow-broad"},
		{Policy{Write: []Path{"/sys"}}, `control groups`, "--allow-broad"},
		{Policy{Write: []Path{"/sys/fs/cgroup"}}, `control groups`, "--allow-broad"},
		{Policy{Write: []Path{"/sys/kernel"}}, `settings`, "--allow-broad"},
		{Policy{Write: []Path{"/dev/null", "/dev/null", "/sys/kernel", "/sys"}}, `write[2] "/sys/kernel": through it`, "--allow-broad"},
		{Policy{Write: []Path{"/proc"}}, `settings`, "--allow-broad"},
		{Policy{Write: []Path{"/proc/sys/kernel"}}, `settings`, "--allow-broad"},
	}
	for _, test := range tests {
		_, err := resolve(test.p)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), test.want) || !strings.Contains(e.Hint, test.hint) {
			t.Errorf("Resolve(%+v) = %v; want %s", test.p, err, test.want)
			continue
		}
		if test.hint == "--allow-broad" {
			test.p.AllowBroad = true
			if _, err := resolve(test.p); err != nil {
				t.Errorf("Resolve(%+v) = %v; want nil", test.p, err)
			}
		}
	}
}

func TestResolveDryRun(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/home")
	git(t, root, "clone", "-q", "--bare", newRepo(t, root+"/repo"), root+"/bare.git")
	git(t, root+"/bare.git", "worktree", "add", "-q", root+"/wt")
	p := Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), WriteCreate: []Path{Path(root + "/new")}}
	o := Options{Environ: []string{"HOME=" + root + "/home"}, DryRun: true}
	dry := mustResolve(t, p, o)
	for _, path := range []string{root + "/new", root + "/bare.git/logs", root + "/home/.cache"} {
		if mode(path) != 0 {
			t.Errorf("a dry run made %s", path)
		}
	}
	o.DryRun = false
	wet := mustResolve(t, p, o)
	checkGrants(t, wet, showGrants(dry.Grants)...)
	if !slices.Equal(wet.Env, dry.Env) || wet.CacheDir != dry.CacheDir || codes(wet.Notes) != codes(dry.Notes) {
		t.Errorf("Resolve = %+v; a dry run said %+v", wet, dry)
	}
	for _, path := range []string{root + "/new", root + "/bare.git/logs", wet.CacheDir, wet.CacheDir + "/tmp"} {
		if !isFolder(path) {
			t.Errorf("%s is not there", path)
		}
	}
}

func TestResolveGit(t *testing.T) {
	root := testDir(t)
	super := newSuper(t, root)
	git(t, super, "worktree", "add", "-q", root+"/wt")
	git(t, root+"/wt", "submodule", "--quiet", "update", "--init")
	mkdir(t, super+"/sub")
	git(t, root, "clone", "-q", "--bare", super, root+"/bare.git")
	git(t, root+"/bare.git", "worktree", "add", "-q", root+"/bwt")
	mkdir(t, root+"/sep")
	git(t, root+"/sep", "init", "-q", "--separate-git-dir", root+"/sep.git")

	data := func(common string, names ...string) []string {
		var out []string
		for _, name := range append([]string{"objects", "refs", "logs"}, names...) {
			out = append(out, "rw git "+common+"/"+name+"!")
		}
		return out
	}
	gitDir := super + "/.git"
	tests := []struct {
		worktree string
		mount    bool
		write    []Path
		want     []string
		notes    string
	}{
		{super, false, nil, nil, ""},
		{super, true, nil, nil, ""},
		{super + "/sub", false, nil, data(gitDir), "git-partial"},
		{super + "/sub", true, nil, []string{"rw git " + gitDir + "!"}, ""},
		{root + "/wt", false, nil, append([]string{"rw git " + gitDir + "/worktrees/wt!"}, data(gitDir)...), ""},
		{root + "/wt", true, nil, []string{"rw git " + gitDir + "!"}, ""},
		{root + "/bwt", false, nil, append([]string{"rw git " + root + "/bare.git/worktrees/bwt!"}, data(root+"/bare.git")...), "git-logs"},
		{root + "/bwt", false, nil, append([]string{"rw git " + root + "/bare.git/worktrees/bwt!"}, data(root+"/bare.git")...), ""},
		{super + "/lib/sub one", false, nil, data(gitDir + "/modules/lib/sub one"), "git-partial"},
		{super + "/lib/sub one", true, nil, []string{"rw git " + gitDir + "/modules/lib/sub one!"}, ""},
		{root + "/wt/lib/sub one", false, nil, data(gitDir + "/worktrees/wt/modules/lib/sub one"), "git-partial"},
		{root + "/sep", false, nil, nil, "git-unverified"},
		{root + "/sep", true, nil, nil, "git-unverified"},
		{root + "/sep", false, []Path{Path(root + "/sep.git")}, nil, ""},
		{root + "/bare.git", false, nil, nil, ""},
		{root + "/bare.git/refs", false, nil, nil, "git-partial"},
	}
	for _, test := range tests {
		r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(test.worktree), Write: test.write, NoCache: true},
			Options{Environ: []string{"HOME=/nonexistent"}, MountLayer: test.mount})
		var got []string
		for _, g := range showGrants(r.Grants) {
			if strings.HasPrefix(g, "rw git ") {
				got = append(got, g)
			}
		}
		if !slices.Equal(got, test.want) || codes(r.Notes) != test.notes {
			t.Errorf("Resolve(%s, mount layer %t) grants %q, notes %+v; want %q, %s", test.worktree, test.mount, got, r.Notes, test.want, test.notes)
		}
		quiet := slices.Contains(r.Env, "GIT_CONFIG_KEY_0=gc.auto") && slices.Contains(r.Env, "GIT_CONFIG_VALUE_1=false")
		if want := len(test.want) > 1; quiet != want {
			t.Errorf("Resolve(%s, mount layer %t): automatic gc off: %t; want %t", test.worktree, test.mount, quiet, want)
		}
		// A read-only run needs none of it.
		r = mustResolve(t, Policy{Worktree: Path(test.worktree)}, Options{Environ: []string{"HOME=/nonexistent"}})
		checkGrants(t, r, deviceGrants...)
	}
}

func TestResolveGitExtras(t *testing.T) {
	root := testDir(t)
	git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
	common := root + "/repo/.git"
	for _, name := range []string{"reftable", "lfs", "rr-cache"} {
		mkdir(t, common+"/"+name)
	}
	r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), NoCache: true},
		Options{Environ: []string{"HOME=/nonexistent", "GIT_CONFIG_COUNT=junk"}})
	got := strings.Join(showGrants(r.Grants), "\n")
	for _, name := range []string{"reftable", "lfs", "rr-cache"} {
		if !strings.Contains(got, "rw git "+common+"/"+name+"!") {
			t.Errorf("%s is not granted:\n%s", name, got)
		}
	}
	if codes(r.Notes) != "git-config" || !slices.Contains(r.Env, "GIT_CONFIG_COUNT=junk") {
		t.Errorf("a bad GIT_CONFIG_COUNT: notes %+v, env %q", r.Notes, r.Env)
	}
	r = mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), NoCache: true}, Options{})
	if slices.Contains(r.Env, "GIT_CONFIG_KEY_2=rerere.enabled") {
		t.Error("rerere is off although its folder is there")
	}
}

// TestResolveNotesAreOneLine plants a name that would write to a terminal.
func TestResolveNotesAreOneLine(t *testing.T) {
	root := testDir(t)
	newRepo(t, root+"/repo")
	remove(t, root+"/repo/.git")
	write(t, root+"/repo/.git", "gitdir: /x\n\x1b]0;title\a\xff\n")
	r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/repo"), NoCache: true}, Options{})
	if len(r.Notes) != 1 || oneLine(r.Notes[0].Text) != r.Notes[0].Text || strings.ContainsAny(r.Notes[0].Text, "\n\x1b\a") {
		t.Errorf("notes = %q", r.Notes)
	}
}

// TestResolveSymlinkedDeps: a link in the worktree to a folder outside gives
// nothing.
func TestResolveSymlinkedDeps(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/shared")
	mkdir(t, root+"/wt")
	symlink(t, root+"/shared", root+"/wt/node_modules")
	r := mustResolve(t, Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), NoCache: true}, Options{})
	checkGrants(t, r, append([]string{"rw worktree " + root + "/wt", "rw tmp /tmp?"}, deviceGrants...)...)
}

func TestResolveRead(t *testing.T) {
	root := testDir(t)
	git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
	mkdir(t, root+"/extra")
	env := []string{"HOME=" + root + "/home"}
	r := mustResolve(t, Policy{Worktree: Path(root + "/wt"), Read: []Path{Path(root + "/extra")}}, Options{Environ: env})
	checkGrants(t, r, append(slices.Clone(deviceGrants),
		"r worktree "+root+"/wt?", "r git "+root+"/repo/.git!", "r user "+root+"/extra")...)

	r = mustResolve(t, Policy{Mode: WorkspaceWrite, NoCache: true, Worktree: Path(root + "/wt"), Read: []Path{ReadSystem}}, Options{Environ: env})
	got := showGrants(r.Grants)
	for _, want := range []string{"r system /usr?", "r system /etc?", "r system /proc?", "r git " + root + "/repo/.git!"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q among %q", want, got)
		}
	}
	for _, g := range r.Grants {
		for _, never := range []string{"/", "/home", "/root", "/run", "/dev", "/var", "/sys/fs/cgroup"} {
			if g.Path == never {
				t.Errorf("the system's folders have %s", never)
			}
		}
	}
	_, err := Resolve(Policy{Read: []Path{Path(root + "/none")}}, Options{Environ: env})
	if err == nil || !strings.Contains(err.Error(), `read[0] "`+root+`/none": does not exist`) {
		t.Errorf("Resolve with a missing path to read = %v", err)
	}
}

func TestResolveUnix(t *testing.T) {
	root := testDir(t)
	write(t, root+"/sock", "")
	p := Policy{Unix: []Path{UnixSSHAgent, UnixGPGAgent, Path(root + "/sock")}}
	r := mustResolve(t, p, Options{Environ: []string{"HOME=/h", "SSH_AUTH_SOCK=/run/agent"}})
	runtime := "/run/user/" + strconv.Itoa(os.Getuid()) + "/gnupg"
	checkGrants(t, r, append(slices.Clone(deviceGrants),
		"c user /run/agent?", "c user "+runtime+"?", "c user /h/.gnupg?", "c user "+root+"/sock")...)
	r = mustResolve(t, p, Options{Environ: []string{"HOME=/h", "GNUPGHOME=/g"}})
	checkGrants(t, r, append(slices.Clone(deviceGrants), "c user "+runtime+"?", "c user /g?", "c user "+root+"/sock")...)
	if codes(r.Notes) != "unix-agent" {
		t.Errorf("notes = %+v; want unix-agent", r.Notes)
	}
	_, err := Resolve(Policy{Unix: []Path{Path(root + "/none")}}, Options{})
	if err == nil || !strings.Contains(err.Error(), `unix[0]`) {
		t.Errorf("Resolve with a missing socket = %v", err)
	}
}
