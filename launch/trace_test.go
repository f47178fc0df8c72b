package launch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

// try is a call that a traced command makes.
type try struct {
	name string
	do   func(out string) error
	call string
	// want are the paths that it is refused, in the folder outside; none if the
	// sandbox has no part in how it ends.
	want []string
}

const write = unix.O_WRONLY | unix.O_CREAT

func opened(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// in does something with a folder open, or in a folder.
func in(dir string, do func(fd int) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("test: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return do(fd)
}

func inside(dir string, do func() error) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("test: %w", err)
	}
	defer func() { _ = os.Chdir(here) }()
	return do()
}

func sockaddr(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
}

// tries are made in this order, in a folder that is granted, which has a link
// "link" to the one outside. That has files "file", "more" and "dir/file", and a
// folder "empty".
var tries = []try{
	// By all the ways in which a path is said.
	{"absolute", func(o string) error { return opened(unix.Open(o+"/a1", write, 0o600)) }, "openat", []string{"a1"}},
	{"relative", func(string) error { return opened(unix.Open("../outside/a2", write, 0o600)) }, "openat", []string{"a2"}},
	{"dots", func(o string) error { return opened(unix.Open(o+"/dir/.././dir/../a3", write, 0o600)) }, "openat", []string{"a3"}},
	{"a link", func(string) error { return opened(unix.Open("link/a4", write, 0o600)) }, "openat", []string{"a4"}},
	{"a link and up", func(string) error { return opened(unix.Open("link/dir/../a5", write, 0o600)) }, "openat", []string{"a5"}},
	{"a link to the file", func(string) error { return opened(unix.Open("tolink", unix.O_WRONLY, 0)) }, "openat", []string{"file"}},
	{"a link to nothing", func(string) error { return opened(unix.Open("tonothing", write, 0o600)) }, "openat", []string{"a6"}},
	{"dirfd", func(o string) error {
		return in(o, func(fd int) error { return opened(unix.Openat(fd, "a7", write, 0o600)) })
	}, "openat", []string{"a7"}},
	{"dirfd and up", func(o string) error {
		return in(o+"/dir", func(fd int) error { return opened(unix.Openat(fd, "../a8", write, 0o600)) })
	}, "openat", []string{"a8"}},
	{"chdir", func(o string) error {
		return inside(o, func() error { return opened(unix.Open("a9", write, 0o600)) })
	}, "openat", []string{"a9"}},
	{"chdir and up", func(o string) error {
		return inside(o+"/dir", func() error { return opened(unix.Open("./../a10", write, 0o600)) })
	}, "openat", []string{"a10"}},
	{"by a descriptor", func(o string) error {
		fd, err := unix.Open(o+"/more", unix.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("test: %w", err)
		}
		defer func() { _ = unix.Close(fd) }()
		return opened(unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY, 0))
	}, "openat", []string{"more"}},
	{"by /proc/self/cwd", func(o string) error {
		return inside(o, func() error { return opened(unix.Open("/proc/self/cwd/a11", write, 0o600)) })
	}, "openat", []string{"a11"}},
	{"bytes", func(o string) error { return opened(unix.Open(o+"/a\xff\n", write, 0o600)) }, "openat", []string{"a\xff\n"}},
	{"a long path", func(o string) error { return opened(unix.Open(o+strings.Repeat("/.", 1500)+"/a12", write, 0o600)) }, "openat", []string{"a12"}},

	// By all calls.
	{"openat2", func(o string) error {
		return opened(unix.Openat2(unix.AT_FDCWD, o+"/b1", &unix.OpenHow{Flags: write, Mode: 0o600}))
	}, "openat2", []string{"b1"}},
	{"openat2 in a root", func(o string) error {
		return in(o, func(fd int) error {
			return opened(unix.Openat2(fd, "/../b2", &unix.OpenHow{Flags: write, Mode: 0o600, Resolve: unix.RESOLVE_IN_ROOT}))
		})
	}, "openat2", []string{"b2"}},
	{"append", func(o string) error { return opened(unix.Open(o+"/dir/file", unix.O_WRONLY|unix.O_APPEND, 0)) }, "openat", []string{"dir/file"}},
	{"truncating", func(o string) error { return opened(unix.Open(o+"/t1", unix.O_RDONLY|unix.O_TRUNC, 0)) }, "openat", []string{"t1"}},
	{"without a name", func(o string) error { return opened(unix.Open(o+"/empty", unix.O_TMPFILE|unix.O_RDWR, 0o600)) }, "openat", []string{"empty"}},
	{"truncate", func(o string) error { return unix.Truncate(o+"/file", 0) }, "truncate", []string{"file"}},
	{"mkdirat", func(o string) error { return unix.Mkdirat(unix.AT_FDCWD, o+"/b4", 0o700) }, "mkdirat", []string{"b4"}},
	{"mkfifo", func(o string) error { return unix.Mknodat(unix.AT_FDCWD, o+"/b5", unix.S_IFIFO, 0) }, "mknodat", []string{"b5"}},
	{"symlinkat", func(o string) error { return unix.Symlinkat("x", unix.AT_FDCWD, o+"/b6") }, "symlinkat", []string{"b6"}},
	{"linkat", func(o string) error { return unix.Linkat(unix.AT_FDCWD, "own", unix.AT_FDCWD, o+"/b7", 0) }, "linkat", []string{"b7"}},
	{"unlinkat", func(o string) error { return unix.Unlinkat(unix.AT_FDCWD, o+"/more", 0) }, "unlinkat", []string{"more"}},
	{"removing a folder", func(o string) error { return unix.Unlinkat(unix.AT_FDCWD, o+"/empty", unix.AT_REMOVEDIR) }, "unlinkat", []string{"empty"}},
	{"renameat2", func(o string) error { return unix.Renameat2(unix.AT_FDCWD, "own", unix.AT_FDCWD, o+"/b8", 0) }, "renameat2", []string{"b8"}},
	{"renaming outside", func(o string) error { return unix.Renameat2(unix.AT_FDCWD, o+"/file", unix.AT_FDCWD, o+"/b9", 0) }, "renameat2", []string{"file", "b9"}},
	{"bind", func(o string) error { return sockaddr(o + "/b10") }, "bind", []string{"b10"}},
	{"bind, relative", func(string) error { return sockaddr("../outside/b11") }, "bind", []string{"b11"}},

	// What isn't refused, or would fail anyway.
	{"reading", func(o string) error { return opened(unix.Open(o+"/file", unix.O_RDONLY, 0)) }, "", nil},
	{"a place", func(o string) error { return opened(unix.Open(o+"/file", unix.O_PATH|unix.O_RDWR, 0)) }, "", nil},
	{"creating what is there", func(o string) error { return opened(unix.Open(o+"/file", unix.O_RDONLY|unix.O_CREAT, 0)) }, "", nil},
	{"exclusive", func(o string) error { return opened(unix.Open(o+"/file", write|unix.O_EXCL, 0)) }, "", nil},
	{"exclusive link", func(string) error { return opened(unix.Open("tonothing", write|unix.O_EXCL, 0)) }, "", nil},
	{"no such file", func(o string) error { return opened(unix.Open(o+"/none", unix.O_WRONLY, 0)) }, "", nil},
	{"no such folder", func(o string) error { return opened(unix.Open(o+"/none/x", write, 0)) }, "", nil},
	{"a file as a folder", func(o string) error { return opened(unix.Open(o+"/file/x", write, 0)) }, "", nil},
	{"a folder to write to", func(o string) error { return opened(unix.Open(o, unix.O_WRONLY, 0)) }, "", nil},
	{"a bad address", func(string) error { return badAddress() }, "", nil},
	{"a bad descriptor", func(string) error { return opened(unix.Openat(999, "x", write, 0)) }, "", nil},
	{"a folder that is there", func(o string) error { return unix.Mkdir(o+"/dir", 0o700) }, "", nil},
	{"removing nothing", func(o string) error { return unix.Unlink(o + "/none") }, "", nil},
	{"renaming nothing", func(o string) error { return unix.Rename(o+"/none", o+"/none2") }, "", nil},
	{"a link that is there", func(o string) error { return unix.Symlink("x", o+"/file") }, "", nil},
	{"truncating nothing", func(o string) error { return unix.Truncate(o+"/none", 0) }, "", nil},
	{"no path", func(string) error { return opened(unix.Open("", write, 0)) }, "", nil},
	{"a socket without a name", func(string) error { return sockaddr("@shofer-test-abstract") }, "", nil},
	{"granted", func(string) error { return opened(unix.Open("new", write, 0o600)) }, "", nil},
	{"a device", func(string) error { return opened(unix.Open("/dev/null", unix.O_WRONLY, 0)) }, "", nil},
	{"its output", func(string) error { return opened(unix.Open("/dev/stdout", unix.O_WRONLY, 0)) }, "", nil},
	{"a file that is its errors", func(string) error { return opened(unix.Open("/proc/self/fd/2", unix.O_WRONLY, 0)) }, "", nil},
	{"granted, moved", func(string) error {
		return errors.Join(unix.Mkdir("d", 0o700), unix.Rename("new", "d/new"), unix.Link("d/new", "new2"), unix.Unlink("new2"))
	}, "", nil},
}

// trying makes all tries, and prints what each ended with.
func trying(args []string) int {
	ends := map[string]syscall.Errno{}
	for _, t := range tries {
		var e syscall.Errno
		if err := t.do(args[0]); err != nil && !errors.As(err, &e) || strings.HasPrefix(fmt.Sprint(err), "test: ") {
			fmt.Fprintln(os.Stdout, t.name, err)
			return 1
		}
		ends[t.name] = e
	}
	if err := json.NewEncoder(os.Stdout).Encode(ends); err != nil {
		return 1
	}
	return 0
}

// needWitness skips the test where calls can't be traced.
func needWitness(t *testing.T) {
	t.Helper()
	if err := seccomp.ProbeWitness(); err != nil {
		testenv.Skip(t, "%v", err)
	}
}

// All that the sandbox refuses is seen, by its path, and nothing else.
func TestTrace(t *testing.T) {
	needWitness(t)
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		testenv.CheckFDs(t)
		work := string(p.Worktree)
		out := filepath.Join(filepath.Dir(work), "outside")
		for _, dir := range []string{out + "/dir", out + "/empty"} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{out + "/file", out + "/more", out + "/t1", out + "/dir/file", out + "/errors", work + "/own"} {
			if err := os.WriteFile(f, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for to, link := range map[string]string{out: "link", out + "/file": "tolink", out + "/a6": "tonothing"} {
			if err := os.Symlink(to, filepath.Join(work, link)); err != nil {
				t.Fatal(err)
			}
		}
		o.TraceDenials = true
		s := prepareWith(t, p, o)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		helper := testenv.Helper(t, "trying", out)
		c := s.Command(exe, out)
		c.Path, c.Args, c.Env, c.Dir = helper.Path, helper.Args, append(s.Environ(), helper.Env...), work
		if c.Stderr, err = os.OpenFile(out+"/errors", os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
		output, err := c.Output()
		ends := map[string]syscall.Errno{}
		if err != nil || json.Unmarshal(output, &ends) != nil {
			t.Fatalf("%v: %s", err, output)
		}
		_ = c.Stderr.(*os.File).Close()
		trace := c.Trace()
		if len(trace.Unseen) > 0 || trace.More > 0 {
			t.Errorf("unseen: %+v, %d more", trace.Unseen, trace.More)
		}
		if a := s.Applied(); a.Backend != o.Backend {
			t.Fatalf("ran under %s", a.Backend)
		}
		var want []string
		for _, tt := range tries {
			refused := slices.Contains([]syscall.Errno{syscall.EACCES, syscall.EROFS, syscall.EXDEV}, ends[tt.name])
			if tt.want == nil {
				// A read-only mount says so before it looks for what isn't there.
				if refused && ends[tt.name] != syscall.EROFS {
					t.Errorf("%s: %v; it was refused", tt.name, ends[tt.name])
				}
				continue
			}
			if !refused {
				t.Errorf("%s: %v; want it refused", tt.name, ends[tt.name])
			}
			if ends[tt.name] == syscall.EXDEV { // another mount: who moves a file copies it then
				continue
			}
			for _, w := range tt.want {
				want = append(want, tt.call+" "+filepath.Join(out, w))
			}
		}
		var got []string
		for _, r := range trace.Refused {
			real := string(r.Path)
			if r.Real != "" {
				real = string(r.Real)
			}
			got = append(got, r.Call+" "+real)
			if r.Pid <= 0 || r.Program == "" || r.Count < 1 || r.Allowed || r.Flag == "" || !r.Permitted || r.Text == "" {
				t.Errorf("%s %s says too little: %+v %+v", r.Call, r.Path, r, r.Answer)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("refused:\n%q\nwant\n%q", got, want)
		}
	})
}

// What git executes or follows can't be granted, and a trace says so. Counts add
// up, and what is already read-only isn't the sandbox's doing.
func TestTraceProtected(t *testing.T) {
	needWitness(t)
	needLayer(t)
	repo := testenv.Self().NewRepo(t)
	p := workspace(repo.Dir)
	p.NoCache = true
	s, err := launch.Prepare(p, launch.Options{TraceDenials: true, Environ: testenv.GitEnv(repo.Home)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := s.Command("sh", "-c", `for i in 1 2 3; do (: >.git/hooks/x); done; chmod 700 .git/config; : >file; chmod 600 file; touch file; mv .git/hooks .git/old; rm .git/config; true`)
	c.Dir = repo.Dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	got := map[string]int{}
	for _, r := range c.Trace().Refused {
		got[r.Program+" "+r.Call+" "+strings.TrimPrefix(string(r.Path), repo.Dir+"/")] = r.Count
		if r.Reason != policy.ReasonProtected || !strings.Contains(r.Advice(), "outside the sandbox") {
			t.Errorf("%+v %q", r.Answer, r.Advice())
		}
	}
	for _, w := range []struct {
		what  string
		count int
	}{{"sh openat .git/hooks/x", 3}, {"mv renameat2 .git/hooks", 1}, {"rm unlinkat .git/config", 1}, {"chmod fchmodat .git/config", 1}} {
		if got[w.what] != w.count {
			t.Errorf("%s was refused %d times; want %d: %v\n%s", w.what, got[w.what], w.count, got, out)
		}
	}
}

// A path that is changed between the look at it and the call lets nothing
// through: the kernel decides.
func TestTraceRaces(t *testing.T) {
	needWitness(t)
	eachBackend(t, func(t *testing.T, o launch.Options, p policy.Policy) {
		base := filepath.Dir(string(p.Worktree))
		good, bad := base+"/a", base+"/b"
		for _, dir := range []string{good + "/x", bad + "/x"} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/file", []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.Write = []policy.Path{policy.Path(good)}
		o.TraceDenials = true
		s := prepareWith(t, p, o)
		helper := testenv.Helper(t, "racing", good, bad+"/x")
		c := s.Command(helper.Path)
		c.Args, c.Env, c.Dir = helper.Args, append(s.Environ(), helper.Env...), string(p.Worktree)
		out, err := c.CombinedOutput()
		var let, refused int
		if n, scanErr := fmt.Sscan(string(out), &let, &refused); err != nil || scanErr != nil || n != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("let %d times, refused %d times; seen: %d", let, refused, len(c.Trace().Refused))
		if let == 0 || refused == 0 {
			t.Errorf("let %d times, refused %d times; want both", let, refused)
		}
		if b, err := os.ReadFile(bad + "/x/file"); err != nil || string(b) != "old" {
			t.Errorf("the file outside has %q, %v", b, err)
		}
		if b, err := os.ReadFile(good + "/x/file"); err != nil || string(b) != "evil" {
			t.Errorf("the file inside has %q, %v; want it written", b, err)
		}
	})
}

// What can't be traced isn't started, and says why: a second trace around the
// first.
func TestTraceTwice(t *testing.T) {
	needWitness(t)
	needLandlock(t)
	work, _ := places(t)
	p := workspace(work)
	s := prepareWith(t, p, launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	helper := testenv.Helper(t, "traced", work)
	c := s.Command(helper.Path)
	c.Args, c.Env, c.Dir = helper.Args, append(s.Environ(), helper.Env...), work
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "seccomp listener\n" {
		t.Errorf("%v: %q; want the stage at which it fails", err, out)
	}
}

// traced prints at which stage the start of a traced command fails.
func traced(args []string) int {
	p := workspace(args[0])
	p.NoCache = true
	s, err := launch.Prepare(p, launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = s.Close() }()
	err = s.Command("true").Run()
	var setup *launch.SetupError
	var watched *launch.WitnessError
	if !errors.As(err, &setup) || !errors.As(err, &watched) || !errors.Is(err, syscall.EBUSY) || launch.Hint(err) == "" {
		fmt.Println(err)
		return 1
	}
	fmt.Println(setup.Stage)
	return 0
}

// What a host can't see of its command is said: processes that may not be traced,
// and rings.
func TestTraceUnseen(t *testing.T) {
	needWitness(t)
	needLandlock(t)
	work, out := places(t)
	helper := testenv.Helper(t, "undumpable", out)
	if os.Geteuid() == 0 {
		return // sees all
	}
	s := prepareWith(t, workspace(work), launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	c := s.Command(helper.Path)
	c.Args, c.Env, c.Dir = helper.Args, append(s.Environ(), helper.Env...), work
	if output, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	trace := c.Trace()
	if len(trace.Refused) > 0 || len(trace.Unseen) != 1 || trace.Unseen[0].Count != 1 || trace.Unseen[0].Why == "" {
		t.Errorf("%+v; want one program unseen", trace)
	}
}

// undumpable may not be traced when it is refused something.
func undumpable(args []string) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 1
	}
	if _, err := unix.Open(args[0]+"/x", write, 0o600); !errors.Is(err, syscall.EACCES) {
		return 2
	}
	return 0
}

// A socket that Landlock keeps from a command (ABI 9) is a refusal, too.
func TestTraceConnect(t *testing.T) {
	needWitness(t)
	if landlock.Probe().ABI < 9 {
		return // nothing is refused by path
	}
	work, out := places(t)
	l, err := net.Listen("unix", out+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := prepareWith(t, workspace(work), launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	helper := testenv.Helper(t, "connect", out+"/sock", out+"/none", work+"/none")
	c := s.Command(helper.Path)
	c.Args, c.Env, c.Dir = helper.Args, append(s.Environ(), helper.Env...), work
	output, err := c.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(output), "sock false\n") {
		t.Errorf("%v: %s; want it refused", err, output)
	}
	if got := c.Trace().Refused; len(got) != 1 || got[0].Call != "connect" || string(got[0].Path) != out+"/sock" || got[0].Flag != "--unix "+out+"/sock" {
		t.Errorf("traced: %+v; want connect %s", got, out+"/sock")
	}
}

// A program can't write to a terminal by the name that it gives itself.
func TestTraceNames(t *testing.T) {
	needWitness(t)
	needLandlock(t)
	work, out := places(t)
	s := prepareWith(t, workspace(work), launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	name := work + "/a\x1b[31m\nb\xff"
	touch, err := exec.LookPath("touch")
	if err == nil {
		err = os.Symlink(touch, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := s.Command(name, out+"/x")
	if err := c.Run(); err == nil {
		t.Error("touch succeeded")
	}
	if got := c.Trace().Refused; len(got) != 1 || got[0].Program != "a?[31m?b?" {
		t.Errorf("traced: %+v", got)
	}
}
