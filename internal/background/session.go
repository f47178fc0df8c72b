package background

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Task is a command for a session.
type Task struct {
	Text string
	// Dir is where to go before; empty stays.
	Dir string
	// Timeout bounds it; zero is the session's own, negative none.
	Timeout time.Duration
	// Stdout and Stderr get what it prints, as it comes. A nil Stderr sends all
	// to Stdout.
	Stdout, Stderr io.Writer
}

// ErrNoSession is matched by the error of [Command.Run] for what isn't a session.
var ErrNoSession = errors.New("the command is no session")

// Run runs a command in a session, and returns what the supervisor says of its
// end. The command ends when ctx does, and with it the shell, which is waited
// for. An error means that nothing has run, or that nobody knows.
func (c *Command) Run(ctx context.Context, t Task) (json.RawMessage, error) {
	if !c.Session {
		return nil, ErrNoSession
	}
	var ran json.RawMessage
	err := c.tell(ctx, &order{Do: doRun, Data: []byte(t.Text), Dir: policy.Path(t.Dir), Timeout: t.Timeout, Merge: t.Stderr == nil}, giveUp, func(r *bufio.Reader) error {
		in := json.NewDecoder(r)
		for {
			var a answer
			if err := in.Decode(&a); err != nil {
				return err
			}
			if err := a.err(); err != nil {
				return &refused{err}
			}
			for _, part := range []struct {
				to   io.Writer
				text []byte
			}{{t.Stdout, a.Stdout}, {t.Stderr, a.Stderr}} {
				if len(part.text) == 0 {
					continue
				}
				if _, err := part.to.Write(part.text); err != nil {
					return &refused{err}
				}
			}
			if a.Ran != nil {
				ran = a.Ran
				return nil
			}
		}
	})
	return ran, err
}

// giveUp lets the supervisor end a command, and say so within a while.
func giveUp(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.CloseWrite()
	}
}

// run runs a command in a session for a client, who gets what it prints.
func (s *supervisor) run(c *net.UnixConn, o *order) *answer {
	if s.job.Run == nil {
		return answerOf(ErrNoSession)
	}
	ctx, stop := untilGone(c)
	defer stop()
	if c.SetWriteDeadline(time.Time{}) != nil { // who reads slowly holds up the command, as a pipe would
		return &answer{}
	}
	to := &client{conn: c}
	t := Task{Text: string(o.Data), Dir: string(o.Dir), Timeout: o.Timeout}
	t.Stdout = writer(func(p []byte) error { return to.send(&answer{Stdout: p}) })
	if !o.Merge {
		t.Stderr = writer(func(p []byte) error { return to.send(&answer{Stderr: p}) })
	}
	ran, err := s.job.Run(ctx, t)
	if err != nil {
		return answerOf(err)
	}
	return &answer{Ran: ran}
}

// client gets answers from several goroutines.
type client struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

func (c *client) send(a *answer) error {
	text, err := line(a)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(text)
	return err
}

// writer is a function that is an [io.Writer].
type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) {
	if err := w(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
