package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// terminal is an interactive shell on a real terminal, of tmux.
type terminal struct {
	t   *testing.T
	u   testenv.User
	dir string
}

func newTerminal(t *testing.T, u testenv.User) *terminal {
	t.Helper()
	u.NeedTool(t, "tmux")
	term := &terminal{t, u, u.Dir(t)}
	for _, name := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(term.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		u.Own(t, filepath.Join(term.dir, name))
	}
	term.tmux("new-session", "-d", "-x", "100", "-y", "30", "-c", filepath.Join(term.dir, "work"), "bash --norc --noprofile -i")
	t.Cleanup(func() { term.tmux("kill-server") })
	term.send("PS1='$ '; launcher() { " + testenv.BuildLauncher(t) + ` "$@"; }; clear; echo up`)
	term.want("up\n$")
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := term.u.Command(term.t, "tmux", append([]string{"-f", "/dev/null", "-S", filepath.Join(term.dir, "tmux")}, args...)...)
	cmd.Env = append(cmd.Env, "SHELL=/bin/sh", "TERM=screen", "LC_ALL=C.UTF-8", "HOME="+filepath.Join(term.dir, "home"))
	cmd.Dir = term.dir
	// The server lives on, and keeps what it was started with.
	out, err := os.Create(filepath.Join(term.t.TempDir(), "out"))
	if err != nil {
		term.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	b, _ := os.ReadFile(out.Name())
	if err != nil && args[0] != "kill-server" {
		term.t.Fatalf("tmux %v: %v\n%s", args, err, b)
	}
	return string(b)
}

// send types a line.
func (term *terminal) send(line string) {
	term.t.Helper()
	term.tmux("send-keys", "-l", line)
	term.key("Enter")
}

func (term *terminal) key(name string) {
	term.t.Helper()
	term.tmux("send-keys", name)
}

// screen is what the terminal shows, without blank lines at the end.
func (term *terminal) screen() string {
	term.t.Helper()
	return strings.TrimRight(term.tmux("capture-pane", "-p"), "\n ")
}

// want waits until the screen ends in text.
func (term *terminal) want(text string) string {
	term.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		s := term.screen()
		if strings.HasSuffix(s, text) {
			tick.Stop()
			return s
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("the screen doesn't end in %q:\n%s", text, s)
		}
	}
}

// What a person does at a terminal works as it does without the launcher, in
// each of its forms: in place of the shell's child, as its parent (of a command
// with mounts of its own), with a guard between, with bubblewrap and an inner
// stage between.
func TestTerminal(t *testing.T) {
	for _, form := range []struct{ name, options string }{
		{"exec", "--no-protect"},
		{"mounts", "--hide ../home"},
		{"supervise", "--supervise"},
		{"bwrap", "--backend bwrap"},
	} {
		t.Run(form.name, func(t *testing.T) {
			testenv.EachUser(t, func(t *testing.T, u testenv.User) {
				term := newTerminal(t, u)
				run := func(script string) {
					term.send(fmt.Sprintf("clear; launcher --no-cache %s . -- sh -c '%s'; echo =$?", form.options, script))
				}

				run(`n=0; trap "n=\$((n+1)); echo caught" INT; echo ready; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; exit $((40+n))`)
				term.want("ready")
				term.key("C-c")
				term.want("=41\n$") // once, and the command's own code

				// A shell drops the rest of a line when a program dies of Ctrl-C.
				term.send(fmt.Sprintf("clear; launcher --no-cache %s . -- sh -c 'echo ready; exec sleep 1000'", form.options))
				term.want("ready")
				term.key("C-c")
				term.want("$")
				term.send("echo =$?")
				term.want("=130\n$")

				run("echo ready; read line; echo got $line; exit 7")
				term.want("ready")
				term.key("C-z")
				if s := term.want("\n$"); !strings.Contains(s, "Stopped") {
					t.Errorf("Ctrl-Z: the shell says\n%s", s)
				}
				term.send("clear; fg; echo =$?")
				term.want(`"$@"`) // the job's name, as fg says it
				term.send("a line")
				if s := term.want("=7\n$"); !strings.Contains(s, "got a line") {
					t.Errorf("fg: the screen is\n%s", s)
				}

				run(`trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.05; done`)
				term.want("ready")
				term.tmux("resize-window", "-x", "90", "-y", "20")
				if s := term.want("=0\n$"); !strings.Contains(s, "20 90") {
					t.Errorf("resize: the screen is\n%s", s)
				}

				// A pipeline is one job: the pager at its end has the terminal.
				term.send(fmt.Sprintf("clear; launcher --no-cache %s . -- seq 1000 | less", form.options))
				term.want(":")
				term.key("q")
				term.want("$")

				run(`python3 -c "
import fcntl, termios
try:
    fcntl.ioctl(0, termios.TIOCSTI, b\"x\")
    print(\"typed\")
except OSError as e:
    print(\"refused\", e.errno)
"`)
				if s := term.want("=0\n$"); !strings.Contains(s, "refused 5") {
					t.Errorf("TIOCSTI: the screen is\n%s", s)
				}
			})
		})
	}
}
