package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/environ"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ask are the options that say what is to be run, and how.
type ask struct {
	box
	cwd, script, shell, stdin string
	env, unset, passEnv       []string
	noScrub, noHarden         bool

	timeout, soft, idle, killAfter span
	leftover                       string

	maxBytes   size
	keep       string
	merge, pty bool
	noSave     bool
	// mayNotSave says that it is run also where there is no place for its output.
	mayNotSave bool
	json       bool
}

// Sections of the help.
const (
	groupRun    = "What is run:"
	groupTime   = "How it ends:"
	groupOutput = "What it prints:"
	groupHosts  = "What hosts may ask for:"
)

// group puts the flags that add adds into a section of the help.
func group(f *pflag.FlagSet, title string, add func(*pflag.FlagSet)) {
	section := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(section)
	section.VisitAll(func(fl *pflag.Flag) {
		fl.Annotations = map[string][]string{groupKey: {title}}
		f.AddFlag(fl)
	})
}

func (a *ask) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.SetInterspersed(false)
	group(f, groupRun, func(f *pflag.FlagSet) {
		f.StringVar(&a.cwd, "chdir", "", "run it in `DIR`: by default this folder, or the worktree where this folder isn't in it")
		f.StringVar(&a.script, "script", "", "run the shell commands in `FILE`, or - for standard input")
		f.StringVar(&a.shell, "shell", "", "`SHELL` with its options, such as 'bash -o pipefail'")
		f.StringVar(&a.stdin, "stdin", "", "give it `FILE`, or - for standard input; by default it reads nothing")
		a.envFlags(f)
		f.BoolVar(&a.pty, "pty", false, "give it a terminal of its own; what is typed at this one goes there")
	})
	group(f, groupTime, func(f *pflag.FlagSet) {
		f.Var(&a.timeout, "timeout", "end it after `TIME`, such as 90, 90s or 1h, or none")
		f.Var(&a.idle, "idle-timeout", "end it when it has printed nothing for `TIME`")
		f.Var(&a.killAfter, "kill-after", "how long it has from SIGTERM to SIGKILL (3s)")
		f.StringVar(&a.leftover, "leftover", "", "`WHAT` becomes of what it leaves: kill (default), report or adopt")
	})
	group(f, groupOutput, func(f *pflag.FlagSet) {
		f.Var(&a.maxBytes, "max-bytes", "keep so many `BYTES` of each stream in the result (10K)")
		f.StringVar(&a.keep, "keep", "", "`PART` of longer output to keep in the result: head+tail (default), head or tail")
		f.BoolVar(&a.merge, "merge", a.merge, "make standard output and standard error one stream")
		f.BoolVar(&a.noSave, "no-save", false, "don't keep output on disk")
		f.BoolVar(&a.json, "json", false, "print the result, as JSON")
	})
	a.box.flags(f)
}

// envFlags are the options about the environment.
func (a *ask) envFlags(f *pflag.FlagSet) {
	f.Var((*variables)(&a.env), "env", "set a variable, `NAME=VALUE`")
	f.StringArrayVar(&a.unset, "unsetenv", nil, "remove the variable `NAME`")
	f.StringArrayVar(&a.passEnv, "pass-env", nil, "let it have `NAME`, although that looks like a credential; * stands for anything")
	f.BoolVar(&a.noScrub, "no-scrub", false, "let it have all credentials of the environment")
	f.BoolVar(&a.noHarden, "no-harden", false, "leave pagers, editors, prompts and colours as they are")
}

// check says what is wrong with the request, where that is better found here than
// by who makes it.
func (a *ask) check(cmd *cobra.Command, args []string) error {
	_, stdin, err := a.request(cmd, args)
	if err == nil && stdin != nil && stdin != os.Stdin {
		_ = stdin.Close()
	}
	return err
}

// request turns the options and operands into a request. Standard input, if it
// is wanted, is opened and has to be closed.
func (a *ask) request(cmd *cobra.Command, args []string) (q runner.Request, stdin io.ReadCloser, err error) {
	q = runner.Request{
		Env: a.env, Unset: a.unset,
		Timeout: time.Duration(a.timeout), SoftTimeout: time.Duration(a.soft), IdleTimeout: time.Duration(a.idle),
		Leftover: runner.Leftover(a.leftover), Keep: runner.Keep(a.keep), Merge: a.merge, Budget: int(a.maxBytes),
	}
	if a.cwd != "" {
		if q.Dir, err = filepath.Abs(a.cwd); err != nil {
			return q, nil, err
		}
	}
	if a.pty {
		size := sizeOf(os.Stdin)
		q.Terminal = &size
	}
	if a.killAfter != 0 {
		q.Stop = []runner.StopStep{{Signal: syscall.SIGTERM, Wait: max(0, time.Duration(a.killAfter))}}
	}
	if a.shell != "" {
		if q.Shell = strings.Fields(a.shell); len(q.Shell) == 0 {
			return q, nil, &usageError{"--shell is empty", "such as --shell 'bash -o pipefail'"}
		}
	}
	if err := a.command(cmd, args, &q); err != nil {
		return q, nil, err
	}
	if a.stdin != "" {
		if stdin, err = a.input(); err != nil {
			return q, nil, err
		}
		q.OpenStdin = true
	}
	return q, stdin, nil
}

// command takes what is to be run: one operand is a shell command, several are
// a program and its arguments, and so is what comes after --.
func (a *ask) command(cmd *cobra.Command, args []string, q *runner.Request) error {
	dashes := cmd.ArgsLenAtDash() == 0
	switch {
	case a.script != "" && len(args) > 0:
		return &usageError{"both --script and a command are given", "leave one of them out"}
	case a.script != "":
		text, err := readScript(a.script)
		if err != nil {
			return err
		}
		q.Command, q.Transport, q.Label = text, runner.TransportFD, a.script
	case len(args) == 0:
		return &usageError{
			"there is nothing to run",
			cmd.CommandPath() + " 'shell command', or " + cmd.CommandPath() + " -- program argument...",
		}
	case len(args) == 1 && !dashes:
		q.Command = args[0]
	default:
		if !dashes && strings.ContainsAny(args[0], " \t\n;|&<>$") {
			return &usageError{
				fmt.Sprintf("%q is no program, and more comes after it", args[0]),
				"options come before the command; a shell command is one argument, in quotes",
			}
		}
		q.Argv = args
	}
	if a.shell != "" && q.Argv != nil {
		return &usageError{"--shell is for shell commands, and this is a program with arguments", "quote the command as a whole"}
	}
	return nil
}

// maxScript is how long a script may be.
const maxScript = 16 << 20

func readScript(name string) (string, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
	}
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err == nil && len(text) > maxScript {
		err = errors.New("the script is longer than 16 MiB")
	}
	return string(text), err
}

func (a *ask) input() (io.ReadCloser, error) {
	if a.stdin != "-" {
		return os.Open(a.stdin)
	}
	if a.script == "-" {
		return nil, &usageError{"standard input can't be both the script and the command's input", "put one of them into a file"}
	}
	return os.Stdin, nil
}

// scrub and hardening say what is done to the environment.
func (a *ask) scrub() environ.Scrub { return environ.Scrub{Off: a.noScrub, Allow: a.passEnv} }

func (a *ask) hardening() environ.Hardening { return environ.Hardening{Off: a.noHarden} }

// supervisor is what stays with a command. With it, nothing is left of a
// command, also when this program is killed; so there is none when something is
// to be left.
func (a *ask) supervisor() string {
	if l := runner.Leftover(a.leftover); l == runner.LeftoverReport || l == runner.LeftoverAdopt {
		return ""
	}
	return local.Self
}
