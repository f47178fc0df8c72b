package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

func BenchmarkRun(b *testing.B) {
	s := open(b, nil)
	for b.Loop() {
		if _, err := s.Run(b.Context(), session.Command{Text: "true"}); err != nil {
			b.Fatal(err)
		}
	}
}
