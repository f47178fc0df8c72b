package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// value returns the value of a variable in env.
func value(env []string, name string) string {
	return callerEnv(env).get(name)
}

func hasNote(r *Resolved, code string) bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Code == code })
}

// cachePolicy is a workspace policy, and the options with a home directory.
func cachePolicy(worktree, home string, env ...string) (Policy, Options) {
	return Policy{Mode: WorkspaceWrite, Worktree: Path(worktree)},
		Options{Environ: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)}
}

func TestCacheDir(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/home")
	git(t, newRepo(t, root+"/my repo"), "worktree", "add", "-q", root+"/wt")
	git(t, root, "clone", "-q", "--bare", root+"/my repo", root+"/bare.git")
	git(t, root+"/bare.git", "worktree", "add", "-q", root+"/bwt")
	mkdir(t, root+"/plain\xff")
	dirs := map[string]string{}
	for _, worktree := range []string{"my repo", "wt", "bare.git", "bwt", "plain\xff"} {
		p, o := cachePolicy(root+"/"+worktree, root+"/home")
		r := mustResolve(t, p, o)
		dirs[worktree] = filepath.Base(r.CacheDir)
		info, err := os.Lstat(r.CacheDir)
		if err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("cache of %q: %v, %v; want a folder of mode 0700", worktree, info.Mode(), err)
		}
		if want := "rw cache " + r.CacheDir + "!"; !slices.Contains(showGrants(r.Grants), want) {
			t.Errorf("%q is not among %q", want, showGrants(r.Grants))
		}
		if filepath.Dir(r.CacheDir) != root+"/home/.cache/shofer-sandbox" {
			t.Errorf("cache of %q: %s", worktree, r.CacheDir)
		}
	}
	if dirs["my repo"] != dirs["wt"] || dirs["bare.git"] != dirs["bwt"] {
		t.Errorf("worktrees of one repository have caches %q", dirs)
	}
	if dirs["wt"] == dirs["bwt"] || !strings.HasPrefix(dirs["wt"], "my_repo-") ||
		!strings.HasPrefix(dirs["bwt"], "bare-") || !strings.HasPrefix(dirs["plain\xff"], "plain_-") {
		t.Errorf("caches %q", dirs)
	}
	for name, key := range map[string]string{"wt": root + "/my repo/.git", "plain\xff": root + "/plain\xff"} {
		link := root + "/home/.cache/shofer-sandbox/" + dirs[name] + ".of"
		if target, err := os.Readlink(link); target != key || err != nil {
			t.Errorf("%s says %q, %v; want %q", link, target, err, key)
		}
	}
	// As if two repositories had the same hash.
	link := root + "/home/.cache/shofer-sandbox/" + dirs["wt"] + ".of"
	remove(t, link)
	symlink(t, "/another", link)
	p, o := cachePolicy(root+"/wt", root+"/home")
	for range 2 {
		if r := mustResolve(t, p, o); filepath.Base(r.CacheDir) != dirs["wt"]+"-2" {
			t.Errorf("beside a cache of the same name: %s", r.CacheDir)
		}
	}
	p, o = cachePolicy(root+"/wt", root+"/home", "XDG_CACHE_HOME="+root+"/xdg")
	if r := mustResolve(t, p, o); filepath.Dir(r.CacheDir) != root+"/xdg/shofer-sandbox" {
		t.Errorf("with XDG_CACHE_HOME: %s", r.CacheDir)
	}
	p.NoCache = true
	if r := mustResolve(t, p, o); r.CacheDir != "" || value(r.Env, "GOCACHE") != "" {
		t.Errorf("with NoCache: %s, %q", r.CacheDir, r.Env)
	}
}

// TestCacheNotByPointer: a pointer that nothing confirms doesn't choose the
// cache of another repository.
func TestCacheNotByPointer(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/home")
	git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
	newRepo(t, root+"/evil")
	p, o := cachePolicy(root+"/wt", root+"/home")
	good := mustResolve(t, p, o).CacheDir
	remove(t, root+"/evil/.git")
	write(t, root+"/evil/.git", "gitdir: "+root+"/repo/.git/worktrees/wt\n")
	p, o = cachePolicy(root+"/evil", root+"/home")
	r := mustResolve(t, p, o)
	if r.CacheDir == good || codes(r.Notes) != "git-tampered tmp-broad" {
		t.Errorf("an unconfirmed pointer: cache %s, notes %+v", r.CacheDir, r.Notes)
	}
}

func TestCacheOff(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/wt")
	mkdir(t, root+"/home")
	p, o := cachePolicy(root+"/wt", root+"/home")
	dir := mustResolve(t, p, o).CacheDir

	// A command that was confined before opened it to everybody.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if r := mustResolve(t, p, o); r.CacheDir != dir {
		t.Errorf("cache = %q, %+v; want %s", r.CacheDir, r.Notes, dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("cache has mode %v, %v; want 0700", info.Mode(), err)
	}

	off := func(name string, p Policy, o Options) {
		t.Helper()
		r := mustResolve(t, p, o)
		if r.CacheDir != "" || !hasNote(r, "cache-off") || value(r.Env, "GOCACHE") != "" {
			t.Errorf("%s: cache %q, notes %+v", name, r.CacheDir, r.Notes)
		}
		for _, g := range r.Grants {
			if g.Origin == FromCache {
				t.Errorf("%s: grants %+v", name, g)
			}
		}
	}
	// A link in its place leads to where the command wants to write.
	remove(t, dir)
	symlink(t, root+"/home", dir)
	off("a symbolic link", p, o)
	remove(t, dir)
	write(t, dir, "")
	off("a file", p, o)
	remove(t, dir)

	p2, o2 := cachePolicy(root+"/wt", root+"/home", "XDG_CACHE_HOME=/proc/none")
	off("a place where nothing can be made", p2, o2)
	if os.Getuid() == 0 {
		mkdir(t, dir)
		if err := os.Chown(dir, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		off("another user's folder", p, o)
		mkdir(t, root+"/theirs")
		if err := os.Chown(root+"/theirs", 1000, 1000); err != nil {
			t.Fatal(err)
		}
		p3, o3 := cachePolicy(root+"/wt", root+"/theirs")
		off("root with a user's HOME", p3, o3)
		if mode(root+"/theirs/.cache") != 0 {
			t.Error("root made a folder in a user's home directory")
		}
	} else {
		if err := os.Chmod(root+"/home/.cache/shofer-sandbox", 0o500); err != nil {
			t.Fatal(err)
		}
		off("a folder that can't be written to", p, o)
		if err := os.Chmod(root+"/home/.cache/shofer-sandbox", 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCacheVariables(t *testing.T) {
	root := testDir(t)
	outside := outsideTmp(t)
	mkdir(t, root+"/wt")
	home := outside + "/home"
	for _, dir := range []string{"/.cache/ms-playwright", "/.cache/huggingface", "/go/pkg/mod/cache/download", "/.cargo/bin"} {
		mkdir(t, home+dir)
	}
	p, o := cachePolicy(root+"/wt", home,
		"PIP_CACHE_DIR="+outside+"/pip", // outside every grant: replaced
		"UV_CACHE_DIR="+root+"/wt/.uv",  // writable: kept
		"CCACHE_DIR=/tmp/cc",
		"NPM_CONFIG_CACHE="+home+"/.npm",
		"GOBIN="+home+"/bin",
		"HF_HOME=/opt/hf",
	)
	o.Environ[1] = "PATH=/usr/bin:" + home + "/go/bin:/x:" + home + "/.cargo/bin"
	r := mustResolve(t, p, o)
	dir := r.CacheDir
	want := map[string]string{
		"XDG_CACHE_HOME": dir + "/xdg", "PIP_CACHE_DIR": dir + "/pip", "UV_CACHE_DIR": root + "/wt/.uv",
		"CCACHE_DIR": "/tmp/cc", "npm_config_cache": dir + "/npm", "NPM_CONFIG_CACHE": "", "CARGO_HOME": dir + "/cargo",
		"GOCACHE": dir + "/go-build", "GOTMPDIR": dir + "/tmp", "GOMODCACHE": dir + "/go/pkg/mod",
		"GOPATH": dir + "/go:" + home + "/go", "GOBIN": dir + "/go/bin",
		"GOPROXY":                  "file://" + home + "/go/pkg/mod/cache/download,https://proxy.golang.org,direct",
		"PLAYWRIGHT_BROWSERS_PATH": home + "/.cache/ms-playwright", "PUPPETEER_CACHE_DIR": "", "HF_HOME": "/opt/hf",
		"PATH": "/usr/bin:" + home + "/go/bin:" + dir + "/go/bin:/x:" + home + "/.cargo/bin:" + dir + "/cargo/bin",
	}
	for name, text := range want {
		if got := value(r.Env, name); got != text {
			t.Errorf("%s = %q; want %q", name, got, text)
		}
	}
	if !isFolder(dir + "/tmp") {
		t.Error("GOTMPDIR is not there")
	}
	// The user has the last word.
	p.Env.Set = []string{"GOCACHE=/mine"}
	p.Env.Clear = true
	r = mustResolve(t, p, o)
	if value(r.Env, "GOCACHE") != "/mine" || value(r.Env, "XDG_CACHE_HOME") != dir+"/xdg" || value(r.Env, "HF_HOME") != home+"/.cache/huggingface" {
		t.Errorf("env = %q", r.Env)
	}
	// With a read list, what is the user's is readable.
	p.Read = []Path{}
	got := showGrants(mustResolve(t, p, o).Grants)
	for _, path := range []string{home + "/go/pkg/mod", home + "/.cache/ms-playwright"} {
		if want := "r cache " + path + "?"; !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
}

func TestGoEnv(t *testing.T) {
	root := testDir(t)
	outside := outsideTmp(t)
	mkdir(t, root+"/wt")
	home := outside + "/home"
	mkdir(t, home+"/.config/go")
	mkdir(t, outside+"/a b,c|d\xff%/cache/download")
	mkdir(t, outside+"/x/pkg/mod/cache/download")
	mkdir(t, home+"/go/pkg/mod/cache/download")
	escaped := "file://" + outside + "/a%20b%2Cc%7Cd%FF%25/cache/download"
	tests := []struct {
		file string
		env  []string
		want string // GOPROXY
	}{
		{"", nil, "file://" + home + "/go/pkg/mod/cache/download,https://proxy.golang.org,direct"},
		{"", []string{"GOPROXY=off"}, "file://" + home + "/go/pkg/mod/cache/download,off"},
		{"", []string{"GOPROXY=https://a|https://b"}, "file://" + home + "/go/pkg/mod/cache/download,https://a|https://b"},
		{"# comment\nGOPROXY=https://corp\r\n", nil, "file://" + home + "/go/pkg/mod/cache/download,https://corp"},
		{"GOPROXY=https://corp\n", []string{"GOPROXY=direct"}, "file://" + home + "/go/pkg/mod/cache/download,direct"},
		{"GOPROXY=https://corp\n", []string{"GOENV=off"}, "file://" + home + "/go/pkg/mod/cache/download,https://proxy.golang.org,direct"},
		{"GOMODCACHE=" + outside + "/a b,c|d\xff%\nGOPROXY=off\n", nil, escaped + ",off"},
		{"", []string{"GOPATH=" + outside + "/x:/y", "GOPROXY=off"}, "file://" + outside + "/x/pkg/mod/cache/download,off"},
		{"", []string{"GOMODCACHE=" + outside + "/none", "GOPROXY=off"}, "off"},
		{"", []string{"GOMODCACHE=/tmp/writable", "GOPROXY=off"}, "off"},
	}
	for _, test := range tests {
		write(t, home+"/.config/go/env", test.file)
		p, o := cachePolicy(root+"/wt", home, test.env...)
		r := mustResolve(t, p, o)
		if got := value(r.Env, "GOPROXY"); got != test.want {
			t.Errorf("go/env %q, env %q: GOPROXY = %q; want %q", test.file, test.env, got, test.want)
		}
	}
}

func TestMatchModule(t *testing.T) {
	tests := []struct {
		patterns, module string
		want             bool
	}{
		{"corp.com", "corp.com", true},
		{"corp.com", "corp.com/a/b", true},
		{"corp.com", "corp.company/a", false},
		{"corp.com/", "corp.com/a", true},
		{"*.corp.com,rsc.io/private", "git.corp.com/x", true},
		{"*.corp.com,rsc.io/private", "corp.com/x", false},
		{"*.corp.com,rsc.io/private", "rsc.io/private/q", true},
		{"*.corp.com,rsc.io/private", "rsc.io/other", false},
		{"github.com/*/x", "github.com/a/x/y", true},
		{"github.com/*/x", "github.com/a", false},
		{"[", "[", false},
		{" a , b ", "b/c", true},
		{"", "x", false},
		{"github.com/MyOrg", "github.com/MyOrg/Repo", true},
	}
	for _, test := range tests {
		if got := matchModule(strings.Split(test.patterns, ","), test.module); got != test.want {
			t.Errorf("matchModule(%q, %q) = %t; want %t", test.patterns, test.module, got, test.want)
		}
	}
	if got := unescapeModule("github.com/!my!org/x"); got != "github.com/MyOrg/x" {
		t.Errorf("unescapeModule = %q", got)
	}
}

// npmCache makes a folder that looks like npm's cache.
func npmCache(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		mkdir(t, dir+"/_cacache/content-v2/sha512/"+name[:1])
		write(t, dir+"/_cacache/content-v2/sha512/"+name[:1]+"/"+name, "content of "+name)
		mkdir(t, dir+"/_cacache/index-v5/"+name[:1])
		write(t, dir+"/_cacache/index-v5/"+name[:1]+"/bucket", "\nkey of "+name)
	}
	mkdir(t, dir+"/_cacache/tmp")
}

func TestSeed(t *testing.T) {
	root := testDir(t)
	home := outsideTmp(t)
	mkdir(t, root+"/wt")
	write(t, root+"/wt/package.json", "{}")
	theirs := home + "/.npm"
	npmCache(t, theirs, "aa", "bb")
	p, o := cachePolicy(root+"/wt", home)
	r := mustResolve(t, p, o)
	ours := r.CacheDir + "/npm"
	if target, err := os.Readlink(ours + "/_cacache/content-v2/sha512/a/aa"); target != theirs+"/_cacache/content-v2/sha512/a/aa" {
		t.Fatalf("content is a link to %q, %v", target, err)
	}
	bucket := ours + "/_cacache/index-v5/a/bucket"
	if info, err := os.Lstat(bucket); err != nil || !info.Mode().IsRegular() || read(t, bucket) != "\nkey of aa" {
		t.Fatalf("index: %v, %v", info, err)
	}
	if theirInfo, err := os.Stat(theirs + "/_cacache/index-v5/a/bucket"); err != nil {
		t.Fatal(err)
	} else if ourInfo, err := os.Stat(bucket); err != nil || os.SameFile(theirInfo, ourInfo) {
		t.Error("the index is a hard link: a command could write to the user's")
	}

	// Nothing is done again while theirs is the same, and what is new comes
	// once it isn't, beside what the command itself added.
	write(t, bucket, "\nkey of aa\nown key")
	remove(t, ours+"/_cacache/content-v2/sha512/b")
	mustResolve(t, p, o)
	if mode(ours+"/_cacache/content-v2/sha512/b") != 0 {
		t.Error("filled again without need")
	}
	npmCache(t, theirs, "ab", "cc")
	touch(t, theirs+"/_cacache/tmp")
	mustResolve(t, p, o)
	if got := read(t, bucket); got != "\nkey of aa\nown key\nkey of ab" {
		t.Errorf("index = %q", got)
	}
	for _, name := range []string{"a/ab", "b/bb", "c/cc"} {
		if text := read(t, ours+"/_cacache/content-v2/sha512/"+name); !strings.HasPrefix(text, "content of ") {
			t.Errorf("%s = %q", name, text)
		}
	}
	if hasNote(r, "cache-partial") {
		t.Errorf("notes = %+v", r.Notes)
	}
}

// touch changes a folder's time.
func touch(t *testing.T, path string) {
	t.Helper()
	when := time.Now().Add(time.Duration(touches.Add(1)) * time.Second)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

// TestSeedPlanted puts into our folder what a command could, to make this
// process, which isn't confined, write elsewhere or hang.
func TestSeedPlanted(t *testing.T) {
	tests := []struct {
		name  string
		plant func(t *testing.T, ours, target string)
	}{
		{"folder a link", func(t *testing.T, ours, target string) {
			symlink(t, target, ours+"/npm")
		}},
		{"inner folder a link", func(t *testing.T, ours, target string) {
			mkdir(t, ours+"/npm/_cacache")
			symlink(t, target, ours+"/npm/_cacache/index-v5")
		}},
		{"bucket a link", func(t *testing.T, ours, target string) {
			mkdir(t, ours+"/npm/_cacache/index-v5/a")
			symlink(t, target+"/file", ours+"/npm/_cacache/index-v5/a/bucket")
		}},
		{"next bucket a link", func(t *testing.T, ours, target string) {
			mkdir(t, ours+"/npm/_cacache/index-v5/a")
			symlink(t, target+"/file", ours+"/npm/_cacache/index-v5/a/bucket.seed")
		}},
		{"bucket a pipe", func(t *testing.T, ours, _ string) {
			mkdir(t, ours+"/npm/_cacache/index-v5/a")
			mkfifo(t, ours+"/npm/_cacache/index-v5/a/bucket")
		}},
		{"next bucket a pipe", func(t *testing.T, ours, _ string) {
			mkdir(t, ours+"/npm/_cacache/index-v5/a")
			mkfifo(t, ours+"/npm/_cacache/index-v5/a/bucket.seed")
		}},
		{"huge bucket", func(t *testing.T, ours, _ string) {
			mkdir(t, ours+"/npm/_cacache/index-v5/a")
			write(t, ours+"/npm/_cacache/index-v5/a/bucket", "")
			if err := os.Truncate(ours+"/npm/_cacache/index-v5/a/bucket", 1<<40); err != nil {
				t.Fatal(err)
			}
		}},
		{"tmp a link", func(t *testing.T, ours, target string) {
			symlink(t, target+"/made", ours+"/tmp")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root, home, target := testDir(t), outsideTmp(t), testDir(t)
			mkdir(t, root+"/wt")
			write(t, target+"/file", "untouched")
			p, o := cachePolicy(root+"/wt", home)
			ours := mustResolve(t, p, o).CacheDir
			write(t, root+"/wt/package.json", "{}")
			npmCache(t, home+"/.npm", "aa")
			remove(t, ours+"/tmp")
			test.plant(t, ours, target)
			r := mustResolve(t, p, o)
			if r.CacheDir != ours {
				t.Errorf("cache %q, notes %+v", r.CacheDir, r.Notes)
			}
			entries, err := os.ReadDir(target)
			if err != nil || len(entries) != 1 || read(t, target+"/file") != "untouched" {
				t.Errorf("outside: %v, %v, %q", entries, err, read(t, target+"/file"))
			}
		})
	}
}

func TestSeedAtOnce(t *testing.T) {
	root, home := testDir(t), outsideTmp(t)
	mkdir(t, root+"/wt")
	write(t, root+"/wt/package.json", "{}")
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("%c%03d", 'a'+i%20, i))
	}
	npmCache(t, home+"/.npm", names...)
	p, o := cachePolicy(root+"/wt", home)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := Resolve(p, o)
			if err != nil || len(r.Notes) != 0 {
				t.Errorf("Resolve = %+v, %v", r, err)
				return
			}
			for _, name := range names {
				if mode(r.CacheDir+"/npm/_cacache/content-v2/sha512/"+name[:1]+"/"+name) == 0 {
					t.Errorf("%s is not there when Resolve returns", name)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestSeedBounds(t *testing.T) {
	root := testDir(t)
	mkdir(t, root+"/from")
	mkdir(t, root+"/to")
	for i := range 10 {
		write(t, fmt.Sprintf("%s/from/%d", root, i), "0123456789")
	}
	for _, test := range []struct {
		entries int
		bytes   int64
		do      action
		want    int
		err     error
	}{
		{10, 0, link, 10, nil},
		{9, 0, link, 9, errSeedBound},
		{10, 100, copied, 10, nil},
		{10, 99, copied, 9, errSeedBound},
	} {
		remove(t, root+"/to")
		mkdir(t, root+"/to")
		r, err := os.OpenRoot(root + "/to")
		if err != nil {
			t.Fatal(err)
		}
		s := seeding{root: r, entries: test.entries, bytes: test.bytes}
		err = s.tree(root+"/from", "x", allFiles(test.do))
		if got := len(listDir(root + "/to/x")); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("tree with %+v: %d, %v; want %d, %v", test, got, err, test.want, test.err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
