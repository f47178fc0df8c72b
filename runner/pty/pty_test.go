package pty_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/pty"
)

// start runs a script of sh at a new terminal.
func start(t testing.TB, o pty.Options, script string) (*pty.Terminal, *exec.Cmd) {
	t.Helper()
	term, err := pty.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.Close() })
	cmd := testenv.Command(t, "sh", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Child(), term.Child(), term.Child()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	if err := term.CloseChild(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return term, cmd
}

// rest reads to the end of file and waits.
func rest(t testing.TB, term *pty.Terminal, cmd *exec.Cmd) string {
	t.Helper()
	out, err := io.ReadAll(term)
	if err != nil {
		t.Errorf("reading: %v; want the end of file", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	return string(out)
}

// until reads up to and with a text.
func until(t testing.TB, term *pty.Terminal, text string) {
	t.Helper()
	if err := term.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	b := make([]byte, 1)
	for !strings.HasSuffix(seen.String(), text) {
		n, err := term.Read(b)
		seen.Write(b[:n])
		if err != nil {
			t.Fatalf("read %q, then %v; want %q", seen.String(), err, text)
		}
	}
}

func keys(t testing.TB, names ...string) (b []byte) {
	t.Helper()
	for _, name := range names {
		k, err := pty.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, k...)
	}
	return b
}

func TestTerminal(t *testing.T) {
	testenv.CheckFDs(t)
	for _, tt := range []struct {
		name   string
		o      pty.Options
		script string
		input  string
		want   string
	}{
		{"a terminal", pty.Options{}, "test -t 0 && test -t 1 && test -t 2 && echo yes", "", "yes\r\n"},
		{"the controlling one", pty.Options{}, "exec </dev/null; echo yes >/dev/tty", "", "yes\r\n"},
		{"both streams", pty.Options{}, "echo out; echo err >&2", "", "out\r\nerr\r\n"},
		{"the usual size", pty.Options{}, "stty size", "", "24 80\r\n"},
		{"a size", pty.Options{Size: pty.Size{Rows: 7, Cols: 333}}, "stty size", "", "7 333\r\n"},
		{"no end of line", pty.Options{}, "printf 'Password: '", "", "Password: "},
		{"nothing", pty.Options{}, ":", "", ""},
		{"input is echoed", pty.Options{}, "read a; echo got $a", "x y\r", "x y\r\ngot x y\r\n"},
		{"raw", pty.Options{Raw: true}, "printf 'a\\n'; head -c 5 | od -An -tx1", "\x03\r\n\x00\xff", "a\n 03 0d 0a 00 ff\n"},
		{"end of input", pty.Options{}, "cat; echo end", "a\r\x04", "a\r\na\r\nend\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term, cmd := start(t, tt.o, tt.script)
			if _, err := io.WriteString(term, tt.input); err != nil {
				t.Fatal(err)
			}
			if got := rest(t, term, cmd); got != tt.want {
				t.Errorf("%q with input %q gives %q; want %q", tt.script, tt.input, got, tt.want)
			}
		})
	}
}

func TestResize(t *testing.T) {
	term, cmd := start(t, pty.Options{}, `trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done`)
	until(t, term, "ready\r\n")
	if err := term.Resize(pty.Size{Rows: 50, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	if got := rest(t, term, cmd); got != "50 120\r\n" {
		t.Errorf("after Resize the command sees %q", got)
	}
	if s, err := term.Size(); s != (pty.Size{Rows: 50, Cols: 120}) || err != nil {
		t.Errorf("Size() = %v, %v", s, err)
	}
}

// A key that interrupts does so, in the terminal's foreground only.
func TestInterrupt(t *testing.T) {
	term, cmd := start(t, pty.Options{}, `trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.01; done`)
	until(t, term, "ready\r\n")
	if _, err := term.Write(keys(t, "C-c")); err != nil {
		t.Fatal(err)
	}
	if got := rest(t, term, cmd); !strings.HasSuffix(got, "interrupted\r\n") {
		t.Errorf("after C-c the command says %q", got)
	}
}

// All of a long output arrives, although the command has ended before it is
// read.
func TestLongOutput(t *testing.T) {
	term, cmd := start(t, pty.Options{Raw: true}, "seq 200000")
	out, err := io.ReadAll(term)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	var want bytes.Buffer
	for i := range 200000 {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(out, want.Bytes()) {
		t.Errorf("read %d bytes, which are not the %d written", len(out), want.Len())
	}
}

// Closing ends a read that waits, and the command's session.
func TestCloseUnblocks(t *testing.T) {
	testenv.CheckFDs(t)
	term, cmd := start(t, pty.Options{}, "echo ready; exec sleep 600")
	until(t, term, "ready\r\n")
	if err := term.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := term.Read(make([]byte, 1))
		failed <- err
	}()
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the read that waited: %v; want ErrClosed", err)
	}
	err := cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGHUP {
		t.Errorf("the command ended with %v; want SIGHUP", err)
	}
	if err := term.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := term.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := term.Resize(pty.Size{}); err == nil {
		t.Error("Resize after Close succeeded")
	}
	if term.Child() != nil {
		t.Error("the child's end is there after Close")
	}
}

// A process that goes on keeps the terminal open, and reading with it: who
// reads must bound it.
func TestHeldOpen(t *testing.T) {
	term, cmd := start(t, pty.Options{}, "trap '' HUP; sleep 600 & echo $!")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(term, "%d\r\n", &pid); err != nil {
		t.Fatal(err)
	}
	if err := term.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := term.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read() = %v; want the deadline", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := term.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(term); len(out) != 0 || err != nil {
		t.Errorf("the rest is %q, %v", out, err)
	}
}

// TestNoLeak runs many commands at terminals and counts what is left. Each run
// is over before the next begins.
func TestNoLeak(t *testing.T) {
	runs := 200
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		runs = 10_000
	}
	testenv.CheckFDs(t)
	testenv.CheckGoroutines(t)
	terminals := count(t)
	for i := range runs {
		term, err := pty.Open(pty.Options{})
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		cmd := exec.Command("true")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Child(), term.Child(), term.Child()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		switch i % 4 {
		case 0: // never started
		case 1: // not read
			err = cmd.Run()
		case 2: // closed before it ends
			err = cmd.Start()
			_ = term.CloseChild()
			_ = term.Close()
			_ = cmd.Wait() // SIGHUP may come first
		default:
			err = cmd.Start()
			_ = term.CloseChild()
			if out, err := io.ReadAll(term); err != nil || len(out) != 0 {
				t.Fatalf("run %d: %q, %v", i, out, err)
			}
			_ = cmd.Wait()
		}
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if err := term.Close(); err != nil && i%4 != 2 {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	if n := count(t); n > terminals+runs/4 { // others may make some meanwhile
		t.Errorf("%d terminals on this machine, %d before", n, terminals)
	}
}

// count returns the number of terminals in use.
func count(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/pty/nr")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestKey(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"C-c", "\x03"},
		{"C-d", "\x04"},
		{"C-Z", "\x1a"},
		{"C-[", "\x1b"},
		{"C-@", "\x00"},
		{"C- ", "\x00"},
		{"C-?", "\x7f"},
		{"M-x", "\x1bx"},
		{"M-C-c", "\x1b\x03"},
		{"M-Enter", "\x1b\r"},
		{"Ctrl-C", "\x03"},
		{"Alt-x", "\x1bx"},
		{"Alt-Ctrl-c", "\x1b\x03"},
		{"Enter", "\r"},
		{"Up", "\x1b[A"},
		{"F12", "\x1b[24~"},
		{"a", "a"},
		{"é", "é"},
		{"-", "-"},
	} {
		if got, err := pty.Key(tt.name); string(got) != tt.want || err != nil {
			t.Errorf("Key(%q) = %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	for _, name := range []string{"", "C-", "Ctrl-", "Alt-Hyper", "C-é", "C-1", "enter", "F13", "M-", "C-M-c", "ab"} {
		var e *pty.KeyError
		if got, err := pty.Key(name); !errors.As(err, &e) || e.Name != name {
			t.Errorf("Key(%q) = %q, %v; want a KeyError", name, got, err)
		}
	}
}
