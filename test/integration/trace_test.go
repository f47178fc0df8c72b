package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
)

// needTrace skips the test where calls can't be watched.
func needTrace(t *testing.T) {
	t.Helper()
	if err := seccomp.ProbeWitness(); err != nil {
		testenv.Skip(t, "%v", err)
	}
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock ABI 3: have %d (%s)", s.ABI, s.Reason())
	}
}

// traced is the end of the record of a command that is traced.
type traced struct {
	Event    string           `json:"event"`
	Code     *int             `json:"code"`
	Denials  []launch.Refusal `json:"denials"`
	Untraced []launch.Unseen  `json:"untraced"`
}

// trace runs a script in a folder, by the launcher with these options, and
// returns how it ended and what its record says.
func (s *stage) trace(t *testing.T, dir, script string, options ...string) (testenv.Result, traced) {
	t.Helper()
	cmd := s.launch(append(append([]string{"--trace-denials", "--status-fd", "3"}, options...), ".", "--", "sh", "-c", script)...)
	cmd.Dir = dir
	r, w := pipe(t, cmd)
	record := make(chan string, 1)
	go func() {
		last := ""
		for in := bufio.NewScanner(r); in.Scan(); {
			last = in.Text()
		}
		record <- last
	}()
	// Run waits for the pipe only as far as it has to itself.
	res := testenv.Run(t, cmd)
	w.Close()
	var end traced
	last := <-record
	if err := json.Unmarshal([]byte(last), &end); err != nil {
		t.Fatalf("the record ends with %q: %v", last, err)
	}
	return res, end
}

// short is what was refused, without what differs from run to run.
func (e *traced) short(base string) (list []string) {
	for _, r := range e.Denials {
		path := r.Path
		if r.Real != "" {
			path = r.Real
		}
		list = append(list, fmt.Sprintf("%s %s %s %d", r.Program, r.Op, strings.TrimPrefix(string(path), base+"/"), r.Count))
	}
	slices.Sort(list)
	return list
}

// TestTrace: what is refused is named at the end, with what would allow it, in
// words and in the record, whoever runs it and by whatever it is held.
func TestTrace(t *testing.T) {
	needTrace(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, backend := range []string{"landlock", "landlock+mountns", "bwrap"} {
			t.Run(backend, func(t *testing.T) {
				if backend == "bwrap" {
					needBwrap(t)
				}
				s := newStage(t, u)
				work := u.NewRepoAt(t, s.base+"/repo").WorktreeBeside()
				s.write(s.outside+"/file", "old", 0o644)
				script := `cd ` + s.outside + `; for i in 1 2; do touch ./new 2>/dev/null; done; mkdir "$OLDPWD/../outside/dir"; ` +
					`cd "$OLDPWD"; ln -s ../outside link; (: >link/file); echo x >f; git add f; git commit -qm x; exit 7`
				r, end := s.trace(t, work.Dir, script, "--backend", backend)
				want := []string{"mkdir mkdir outside/dir 1", "sh write outside/file 1", "touch create outside/new 2"}
				got := end.short(s.base)
				if backend != "landlock" { // after what it couldn't open, touch sets the time of what is there
					got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "touch write") })
				}
				if r.Code != 7 || end.Event != "exited" || end.Code == nil || *end.Code != 7 || !slices.Equal(got, want) || len(end.Untraced) > 0 {
					t.Errorf("%v: %q, unseen %v; want exit 7 and %q", r, got, end.Untraced, want)
				}
				for _, line := range []string{
					"trace: refused: create " + s.outside + "/new (", "of touch, pid ", ", 2 times): no rule grants it",
					"hint: grant it with --rw " + s.outside + "\n", "hint: grant it with --rw-create " + s.outside + "/dir\n",
				} {
					if !strings.Contains(r.Stderr, line) {
						t.Errorf("%q isn't in %q", line, r.Stderr)
					}
				}
				// What the hints say does it.
				if r, end := s.trace(t, work.Dir, script, "--quiet", "--backend", backend, "--rw", s.outside); len(end.Denials) > 0 || end.Denials == nil || strings.Contains(r.Stderr, "trace:") {
					t.Errorf("with the grant: %v, %v", r, end.short(s.base))
				}
			})
		}
	})
}

// TestTraceGit: in a linked worktree git's own files are protected, and the trace
// says that such a command must run outside.
func TestTraceGit(t *testing.T) {
	needTrace(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		work := u.NewRepoAt(t, s.base+"/repo").WorktreeBeside()
		for _, backend := range []string{"landlock", "auto"} {
			r, end := s.trace(t, work.Dir, `git config a.b c; git commit -q --allow-empty -m x && git stash list`, "--backend", backend)
			if !slices.ContainsFunc(end.Denials, func(d launch.Refusal) bool {
				return d.Program == "git" && strings.HasPrefix(filepath.Base(string(d.Path)), "config") && strings.Contains(d.Advice(), "outside the sandbox")
			}) {
				t.Errorf("%s: %v: %v", backend, r, end.short(s.base))
			}
		}
	})
}

// TestTraceOtherUser: what the files' own permissions refuse to whom root has
// become isn't the sandbox's doing.
func TestTraceOtherUser(t *testing.T) {
	needTrace(t)
	if os.Geteuid() != 0 {
		return // can't become anybody
	}
	testenv.NeedTool(t, "setpriv")
	s := newStage(t, testenv.Self())
	theirs := s.outside + "/theirs"
	s.mkdir(theirs)
	for path, mode := range map[string]os.FileMode{s.base: 0o755, s.outside: 0o711} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(theirs, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	_, end := s.trace(t, s.tree, "setpriv --reuid 1000 --regid 1000 --clear-groups touch "+s.outside+"/a "+theirs+"/b; true")
	if got, want := end.short(s.base), []string{"touch create outside/theirs/b 1"}; !slices.Equal(got, want) {
		t.Errorf("refused: %q; want %q", got, want)
	}
}

// TestTraceRing: who sets up an io_uring is named, since what is done by that
// isn't seen.
func TestTraceRing(t *testing.T) {
	needTrace(t)
	testenv.NeedTool(t, "python3")
	s := newStage(t, testenv.Self())
	r, end := s.trace(t, s.tree, `python3 -c 'import ctypes; ctypes.CDLL(None).syscall(425, 1, bytes(120))'`)
	if len(end.Untraced) != 1 || !strings.HasPrefix(end.Untraced[0].Program, "python3") || !strings.Contains(end.Untraced[0].Why, "io_uring") ||
		!strings.Contains(r.Stderr, "io_uring") {
		t.Errorf("%v: %+v", r, end.Untraced)
	}
}

// TestTraceEnds: nothing that is traced outlives who looks at it, since it would
// be stuck.
func TestTraceEnds(t *testing.T) {
	needTrace(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.trace(t, s.tree, `(setsid sh -c 'sleep 60; touch late' >/dev/null 2>&1 &) ; true`)
		cmd := s.launch("--trace-denials", ".", "--", "sh", "-c", "echo ready; while touch file; do :; done; touch broken")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // which waits for the end of its output, too
		for _, name := range []string{"late", "broken"} {
			if _, err := os.Stat(s.tree + "/" + name); err == nil {
				t.Errorf("%s was made", name)
			}
		}
	})
}

// TestTraceTwice: what can't be traced isn't run, and says why.
func TestTraceTwice(t *testing.T) {
	needTrace(t)
	s := newStage(t, testenv.Self())
	r, _ := s.trace(t, s.tree, s.launcher+` --backend landlock --trace-denials . -- touch ran; echo $?; `+
		s.launcher+` --backend landlock . -- touch ran2; echo $?`, "--backend", "landlock")
	if r.Stdout != "125\n0\n" || !strings.Contains(r.Stderr, "refusals can't be traced: the system calls of this process are watched already") ||
		!strings.Contains(r.Stderr, "hint: run without --trace-denials") {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(s.tree + "/ran"); err == nil {
		t.Error("the command ran")
	}
}

// Where /proc has the numbers of another namespace nothing is traced, since others
// would be looked at, and nothing runs.
func TestTraceForeignProc(t *testing.T) {
	needTrace(t)
	unshare := testenv.UnsharePID(t)
	s := newStage(t, testenv.Self())
	line := append(slices.Clip(unshare), s.launcher, "--trace-denials", ".", "--", "touch", "ran")
	r := testenv.Run(t, s.command("unshare", line...))
	if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "PID namespace") || !strings.Contains(says.hint, "--trace-denials") {
		t.Errorf("below another namespace's /proc: %v; want exit 125, and why", r)
	}
	if _, err := os.Lstat(s.tree + "/ran"); err == nil {
		t.Error("the command ran")
	}
}
