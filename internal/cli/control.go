package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/pty"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// writeAsk are the options of write.
type writeAsk struct {
	file      string
	keys      []string
	eof, bare bool
}

func (p *program) writeCommand() *cobra.Command {
	a := &writeAsk{}
	cmd := &cobra.Command{
		Use:   "write [options] ID [text...]",
		Short: "Write to a background command's standard input or terminal",
		Long: `Writes a line to the standard input of a background command that was started
with --interactive, or to the terminal of one that was started with --pty. There
keys can be pressed, too: --key Ctrl-C, --key Up --key Enter.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneID(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: p.completeCommands(running),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := p.find(args[0])
			if err != nil {
				return err
			}
			ctx, stop := untilSignal()
			defer stop()
			return controlError(a.write(ctx, c, args[1:]))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&a.file, "file", "", "write the content of `FILE`, or - for standard input")
	f.StringArrayVar(&a.keys, "key", nil, "press the key `NAME`, after the text, which gets no newline then: Enter, Tab, Escape, Up, PageDown, F1, Ctrl-C, Alt-x and so on")
	f.BoolVarP(&a.bare, "no-newline", "n", false, "write no newline after the text")
	f.BoolVar(&a.eof, "eof", false, "close the input afterwards")
	return cmd
}

// pressed is what the keys send.
func (a *writeAsk) pressed() (text []byte, err error) {
	for _, name := range a.keys {
		b, err := pty.Key(name)
		if err != nil {
			return nil, &usageError{err.Error(), "such as Enter, Tab, Escape, Up, PageDown, F1, Ctrl-C, Alt-x"}
		}
		text = append(text, b...)
	}
	return text, nil
}

func (a *writeAsk) write(ctx context.Context, c *background.Command, words []string) error {
	keys, err := a.pressed()
	switch {
	case err != nil:
		return err
	case a.file != "" && len(words) > 0:
		return &usageError{"both --file and a text are given", "leave one of them out"}
	case a.file == "" && len(words) == 0 && !a.eof && len(keys) == 0:
		return &usageError{"there is nothing to write", "runner write ID 'a line', or --file FILE, or --key NAME"}
	case a.file != "":
		in := os.Stdin
		if a.file != "-" {
			if in, err = os.Open(a.file); err != nil {
				return err
			}
			defer func() { _ = in.Close() }()
		}
		if _, err := io.Copy(writerTo{ctx, c}, in); err != nil {
			return err
		}
	}
	text := []byte(strings.Join(words, " "))
	if len(words) > 0 && !a.bare && len(keys) == 0 {
		text = append(text, '\n')
	}
	if text = append(text, keys...); len(text) > 0 {
		if err := c.Write(ctx, text); err != nil {
			return err
		}
	}
	if a.eof {
		return c.CloseStdin(ctx)
	}
	return nil
}

type writerTo struct {
	ctx context.Context
	c   *background.Command
}

func (w writerTo) Write(b []byte) (int, error) {
	if err := w.c.Write(w.ctx, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// controlError adds what would mend an error.
func controlError(err error) error {
	switch {
	case errors.Is(err, runner.ErrNoStdin):
		return &hinted{err, "start it with --interactive to write to it"}
	case errors.Is(err, background.ErrEnded):
		return &hinted{err, "runner logs ID shows what it printed"}
	}
	return err
}

// defaultWait bounds a wait for which nobody gave a bound.
const defaultWait = 10 * time.Minute

func (p *program) waitCommand() *cobra.Command {
	var within span
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "wait [options] ID",
		Short: "Wait for a background command to end",
		Long: `Waits until a background command has ended, and exits as runner run would have:
with its exit code, or 124 if its time was over. If the wait takes too long it
also exits with 124, and the command goes on.`,
		Args: oneID, ValidArgsFunction: p.completeCommands(anyState),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := p.find(args[0])
			if err != nil {
				return err
			}
			return p.wait(c, time.Duration(within), asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&within, "timeout", "wait no longer than `TIME` (10m), or none for any time")
	f.BoolVar(&asJSON, "json", false, "print the status with the result, as JSON")
	return cmd
}

func (p *program) wait(c *background.Command, within time.Duration, asJSON bool) error {
	ctx, stop := untilSignal()
	defer stop()
	if within == 0 {
		within = defaultWait
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	err := c.Wait(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.code = exitTimeout
		if !p.quiet {
			say("it still runs after " + within.String())
		}
	case ctx.Err() != nil:
		p.code = exitSignal + int(syscall.SIGINT)
	case err != nil:
		return err
	default:
		p.code = p.tellEnd(c)
	}
	if asJSON {
		return printJSON(c.Status)
	}
	return nil
}

// tellEnd says how a command ended, and returns the exit code.
func (p *program) tellEnd(c *background.Command) int {
	if !p.quiet {
		for _, r := range c.Remarks {
			say(r)
		}
		if c.State == background.Lost || isTerminal(os.Stderr) {
			say(c.Outcome)
		}
	}
	if c.Exit == nil {
		return exitFailed
	}
	return *c.Exit
}

func (p *program) killCommand() *cobra.Command {
	var name string
	var now, all bool
	var after, patience span
	cmd := &cobra.Command{
		Use:   "kill [options] ID...",
		Short: "End background commands with everything they started",
		Long: `Ends background commands with everything they started, and returns when that is
done: by SIGTERM, and by SIGKILL after a while. One that has ended already is
left alone.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return &usageError{"--all and names exclude each other", "leave one of them out"}
			case !all && len(args) == 0:
				return &usageError{"name the commands to end", cmd.CommandPath() + " ID..., or --all"}
			}
			return nil
		},
		ValidArgsFunction: p.completeCommands(running),
		RunE: func(_ *cobra.Command, args []string) error {
			steps, err := stopSteps(name, now, time.Duration(after))
			if err != nil {
				return err
			}
			if patience == 0 {
				patience = span(killPatience)
			}
			return p.kill(args, all, steps, max(0, time.Duration(patience)))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&name, "signal", "s", "", "begin with `SIGNAL`, such as INT")
	f.Var(&after, "kill-after", "how long it has then, until SIGKILL (3s)")
	f.BoolVar(&now, "now", false, "kill at once")
	f.Var(&patience, "patience", "kill a supervisor that hasn't answered `TIME` after that (20s)")
	f.BoolVar(&all, "all", false, "end all that run")
	return cmd
}

// stopSteps is how commands are to be ended; nil is their own way.
func stopSteps(name string, now bool, after time.Duration) ([]runner.StopStep, error) {
	if now {
		if name != "" || after != 0 {
			return nil, &usageError{"--now excludes --signal and --kill-after", "leave it out"}
		}
		return runner.Immediate, nil
	}
	if name == "" && after == 0 {
		return nil, nil
	}
	step := runner.DefaultStop[0]
	if after != 0 {
		step.Wait = max(0, after)
	}
	if name != "" {
		n, err := strconv.Atoi(name)
		if err != nil {
			n = int(unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")))
		}
		if n <= 0 || n > 64 {
			return nil, &usageError{fmt.Sprintf("%q isn't a signal", name), "such as INT, TERM, HUP"}
		}
		step.Signal = syscall.Signal(n)
	}
	return []runner.StopStep{step}, nil
}

// killPatience is how long a supervisor has to answer beyond the steps before
// it is killed itself, which ends its command too.
const killPatience = 20 * time.Second

func (p *program) kill(names []string, all bool, steps []runner.StopStep, patience time.Duration) error {
	d, err := p.background()
	if err != nil {
		return err
	}
	var targets []*background.Command
	var errs []error
	if all {
		list, err := d.List()
		if err != nil {
			return err
		}
		for _, c := range list {
			if !c.Final() {
				targets = append(targets, c)
			}
		}
	}
	for _, n := range names {
		c, err := p.find(n)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		targets = append(targets, c)
	}
	ctx, stop := untilSignal()
	defer stop()
	for _, c := range targets {
		if err := p.killOne(ctx, c, steps, patience); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (p *program) killOne(ctx context.Context, c *background.Command, steps []runner.StopStep, patience time.Duration) error {
	bound := patience
	for _, s := range steps {
		bound += s.Wait
	}
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	killed, err := c.Kill(within, steps)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		say("the supervisor of " + c.ID + " doesn't answer, and is killed")
		last, cancel := context.WithTimeout(ctx, killPatience)
		defer cancel()
		return c.KillSupervisor(last)
	}
	if err == nil && !killed && !p.quiet {
		say(c.ID + " had ended already: " + c.Outcome)
	}
	return err
}
