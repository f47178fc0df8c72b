package rpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// TestEnd: the end of the input, and of the context, end everything.
func TestEnd(t *testing.T) {
	for _, way := range []string{"input", "context"} {
		t.Run(way, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
			cause := errors.New("enough")
			c := newSessionFor(ctx, t, Config{})
			a := c.start(params{"command": "sleep 60"})
			b := c.run(params{"command": "setsid sleep 60 & echo; sleep 60", "soft_timeout_ms": 50})
			_, answer := c.send("run", params{"command": "sleep 60"})
			c.running(3)
			if way == "context" {
				cancel(cause)
				if err := <-c.served; !errors.Is(err, cause) {
					t.Errorf("Serve: %v; want %v", err, cause)
				}
				c.served <- nil
			} else if err := c.end(); err != nil {
				t.Errorf("Serve: %v", err)
			}
			cancel(nil)
			if m := c.await(answer); m.Result == nil {
				t.Errorf("the run that was under way: %+v", m)
			}
			for _, pid := range []int{*a.Pid, *b.Pid} {
				if testenv.Lives(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
		})
	}
}

// TestProcess: a server in a process of its own doesn't die of a host that
// closes the output, and ends everything when it is killed itself.
func TestProcess(t *testing.T) {
	for _, way := range []string{"input", "output", "kill"} {
		t.Run(way, func(t *testing.T) {
			cmd := testenv.Helper(t, "serve", testenv.Self().Dir(t))
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			r, w := pipe(t)
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			c := newClient(t, in, r)
			run := c.start(params{"command": "setsid sleep 60 & echo; sleep 60"})
			switch way {
			case "input":
				in.Close()
			case "output":
				r.Close()
				c.line(`{"id": "last", "method": "info"}`)
			case "kill":
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			err = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); way == "input" && code != 0 || way == "output" && code != 1 || way == "kill" && code != -1 {
				t.Errorf("exit code %d: %v", code, err)
			}
			<-c.gone
			in.Close()
			r.Close()
			testenv.AwaitEnd(t, *run.Pid)
		})
	}
}

func TestServeBadConfig(t *testing.T) {
	if err := Serve(t.Context(), Config{}, strings.NewReader(""), io.Discard); !errors.Is(err, runner.ErrNilExecutor) {
		t.Errorf("Serve without an executor: %v", err)
	}
}
