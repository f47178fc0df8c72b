// Package cli is the program runner: commands that run confined, with
// timeouts, ended with everything they started, in the foreground or in the
// background, and their output kept for reading.
//
// Its rules: standard output belongs to the command that is run, or to what was
// asked for; what the program itself has to say goes to standard error and
// begins with "runner: ", or "hint: ". Options end at the first operand. Errors
// are returned up to [Main], which turns them into a line, a hint and an exit
// code.
package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is one run of the program.
type program struct {
	version string
	state   string // --state
	quiet   bool
	// code is the exit code when there is no error.
	code int
}

// Main runs the program. args are the arguments without the program's name,
// version is what --version prints. It returns the exit code.
func Main(args []string, version string) int {
	if len(args) > 0 && args[0] == "help" { // as others have it
		args = append(slices.Clone(args[1:]), "--help")
	}
	p := &program{version: version}
	root := p.root(args)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return p.fail(err)
	}
	return p.code
}

// root makes the command line that args need: all of it takes a while, and is
// wanted by those who ask for help or complete.
func (p *program) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "runner",
		Short: "Run commands confined, and tell the truth about them",
		Long: `Runs commands that may read everything but change files only in a worktree and
where you let them; ends them in time, with everything they started; keeps what
they print, for reading.`,
		Example: `    runner run 'npm test'
    runner start --name web 'npm run dev'
    runner read web`,
		Version:       p.version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(help)
	root.SetVersionTemplate("runner {{.Version}}\n")
	everywhere := root.PersistentFlags()
	everywhere.StringVar(&p.state, "state", "", "keep output and background commands in `DIR`, in place of $XDG_STATE_HOME/shofer-sandbox")
	everywhere.BoolVarP(&p.quiet, "quiet", "q", false, "say nothing but errors")
	makers := []func() *cobra.Command{
		p.runCommand, p.startCommand, p.superviseCommand, p.psCommand, p.readCommand, p.writeCommand,
		p.waitCommand, p.killCommand, p.logsCommand, p.sessionCommand, p.resolveCommand, p.artifactsCommand,
		p.mcpCommand, p.rpcCommand, p.doctorCommand, func() *cobra.Command { return p.completionCommand(root) },
	}
	if i := slices.Index(commandNames, commandOf(everywhere, args)); i >= 0 {
		makers = makers[i : i+1]
	}
	for _, make := range makers {
		root.AddCommand(make())
	}
	return root
}

// commandNames are those of the commands, in the order in which root makes them.
var commandNames = []string{
	"run", "start", superviseName, "ps", "read", "write", "wait", "kill", "logs", "session", "resolve", "artifacts",
	"mcp", "rpc", "doctor", "completion",
}

// commandOf returns the first operand, "" if that can't be told.
func commandOf(everywhere *pflag.FlagSet, args []string) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.Usage = func() {}
	everywhere.VisitAll(func(fl *pflag.Flag) {
		own := *fl
		own.Value = &ignored{fl.Value}
		f.AddFlag(&own)
	})
	if f.Parse(args) != nil {
		return ""
	}
	return f.Arg(0)
}

// ignored is an option that isn't set by being looked at.
type ignored struct{ pflag.Value }

func (ignored) Set(string) error { return nil }
