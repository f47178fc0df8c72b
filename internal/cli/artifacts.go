package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/cobra"
)

func (p *program) artifactsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "artifacts",
		Short: "Read and search kept output",
		Long: `Output that was kept on disk: of commands in the foreground what was too much to
be kept in memory, of those in the background everything.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.artifactsLs(), p.artifactsRead(), p.artifactsSearch(), p.artifactsPrune())
	return cmd
}

func (p *program) artifactsLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls [options]", Short: "List kept output",
		Long: "Lists the output that is kept, the oldest first.",
		Args: noOperands,
		RunE: func(*cobra.Command, []string) error {
			return p.withStore(func(s *capture.Store) error {
				list, err := s.List()
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(list)
				}
				rows := [][]string{{"ID", "STREAM", "STATE", "AGE", "SIZE", "LINES", "COMMAND"}}
				for _, i := range list {
					lines := "-"
					if i.State == capture.Complete {
						lines = fmt.Sprint(i.Lines)
					}
					rows = append(rows, []string{string(i.ID), i.Stream, string(i.State), brief(time.Since(i.Created)), bytesText(i.Size), lines, printable(i.Label)})
				}
				printTable(rows, columns(os.Stdout))
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// withStore calls f with the store of output.
func (p *program) withStore(f func(*capture.Store) error) error {
	s, err := p.store()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return f(s)
}

// withArtifact calls f with an artifact: one of that id, or the output of the
// background command that is called so.
func (p *program) withArtifact(what string, f func(*capture.Artifact) error) error {
	return p.withStore(func(s *capture.Store) error {
		id, err := capture.ParseID(what)
		if err == nil {
			a, err := s.Open(id)
			if err == nil {
				defer func() { _ = a.Close() }()
				return f(a)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		c, err := p.find(what)
		var missing *background.FindError
		if errors.As(err, &missing) {
			return &hinted{fmt.Errorf("there is no output %.60q", what), "runner artifacts ls lists what there is"}
		}
		if err != nil {
			return err
		}
		for _, name := range c.Streams {
			if id := c.Output[name]; id != "" {
				a, err := s.Open(id)
				if err != nil {
					return err
				}
				defer func() { _ = a.Close() }()
				return f(a)
			}
		}
		return fmt.Errorf("%s has printed nothing", what)
	})
}

// reading are the options of read and search.
type reading struct {
	raw, json bool
	limit     size
}

func (r *reading) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&r.limit, "limit", "show at most so many `BYTES` (40K)")
	f.BoolVar(&r.raw, "raw", false, "show the bytes as they are, not as a terminal would")
	f.BoolVar(&r.json, "json", false, "as JSON")
}

func (r *reading) reader(a *capture.Artifact) *capture.Reader {
	return capture.NewReader(a).With(capture.View{Render: !r.raw})
}

func (p *program) artifactsRead() *cobra.Command {
	var r reading
	var offset, line, tail int64
	cmd := &cobra.Command{
		Use: "read [options] ID", Short: "Show a part of kept output, with line numbers",
		Long: "Shows a page of kept output, with the numbers of its lines: from the beginning,\nor from where the options say.",
		Args: oneArtifact,
		RunE: func(_ *cobra.Command, args []string) error {
			return p.withArtifact(args[0], func(a *capture.Artifact) error {
				ctx, stop := untilSignal()
				defer stop()
				var page *capture.Page
				var err error
				switch {
				case tail > 0:
					page, err = r.reader(a).Tail(ctx, tail, int64(r.limit))
				case line > 0:
					page, err = r.reader(a).Lines(ctx, line, 0, int64(r.limit))
				default:
					page, err = r.reader(a).Page(ctx, offset, int64(r.limit))
				}
				if err != nil {
					return err
				}
				if r.json {
					return printJSON(page)
				}
				_, err = os.Stdout.WriteString(page.Text(a.ID()))
				return err
			})
		},
	}
	r.flags(cmd)
	f := cmd.Flags()
	f.Int64Var(&offset, "offset", 0, "begin at byte `N`")
	f.Int64Var(&line, "line", 0, "begin at line `N`")
	f.Int64Var(&tail, "tail", 0, "show the last `N` lines")
	return cmd
}

// oneArtifact wants an id as the only operand.
func oneArtifact(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{"name the output to look at", cmd.CommandPath() + " ID; runner artifacts ls lists what there is"}
	}
	return nil
}

// exitNothing is the exit code of a search that found nothing.
const exitNothing = 1

func (p *program) artifactsSearch() *cobra.Command {
	var r reading
	var before, after, around int
	var from string
	cmd := &cobra.Command{
		Use: "search [options] ID PATTERN", Short: "Search kept output",
		Long: `Shows the lines of kept output that match a regular expression, in which capital
and small letters are the same. It exits with 1 when there are none.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{"name the output to search, and what for", cmd.CommandPath() + " ID PATTERN"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			q := capture.Query{Pattern: args[1], Before: max(before, around), After: max(after, around), Limit: int64(r.limit)}
			if err := q.From.UnmarshalText([]byte(from)); err != nil {
				return &usageError{err.Error(), "as an earlier search said"}
			}
			return p.withArtifact(args[0], func(a *capture.Artifact) error { return p.search(a, &r, q) })
		},
	}
	r.flags(cmd)
	f := cmd.Flags()
	f.IntVarP(&before, "before", "B", 0, "show `N` lines before each match")
	f.IntVarP(&after, "after", "A", 0, "show `N` lines after each match")
	f.IntVarP(&around, "context", "C", 0, "show `N` lines before and after")
	f.StringVar(&from, "from", "", "go on at `PLACE`, where an earlier search ended")
	return cmd
}

func (p *program) search(a *capture.Artifact, r *reading, q capture.Query) error {
	ctx, stop := untilSignal()
	defer stop()
	done := p.progress("searching " + bytesText(a.Size()))
	m, err := r.reader(a).Search(ctx, q)
	done()
	if err != nil {
		return err
	}
	if m.Total == 0 {
		p.code = exitNothing
	}
	if r.json {
		return printJSON(m)
	}
	text := m.Text(a.ID())
	if !m.Complete() {
		if next, err := m.Next.MarshalText(); err == nil {
			text += fmt.Sprintf("\nmore: --from %s\n", next)
		}
	}
	_, err = os.Stdout.WriteString(text)
	return err
}

func (p *program) artifactsPrune() *cobra.Command {
	var all bool
	var ids []string
	cmd := &cobra.Command{
		Use: "prune [options] [ID...]", Short: "Remove kept output",
		Long: `Removes the output that is named, or all of it that is past its age (7 days) or
too much (8 GiB), and the records of background commands that ended long ago.
What is still written stays.`,
		RunE: func(_ *cobra.Command, args []string) error {
			ids = args
			if all && len(ids) > 0 {
				return &usageError{"--all and names exclude each other", "leave one of them out"}
			}
			return p.withStore(func(s *capture.Store) error { return p.prune(s, ids, all) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all but what is still written, and all commands that have ended")
	return cmd
}

func (p *program) prune(s *capture.Store, ids []string, all bool) error {
	if len(ids) > 0 {
		var errs []error
		for _, what := range ids {
			id, err := capture.ParseID(what)
			if err == nil {
				err = s.Remove(id)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	d, err := p.background()
	if err != nil {
		return err
	}
	keep := background.Keep{}
	prune := s.Prune
	if all {
		keep.Age = time.Nanosecond
		prune = func() (capture.Pruned, error) { return s.Clear() }
	}
	n, err := d.Sweep(keep)
	pruned, perr := prune()
	if !p.quiet {
		fmt.Printf("removed %d outputs, %s, and %d commands that had ended\n", len(pruned.IDs), bytesText(pruned.Bytes), n)
	}
	return errors.Join(err, perr)
}

// progressAfter is how long something takes before its progress is shown.
const progressAfter = 300 * time.Millisecond

// progress says on a terminal that something takes its time, until the function
// that it returns is called.
func (p *program) progress(what string) (done func()) {
	if p.quiet || !isTerminal(os.Stderr) || plain() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		begin := time.Now()
		tick := time.NewTicker(progressAfter)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				shown = true
				_, _ = os.Stderr.WriteString("\r\x1b[K" + what + ", " + brief(time.Since(begin)))
			case <-ctx.Done():
				if shown {
					_, _ = os.Stderr.WriteString("\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
