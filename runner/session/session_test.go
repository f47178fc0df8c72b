package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
	"golang.org/x/sys/unix"
)

// direct starts programs with nothing in between.
var direct = session.StarterFunc(func(_ context.Context, p session.Program) (session.Process, error) {
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env, cmd.Dir = p.Env, p.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.Files[0], p.Files[1], p.Files[2], p.Files[3:]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd}, nil
})

type process struct{ cmd *exec.Cmd }

func (p *process) Pid() int { return p.cmd.Process.Pid }

func (p *process) Wait() (session.Exit, error) {
	for errors.Is(unix.Waitid(unix.P_PID, p.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = p.Kill() // the number of the group is still its own
	err := p.cmd.Wait()
	if p.cmd.ProcessState == nil {
		return session.Exit{Code: -1}, err
	}
	e := session.Exit{Code: p.cmd.ProcessState.ExitCode()}
	if ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		e.Signal = ws.Signal()
	}
	return e, nil
}

func (p *process) Kill() error { return syscall.Kill(-p.Pid(), syscall.SIGKILL) }

// environment is one in which bash finds programs, and nothing of the tester's.
var environment = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8"}

// open makes a session that ends with the test.
func open(t testing.TB, change func(*session.Config)) *session.Session {
	t.Helper()
	testenv.NeedTool(t, "bash")
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir()}
	if change != nil {
		change(&c)
	}
	s, err := session.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs a command whose streams are merged, and returns what it writes.
func run(t testing.TB, s *session.Session, text string) (string, session.Result) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := s.Run(ctx, session.Command{Text: text, Stdout: &out})
	if err != nil {
		t.Fatalf("Run(%q): %v", text, err)
	}
	return out.String(), r
}

func TestCommands(t *testing.T) {
	testenv.CheckFDs(t)
	s := open(t, nil)
	for _, tt := range []struct {
		text string
		out  string
		code int
	}{
		{"echo hi", "hi\n", 0},
		{"printf 'no end of line'", "no end of line", 0},
		{"", "", 0},
		{"# nothing", "", 0},
		{"exit_code() { return 7; }; exit_code", "", 7},
		{"exit_code", "", 7}, // functions stay
		{"x=1; export y=2", "", 0},
		{"echo $x $y; sh -c 'echo $x $y'", "1 2\n2\n", 0},
		{"cd /; pwd", "/\n", 0},
		{"pwd", "/\n", 0},
		{"false", "", 1},
		{"kill -TERM $BASHPID & wait $!", "", 143},
		{"nosuch", "bash: line 1: nosuch: command not found\n", 127},
		{"\nnosuch\n\nnosuch2", "bash: line 2: nosuch: command not found\nbash: line 4: nosuch2: command not found\n", 127},
		{"echo out; echo err >&2; echo out", "out\nerr\nout\n", 0},
		{"read x; echo \"$? [$x]\"; cat", "1 []\n", 0}, // nothing to read
		{"cat <<EOF\na\n  b\nEOF", "a\n  b\n", 0},
		{"echo 'a\nb' \"c\\\nd\" $'e\\tf' \\\\ '\\'", "a\nb cd e\tf \\ \\\n", 0},
		{"echo 'äöü€😀'", "äöü€😀\n", 0},
		{"echo $0 $# \"$@\"", "bash 0\n", 0},
		{"break 2>/dev/null; continue 2>/dev/null; echo on", "on\n", 0},
		{"return 3", "bash: line 1: return: can only `return' from a function or sourced script\n", 2},
		{"echo lost >/dev/null; exec 2>/dev/null; nosuch", "", 127},
		{"nosuch", "bash: line 1: nosuch: command not found\n", 127}, // exec's redirections of the streams don't stay
		{"cd - >/dev/null; exec 7>seven; echo x >&7", "", 0},
		{"echo y >&7; exec 7>&-; cat seven; rm seven", "x\ny\n", 0}, // others do
		{"set -x; true", "++ true\n", 0},
		{"set +x", "++ set +x\n", 0},
		{"set -u; echo a", "a\n", 0},
		{"echo $nosuch; echo not here", "bash: line 1: nosuch: unbound variable\n", 1}, // ends the shell, as it would a script
		{"echo ${x-new}", "new\n", 0},
		{"set -e; true", "", 0},
		{"false; echo not here", "", 1},
		{"set -f -o pipefail -o posix -b -h; echo a", "a\n", 0},
		{"set +o posix; set +f", "", 0},
		{"shopt -s extglob\necho !(x|*)", "!(x|*)\n", 0},
		{"trap 'echo bye' EXIT; trap 'echo debug' DEBUG; trap 'echo err' ERR; true", "debug\ndebug\n", 0},
		{"false", "debug\ndebug\nerr\n", 1},
		{"trap - DEBUG ERR EXIT", "debug\n", 0},
		{"set | grep -i -c shofer", "0\n", 1},
		{"PWD=/wrong; IFS=; echo ok", "ok\n", 0},
		{"unset PWD IFS; readonly REPLY=1; echo ok", "ok\n", 0},
		{"alias builtin=nosuch eval=nosuch printf=nosuch read=nosuch; shopt -s expand_aliases", "", 0},
		{"printf() { echo mine; }; read() { :; }; eval() { :; }; test() { :; }; unset() { :; }; pwd() { :; }", "", 0},
		{"echo ok", "ok\n", 0},
	} {
		out, r := run(t, s, tt.text)
		if out != tt.out || r.Code != tt.code {
			t.Errorf("%q writes %q and ends with %d; want %q and %d", tt.text, out, r.Code, tt.out, tt.code)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A command has no descriptor that other children of this process don't have.
func TestDescriptors(t *testing.T) {
	s := open(t, nil)
	want := testenv.Output(t, testenv.Command(t, "bash", "-c", "ls /proc/self/fd"))
	for range 2 {
		if out, _ := run(t, s, "ls /proc/self/fd"); out != want {
			t.Errorf("a command has descriptors %q; another child %q", out, want)
		}
	}
}

// Every byte but NUL reaches the command.
func TestBytes(t *testing.T) {
	s := open(t, nil)
	var all []byte
	for c := 1; c < 256; c++ {
		if c != '\'' {
			all = append(all, byte(c))
		}
	}
	for _, prefix := range []string{"", "LC_ALL=C; "} {
		if out, _ := run(t, s, prefix+"builtin printf %s '"+string(all)+"'"); out != string(all) {
			t.Errorf("the command saw %q; want %q", out, all)
		}
	}
	var e *session.SyntaxError
	if _, err := s.Start(t.Context(), session.Command{Text: "echo \x00"}); !errors.As(err, &e) {
		t.Errorf("with a NUL byte: %v; want a SyntaxError", err)
	}
}

// Any text reaches bash as it is.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "a", "'", "\\'\\", "\n\n", "$(touch x)`y`${z}", "\x01\x7f\xff\r", "äöü\xc3", "!x", "EOF", "a\\\nb"} {
		f.Add(text)
	}
	s := open(f, nil)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.IndexByte(text, 0) >= 0 || strings.Contains(text, "END-OF-TEXT") {
			return
		}
		text += "\n"
		if out, r := run(t, s, "builtin command cat <<'END-OF-TEXT'\n"+text+"END-OF-TEXT"); out != text || r.Code != 0 {
			t.Errorf("cat writes %q; want %q", out, text)
		}
	})
}

func TestLongCommand(t *testing.T) {
	s := open(t, nil)
	long := strings.Repeat("0123456789abcde\n", 400<<10/16)
	out, r := run(t, s, "cat <<'EOF'\n"+long+"EOF")
	if out != long || r.Code != 0 {
		t.Errorf("%d bytes of output, status %d; want %d bytes", len(out), r.Code, len(long))
	}
}

// Output is complete and ends where the command does, however it is cut up.
func TestOutput(t *testing.T) {
	s := open(t, nil)
	for i := range 50 {
		n := 1 + i*i*37
		var out, errs bytes.Buffer
		r, err := s.Run(t.Context(), session.Command{
			Text:   fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a; head -c %d /dev/zero | tr '\\0' b >&2", n, n+1),
			Stdout: &out, Stderr: &errs,
		})
		if err != nil || r.Code != 0 || r.OutputCut || out.String() != strings.Repeat("a", n) || errs.String() != strings.Repeat("b", n+1) {
			t.Fatalf("%d bytes: %d and %d bytes, %+v, %v", n, out.Len(), errs.Len(), r, err)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	s := open(t, nil)
	for _, text := range []string{
		"touch ran; echo 'unfinished", "touch ran\nif true", "touch ran; )", "touch ran; for", "touch ran; echo \"$(echo", "touch ran; {", "touch ran; done",
	} {
		var e *session.SyntaxError
		_, err := s.Run(t.Context(), session.Command{Text: text})
		if !errors.As(err, &e) || !strings.HasPrefix(e.Text, "bash: line ") {
			t.Errorf("Run(%q) = %v; want a SyntaxError", text, err)
		}
	}
	if out, _ := run(t, s, "ls"); out != "" {
		t.Errorf("a command that can't be parsed has run: there is %q", out)
	}
	// A document that isn't ended, and patterns of extglob, bash takes.
	if out, r := run(t, s, "cat <<EOF\nunfinished"); r.Code != 0 || !strings.HasSuffix(out, "unfinished\n") {
		t.Errorf("an unfinished document: %q, %+v", out, r)
	}
	// Nor does what an alias makes of it.
	run(t, s, "alias half='if true; then'; shopt -s expand_aliases")
	for range 2 {
		if out, r := run(t, s, "half"); r.Code == 0 || r.Ended {
			t.Errorf("half a command by an alias: %q, %+v", out, r)
		}
	}
	// What only the check takes does no harm.
	if out, r := run(t, s, "echo +(x)"); r.Code == 0 || r.Ended {
		t.Errorf("extglob without the option: %q, %+v", out, r)
	}
	if out, _ := run(t, s, "{ echo a; }"); out != "a\n" {
		t.Errorf("after an error the shell says %q", out)
	}
}

func TestDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(base, " a\nb'c\\\xff")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *session.Config) { c.Dir = base })
	for _, tt := range []struct{ text, dir, before, after string }{
		{":", "", base, base},
		{"cd ..", odd, odd, base},
		{":", filepath.Base(odd), odd, odd},
		{"cd /", "", odd, "/"},
		{":", "/usr", "/usr", "/usr"},
		{"CDPATH=/usr:/; cd /", "", "/usr", "/"},
		{":", base, base, base},
		{"set -eu", ".", base, base},
	} {
		r, err := s.Run(t.Context(), session.Command{Text: tt.text, Dir: tt.dir})
		if err != nil || r.DirBefore != tt.before || r.DirAfter != tt.after {
			t.Errorf("%q in %q: before %q, after %q, %v; want %q and %q", tt.text, tt.dir, r.DirBefore, r.DirAfter, err, tt.before, tt.after)
		}
	}
	for _, tt := range []struct{ dir, why string }{
		{base + "/gone", "working directory does not exist: " + base + "/gone"},
		{base + "/file", "working directory is not a directory: " + base + "/file"},
		{"-", "working directory does not exist: -"}, // no meaning of cd's
	} {
		var e *session.DirError
		_, err := s.Run(t.Context(), session.Command{Text: "touch ran", Dir: tt.dir})
		if !errors.As(err, &e) || e.Error() != tt.why || e.Now != base {
			t.Errorf("in %q: %#v; want a DirError %q", tt.dir, err, tt.why)
		}
	}
	if _, err := os.Stat(base + "/ran"); err == nil {
		t.Error("a command has run elsewhere")
	}
}

// A working directory that is gone doesn't take the session with it.
func TestDirectoryGone(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *session.Config) { c.Dir = base })
	for _, text := range []string{"mkdir d; cd d; rmdir ../d", "mkdir d; cd d; rmdir ../d; mkdir ../d"} {
		if _, r := run(t, s, text); r.Code != 0 {
			t.Fatalf("%q: %+v", text, r)
		}
		var e *session.DirError
		_, err = s.Run(t.Context(), session.Command{Text: "touch ran"})
		if !errors.As(err, &e) || e.Dir != base+"/d" || e.Now != base {
			t.Fatalf("in a directory that is gone: %#v; want a DirError", err)
		}
		if out, r := run(t, s, "pwd; rm -rf d"); out != base+"\n" || r.DirBefore != base {
			t.Errorf("afterwards: %q, %+v", out, r)
		}
	}
	if out, _ := run(t, s, "mkdir e; cd e; rmdir ../e; ls "+base); out != "" {
		t.Errorf("the command without a directory has run: %q", out)
	}
	// It may also go while nobody runs.
	if _, err := s.Run(t.Context(), session.Command{Text: "mkdir f; cd f", Dir: base}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(base+"/f", base+"/g"), os.Mkdir(base+"/f", 0o700)); err != nil {
		t.Fatal(err)
	}
	var e *session.DirError
	if _, err := s.Run(t.Context(), session.Command{Text: "touch ran"}); !errors.As(err, &e) || e.Dir != base+"/f" {
		t.Errorf("in a directory that was replaced: %v; want a DirError", err)
	}
	r, err := s.Run(t.Context(), session.Command{Text: ":", Dir: base})
	if err != nil || r.DirBefore != base {
		t.Errorf("a directory that is named: %+v, %v", r, err)
	}
}

func TestShellEnds(t *testing.T) {
	for _, tt := range []struct {
		text   string
		code   int
		signal syscall.Signal
		out    string
		lost   string
	}{
		{"echo a; exit 3", 3, 0, "a\n", "it ended with status 3"},
		{"exec sh -c 'echo replaced; exit 5'", 5, 0, "replaced\n", "it ended with status 5"},
		{"kill -9 $$", -1, syscall.SIGKILL, "", "it died of a signal: killed"},
		{"(sleep 600)& exec 255<&-; exit 4", 4, 0, "", "it ended with status 4"},
		{"trap 'echo bye' EXIT; exit", 0, 0, "bye\n", "it ended with status 0"},
		{"set -e; false", 1, 0, "", "it ended with status 1"},
	} {
		s := open(t, nil)
		_, first := run(t, s, "x=1")
		if !first.Fresh || first.Lost != "" {
			t.Errorf("the first command: %+v", first)
		}
		out, r := run(t, s, tt.text)
		if out != tt.out || r.Code != tt.code || r.Signal != tt.signal || !r.Ended || r.DirAfter != "" || r.Fresh {
			t.Errorf("%q: %q, %+v", tt.text, out, r)
		}
		if pid := s.Pid(); pid != 0 {
			t.Errorf("%q: there is still process %d", tt.text, pid)
		}
		out, r = run(t, s, "echo [$x]")
		if out != "[]\n" || !r.Fresh || r.Lost != tt.lost || r.Ended {
			t.Errorf("after %q: %q, %+v; want a new shell, since %q", tt.text, out, r, tt.lost)
		}
		if _, r = run(t, s, "true"); r.Fresh || r.Lost != "" {
			t.Errorf("and after that: %+v", r)
		}
	}
}

// A shell that ends between two commands is noticed.
func TestShellDiesIdle(t *testing.T) {
	s := open(t, nil)
	run(t, s, "x=1")
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); s.Pid() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the shell is still there")
		}
	}
	if out, r := run(t, s, "echo [$x]"); out != "[]\n" || !r.Fresh || r.Lost == "" {
		t.Errorf("after the shell was killed: %q, %+v", out, r)
	}
}

func TestBusy(t *testing.T) {
	s := open(t, nil)
	began := time.Now()
	r, err := s.Start(t.Context(), session.Command{Text: "read -t 600 <> <(:)"})
	if err != nil {
		t.Fatal(err)
	}
	var e *session.BusyError
	_, err = s.Start(t.Context(), session.Command{Text: "echo typed into it"})
	if !errors.As(err, &e) || e.Pid != r.Pid || e.Pid == 0 || e.Since.Before(began) || !strings.Contains(e.Command, "read") || !s.Busy() {
		t.Errorf("Start in a busy session: %#v; want a BusyError with pid %d", err, r.Pid)
	}
	select {
	case <-r.Done():
		t.Error("the command is said to have ended")
	default:
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-r.Done()
	if got, _ := r.Wait(); got.Code != -1 || got.Signal != syscall.SIGKILL || !got.Ended {
		t.Errorf("the command that was running: %+v", got)
	}
	if _, err := s.Start(t.Context(), session.Command{}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Start in a closed session: %v", err)
	}
}

// A command that takes too long ends with its shell, and what it wrote is kept.
func TestTimeout(t *testing.T) {
	testenv.CheckFDs(t)
	dir := t.TempDir()
	s := open(t, func(c *session.Config) { c.Dir = dir })
	run(t, s, "x=1")
	for _, text := range []string{
		"echo some; sleep 600", "echo some; while :; do :; done", "echo some; trap '' TERM INT HUP; sleep 600 & sleep 600; wait", "echo some; exec sleep 600",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := canceller{cancel: cancel}
		r, err := s.Run(ctx, session.Command{Text: text, Stdout: &out})
		if !errors.Is(err, errLate) || r.Code != -1 || !r.Ended || out.String() != "some\n" {
			t.Errorf("%q: %q, %+v, %v", text, out.String(), r, err)
		}
		if got, r := run(t, s, "echo [$x]"); got != "[]\n" || !r.Fresh || r.Lost != "it was killed" {
			t.Errorf("after %q: %q, %+v", text, got, r)
		}
	}
	// What was written before is passed on, also if nobody has read it yet.
	ctx, cancel := context.WithCancelCause(t.Context())
	out := canceller{cancel: cancel, wait: filepath.Join(dir, "written")}
	if _, err := s.Run(ctx, session.Command{Text: "echo some; sleep 0.2; echo more; touch written; sleep 600", Stdout: &out}); !errors.Is(err, errLate) || out.String() != "some\nmore\n" {
		t.Errorf("a command whose output nobody had read: %q, %v", out.String(), err)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(errLate)
	if _, err := s.Run(ctx, session.Command{Text: "touch ran"}); !errors.Is(err, errLate) {
		t.Errorf("with a context that is done: %v", err)
	}
	if out, _ := run(t, s, "ls"); out != "written\n" {
		t.Errorf("afterwards there is %q", out)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

var errLate = errors.New("too late")

// canceller cancels when something is written to it.
type canceller struct {
	bytes.Buffer
	cancel context.CancelCauseFunc
	wait   string // for this file first; may be empty
}

func (c *canceller) Write(p []byte) (int, error) {
	for deadline := time.Now().Add(10 * time.Second); c.wait != "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(c.wait); err == nil {
			break
		}
	}
	c.cancel(errLate)
	return c.Buffer.Write(p)
}

// Background jobs are reported and go on; their output is waited for, briefly.
func TestBackground(t *testing.T) {
	s := open(t, nil)
	// A machine under load may take longer than is waited: then once more.
	try := func(f func() bool) bool {
		for range 4 {
			if f() {
				return true
			}
		}
		return false
	}
	var out string
	var r session.Result
	if !try(func() bool {
		out, r = run(t, s, "kill $(jobs -p) 2>/dev/null; { sleep 0.1; echo late; exec sleep 600; } & echo now")
		return out == "now\nlate\n"
	}) || len(r.Left) != 1 || r.OutputCut {
		t.Errorf("with a job: %q, %+v", out, r)
	}
	pid := r.Left
	if out, r := run(t, s, "jobs -p | tail -n 1"); out != fmt.Sprintf("%d\n", pid[0]) || len(r.Left) != 0 {
		t.Errorf("jobs: %q, %+v; want %d", out, r, pid)
	}
	if out, r := run(t, s, "kill $(jobs -p); wait; echo done"); !strings.HasSuffix(out, "done\n") || len(r.Left) != 0 {
		t.Errorf("the end of the job: %q, %+v", out, r)
	}
	// What a process substitution still writes belongs to its command.
	if !try(func() bool {
		out, r = run(t, s, "echo x > >(sleep 0.2; cat)")
		return out == "x\n"
	}) {
		t.Errorf("a process substitution: %q, %+v", out, r)
	}
	// Who doesn't stop is cut.
	out, r = run(t, s, "{ while :; do echo chatter; sleep 0.05; done; } & echo now")
	if !r.OutputCut || strings.Count(out, "chatter") < 10 {
		t.Errorf("with a chatterer: %d bytes, %+v", len(out), r)
	}
	if out, r := run(t, s, "kill $(jobs -p); wait 2>/dev/null; printf end"); !strings.HasSuffix(out, "end") || r.OutputCut {
		t.Errorf("afterwards: %q, %+v", out, r)
	}
}

// A writer that fails, or dawdles, is no reason for the command to.
func TestWriters(t *testing.T) {
	s := open(t, nil)
	r, err := s.Run(t.Context(), session.Command{Text: "seq 100000; echo ok >f", Stdout: failing{}})
	if err != nil || r.Code != 0 || !errors.Is(r.WriteErr, syscall.ENOSPC) {
		t.Errorf("with a writer that fails: %+v, %v", r, err)
	}
	var slow dawdling
	r, err = s.Run(t.Context(), session.Command{Text: "seq 40000", Stdout: &slow})
	if err != nil || r.Code != 0 || r.WriteErr != nil || !strings.HasSuffix(slow.String(), "\n40000\n") {
		t.Errorf("with a slow writer: %d bytes, %+v, %v", slow.Len(), r, err)
	}
	if out, _ := run(t, s, "cat f"); out != "ok\n" {
		t.Errorf("the command didn't go on: %q", out)
	}
	r, err = s.Run(t.Context(), session.Command{Text: "seq 100000"})
	if err != nil || r.Code != 0 {
		t.Errorf("without a writer: %+v, %v", r, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

type dawdling struct{ bytes.Buffer }

func (d *dawdling) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return d.Buffer.Write(p)
}

// No start-up file is read, and none is handed on.
func TestStartUp(t *testing.T) {
	rc := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(rc, []byte("x=1; echo noise"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *session.Config) { c.Env = append(slices.Clone(environment), "BASH_ENV="+rc, "ENV="+rc) })
	if out, _ := run(t, s, "echo [$x]; bash -c 'echo [$x]'"); out != "[]\n[]\n" {
		t.Errorf("the command writes %q", out)
	}
}

func TestPrefix(t *testing.T) {
	s := open(t, func(c *session.Config) { c.Prefix = "time -p" })
	if out, _ := run(t, s, "echo a"); !strings.HasPrefix(out, "a\nreal ") {
		t.Errorf("with a prefix: %q", out)
	}
}

func TestIdle(t *testing.T) {
	testenv.CheckFDs(t)
	s := open(t, func(c *session.Config) { c.Idle = 50 * time.Millisecond })
	gone := func() {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); s.Pid() != 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the idle shell is still there")
			}
		}
	}
	run(t, s, "x=1")
	gone()
	if out, r := run(t, s, "echo [$x]"); out != "[]\n" || r.Lost != "it had been idle" {
		t.Errorf("after the shell was idle: %q, %+v", out, r)
	}
	// A background job keeps it.
	_, r := run(t, s, "y=1; sleep 2 >/dev/null 2>&1 & sleep 0.1")
	time.Sleep(200 * time.Millisecond)
	if out, again := run(t, s, "echo $y"); len(r.Left) != 1 || out != "1\n" || again.Fresh {
		t.Errorf("with a job: %+v, then %q, %+v", r, out, again)
	}
	gone()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := session.New(session.Config{}); err == nil {
		t.Error("New without a starter succeeds")
	}
	var e *session.StartError
	s := open(t, func(c *session.Config) { c.Shell = "/nonexistent/bash" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a shell: %v; want a StartError", err)
	}
	s = open(t, func(c *session.Config) { c.Shell = "/bin/false" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) {
		t.Errorf("with a shell that fails: %v; want a StartError", err)
	}
	s = open(t, func(c *session.Config) { c.Shell = "/bin/ls" })
	if _, err := s.Run(t.Context(), session.Command{Text: "a"}); !errors.As(err, &e) || !strings.Contains(e.Said, "unrecognized") {
		t.Errorf("with a shell that complains: %#v; want what it says", err)
	}
}

// A shell that can't be killed is let go.
func TestStuck(t *testing.T) {
	session.ShortenKill(t, 200*time.Millisecond)
	var kept []*process
	s := open(t, func(c *session.Config) {
		c.Starter = session.StarterFunc(func(ctx context.Context, p session.Program) (session.Process, error) {
			proc, err := direct(ctx, p)
			if err != nil {
				return nil, err
			}
			if len(p.Files) > 3 { // a shell, and no check of its syntax
				kept = append(kept, proc.(*process))
				return immortal{kept[len(kept)-1]}, nil
			}
			return proc, nil
		})
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	var e *session.StuckError
	_, err := s.Run(ctx, session.Command{Text: "echo some; exec sleep 600", Stdout: &canceller{cancel: cancel}})
	if len(kept) != 1 {
		t.Fatalf("%d shells were started: %v", len(kept), err)
	}
	if !errors.As(err, &e) || e.Pid != kept[0].Pid() {
		t.Errorf("Run: %v; want a StuckError", err)
	}
	if _, r := run(t, s, "exit 2"); !r.Fresh || r.Code != 2 {
		t.Errorf("afterwards: %+v", r)
	}
	if err := kept[0].Kill(); err != nil { // it isn't reaped yet, so the number is its own
		t.Error(err)
	}
}

type immortal struct{ *process }

func (immortal) Kill() error { return nil }

// Nothing is left of many sessions.
func TestNoLeak(t *testing.T) {
	n := 20
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		n = 1000
	}
	testenv.CheckFDs(t)
	before := runtime.NumGoroutine()
	for i := range n {
		s := open(t, nil)
		text := []string{"echo a", "exit 1", "(sleep 600) & sleep 0", "exec true"}[i%4]
		if _, err := s.Run(t.Context(), session.Command{Text: text}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestSnapshot(t *testing.T) {
	home := t.TempDir()
	rc := `echo noise; echo noise >&2
alias ll='echo "listed"'
greet() { if [[ $1 == +(x) ]]; then echo "hello $1"; fi; }
shopt -s extglob nullglob
set -o noclobber
set -o vi
case $- in *i*) ;; *) return;; esac
late() { echo late; }
`
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	c := session.Config{Starter: direct, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Dir: home}
	snap, err := session.Take(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(sc *session.Config) { sc.Snapshot = snap })
	for _, tt := range []struct{ text, out string }{
		{"ll", "listed\n"},
		{"greet xx; late", "hello xx\nlate\n"},
		{"shopt -q nullglob && set -o | grep -E '^(noclobber|vi|history|monitor)' | tr -d ' \t' | tr '\\n' ,", "historyoff,monitoroff,noclobberon,vioff,"},
	} {
		if out, _ := run(t, s, tt.text); out != tt.out {
			t.Errorf("%q writes %q; want %q", tt.text, out, tt.out)
		}
	}
	for _, rc := range []string{"exit 1", "exec true", "kill -9 $$"} {
		if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte(rc), 0o600); err != nil {
			t.Fatal(err)
		}
		var e *session.StartError
		if snap, err := session.Take(t.Context(), c); !errors.As(err, &e) {
			t.Errorf("a start-up file %q: %v, %v; want a StartError", rc, snap, err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte("sleep 600"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if snap, err := session.Take(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start-up file that hangs: %v, %v", snap, err)
	}
}

func TestPool(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.NeedTool(t, "bash")
	p := &session.Pool{Max: 2}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir()}
	do := func(key, text string) string {
		t.Helper()
		var out bytes.Buffer
		r, err := p.Start(t.Context(), key, c, session.Command{Text: text, Stdout: &out})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if _, err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	do("a", "x=a")
	do("b", "x=b")
	if got := do("a", "echo $x") + do("b", "echo $x"); got != "a\nb\n" {
		t.Errorf("the sessions have %q", got)
	}
	do("c", "x=c") // a was used before b
	if got := do("b", "echo $x"); got != "b\n" {
		t.Errorf("b has %q", got)
	}
	if got := keys(p); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("the pool has %q", got)
	}
	// Jobs and commands keep theirs.
	do("b", "sleep 600 >/dev/null 2>&1 &")
	busy, err := p.Start(t.Context(), "c", c, session.Command{Text: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	var full *session.LimitError
	if _, err := p.Start(t.Context(), "d", c, session.Command{Text: ":"}); !errors.As(err, &full) || full.Max != 2 {
		t.Errorf("with all in use: %v; want a LimitError", err)
	}
	var e *session.BusyError
	if _, err := p.Start(t.Context(), "c", c, session.Command{Text: ":"}); !errors.As(err, &e) {
		t.Errorf("in a busy session: %v; want a BusyError", err)
	}
	if err := p.End("c"); err != nil {
		t.Error(err)
	}
	if r, _ := busy.Wait(); !r.Ended {
		t.Errorf("the command of a session that was ended: %+v", r)
	}
	// Another environment is another session.
	c.Env = append(slices.Clone(c.Env), "EXTRA=1")
	if got := do("b", "echo [$x]"); got != "[]\n" {
		t.Errorf("with another environment: %q", got)
	}
	if got := keys(p); !slices.Equal(got, []string{"b", "b"}) {
		t.Errorf("the pool has %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Start(t.Context(), "b", c, session.Command{Text: ":"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("in a closed pool: %v", err)
	}
}

// Many use a pool at once, which ends, evicts and closes meanwhile.
func TestPoolConcurrent(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.NeedTool(t, "bash")
	p := &session.Pool{Max: 3}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir(), Idle: 5 * time.Millisecond}
	var all sync.WaitGroup
	var done, refused atomic.Int64
	for worker := range 8 {
		all.Go(func() {
			for i := range 25 {
				key := string(rune('a' + (worker+i)%5))
				want := fmt.Sprintf("%d-%d\n", worker, i)
				var out bytes.Buffer
				r, err := p.Start(t.Context(), key, c, session.Command{Text: "echo " + strings.TrimSpace(want), Stdout: &out})
				var busy *session.BusyError
				var full *session.LimitError
				if errors.As(err, &busy) || errors.As(err, &full) {
					refused.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("Start: %v", err)
					continue
				}
				res, err := r.Wait()
				switch {
				case err != nil:
					t.Errorf("Wait: %v", err)
				case res.Ended: // by End, below
				case out.String() != want || res.Code != 0:
					t.Errorf("%q, %+v; want %q", out.String(), res, want)
				default:
					done.Add(1)
				}
				if i%10 == 9 {
					if err := p.End(key); err != nil {
						t.Errorf("End: %v", err)
					}
				}
				p.List()
			}
		})
	}
	all.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if done.Load() < 20 {
		t.Errorf("%d commands have run, %d were refused", done.Load(), refused.Load())
	}
}

func keys(p *session.Pool) (list []string) {
	for _, info := range p.List() {
		list = append(list, info.Key)
	}
	return list
}

func BenchmarkRun(b *testing.B) {
	s := open(b, nil)
	for b.Loop() {
		if _, err := s.Run(b.Context(), session.Command{Text: "true"}); err != nil {
			b.Fatal(err)
		}
	}
}
