package denial_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/launch/denial"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
)

// stage is a worktree, and a folder outside.
type stage struct {
	work, out, cache string
	s                *launch.Sandbox
}

func newStage(t *testing.T, cache string) *stage {
	t.Helper()
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock ABI 3: have %d (%s)", s.ABI, s.Reason())
	}
	st := &stage{work: testenv.Dir(t), out: testenv.Dir(t), cache: cache}
	t.Setenv("XDG_CACHE_HOME", st.out+"/cache")
	for _, dir := range []string{"dir", "empty", "home"} {
		if err := os.Mkdir(filepath.Join(st.out, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "dir/file"} {
		if err := os.WriteFile(filepath.Join(st.out, file), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(st.work, "src"), os.DirFS("testdata/src")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(st.out, st.work+"/out"); err != nil {
		t.Fatal(err)
	}
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(st.work), Write: []policy.Path{policy.Path(cache)}}
	// What is printed is the same with a trace.
	s, err := launch.Prepare(p, launch.Options{TraceDenials: traceable()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	st.s = s
	return st
}

// traceable reports whether refusals can be traced here.
func traceable() bool { return seccomp.ProbeWitness() == nil }

// run runs a script, and returns what is found in what it prints, and what the
// trace saw.
func (st *stage) run(t *testing.T, script string) (code int, output string, found []denial.Denial, trace *launch.Trace) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := st.s.CommandContext(ctx, "sh", "-c", script)
	c.Dir = st.work
	home := os.Getenv("HOME") // where toolchains are
	c.Env = append(st.s.Environ(), "O="+st.out, "HOME="+st.out+"/home", "LC_ALL=C", "GOCACHE="+st.cache,
		"RUSTUP_HOME="+home+"/.rustup", "PYENV_ROOT="+home+"/.pyenv", "PYTHONDONTWRITEBYTECODE=1")
	c.NewSession = true
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	cmd := denial.Command{Text: script, Dir: st.work, Code: code, Stderr: stderr.Bytes(), Stdout: stdout.Bytes()}
	return code, stdout.String() + stderr.String(), denial.Find(&cmd, st.s.Why), c.Trace()
}

// traced reports whether a trace has a path in the folder outside: the one given,
// if there is one.
func (st *stage) traced(trace *launch.Trace, path string) bool {
	return slices.ContainsFunc(trace.Refused, func(r launch.Refusal) bool {
		real := r.Real
		if real == "" {
			real = r.Path
		}
		rest, ok := strings.CutPrefix(string(real), st.out+"/")
		if name, _, random := strings.Cut(path, "XXXXXX"); random {
			return ok && strings.HasPrefix(rest, name)
		}
		return ok && (path == "" || rest == path || rest == path+".lock") && r.Advice() != "" // git's own name for it
	})
}

// Four in five of what is refused is found, by its path, whatever the tool; and a
// trace finds all of it.
func TestRefused(t *testing.T) {
	cache := goCache(t)
	ran, found := 0, 0
	for _, tt := range refused {
		if missing(tt.tools) {
			t.Logf("skipped, for want of one of %s: %s", tt.tools, tt.script)
			continue
		}
		begin := time.Now()
		st := newStage(t, cache)
		code, output, denials, trace := st.run(t, tt.script)
		if trace != nil && !st.traced(trace, tt.path) {
			t.Errorf("%s: the trace lacks %q: %s\n%s", tt.script, tt.path, show(trace), output)
		}
		if d := time.Since(begin); d > 2*time.Second {
			t.Logf("SLOW %v %s", d, tt.script)
		}
		if code == 0 {
			t.Errorf("%s: succeeded: %s", tt.script, output)
			continue
		}
		ran++
		ok := len(denials) > 0
		for _, d := range denials {
			if path := string(d.Path); !strings.HasPrefix(path, st.out) && !strings.HasPrefix(string(d.Real), st.out) {
				t.Errorf("%s: %s isn't outside", tt.script, path)
			}
			if d.Advice() == "" || d.Text == "" {
				t.Errorf("%s: %+v says nothing", tt.script, d)
			}
		}
		if tt.path != "" && ok && string(denials[0].Path) != filepath.Join(st.out, tt.path) {
			t.Errorf("%s: found %s; want %s", tt.script, denials[0].Path, tt.path)
		}
		if ok {
			found++
			t.Logf("found: %s: %s %s: %s", tt.script, denials[0].Op, denials[0].Path, denials[0].Advice())
		} else {
			t.Logf("MISSED: %s: %s", tt.script, output)
		}
	}
	t.Logf("found %d of %d", found, ran)
	if 100*found < 80*ran {
		t.Errorf("found %d of %d; want four in five", found, ran)
	}
	if testenv.Required() && ran < 60 {
		t.Errorf("%d commands; want 60: tools are missing", ran)
	}
}

// What fails for another reason is no denial, whatever it prints.
func TestInnocent(t *testing.T) {
	cache := goCache(t)
	list := innocent
	if os.Geteuid() != 0 {
		list = append(list, ordinary...)
	}
	ran := 0
	for _, tt := range list {
		if missing(tt.tools) {
			continue
		}
		st := newStage(t, cache)
		code, output, denials, trace := st.run(t, tt.script)
		if trace != nil {
			trace.Refused = slices.DeleteFunc(trace.Refused, func(r launch.Refusal) bool { return otherwise(&r) })
			if len(trace.Refused)+len(trace.Unseen) > 0 {
				t.Errorf("%s: the trace has %s", tt.script, show(trace))
			}
		}
		if code != 0 {
			ran++
		} else {
			t.Errorf("%s: succeeded", tt.script)
		}
		for _, d := range denials {
			t.Errorf("%s: found %s in %q: %+v", tt.script, d.Path, output, d.Answer)
		}
	}
	t.Logf("%d commands", ran)
	if testenv.Required() && ran < 200 {
		t.Errorf("%d commands; want 200: tools are missing", ran)
	}
}

// otherwise reports whether something could be done without the sandbox, by doing
// it: the sandbox has a part in that, if not in how the command ends. The go
// command wants a folder for its statistics, and java writes to a file in /proc.
func otherwise(r *launch.Refusal) bool {
	switch r.Op {
	case policy.OpMkdir:
		return os.Mkdir(string(r.Path), 0o700) == nil && os.Remove(string(r.Path)) == nil
	case policy.OpWrite:
		f, err := os.OpenFile(string(r.Path), os.O_WRONLY, 0)
		return err == nil && f.Close() == nil && strings.HasPrefix(string(r.Path), "/proc/")
	}
	return false
}

// show is what a trace has, in short.
func show(trace *launch.Trace) string {
	var s []string
	for _, r := range trace.Refused {
		s = append(s, r.Program+" "+r.Call+" "+r.Path.String())
	}
	for _, u := range trace.Unseen {
		s = append(s, u.Program+": "+u.Why)
	}
	return strings.Join(s, ", ")
}

// goCache returns where the go command keeps what it has built, or a new folder:
// to build the standard library takes a minute.
func goCache(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return testenv.Dir(t)
}

func missing(tools string) bool {
	for _, tool := range strings.Fields(tools) {
		if _, err := exec.LookPath(tool); err != nil {
			return true
		}
	}
	return false
}
