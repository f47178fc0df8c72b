package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// needLandlock skips the test where Landlock can't hold write.
func needLandlock(t *testing.T) {
	t.Helper()
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock ABI 3: have %d (%s)", s.ABI, s.Reason())
	}
}

// places returns a folder to work in and one outside of every grant.
func places(t *testing.T) (inside, outside string) {
	t.Helper()
	base := testenv.Dir(t)
	inside, outside = filepath.Join(base, "inside"), filepath.Join(base, "outside")
	for _, dir := range []string{inside, outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return inside, outside
}

func prepare(t *testing.T, p policy.Policy) *launch.Sandbox {
	t.Helper()
	p.NoCache = true
	s, err := launch.Prepare(p, launch.Options{})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func workspace(dir string) policy.Policy {
	return policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(dir)}
}

func TestConfines(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, outside := places(t)
	s := prepare(t, workspace(inside))
	c := s.Command("sh", "-c", `echo in > in; echo out > "$0/out"`, outside)
	c.Dir = inside
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "Permission denied") {
		t.Errorf("CombinedOutput() = %q, %v; want a refused write", out, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file outside: %v; want none", err)
	}
	if b, err := os.ReadFile(filepath.Join(inside, "in")); string(b) != "in\n" {
		t.Errorf("the file inside: %q, %v", b, err)
	}
	// The host is as free as before.
	if err := os.WriteFile(filepath.Join(outside, "host"), nil, 0o600); err != nil {
		t.Errorf("the host after a start: %v", err)
	}
}

func TestCmd(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, _ := places(t)
	s := prepare(t, workspace(inside))

	t.Run("output", func(t *testing.T) {
		out, err := s.Command("echo", "a", "b c").Output()
		if string(out) != "a b c\n" || err != nil {
			t.Errorf("Output() = %q, %v", out, err)
		}
	})
	t.Run("exit error", func(t *testing.T) {
		_, err := s.Command("sh", "-c", "echo why >&2; exit 7").Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(exit.Stderr) != "why\n" {
			t.Errorf("Output() = %v; want exit status 7 with stderr", err)
		}
	})
	t.Run("long stderr", func(t *testing.T) {
		_, err := s.Command("sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1").Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(exit.Stderr), "omitting 134464 bytes") || len(exit.Stderr) > 66000 {
			t.Errorf("Output() = %v, with %d bytes of stderr", err, len(exit.Stderr))
		}
	})
	t.Run("signal", func(t *testing.T) {
		c := s.Command("sh", "-c", "kill -9 $$")
		if err := c.Run(); err == nil || c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("Run() = %v; want death by SIGKILL", err)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		c := s.Command("cat")
		c.Stdin = strings.NewReader("some text")
		if out, err := c.Output(); string(out) != "some text" || err != nil {
			t.Errorf("Output() = %q, %v", out, err)
		}
	})
	t.Run("unread stdin", func(t *testing.T) {
		c := s.Command("true")
		c.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
		if err := c.Run(); err != nil {
			t.Errorf("Run() = %v; want no error for input that isn't read", err)
		}
	})
	t.Run("no stdin", func(t *testing.T) {
		if out, err := s.Command("cat").Output(); len(out) != 0 || err != nil {
			t.Errorf("Output() = %q, %v", out, err)
		}
	})
	t.Run("pipes", func(t *testing.T) {
		c := s.Command("cat")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "through"); err != nil {
			t.Error(err)
		}
		_ = in.Close()
		if b, err := io.ReadAll(out); string(b) != "through" || err != nil {
			t.Errorf("ReadAll() = %q, %v", b, err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("Wait() = %v", err)
		}
	})
	t.Run("extra files", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		c := s.Command("sh", "-c", "echo extra >&4; test ! -e /proc/self/fd/3")
		c.ExtraFiles = []*os.File{nil, w}
		err = c.Run()
		_ = w.Close()
		b, _ := io.ReadAll(r)
		if string(b) != "extra\n" || err != nil {
			t.Errorf("descriptor 4 got %q, %v", b, err)
		}
	})
	t.Run("directory and environment", func(t *testing.T) {
		c := s.Command("sh", "-c", `pwd; echo "$X"`)
		c.Dir = inside
		c.Env = append(c.Environ(), "X=y")
		if out, err := c.Output(); string(out) != inside+"\ny\n" || err != nil {
			t.Errorf("Output() = %q, %v", out, err)
		}
	})
	t.Run("new session", func(t *testing.T) {
		c := s.Command("sh", "-c", `ps -o sid= -p $$; echo $$`)
		c.NewSession = true
		out, err := c.Output()
		if f := strings.Fields(string(out)); err != nil || len(f) != 2 || f[0] != f[1] {
			t.Errorf("session and pid are %q, %v; want the same", out, err)
		}
	})
	t.Run("controlling terminal", func(t *testing.T) {
		if got := atTerminal(t, s); got != "yes\r\n" {
			t.Errorf("at a terminal the command says %q", got)
		}
	})
	t.Run("twice", func(t *testing.T) {
		c := s.Command("true")
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(); err == nil {
			t.Error("a second Run succeeded")
		}
	})
}

// atTerminal returns what a command says at a terminal of its own, to which it
// writes by the name that stands for a process's controlling terminal.
func atTerminal(t *testing.T, s *launch.Sandbox) string {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	c := s.Command("sh", "-c", `exec </dev/null; test "$(ps -o tpgid= -p $$)" -eq $$ && echo yes >/dev/tty`)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.NewSession, c.ControllingTerminal = true, true
	err = c.Start()
	_ = slave.Close()
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	out, err := io.ReadAll(master)
	if !errors.Is(err, syscall.EIO) { // the end of file of a terminal
		t.Errorf("reading: %v; want EIO", err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	return string(out)
}

func TestCmdErrors(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, _ := places(t)
	s := prepare(t, workspace(inside))
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(inside, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()

	for _, tt := range []struct {
		name string
		path string
		set  func(*launch.Cmd)
		want string // in the text
		code int    // of an ExecError, 0 for a SetupError
	}{
		{"not found", "no-such-command", nil, "not found", 127},
		{"no such file", "./no-such-file", nil, "no such file", 127},
		{"empty", "", nil, "empty", 127},
		{"not executable", write("plain", "x", 0o600), nil, "no permission to execute", 126},
		{"a folder", inside, nil, "is a directory", 126},
		{"no #! line", write("script", "echo x\n", 0o700), nil, "without a #! line", 126},
		{"no interpreter", write("bad", "#!/nonexistent/sh -e\n", 0o700), nil, "/nonexistent/sh does not exist", 126},
		{"carriage return", write("dos", "#!/bin/sh\r\n", 0o700), nil, "carriage return", 126},
		{"another machine", write("elf", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\xf3\x00"+strings.Repeat("\x00", 44), 0o700), nil, "is a program for riscv64", 126},
		{"empty file", write("empty", "", 0o700), nil, "file is empty", 126},
		{"missing folder", "true", func(c *launch.Cmd) { c.Dir = inside + "/gone" }, "does not exist", 0},
		{"file as folder", "true", func(c *launch.Cmd) { c.Dir = inside + "/plain" }, "is not a directory", 0},
		{"closed file", "true", func(c *launch.Cmd) { c.Stdout = closed }, "file already closed", 0},
		{"terminal without a session", "true", func(c *launch.Cmd) { c.ControllingTerminal = true }, "needs NewSession", 0},
		{"no terminal", "true", func(c *launch.Cmd) { c.NewSession, c.ControllingTerminal = true, true }, "inappropriate ioctl", 0},
		{"too large", "true", func(c *launch.Cmd) { c.Args = append(c.Args, strings.Repeat("x", 1<<18)) }, "too large", 126},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := s.Command(tt.path)
			if tt.set != nil {
				tt.set(c)
			}
			err := c.Run()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Run() = %v; want %q in it", err, tt.want)
			}
			var e *launch.ExecError
			var setup *launch.SetupError
			if tt.code == 0 {
				if !errors.As(err, &setup) {
					t.Errorf("Run() = %#v; want a SetupError", err)
				}
				return
			}
			if !errors.As(err, &e) || e.ExitCode() != tt.code || errors.Is(err, fs.ErrNotExist) != (tt.code == 127) {
				t.Errorf("Run() = %#v; want an ExecError of code %d", err, tt.code)
			}
		})
	}
}

// A file outside that the command has as its output can be opened by name, and
// no other can; the prepared ruleset isn't widened by it.
func TestOutputFileByName(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, outside := places(t)
	s := prepare(t, workspace(inside))
	log, err := os.OpenFile(filepath.Join(outside, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	c := s.Command("sh", "-c", `echo one; echo two >> /dev/stderr; echo three > "$0/other"`, outside)
	c.Stdout, c.Stderr = log, log
	if err := c.Run(); err == nil {
		t.Error("a write to another file outside succeeded")
	}
	b, _ := os.ReadFile(log.Name())
	if got := string(b); !strings.HasPrefix(got, "one\ntwo\n") {
		t.Errorf("log is %q; want both lines", got)
	}
	c = s.Command("sh", "-c", `echo four >> "$0/log"`, outside)
	if err := c.Run(); err == nil {
		t.Error("a later command may write to the file")
	}
}

func TestContext(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, _ := places(t)
	s := prepare(t, workspace(inside))

	ctx, cancel := context.WithCancel(t.Context())
	c := s.CommandContext(ctx, "sh", "-c", "sleep 100 & echo ready; wait")
	c.NewGroup = true
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait() = %v; want %v", err, context.Canceled)
	}
	if err := syscall.Kill(-c.Process.Pid, 0); err == nil {
		// The group's other process is init's to reap; it must be dead.
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if len(state) > 0 {
			t.Errorf("the group is still there: %s", state)
		}
	}

	if err := s.CommandContext(ctx, "true").Run(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() with a context that is done = %v; want %v", err, context.Canceled)
	}
}

// A process that holds the output open doesn't hold Wait up for ever.
func TestWaitDelay(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, _ := places(t)
	s := prepare(t, workspace(inside))
	c := s.Command("sh", "-c", "sleep 100 & echo $!")
	c.WaitDelay = 2 * time.Second // what it has written is read by then
	var out strings.Builder
	c.Stdout = &out
	if err := c.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("Run() = %v; want %v", err, exec.ErrWaitDelay)
	}
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatalf("output %q: %v", out.String(), err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestConcurrentStarts(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	inside, outside := places(t)
	s := prepare(t, workspace(inside))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				want := fmt.Sprintf("%d/%d", w, i)
				c := s.Command("sh", "-c", `echo "$0"; echo x 2>/dev/null > "$1/leak"`, want, outside)
				if out, err := c.Output(); err == nil || strings.TrimSpace(string(out)) != want {
					t.Errorf("%s: %q, %v; want itself and a failure", want, out, err)
				}
			}
		})
	}
	wg.Wait()
	if names, _ := os.ReadDir(outside); len(names) > 0 {
		t.Errorf("outside there is now %v", names)
	}
}

func TestReplacedWorktree(t *testing.T) {
	needLandlock(t)
	inside, _ := places(t)
	s := prepare(t, workspace(inside))
	if err := os.Rename(inside, inside+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	err := s.Command("true").Run()
	var replaced *launch.ReplacedError
	if !errors.As(err, &replaced) || launch.Hint(err) == "" {
		t.Errorf("Run() = %v; want a ReplacedError with a hint", err)
	}
}

func TestModes(t *testing.T) {
	needLandlock(t)
	inside, outside := places(t)
	for _, tt := range []struct {
		mode            policy.Mode
		inside, outside bool
		enforcement     []launch.Enforcement
	}{
		{policy.ReadOnly, false, false, []launch.Enforcement{launch.Full, launch.Partial}},
		{policy.WorkspaceWrite, true, false, []launch.Enforcement{launch.Full, launch.Partial}},
		{policy.Unconfined, true, true, []launch.Enforcement{launch.None}},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			p := workspace(inside)
			p.Mode = tt.mode
			s := prepare(t, p)
			for dir, want := range map[string]bool{inside: tt.inside, outside: tt.outside} {
				err := s.Command("touch", filepath.Join(dir, "f")).Run()
				if (err == nil) != want {
					t.Errorf("touch in %s = %v; want success %v", filepath.Base(dir), err, want)
				}
			}
			if a := s.Applied(); !slices.Contains(tt.enforcement, a.Enforcement) || a.Mode != tt.mode {
				t.Errorf("Applied: enforcement %q, mode %q", a.Enforcement, a.Mode)
			}
		})
	}
}

func TestPrepareErrors(t *testing.T) {
	inside, _ := places(t)
	ports := "add port 0"
	if landlock.Probe().ABI < landlock.ABITCP {
		ports = "network" // whatever is missing for it
	}
	for _, tt := range []struct {
		name    string
		backend launch.Backend
		set     func(*policy.Policy)
		want    string
	}{
		{"no worktree", "", func(p *policy.Policy) { p.Worktree += "/gone" }, "does not exist"},
		{"missing path", "", func(p *policy.Policy) { p.Write = []policy.Path{"/var/nope"} }, "/var/nope"},
		{"unknown mode", "", func(p *policy.Policy) { p.Mode = "rw" }, "rw"},
		{"some ports", "", func(p *policy.Policy) { p.Network.BindTCP = []uint16{8080} }, ports},
		{"metadata", launch.BackendLandlock, func(p *policy.Policy) { p.Require = []policy.Promise{policy.PromiseMetadata} }, "metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := workspace(inside)
			p.NoCache = true
			tt.set(&p)
			s, err := launch.Prepare(p, launch.Options{Backend: tt.backend})
			var setup *launch.SetupError
			if !errors.As(err, &setup) || !strings.Contains(err.Error()+launch.Hint(err), tt.want) {
				t.Errorf("Prepare() = %v, %v; want a SetupError with %q", s, err, tt.want)
			}
		})
	}
}

// Explain reports what Prepare refuses, and makes nothing.
func TestExplain(t *testing.T) {
	needLandlock(t)
	inside, outside := places(t)
	p := workspace(inside)
	p.WriteCreate = []policy.Path{policy.Path(outside + "/new")}
	p.Require = []policy.Promise{policy.PromiseMetadata}
	env := append(os.Environ(), "XDG_CACHE_HOME="+outside+"/cache")
	a, err := launch.Explain(p, launch.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Unmet, []policy.Promise{policy.PromiseMetadata}) {
		t.Errorf("Unmet = %v; want metadata", a.Unmet)
	}
	if !slices.ContainsFunc(a.Rules, func(r launch.Rule) bool { return string(r.Path) == inside }) {
		t.Errorf("Rules = %v; want the worktree among them", a.Rules)
	}
	if names, _ := os.ReadDir(outside); len(names) > 0 {
		t.Errorf("Explain has made %v", names)
	}
}
