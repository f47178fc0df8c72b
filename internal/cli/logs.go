package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/cobra"
)

func (p *program) logsCommand() *cobra.Command {
	var stream string
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use:   "logs [options] ID",
		Short: "Show everything that a background command has printed",
		Args:  oneID, ValidArgsFunction: p.completeCommands(anyState),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := p.find(args[0])
			if err != nil {
				return err
			}
			return p.logs(c, stream, follow, tail)
		},
	}
	cmd.Long = "Shows everything that a background command has printed, as far as it is kept."
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&follow, "follow", "f", false, "go on until the command has ended")
	f.IntVarP(&tail, "tail", "n", -1, "show the last `N` lines only")
	f.Lookup("tail").DefValue = "0" // which the help leaves out, as it should -1
	f.StringVar(&stream, "stream", "", "show this `STREAM` only: stdout or stderr, where they were kept apart")
	return cmd
}

func (p *program) logs(c *background.Command, stream string, follow bool, tail int) error {
	shown := make([]int64, len(c.Streams)) // how far
	show := func(follow bool) error {
		return p.eachStream(c, stream, follow, func(ctx context.Context, store *capture.Store, c *background.Command, s string) (err error) {
			at := &shown[slices.Index(c.Streams, s)]
			if !follow && c.Output[s] == "" {
				return nil
			}
			*at, err = showOutput(ctx, c, store, s, *at, follow, tail)
			return err
		})
	}
	// What is there comes stream by stream, and what comes then as it comes.
	err := show(false)
	if follow && err == nil {
		tail = -1
		err = show(true)
	}
	if errors.Is(err, context.Canceled) {
		return nil // the user has seen enough
	}
	return err
}

// showOutput shows a stream of a command from an offset on, or its last lines, and
// returns how far it got.
func showOutput(ctx context.Context, c *background.Command, store *capture.Store, stream string, from int64, follow bool, tail int) (int64, error) {
	a, err := openOutput(ctx, c, store, stream)
	if a == nil || err != nil {
		return from, err
	}
	defer func() { _ = a.Close() }()
	cur := capture.Cursor{Source: a, Offset: from}
	if tail >= 0 {
		if cur.Offset, err = lastLines(a, tail); err != nil {
			return cur.Offset, err
		}
	}
	for {
		d, err := cur.Next(readPiece)
		switch {
		case errors.Is(err, io.EOF):
			return cur.Offset, nil
		case err != nil:
			return cur.Offset, err
		}
		if d.Lost > 0 {
			say(lostText(d.Lost))
		}
		if len(d.Text) > 0 {
			if _, err := os.Stdout.Write(d.Text); err != nil {
				return cur.Offset, err
			}
			continue
		}
		if !follow {
			return cur.Offset, nil
		}
		if err := a.Wait(ctx, cur.Offset); err != nil {
			return cur.Offset, err
		}
	}
}

// lastLines returns where the last n lines of a stream begin. A last line
// without an end counts.
func lastLines(a *capture.Artifact, n int) (int64, error) {
	size := a.Size()
	if n == 0 {
		return size, nil
	}
	const step = 64 << 10
	buf := make([]byte, step)
	for to := size; to > 0; {
		from := max(0, to-step)
		m, err := a.ReadAt(buf[:to-from], from)
		if gap := (*capture.GapError)(nil); errors.As(err, &gap) {
			return gap.To, nil
		} else if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := m - 1; i >= 0; i-- {
			if buf[i] != '\n' || from+int64(i) == size-1 {
				continue
			}
			if n--; n == 0 {
				return from + int64(i) + 1, nil
			}
		}
		to = from
	}
	return 0, nil
}
