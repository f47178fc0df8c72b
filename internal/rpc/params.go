package rpc

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// command is a [runner.Request] as the host writes it.
type command struct {
	Command   string           `json:"command"`
	Argv      []string         `json:"argv"`
	Label     string           `json:"label"`
	Owner     string           `json:"owner"`
	Dir       policy.Path      `json:"dir"`
	Shell     []string         `json:"shell"`
	Transport runner.Transport `json:"transport"`

	Env     []string `json:"env"`
	Unset   []string `json:"unset"`
	Managed []string `json:"managed"`

	Stdin       *string      `json:"stdin"`
	StdinBase64 []byte       `json:"stdin_base64"`
	OpenStdin   bool         `json:"open_stdin"`
	Terminal    *runner.Size `json:"terminal"`

	Timeout     millis          `json:"timeout_ms"`
	SoftTimeout millis          `json:"soft_timeout_ms"`
	IdleTimeout millis          `json:"idle_timeout_ms"`
	Stop        []stopStep      `json:"stop"`
	Leftover    runner.Leftover `json:"leftover"`

	PipeStatus bool `json:"pipe_status"`

	Merge  bool        `json:"merge"`
	Keep   runner.Keep `json:"keep"`
	Budget int         `json:"budget"`
}

// millis is a time in milliseconds; -1 is [runner.None].
type millis int64

// maxMillis is more than any timeout can be.
const maxMillis = millis(1<<63-1) / millis(time.Millisecond)

func (m millis) duration() (time.Duration, error) {
	switch {
	case m == -1:
		return runner.None, nil
	case m < 0 || m > maxMillis:
		return 0, invalid("a timeout of %d ms", int64(m))
	}
	return time.Duration(m) * time.Millisecond, nil
}

// bound returns a context that ends after that time, too; with 0 at once.
func (m millis) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if m < 0 || m > maxMillis {
		return nil, nil, invalid("a time of %d ms", int64(m))
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(m)*time.Millisecond)
	return within, cancel, nil
}

// stopStep is a [runner.StopStep].
type stopStep struct {
	Signal string `json:"signal"`
	Wait   millis `json:"wait_ms"`
}

// steps returns a stop sequence; nil stays nil.
func steps(in []stopStep) ([]runner.StopStep, error) {
	if in == nil {
		return nil, nil
	}
	out := make([]runner.StopStep, 0, len(in))
	for _, s := range in {
		number, err := signal(s.Signal)
		if err != nil {
			return nil, err
		}
		if s.Wait < 0 {
			return nil, invalid("a wait of %d ms", int64(s.Wait))
		}
		wait, err := s.Wait.duration()
		if err != nil {
			return nil, err
		}
		out = append(out, runner.StopStep{Signal: number, Wait: wait})
	}
	return out, nil
}

// signal returns a signal by its name, as SIGTERM or TERM.
func signal(name string) (syscall.Signal, error) {
	n := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if n == 0 {
		return 0, invalid("there is no signal %s", quoted(name))
	}
	return n, nil
}

// request returns what the host asks for.
func (c *command) request() (q runner.Request, err error) {
	q = runner.Request{
		Command: c.Command, Argv: c.Argv, Label: c.Label, Owner: c.Owner, Dir: string(c.Dir), Shell: c.Shell,
		Transport: c.Transport, Env: c.Env, Unset: c.Unset, Managed: c.Managed,
		OpenStdin: c.OpenStdin, Terminal: c.Terminal, Leftover: c.Leftover,
		PipeStatus: c.PipeStatus, Merge: c.Merge, Keep: c.Keep, Budget: c.Budget, Stdin: c.StdinBase64,
	}
	if c.Stdin != nil {
		if c.StdinBase64 != nil {
			return q, invalid("both stdin and stdin_base64 are given")
		}
		q.Stdin = []byte(*c.Stdin)
	}
	if q.Stop, err = steps(c.Stop); err != nil {
		return q, err
	}
	for _, t := range []struct {
		to   *time.Duration
		from millis
	}{{&q.Timeout, c.Timeout}, {&q.SoftTimeout, c.SoftTimeout}, {&q.IdleTimeout, c.IdleTimeout}} {
		if *t.to, err = t.from.duration(); err != nil {
			return q, err
		}
	}
	return q, nil
}
