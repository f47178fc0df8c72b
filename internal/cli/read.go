package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/cobra"
)

// find opens the folder of background commands and returns the one that is
// meant.
func (p *program) find(what string) (*background.Command, error) {
	d, err := p.background()
	if err != nil {
		return nil, err
	}
	c, err := d.Find(what)
	var missing *background.FindError
	if errors.As(err, &missing) {
		return nil, &hinted{err, "runner ps --all lists them"}
	}
	return c, err
}

// oneID wants the name or id of a command as the only operand.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{"name one command", cmd.CommandPath() + " ID; runner ps --all lists them"}
	}
	return nil
}

func (p *program) readCommand() *cobra.Command {
	var reader, stream string
	var follow bool
	var wait span
	cmd := &cobra.Command{
		Use:   "read [options] ID",
		Short: "Show what a background command has printed since the last time",
		Long: `Shows what a background command has printed since the last read by the same
reader, so that each byte comes once. Others read at their own pace under
another name. runner logs shows everything.`,
		Args: oneID, ValidArgsFunction: p.completeCommands(anyState),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := p.find(args[0])
			if err != nil {
				return err
			}
			return p.read(c, reader, stream, follow, time.Duration(wait))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&reader, "reader", "default", "read as `NAME`")
	f.StringVar(&stream, "stream", "", "read this `STREAM` only: stdout or stderr, where they were kept apart")
	f.BoolVarP(&follow, "follow", "f", false, "go on until the command has ended")
	f.Var(&wait, "wait", "if there is nothing yet, wait up to `TIME` for it")
	return cmd
}

// streamsOf returns the streams that are meant: all, or one.
func streamsOf(c *background.Command, stream string) ([]string, error) {
	if stream == "" {
		return c.Streams, nil
	}
	for _, s := range c.Streams {
		if s == stream {
			return []string{s}, nil
		}
	}
	return nil, &usageError{fmt.Sprintf("%s has no stream %q", c.ID, stream), fmt.Sprintf("it has %q", c.Streams)}
}

// eachStream calls f for the streams that are meant until one fails: one after the
// other, or side by side for those that are followed. Each has a command of its
// own. The context ends when this program is told to end.
func (p *program) eachStream(c *background.Command, stream string, follow bool, f func(ctx context.Context, store *capture.Store, c *background.Command, s string) error) error {
	streams, err := streamsOf(c, stream)
	if err != nil {
		return err
	}
	store, err := p.store()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	ctx, stop := untilSignal()
	defer stop()
	if follow {
		return sideBySide(ctx, c, streams, func(ctx context.Context, c *background.Command, s string) error { return f(ctx, store, c, s) })
	}
	for _, s := range streams {
		if err := f(ctx, store, c, s); err != nil {
			return err
		}
	}
	return nil
}

// sideBySide calls f for each stream, with a command of its own, and returns the
// first error, which ends the others.
func sideBySide(ctx context.Context, c *background.Command, streams []string, f func(ctx context.Context, c *background.Command, s string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, s := range streams {
		own := *c // each looks at the status by itself
		wg.Go(func() {
			if err := f(ctx, &own, s); err != nil {
				once.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return first
}

// read shows what is new of a command. What is there comes stream by stream, and
// what comes then as it comes.
func (p *program) read(c *background.Command, reader, stream string, follow bool, wait time.Duration) error {
	if follow {
		if err := p.read(c, reader, stream, false, 0); err != nil {
			return err
		}
	}
	return p.eachStream(c, stream, follow, func(ctx context.Context, store *capture.Store, c *background.Command, s string) error {
		r, err := c.NewReader(ctx, store, s, reader)
		if err != nil {
			return err
		}
		return errors.Join(drainReader(ctx, r, follow, wait), r.Close())
	})
}

// untilSignal is a context that ends when this program is told to end.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// readPiece is how much is read at a time.
const readPiece = 256 << 10

// drainReader writes to standard output what a reader has: until there is no
// more, or until there never will be.
func drainReader(ctx context.Context, r *background.Reader, follow bool, wait time.Duration) error {
	first, cancel := context.WithTimeout(ctx, max(0, wait))
	defer cancel()
	for {
		d, err := r.Next(readPiece)
		if d.Lost > 0 {
			say(lostText(d.Lost))
		}
		if len(d.Text) > 0 {
			if _, err := os.Stdout.Write(d.Text); err != nil {
				return err
			}
			wait = 0
			if err := r.Took(d); err != nil {
				return err
			}
			continue
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case follow:
			err = r.Wait(ctx)
		case wait > 0:
			err = r.Wait(first)
		default:
			return nil
		}
		if err != nil {
			return nil // the time is over, or the user has seen enough
		}
	}
}

// lostText says what of the output is missing.
func lostText(n int64) string { return fmt.Sprintf("%d bytes of the output are not kept", n) }

// follow writes what a command prints, from its beginning, to what to says for
// each stream, as it comes, until it has ended.
func (p *program) follow(ctx context.Context, c *background.Command, to func(stream string) io.Writer) error {
	store, err := p.store()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return sideBySide(ctx, c, c.Streams, func(ctx context.Context, c *background.Command, s string) error {
		return followOne(ctx, c, store, s, to(s))
	})
}

func followOne(ctx context.Context, c *background.Command, store *capture.Store, stream string, w io.Writer) error {
	a, err := openOutput(ctx, c, store, stream)
	if a == nil || err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	cur := capture.Cursor{Source: a}
	for {
		d, err := cur.Next(readPiece)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(d.Text) > 0 {
			if _, err := w.Write(d.Text); err != nil {
				return err
			}
			continue
		}
		if err := a.Wait(ctx, cur.Offset); err != nil {
			return err
		}
	}
}

// openOutput opens a stream of a command when there is something of it. It
// returns nil if there never will be.
func openOutput(ctx context.Context, c *background.Command, store *capture.Store, stream string) (*capture.Artifact, error) {
	for {
		final := c.Final()
		if id := c.Output[stream]; id != "" {
			return store.Open(id)
		}
		if final {
			return nil, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := c.Refresh(); err != nil {
			return nil, err
		}
	}
}
