package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// screen is a real terminal: tmux's.
type screen struct {
	p      *place
	socket string
}

// onScreen runs the runner at a terminal of 100 by 30, and leaves a shell there.
func (p *place) onScreen(env string, args string) *screen {
	p.t.Helper()
	s := &screen{p, filepath.Join(p.Home, "tmux")}
	line := fmt.Sprintf("trap : INT; cd %s; export %s; %s %s; echo code=$?; exec sleep 300", p.Dir, env, p.exe, args)
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", line)
	p.t.Cleanup(func() { testenv.Run(p.t, s.command("kill-server")) })
	return s
}

func (s *screen) tmux(args ...string) string {
	s.p.t.Helper()
	return testenv.Output(s.p.t, s.command(args...))
}

// shows waits until the screen matches.
func (s *screen) shows(pattern string) string {
	s.p.t.Helper()
	re, text := regexp.MustCompile(pattern), ""
	defer func() {
		if s.p.t.Failed() {
			s.p.t.Logf("the screen:\n%s", text)
		}
	}()
	eventually(s.p.t, "the screen shows "+pattern, func() bool {
		text = s.tmux("capture-pane", "-p")
		return re.MatchString(text)
	})
	return text
}

// At a terminal there is a line that says how the command is doing, which is
// never in one line with its output, and gone at the end.
func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		s := p.onScreen("TERM=screen", `run 'echo first; until [ -e one ]; do sleep 0.1; done; printf "no end"; until [ -e two ]; do sleep 0.1; done; echo; echo last'`)
		text := s.shows(`(?m)^first\n\d.*s of 2m0s \| memory .* \| cpu \d+% \| processes [1-9]\d* \| output 6 B$`)
		if strings.Count(text, "memory") != 1 {
			t.Errorf("the line is there more than once:\n%s", text)
		}
		p.Write("one", "")
		s.shows(`(?m)^first\nno end$`)
		p.Write("two", "")
		s.shows(`(?m)^first\nno end\nlast\nrunner: exit code 0, after .*[^|]*\n(.*\n)?code=0$`)
	})
}

// Ctrl-C ends the command and its tree.
func TestTerminalInterrupt(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		s := p.onScreen("TERM=screen NO_COLOR=1", `run 'sh -c "echo \$\$ >child; exec sleep 300" & echo $$ >shell; echo ready; wait'`)
		s.shows("ready")
		pids := []int{p.pidIn("shell"), p.pidIn("child")}
		s.tmux("send-keys", "C-c")
		s.shows(`code=130`)
		p.gone(pids...)
	})
}

// A terminal that takes text alone gets no line.
func TestTerminalDumb(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		s := p.onScreen("TERM=dumb", `run 'echo first; sleep 2'`)
		if text := s.shows(`code=0`); strings.Contains(text, "processes") {
			t.Errorf("a line where there should be none:\n%s", text)
		}
	})
}

func (s *screen) command(args ...string) *exec.Cmd {
	s.p.t.Helper()
	cmd := s.p.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	return cmd
}

// With --pty the command has a terminal of its own, to which goes what is typed,
// Ctrl-C among it, and this one's size.
func TestTerminalOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		s := p.onScreen("TERM=screen", `run --pty 'stty size; read line; echo "got $line"; trap "echo caught; exit 9" INT; sleep 100 & wait'`)
		s.shows(`(?m)^30 100$`)
		s.tmux("send-keys", "hello", "Enter")
		s.shows(`(?m)^got hello$`)
		s.tmux("send-keys", "C-c")
		s.shows(`caught`)
		s.shows(`(?m)code=9$`)
	})
}

// A session at a terminal asks for commands, goes on after Ctrl-C, and ends with
// the input.
func TestTerminalSession(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		s := p.onScreen("TERM=screen", "session")
		s.shows(`(?m)^\S* \$ *$`)
		s.tmux("send-keys", "mkdir below && cd below", "Enter")
		s.shows(`(?m)/below \$ *$`)
		s.tmux("send-keys", "for i in 1 2", "Enter")
		s.shows(`(?m)^> *$`)
		s.tmux("send-keys", "do echo n$i; done", "Enter")
		s.shows(`(?m)^> do .*\nn1\nn2\n`)
		s.tmux("send-keys", ")", "Enter")
		s.shows(`syntax error`)
		s.tmux("send-keys", "echo $$ >../shell; sleep 300", "Enter")
		pid := p.pidIn("shell")
		s.tmux("send-keys", "C-c")
		s.shows(`(?m)^runner: exit code 130$`)
		p.gone(pid)
		s.tmux("send-keys", "half", "C-c")
		s.shows(`(?m)\$ (half)?\^C\n\S* \$ *$`)
		s.tmux("send-keys", "(exit 7)", "Enter")
		s.shows(`(?m)^runner: exit code 7$`)
		s.tmux("send-keys", "C-d")
		s.shows(`code=7`)
	})
}

// Ctrl-C while the shell is still starting ends no session either.
func TestTerminalSessionStarts(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux")
		shell := filepath.Join(p.Home, "bash")
		script := func(text string) {
			t.Helper()
			if err := os.WriteFile(shell+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(shell+".new", shell); err != nil {
				t.Fatal(err)
			}
		}
		script("echo $$ >starting; exec sleep 300")
		s := p.onScreen("TERM=screen", "session --shell "+shell)
		s.shows(`(?m)^\S* \$ *$`)
		s.tmux("send-keys", "echo first", "Enter")
		pid := p.pidIn("starting")
		s.tmux("send-keys", "C-c")
		s.shows(`(?m)runner: exit code 130$`)
		p.gone(pid)
		script(`exec /bin/bash "$@"`)
		s.tmux("send-keys", "echo second", "Enter")
		s.shows(`(?m)^second$`)
	})
}

// Ctrl-Z stops the command with all its processes, and fg lets them go on.
func TestTerminalStop(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		testenv.NeedTool(t, "tmux", "bash")
		s := &screen{p, filepath.Join(p.Home, "tmux")}
		s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "bash", "--noprofile", "--norc", "-i")
		t.Cleanup(func() { testenv.Run(t, s.command("kill-server")) })
		s.tmux("send-keys", "cd "+p.Dir+"; PS1='ready> '", "Enter")
		s.shows(`(?m)^ready> *$`)
		s.tmux("send-keys", p.exe+` run 'setsid sh -c "echo \$\$ >child; exec sleep 300" & echo $$ >shell; echo runs; wait'`, "Enter")
		s.shows(`(?m)^runs$`)
		pids := []int{p.pidIn("shell"), p.pidIn("child")}
		stopped := func(want bool) func() bool {
			return func() bool {
				for _, pid := range pids {
					text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					if err != nil || strings.Contains(string(text), ") T ") != want {
						return false
					}
				}
				return true
			}
		}
		for range 2 {
			s.tmux("send-keys", "C-z")
			eventually(t, "all are stopped", stopped(true))
			s.tmux("send-keys", "clear; jobs", "Enter")
			s.shows(`(?m)^\[1\]\+ +Stopped`)
			s.tmux("send-keys", "fg", "Enter")
			eventually(t, "all go on", stopped(false))
		}
		s.tmux("send-keys", "C-z")
		eventually(t, "all are stopped", stopped(true))
		s.tmux("send-keys", "kill %1; fg", "Enter")
		p.gone(pids...)
	})
}
