package cli

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p *program) runCommand() *cobra.Command {
	a := &ask{mayNotSave: true}
	summary := false
	cmd := &cobra.Command{
		Use:   "run [options] 'shell command' | [--] program [argument...]",
		Short: "Run a command and wait for it",
		Long: `Runs a command, shows what it prints as it comes, and exits with its exit code.
One argument is a shell command; several are a program and its arguments, run
without a shell, and so is what comes after --. Options end where it begins.
Ctrl-C, SIGTERM and SIGHUP end it with everything it started; so does the end of
this program, however it comes.`,
		Example: `    runner run 'npm ci && npm test'
    runner run --timeout 10m --memory 2G -- make -j4 test
    runner run --json 'go vet ./...'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd, a, args, summary)
		},
	}
	a.flags(cmd.Flags())
	cmd.Flags().Lookup("timeout").Usage += " (2m)"
	group(cmd.Flags(), groupOutput, func(f *pflag.FlagSet) {
		f.BoolVar(&summary, summaryOption, false, "say at the end how it went, as is done at a terminal")
	})
	group(cmd.Flags(), groupTime, func(f *pflag.FlagSet) {
		f.Var(&a.soft, softOption, "stop waiting after `TIME`, and let it go on in the background")
	})
	return cmd
}

// Options of run that the supervisor of a command gets, too.
const (
	summaryOption = "summary"
	softOption    = "soft-timeout"
)

func (p *program) run(cmd *cobra.Command, a *ask, args []string, summary bool) error {
	if a.soft > 0 {
		return p.runSoft(cmd, a, args)
	}
	res, sig, err := p.runIt(cmd, a, args)
	if res == nil {
		if a.json {
			return p.failJSON(err)
		}
		return err
	}
	p.code = exitCode(res, sig)
	if a.json {
		if err := printJSON(res); err != nil {
			return err
		}
	}
	if err != nil && !res.HandedOff {
		return err
	}
	p.report(res, summary)
	return nil
}

// runIt runs a command to its end. The signal is the one that ended it from
// outside, 0 if none did. Without a result nothing has run.
func (p *program) runIt(cmd *cobra.Command, a *ask, args []string) (*runner.Result, syscall.Signal, error) {
	q, stdin, err := a.request(cmd, args)
	if err != nil {
		return nil, 0, err
	}
	caught := make(chan *interrupts, 1)
	go func() { caught <- catch() }() // which takes a while, for each signal
	eng, err := p.engine(a, nil)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = eng.close() }()
	var d *display
	if !a.json {
		if !a.pty { // whose screen is the command's
			d = p.newDisplay()
		}
		q.Stdout, q.Stderr = d.writer(os.Stdout), d.writer(os.Stderr)
	}
	spec, err := eng.Resolve(q)
	if err != nil {
		return nil, 0, err
	}
	signals := <-caught
	e, err := eng.Start(context.Background(), spec)
	if err != nil {
		if e == nil {
			return nil, 0, err
		}
		return e.Result(), 0, err
	}
	signals.watch(e, d.pause, func() { syscall.Exit(exitSignal + int(syscall.SIGINT)) })
	if stdin != nil {
		go feed(e, stdin, false)
	}
	d.watch(e)
	detach := func() {}
	if a.pty && stdin == nil && !a.json {
		detach = attach(e)
	}
	<-e.Done()
	detach()
	d.close()
	sig := signals.release()
	res := e.Result()
	return res, sig, res.Err
}

// feed gives the command an input to its end, and closes it unless it is to stay
// open.
func feed(e *runner.Execution, in io.Reader, keep bool) {
	_, _ = io.Copy(inputOf{e}, in) // what can't be read or written is the end of it
	if !keep {
		_ = e.CloseStdin()
	}
}

type inputOf struct{ e *runner.Execution }

func (w inputOf) Write(p []byte) (int, error) { return w.e.Write(p) }

// exitCode is what this program exits with after a command that has run. sig is
// the signal that this program was ended by.
func exitCode(r *runner.Result, sig syscall.Signal) int {
	switch {
	case !r.HandedOff:
		return exitCodeOf(r.Err)
	case r.TimedOut:
		return exitTimeout
	case sig != 0 && r.Aborted:
		return exitSignal + int(sig)
	case r.Signal != 0:
		return exitSignal + int(r.Signal)
	case r.ExitCode >= 0:
		return r.ExitCode
	}
	return exitFailed // nobody knows
}
