package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/mcpserver"
	"github.com/shofer-dev/shofer-sandbox/internal/rpc"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serving are the options of the commands that serve a host.
type serving struct {
	ask
	maxTimeout span
	maxRunning int
}

func (a *serving) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	group(f, groupHosts, func(f *pflag.FlagSet) {
		f.Var(&a.timeout, "timeout", "end a command for which nobody says otherwise after `TIME`")
		f.Var(&a.maxTimeout, "max-timeout", "let none run longer than `TIME` (1h)")
		f.Var(&a.soft, "soft-timeout", "answer after `TIME` and let the command go on in the background")
		f.IntVar(&a.maxRunning, "max-running", 64, "let at most `N` commands run at once")
		f.BoolVar(&a.noSave, "no-save", false, "don't keep output on disk")
	})
	group(f, groupRun, a.envFlags)
	a.box.flags(f)
}

// runnerConfig is how commands of a host are run.
func (p *program) runnerConfig(a *serving) (runner.Config, error) {
	c, err := p.config(&a.ask)
	if err != nil {
		return c, err
	}
	c.AllowNoTimeout, c.MaxTimeout, c.MaxRunning = false, 0, a.maxRunning
	if a.maxTimeout > 0 {
		c.MaxTimeout = time.Duration(a.maxTimeout)
	} else if a.maxTimeout != 0 {
		c.AllowNoTimeout, c.MaxTimeout = true, forever
	}
	c.Timeout, c.SoftTimeout = time.Duration(a.timeout), time.Duration(a.soft)
	c.Env = a.env
	return c, nil
}

// serve serves a host until it goes away.
func (p *program) serve(a *serving, serve func(context.Context, runner.Config) error) error {
	c, err := p.runnerConfig(a)
	if err != nil {
		return err
	}
	if c.Store != nil {
		defer func() { _ = c.Store.Close() }()
	}
	if isTerminal(os.Stdin) && !p.quiet {
		say("waits for a program's messages at standard input: hosts start it by themselves. Ctrl-D ends it")
	}
	ctx, stop := untilSignal()
	defer stop()
	err = serve(ctx, c)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // as it was told
	}
	return storeError(err, true)
}

func (p *program) mcpCommand() *cobra.Command {
	a := &serving{}
	redact := true
	cmd := &cobra.Command{
		Use:   "mcp [options]",
		Short: "Serve the Model Context Protocol",
		Long: `Lets a model run commands, by the Model Context Protocol over standard input and
output. What commands may do is fixed by the options; the model chooses the
command, its folder and its limits. All commands end with the input.`,
		Args: noOperands,
		RunE: func(*cobra.Command, []string) error {
			return p.serve(a, func(ctx context.Context, c runner.Config) error {
				mc := mcpserver.Config{Runner: c, Version: p.version}
				if redact {
					mc.Redact = capture.NewRedactor(nil, true)
				}
				return mcpserver.Serve(ctx, mc, os.Stdin, os.Stdout)
			})
		},
	}
	a.flags(cmd.Flags())
	cmd.Flags().Lookup("timeout").Usage += " (that of --max-timeout)"
	cmd.Flags().Lookup("soft-timeout").Usage += " (1m)"
	group(cmd.Flags(), groupHosts, func(f *pflag.FlagSet) {
		f.BoolVar(&redact, "redact", true, "hide what looks like a credential from the model")
	})
	return cmd
}

func (p *program) rpcCommand() *cobra.Command {
	a := &serving{}
	approve, schema := false, false
	cmd := &cobra.Command{
		Use:   "rpc [options]",
		Short: "Serve a host that speaks lines of JSON",
		Long: `Lets a host in any language run commands: it writes requests to standard input
and reads answers and events from standard output, a JSON object on each line.
All commands end with the input.`,
		Args: noOperands,
		RunE: func(*cobra.Command, []string) error {
			if schema {
				_, err := os.Stdout.Write(rpc.Schema())
				return err
			}
			return p.serve(a, func(ctx context.Context, c runner.Config) error {
				return rpc.Serve(ctx, rpc.Config{Runner: c, Approve: approve, Version: p.version}, os.Stdin, os.Stdout)
			})
		},
	}
	a.flags(cmd.Flags())
	cmd.Flags().Lookup("timeout").Usage += " (2m)"
	group(cmd.Flags(), groupHosts, func(f *pflag.FlagSet) {
		f.BoolVar(&approve, "approve", false, "ask the host before each start")
		f.BoolVar(&schema, "schema", false, "print the JSON Schema of the messages, and serve nobody")
	})
	return cmd
}
