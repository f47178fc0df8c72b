package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sessionAsk are the options of a session.
type sessionAsk struct {
	startAsk
	bashrc bool
}

func (a *sessionAsk) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.SetInterspersed(false)
	group(f, "The session:", func(f *pflag.FlagSet) {
		f.StringVar(&a.cwd, "chdir", "", "begin in `DIR`, in place of this folder")
		f.StringVar(&a.shell, "shell", "", "`PATH` of bash")
		f.BoolVar(&a.bashrc, "bashrc", false, "give it the functions, aliases and options of ~/.bashrc")
		f.Var(&a.timeout, "timeout", "end a command after `TIME`, and the shell with it (2m), or none")
		a.envFlags(f)
	})
	a.box.flags(f)
}

// shellRequest is the request for a session's shell.
func (a *sessionAsk) shellRequest(r runner.Authority) (q runner.Request, err error) {
	q = runner.Request{
		Argv: []string{a.shell}, Label: "session", Env: a.env, Unset: a.unset, Timeout: runner.None,
		Stop: runner.Immediate, Leftover: runner.LeftoverKill,
	}
	if a.shell == "" {
		q.Argv = r.Shell[:1]
	}
	if a.cwd != "" {
		q.Dir, err = filepath.Abs(a.cwd)
	}
	return q, err
}

// commandTimeout is how long a command of a session has.
func (a *sessionAsk) commandTimeout() time.Duration {
	if a.timeout == 0 {
		return defaultCommand
	}
	return max(0, time.Duration(a.timeout))
}

// defaultCommand is how long a command of a session has unless somebody says
// otherwise: as long as one of run.
const defaultCommand = 2 * time.Minute

func (p *program) sessionCommand() *cobra.Command {
	a := &sessionAsk{}
	cmd := &cobra.Command{
		Use:   "session [options]",
		Short: "Run commands in one shell that stays",
		Long: `Runs the commands that are typed, or come from standard input, one after the
other in one confined bash: the folder, variables and functions of one are there
for the next. It exits with the exit code of the last one.

A session in the background takes commands from any program of its user's:

    id=$(runner session start)
    runner session run $id 'cd src && export DEBUG=1'
    runner session run $id 'make test'
    runner session end $id`,
		Args: noCommand,
		RunE: func(*cobra.Command, []string) error { return p.sessionHere(a) },
	}
	a.flags(cmd.Flags())
	cmd.Flags().BoolVar(&a.json, "json", false, "print how each command went, as a line of JSON")
	cmd.AddCommand(p.sessionStart(), p.sessionSupervise(), p.sessionRun(), p.sessionPs(), p.sessionEnd())
	return cmd
}

// startFlags are the options of a session in the background.
func (a *sessionAsk) startFlags(f *pflag.FlagSet) {
	a.flags(f)
	f.StringVar(&a.name, "name", "", "call it `NAME`, which can be used in place of its id")
	f.Var(&a.idle, "idle-timeout", "end it when nothing has run in it for `TIME`")
	f.BoolVar(&a.json, "json", false, "print its status, as JSON")
}

func (p *program) sessionStart() *cobra.Command {
	a := &sessionAsk{}
	cmd := &cobra.Command{
		Use:   "start [options]",
		Short: "Start a session in the background",
		Long: `Starts a session in the background and prints its id. It goes on until runner
session end, or runner kill, ends it with everything that was started in it.`,
		Args: noOperands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := p.background()
			if err != nil {
				return err
			}
			c, err := p.launch(cmd, d, &a.startAsk)
			if err != nil || c == nil {
				return err
			}
			if a.json {
				return printJSON(c.Status)
			}
			fmt.Println(c.ID)
			return nil
		},
	}
	a.startFlags(cmd.Flags())
	return cmd
}

func (p *program) sessionSupervise() *cobra.Command {
	a := &sessionAsk{}
	cmd := &cobra.Command{
		Use: superviseName, Hidden: true, Args: noOperands,
		RunE: func(*cobra.Command, []string) error {
			x := &shells{timeout: a.commandTimeout(), idle: max(0, time.Duration(a.idle)), bashrc: a.bashrc}
			return p.lookAfter(&a.ask, charge{name: a.name, request: a.shellRequest, config: x.instead, run: x.run})
		},
	}
	a.startFlags(cmd.Flags())
	return cmd
}

// instead makes a runner run sessions.
func (x *shells) instead(c *runner.Config) {
	if own, ok := c.Executor.(*local.Executor); ok {
		x.Executor, c.Executor = own, x
	}
}

// taskAsk are the options of a command for a session.
type taskAsk struct {
	cwd, script string
	timeout     span
	maxBytes    size
	merge, json bool
}

func (p *program) sessionRun() *cobra.Command {
	a := &taskAsk{}
	cmd := &cobra.Command{
		Use:   "run [options] ID [--] 'shell command' | program argument...",
		Short: "Run a command in a session",
		Long: `Runs a command in a session in the background, shows what it prints, and exits
with its exit code: 124 if its time was over, 125 if it could not be run, as
when another one runs there. Its standard input is empty. What ends it early, as
its timeout or Ctrl-C, ends the session's shell with it; the next command gets a
new one.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneID(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: p.completeCommands(runningSession),
		RunE: func(_ *cobra.Command, args []string) error {
			err := p.runInSession(a, args[0], args[1:])
			if err != nil && a.json {
				return p.failJSON(err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false)
	f.StringVar(&a.cwd, "chdir", "", "go to `DIR` before, and stay there")
	f.StringVar(&a.script, "script", "", "run the shell commands in `FILE`, or - for standard input")
	f.Var(&a.timeout, "timeout", "end it after `TIME`, in place of what the session has, or none")
	f.BoolVar(&a.merge, "merge", false, "make standard output and standard error one stream")
	f.Var(&a.maxBytes, "max-bytes", "keep so many `BYTES` of each stream in the result (10K)")
	f.BoolVar(&a.json, "json", false, "print the result, as JSON")
	return cmd
}

// text is what is to be run.
func (a *taskAsk) text(words []string) (string, error) {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	switch {
	case a.script != "" && len(words) > 0:
		return "", &usageError{"both --script and a command are given", "leave one of them out"}
	case a.script != "":
		return readScript(a.script)
	case len(words) == 0:
		return "", &usageError{"there is nothing to run", "runner session run ID 'shell command'"}
	case len(words) == 1:
		return words[0], nil
	}
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " "), nil
}

func (p *program) runInSession(a *taskAsk, id string, words []string) error {
	text, err := a.text(words)
	if err != nil {
		return err
	}
	c, err := p.find(id)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	t := background.Task{Text: text, Dir: a.cwd, Timeout: time.Duration(a.timeout)}
	var store *capture.Store
	if a.json {
		if store, err = p.store(); err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
	}
	got, err := a.watch(store, t, func(t background.Task) (*ran, error) {
		text, err := c.Run(ctx, t)
		if err != nil {
			return nil, sessionError(err)
		}
		var r ran
		return &r, json.Unmarshal(text, &r)
	}, printJSON)
	if err != nil {
		return err
	}
	p.code = got.Exit
	p.tellRan(got)
	return nil
}

// watch runs a command and shows what it prints, or tells the result with print.
func (a *taskAsk) watch(store *capture.Store, t background.Task, run func(background.Task) (*ran, error), print func(any) error) (*ran, error) {
	if !a.json {
		t.Stdout, t.Stderr = os.Stdout, os.Stderr
		if a.merge {
			t.Stderr = nil
		}
		return run(t)
	}
	budget := int(a.maxBytes)
	if budget == 0 {
		budget = runner.Medium
	}
	out := capture.New(capture.Options{Stdout: capture.HeadTail(budget), Merged: a.merge, Store: store, Label: t.Text})
	defer func() { _ = out.Close() }()
	t.Stdout, t.Stderr = out.Stdout, out.Stderr
	if a.merge {
		t.Stderr = nil
	}
	got, err := run(t)
	if err != nil {
		return nil, err
	}
	out.End()
	v := struct {
		*ran
		Stdout *runner.Output `json:"stdout"`
		Stderr *runner.Output `json:"stderr"`
		Merged *runner.Output `json:"merged"`
	}{ran: got}
	if a.merge {
		v.Merged = runner.OutputOf(out.Stdout)
	} else {
		v.Stdout, v.Stderr = runner.OutputOf(out.Stdout), runner.OutputOf(out.Stderr)
	}
	return got, print(v)
}

// tellRan says what is to be known of a command of a session.
func (p *program) tellRan(r *ran) {
	if p.quiet {
		return
	}
	if r.Lost != "" {
		say("note: the shell is a new one; of the one before: " + r.Lost)
	}
	if r.TimedOut {
		say("ended after its timeout")
		say("hint: --timeout TIME allows more, --timeout none any time")
	}
	if r.OutputCut {
		say("there may be more output, which wasn't waited for")
	}
	if r.Error != "" {
		say("error: " + r.Error)
	}
	if r.Ended {
		say("note: the shell ended with it; the next command gets a new one")
	}
}

// sessionError adds what would mend an error.
func sessionError(err error) error {
	switch {
	case errors.Is(err, background.ErrNoSession):
		return &hinted{err, "runner session start starts one; runner session ps lists those that run"}
	case errors.Is(err, background.ErrEnded), errors.Is(err, background.ErrGone):
		return &hinted{err, "runner session start starts another one"}
	}
	return err
}

func (p *program) sessionPs() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [options]",
		Short: "List sessions in the background",
		Long:  `Lists the sessions in the background, or with --all those that have ended, too.`,
		Args:  noOperands,
		RunE: func(*cobra.Command, []string) error {
			return p.ps(func(c *background.Command) bool { return c.Session }, all, asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&all, "all", "a", false, "list those that have ended, too")
	f.BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func (p *program) sessionEnd() *cobra.Command {
	return &cobra.Command{
		Use:   "end ID...",
		Short: "End sessions with everything that was started in them",
		Long: `Ends sessions with everything that was started in them, and returns when that is
done.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneID(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: p.completeCommands(runningSession),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, id := range args {
				c, err := p.find(id)
				if err == nil && !c.Session {
					err = &hinted{fmt.Errorf("%s: %w", id, background.ErrNoSession), "runner kill ends it"}
				}
				if err != nil {
					return err
				}
			}
			return p.kill(args, false, nil, killPatience)
		},
	}
}
