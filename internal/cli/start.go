package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// startAsk are the options of start.
type startAsk struct {
	ask
	name        string
	interactive bool
	ready       ready
}

func (a *startAsk) flags(f *pflag.FlagSet) {
	a.merge = true
	a.ask.flags(f)
	for _, name := range []string{"no-save"} {
		f.Lookup(name).Hidden = true
	}
	f.Lookup("json").Usage = "print its status, as JSON"
	f.Lookup("pty").Usage = "give it a terminal of its own, for runner write and runner read"
	group(f, groupRun, func(f *pflag.FlagSet) {
		f.StringVar(&a.name, "name", "", "call it `NAME`, which can be used in place of its id")
		f.BoolVarP(&a.interactive, "interactive", "i", false, "leave its standard input open for runner write")
	})
	a.ready.flags(f)
}

// superviseName is the command that looks after one in the background. It has
// the options and operands of start.
const superviseName = "supervise-one"

func (p *program) startCommand() *cobra.Command {
	a := &startAsk{}
	cmd := &cobra.Command{
		Use:   "start [options] 'shell command' | [--] program [argument...]",
		Short: "Start a command in the background",
		Long: `Starts a command in the background and prints its id. It goes on when this
program has ended and the terminal is closed, until it ends, its time is over,
or runner kill ends it. It has no timeout unless one is given. What it prints is
kept: its two streams are one unless --merge=false keeps them apart.`,
		Example: `    runner start --name web --ready-port 8080 'npm run dev'
    runner read web
    runner kill web`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.start(cmd, a, args) },
	}
	a.flags(cmd.Flags())
	return cmd
}

// start starts a supervisor and waits until the command runs, or is ready.
func (p *program) start(cmd *cobra.Command, a *startAsk, args []string) error {
	d, err := p.background()
	if err != nil {
		return err
	}
	if err := a.check(cmd, args); err != nil {
		return err
	}
	if err := a.ready.before(); err != nil {
		return err
	}
	c, err := p.launch(cmd, d, a)
	if err != nil || c == nil {
		return err
	}
	if !a.json {
		fmt.Println(c.ID)
	}
	err = p.awaitReady(&a.ready, c)
	if a.json {
		return errors.Join(printJSON(c.Status), err)
	}
	return err
}

// launch starts a supervisor and returns what it looks after; nil if that didn't
// start, which the supervisor then has said.
func (p *program) launch(cmd *cobra.Command, d *background.Dir, a *startAsk) (*background.Command, error) {
	if _, err := d.Sweep(background.Keep{}); err != nil && !p.quiet {
		say("warning: " + err.Error()) // the command is none the worse
	}
	id, err := p.spawn(cmd, a)
	if err != nil || id == "" {
		return nil, err
	}
	return d.Find(id)
}

// spawn starts the supervisor and returns the id of its command. The id is empty
// if that didn't start, which the supervisor then has said.
func (p *program) spawn(cmd *cobra.Command, a *startAsk) (string, error) {
	// The supervisor lives on; nobody must wait for what it holds open.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return "", os.NewSyscallError("close_range", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	args := slices.Clone(os.Args)
	args[slices.Index(args, cmd.Name())] = superviseName
	// It outlives this program, whatever becomes of that.
	c := exec.Command("/proc/self/exe") //nolint:noctx // see above
	c.Args = args
	c.Stdout, c.Stderr, c.ExtraFiles = os.Stdout, os.Stderr, []*os.File{w}
	if a.stdin == "-" || a.script == "-" {
		c.Stdin = os.Stdin
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = c.Start()
	_ = w.Close()
	if err != nil {
		return "", err
	}
	var told struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(r).Decode(&told); err == nil {
		return told.ID, nil
	}
	err = c.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		p.code = exit.ExitCode()
		return "", nil
	case err != nil:
		return "", fmt.Errorf("the supervisor ended before the command ran: %w", err)
	}
	return "", errors.New("the supervisor ended before the command ran")
}

func (p *program) superviseCommand() *cobra.Command {
	a := &startAsk{}
	cmd := &cobra.Command{
		Use:    superviseName,
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return p.supervise(cmd, a, args) },
	}
	a.flags(cmd.Flags())
	cmd.Flags().Bool(summaryOption, false, "")
	cmd.Flags().Var(&a.soft, softOption, "")
	return cmd
}

// supervise looks after a command until it has ended.
func (p *program) supervise(cmd *cobra.Command, a *startAsk, args []string) error {
	timeout := runner.None
	if a.soft != 0 { // it is a run's, until that has waited long enough
		timeout, a.merge = 0, a.merge && cmd.Flags().Changed("merge")
	}
	q, stdin, err := a.request(cmd, args)
	if err != nil {
		return err
	}
	q.SoftTimeout = 0
	q.OpenStdin = q.OpenStdin || a.interactive
	return p.lookAfter(&a.ask, charge{
		request: func(runner.Authority) (runner.Request, error) { return q, nil },
		name:    a.name, keepStdin: stdin == os.Stdin,
		config: func(c *runner.Config) { c.Timeout = timeout },
		started: func(e *runner.Execution) {
			if stdin != nil {
				go feed(e, stdin, a.interactive)
			}
		},
	})
}

// charge is what is looked after in the background.
type charge struct {
	name      string
	request   func(runner.Authority) (runner.Request, error)
	config    func(*runner.Config)
	started   func(*runner.Execution)
	run       func(context.Context, background.Task) (json.RawMessage, error) // of a session
	keepStdin bool
}

// lookAfter starts what is asked for and stays until it has ended. The id goes
// to descriptor 3; errors before are said as usual.
func (p *program) lookAfter(a *ask, c charge) error {
	tell := os.NewFile(3, "told")
	unix.CloseOnExec(3)
	d, err := p.background()
	if err != nil {
		return err
	}
	eng, err := p.engine(a, func(config *runner.Config) {
		config.SaveAll = true
		c.config(config)
	})
	if err != nil {
		return err
	}
	defer func() { _ = eng.close() }()
	if err := capture.CheckOutside(d.Path(), eng.Authority().Writable...); err != nil {
		return &hinted{err, "keep commands elsewhere (--state DIR)"}
	}
	q, err := c.request(eng.Authority())
	if err != nil {
		return err
	}
	spec, err := eng.Resolve(q)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGHUP) // the terminal may go
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return d.Supervise(ctx, background.Job{
		Runner: eng.Runner, Spec: spec, Name: c.name, Run: c.run,
		Started: func(e *runner.Execution, s *background.Status) {
			if c.started != nil {
				c.started(e)
			}
			_ = json.NewEncoder(tell).Encode(s)
			_ = tell.Close()
			detach(c.keepStdin)
		},
		Sum: summarize,
	})
}

// summarize says how a command went.
func summarize(r *runner.Result) background.Summary {
	return background.Summary{Exit: exitCode(r, 0), Outcome: outcome(r), Remarks: remarks(r)}
}

// detach lets go of everything of the caller's: its terminal, its pipes, its
// folder.
func detach(keepStdin bool) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		if fd > 0 || !keepStdin {
			_ = unix.Dup3(null, fd, 0)
		}
	}
	_ = unix.Close(null)
	_ = os.Chdir("/")
}
