package local_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

// A shell that lives between commands is as confined as a command, and ends
// with everything that it started.
func TestSession(t *testing.T) {
	testenv.NeedTool(t, "bash")
	each(t, func(t *testing.T, way string, c runner.Config) {
		e := c.Executor
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		starter, ok := e.(session.Starter)
		if !ok {
			t.Fatal("the executor is no Starter")
		}
		dir, outside := e.Authority().Dir, testenv.Self().Dir(t)
		s, err := session.New(session.Config{Starter: starter, Env: e.Environ(), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		do := func(text string) (string, session.Result) {
			t.Helper()
			var out bytes.Buffer
			r, err := s.Run(t.Context(), session.Command{Text: text, Stdout: &out})
			if err != nil {
				t.Fatalf("Run(%q): %v", text, err)
			}
			return out.String(), r
		}
		if out, r := do("x=1; cd /; echo $x"); out != "1\n" || r.Code != 0 {
			t.Errorf("%q, %+v", out, r)
		}
		if out, _ := do("echo $x; pwd; ls /proc/self/fd | grep -x 5[0-2]"); out != "1\n/\n" {
			t.Errorf("the second command writes %q", out)
		}
		do("echo out >" + outside + "/out; cd " + dir + "; echo in >in")
		_, inErr := os.Stat(filepath.Join(dir, "in"))
		_, outErr := os.Stat(filepath.Join(outside, "out"))
		if inErr != nil || errors.Is(outErr, fs.ErrNotExist) == (way == "unconfined") {
			t.Errorf("inside: %v; outside: %v", inErr, outErr)
		}

		// A timeout ends what has got away, too.
		ctx, cancel := context.WithCancelCause(t.Context())
		out := pids{cancel: cancel}
		r, err := s.Run(ctx, session.Command{Text: "setsid sh -c 'echo $$; trap \"\" TERM; sleep 300; sleep 300' & wait", Stdout: &out})
		if !errors.Is(err, errStop) || !r.Ended {
			t.Errorf("a command that was stopped: %+v, %v", r, err)
		}
		if way != "boxed" { // there a process has another number
			gone(t, out.String())
		}
		// So does the shell's own end.
		got, r := do("setsid sh -c 'echo $$; : >up; exec sleep 300' & until [ -e up ]; do sleep 0.02; done; exit 3")
		if r.Code != 3 || !r.Ended || !r.Fresh {
			t.Errorf("exit 3: %q, %+v", got, r)
		}
		if way != "boxed" {
			gone(t, got)
		}
		if got, r := do("echo [$x]"); got != "[]\n" || !r.Fresh {
			t.Errorf("afterwards: %q, %+v", got, r)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

var errStop = errors.New("stop")

// pids cancels when a process has written its number.
type pids struct {
	bytes.Buffer
	cancel context.CancelCauseFunc
}

func (p *pids) Write(b []byte) (int, error) {
	p.cancel(errStop)
	return p.Buffer.Write(b)
}

// gone fails t unless the process of a number ends soon.
func gone(t *testing.T, number string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		t.Fatal(err)
	}
	testenv.AwaitEnd(t, pid)
}
