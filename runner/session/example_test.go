package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

// confinedBy starts programs in a sandbox.
func confinedBy(s *launch.Sandbox) session.Starter {
	return session.StarterFunc(func(_ context.Context, p session.Program) (session.Process, error) {
		cmd := s.Command(p.Args[0], p.Args[1:]...)
		cmd.Env, cmd.Dir, cmd.NewSession = p.Env, p.Dir, true
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.Files[0], p.Files[1], p.Files[2], p.Files[3:]
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return &confined{cmd}, nil
	})
}

type confined struct{ cmd *launch.Cmd }

func (c *confined) Pid() int { return c.cmd.Process.Pid }

func (c *confined) Wait() (session.Exit, error) {
	err := c.cmd.Wait()
	if c.cmd.ProcessState == nil {
		return session.Exit{Code: -1}, err
	}
	e := session.Exit{Code: c.cmd.ProcessState.ExitCode()}
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = ws.Signal()
	}
	return e, nil
}

// Kill ends the group. What has left it, a control group or a supervisor would
// end.
func (c *confined) Kill() error { return syscall.Kill(-c.Pid(), syscall.SIGKILL) }

// A shell that lives between commands, in a sandbox.
func Example() {
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	sandbox, err := launch.Prepare(policy.Policy{Worktree: policy.Path(dir), NoCache: true}, launch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Close()

	s, err := session.New(session.Config{Starter: confinedBy(sandbox), Env: sandbox.Environ(), Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, text := range []string{"cd /; x=1", "echo $x; pwd", "exit 3", "echo ${x-none}; pwd"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		var out bytes.Buffer
		r, err := s.Run(ctx, session.Command{Text: text, Stdout: &out})
		cancel()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q %d %t\n", out.String(), r.Code, r.Ended)
	}
}

// A confined shell stays confined, whatever its commands make of it.
func TestConfined(t *testing.T) {
	testenv.NeedTool(t, "bash")
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock ABI 3: have %d (%s)", s.ABI, s.Reason())
	}
	testenv.CheckFDs(t)
	base := testenv.Dir(t)
	inside, outside := filepath.Join(base, "inside"), filepath.Join(base, "outside")
	for _, dir := range []string{inside, outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(inside), NoCache: true}
	for _, backend := range []launch.Backend{launch.BackendLandlock, launch.BackendAuto} {
		sandbox, err := launch.Prepare(p, launch.Options{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, func(c *session.Config) {
			c.Starter, c.Dir, c.Env = confinedBy(sandbox), inside, sandbox.Environ()
		})
		for _, text := range []string{"cd " + outside + "; touch out", "exec 7>" + outside + "/out", "touch out", "(exit 0); touch ../outside/out"} {
			if out, r := run(t, s, text); r.Code == 0 || !strings.Contains(out, "denied") {
				t.Errorf("%s: %q: %q, %+v; want it refused", backend, text, out, r)
			}
		}
		if out, r := run(t, s, "cd "+inside+"; echo 'in >f' >in; . ./in 2>/dev/null; [[ -s in ]] && cat in"); out != "in >f\n" || r.Code != 0 {
			t.Errorf("%s: inside: %q, %+v", backend, out, r)
		}
		if _, err := os.Stat(filepath.Join(outside, "out")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file outside: %v", backend, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := sandbox.Close(); err != nil {
			t.Error(err)
		}
	}
}
