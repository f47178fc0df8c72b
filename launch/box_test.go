package launch_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// boxed returns a sandbox of bubblewrap's.
func boxed(t *testing.T, p policy.Policy) *launch.Sandbox {
	t.Helper()
	if s := bwrap.Probe(t.Context(), ""); !s.Usable() {
		testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
	}
	p.NoCache = true
	s, err := launch.Prepare(p, launch.Options{Backend: launch.BackendBwrap})
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

// A host that calls Init starts commands under bubblewrap as under anything
// else.
func TestBoxCmd(t *testing.T) {
	inside, outside := places(t)
	s := boxed(t, workspace(inside))
	if s.Applied().Backend != launch.BackendBwrap || !s.NeedsParent() {
		t.Errorf("backend %s, parent %v", s.Applied().Backend, s.NeedsParent())
	}
	testenv.CheckFDs(t)
	for range 3 { // a sandbox starts many
		out := output(t, s, inside, `echo in >in && cat in; echo out >"$0/out"`, outside)
		wants(t, out, "in\n", "Read-only file system")
	}
	if _, err := os.Stat(filepath.Join(outside, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file outside: %v; want none", err)
	}

	c := s.Command("sh", "-c", "cat; echo err >&2; exit 7")
	c.Dir = inside
	c.Stdin = strings.NewReader("given")
	out, err := c.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(exit.Stderr) != "err\n" || string(out) != "given" {
		t.Errorf("Output() = %q, %v; want exit status 7 with both streams", out, err)
	}

	if got := atTerminal(t, s); got != "yes\r\n" {
		t.Errorf("at a terminal the command says %q", got)
	}

	extra, err := os.CreateTemp(outside, "extra")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = extra.Close() }()
	c = s.Command("sh", "-c", "echo extra >&4")
	c.ExtraFiles = []*os.File{nil, extra}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("ExtraFiles: %q, %v", out, err)
	}
	if b, _ := os.ReadFile(extra.Name()); string(b) != "extra\n" {
		t.Errorf("the extra file is %q", b)
	}
}

func TestBoxSignals(t *testing.T) {
	inside, _ := places(t)
	s := boxed(t, workspace(inside))
	testenv.CheckFDs(t)

	c := s.Command("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(syscall.SIGTERM); err == nil {
		t.Error("a signal before the start went somewhere")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Error(err)
	}
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("Wait() = %v; want exit status 5", err)
	}
	if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal afterwards: %v; want %v", err, os.ErrProcessDone)
	}

	// All of it ends with the context, and lets go of the pipe.
	ctx, cancel := context.WithCancel(t.Context())
	c = s.CommandContext(ctx, "sh", "-c", "setsid sleep 1000 & echo ready; wait")
	c.NewGroup = true
	var buf bytes.Buffer
	ready := make(chan struct{})
	c.Stdout = &notifying{&buf, ready}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-ready
	cancel()
	if err := c.Wait(); !errors.Is(err, context.Canceled) || buf.String() != "ready\n" {
		t.Errorf("Wait() = %v, output %q; want %v", err, &buf, context.Canceled)
	}
}

// notifying closes a channel at the first write.
type notifying struct {
	buf   *bytes.Buffer
	first chan struct{}
}

func (n *notifying) Write(p []byte) (int, error) {
	if n.buf.Len() == 0 {
		defer close(n.first)
	}
	return n.buf.Write(p)
}

func TestBoxErrors(t *testing.T) {
	inside, _ := places(t)
	s := boxed(t, workspace(inside))
	testenv.CheckFDs(t)
	script := filepath.Join(inside, "script")
	if err := os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, dir string
		code      int
		says      string
	}{
		{"/nonexistent/program", "", 127, "no such file"},
		{"/etc/passwd", "", 126, "no permission to execute"},
		{"./script", inside, 126, "its interpreter /nonexistent/interpreter does not exist"},
		{"/bin/true", "/nonexistent", 125, "working directory"},
	} {
		c := s.Command(tt.path)
		c.Dir = tt.dir
		err := c.Run()
		code := launch.ExitSetup
		var e *launch.ExecError
		var setup *launch.SetupError
		if errors.As(err, &e) {
			code = e.ExitCode()
		} else if !errors.As(err, &setup) {
			t.Errorf("%s: %v is no error of this package", tt.path, err)
		}
		if err == nil || code != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Run(%s in %q) = %v (%d); want %q (%d)", tt.path, tt.dir, err, code, tt.says, tt.code)
		}
	}
	_, err := launch.Prepare(workspace(inside), launch.Options{Backend: launch.BackendBwrap, Bwrap: "/nonexistent/bwrap"})
	var missing *launch.BwrapError
	if !errors.As(err, &missing) || launch.Hint(err) == "" {
		t.Errorf("Prepare without bubblewrap = %v; want a BwrapError with a hint", err)
	}

	// What was looked at must be what is there.
	if err := os.Rename(inside, inside+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	var replaced *launch.ReplacedError
	if err := s.Command("true").Run(); !errors.As(err, &replaced) {
		t.Errorf("a worktree that was replaced: %v; want a ReplacedError", err)
	}
}

// A host that doesn't call Init is told to.
func TestBoxNoInit(t *testing.T) {
	inside, _ := places(t)
	_ = boxed(t, workspace(inside)) // skips
	cmd := testenv.Self().Helper(t, "no init", inside)
	if out := testenv.Output(t, cmd); !strings.Contains(out, "launch.Init") {
		t.Errorf("the hint is %q; want it to name launch.Init", out)
	}
}
