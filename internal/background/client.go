package background

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// ErrEnded is matched by the error of what can be done only while the command
// runs.
var ErrEnded = errors.New("the command has ended")

// ErrGone is matched by the error when the supervisor ends before it answers.
var ErrGone = errors.New("the supervisor is gone")

// refused is an error that isn't the connection's.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }

// hangUp lets go of a connection.
func hangUp(c net.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) }

// tell gives an order to the supervisor, and lets read take the answer. When ctx
// ends, stop is called with the connection.
func (c *Command) tell(ctx context.Context, o *order, stop func(net.Conn), read func(*bufio.Reader) error) error {
	if c.Final() {
		return ErrEnded
	}
	var conn net.Conn
	err := inDir(c.dir, func(short string) error {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", short+"/"+socketName)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { stop(conn) })()
	text, err := line(o)
	if err != nil {
		return err
	}
	if _, err = conn.Write(text); err == nil {
		err = read(bufio.NewReader(conn))
	}
	var no *refused
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &no):
		return no.error
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}

// ask gives an order to the supervisor and returns the answer.
func (c *Command) ask(ctx context.Context, o *order) (*answer, error) {
	var a answer
	err := c.tell(ctx, o, hangUp, func(r *bufio.Reader) error {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &a); err != nil {
			return &refused{err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &a, a.err()
}

// Wait waits until the command has ended, or ctx does: then the error is its.
// Afterwards the status is the last one.
func (c *Command) Wait(ctx context.Context) error {
	for !c.Final() {
		_, err := c.ask(ctx, &order{Do: doWait})
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		if refresh := c.Refresh(); refresh != nil {
			return refresh
		}
		if c.Final() {
			return nil
		}
		// The supervisor is about to end, or doesn't answer any more.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Kill ends the command with everything it has started and waits until that is
// done. Steps is how; nil is the command's own way. It reports false if the
// command had ended by itself.
func (c *Command) Kill(ctx context.Context, steps []runner.StopStep) (bool, error) {
	o := &order{Do: doKill, Now: steps != nil && len(steps) == 0}
	for _, s := range steps {
		o.Steps = append(o.Steps, step{int(s.Signal), int64(s.Wait)})
	}
	a, err := c.ask(ctx, o)
	switch {
	case errors.Is(err, ErrEnded):
		return false, nil
	case errors.Is(err, ErrGone):
		return false, c.Wait(ctx) // which sees whether it is
	case err != nil:
		return false, err
	}
	return a.Killed, c.Refresh()
}

// KillSupervisor kills the process that looks after the command, and with it the
// command, for when it doesn't answer.
func (c *Command) KillSupervisor(ctx context.Context) error {
	fd, err := unix.PidfdOpen(c.Supervisor, 0)
	if errors.Is(err, unix.ESRCH) {
		return c.Wait(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if c.Born == 0 || born(c.Supervisor) != c.Born {
		return c.Wait(ctx) // another process by now
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return c.Wait(ctx)
}

// piece is how much is written at a time.
const piece = 256 << 10

// Write writes to the command's standard input, or to its terminal.
func (c *Command) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), piece)
		if _, err := c.ask(ctx, &order{Do: doWrite, Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseStdin closes the command's standard input.
func (c *Command) CloseStdin(ctx context.Context) error {
	_, err := c.ask(ctx, &order{Do: doWrite, EOF: true})
	return err
}

// Resize sets the size of the command's terminal.
func (c *Command) Resize(ctx context.Context, s runner.Size) error {
	_, err := c.ask(ctx, &order{Do: doResize, Size: &s})
	return err
}

// Load says what the command uses just now.
func (c *Command) Load(ctx context.Context) (*Load, error) {
	a, err := c.ask(ctx, &order{Do: doLoad})
	if err != nil {
		return nil, err
	}
	return a.Load, nil
}

func itoa(n int) string { return strconv.Itoa(n) }
