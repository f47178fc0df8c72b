// Command conformance finds out what a sandbox holds, by running programs in it
// that try to get out, and others that must work.
//
//	conformance [--launcher 'COMMAND'] [options]
//
// The command is what stands before the one that is to be confined, as in
//
//	conformance --launcher 'shofer-sandbox {tree} --'
//	conformance --launcher 'bwrap --ro-bind / / --dev-bind /dev /dev --bind {tree} {tree}'
//
// It should let programs write to {tree}, a linked worktree of a git repository
// that conformance makes, to as much of the repository {repo} as a commit in the
// worktree needs, and to /tmp; and read everything. It is run in the worktree.
// Quotes and backslashes are those of a shell. Without one the known launchers
// that are installed are compared.
//
// Each check is either a refusal, something that must not be possible, or a
// control, something that must. Refusals are held when the sandbox refused them,
// or let them go on in a world of their own that has no effect outside; controls
// are held when they work. Everything is first tried without any sandbox: what
// can't be done there either, by this user on this machine, is n.a.
//
// # Options
//
//	--run REGEXP   checks whose name, FAMILY/NAME, matches
//	--list         print the names of the checks
//	--known        the known launchers too
//	--ours FILE    the shofer-sandbox to use for those; default: bin/shofer-sandbox
//	--dir DIR      where to work; it should lie outside /tmp
//	--json         results as JSON
//	--verbose      each check, not only those that are broken
//
// # Exit status
//
// 0 when nothing is broken, 1 when something is; 2 for bad usage, 3 when a
// launcher doesn't run anything, 4 when conformance itself fails. A comparison of
// several launchers exits with 0 or 4.
//
// # Limitations
//
// What is checked is what the user who runs this can do; root can do more, so run
// it as both. The names of checks are stable, the list grows. It needs git.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

// parts are what this program is where it is started by itself.
var parts = map[string]func(args []string) int{
	"conformance-attack":    attack.Main,
	"conformance-bystander": bystanderMain,
	"conformance-contract":  contractMain,
	"conformance-environ":   environMain,
	"conformance-inside":    insideMain,
	"conformance-life":      lifeMain,
	"conformance-parent":    parentMain,
	"conformance-terminal":  terminalMain,
}

func main() {
	if os.Args[0] == attack.Name {
		os.Exit(attack.Main(os.Args[1:]))
	}
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			os.Exit(part(os.Args[2:]))
		}
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance: error:", err)
	}
	os.Exit(code)
}

// Exit codes.
const (
	exitBroken  = 1
	exitUsage   = 2
	exitRefused = 3
	exitFailed  = 4
)

type options struct {
	launchers           []launcher
	only                *regexp.Regexp
	known               bool
	ours                string
	dir                 string
	list, json, verbose bool
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("conformance", flag.ContinueOnError)
	set.Func("launcher", "`COMMAND` that confines; more than once", func(s string) error {
		l, err := parseLauncher(s)
		o.launchers = append(o.launchers, l)
		return err
	})
	only := set.String("run", "", "checks whose FAMILY/NAME matches `REGEXP`")
	set.BoolVar(&o.list, "list", false, "print the names of the checks")
	set.BoolVar(&o.known, "known", false, "the known launchers that are installed, too")
	set.StringVar(&o.ours, "ours", "bin/shofer-sandbox", "the shofer-sandbox `FILE` for those")
	set.StringVar(&o.dir, "dir", "", "work in `DIR`")
	set.BoolVar(&o.json, "json", false, "results as JSON")
	set.BoolVar(&o.verbose, "verbose", false, "each check")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("%q: no arguments are taken", set.Args())
	}
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(args []string) (int, error) {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return exitUsage, err
	}
	var checks []check
	for _, c := range allChecks() {
		if o.only.MatchString(c.String()) {
			checks = append(checks, c)
		}
	}
	if o.list {
		for _, c := range checks {
			fmt.Println(c, c.kind())
		}
		return 0, nil
	}
	if len(checks) == 0 {
		return exitUsage, errors.New("no check is called that")
	}
	if o.known || len(o.launchers) == 0 {
		o.launchers = append(o.launchers, knownLaunchers(o.ours)...)
	}
	s, err := newSuite(checks, o.dir)
	if err != nil {
		return exitFailed, err
	}
	reports := []report{}
	for _, l := range o.launchers {
		r, err := s.try(l)
		if err != nil {
			return exitFailed, err
		}
		reports = append(reports, r)
	}
	if err := print(os.Stdout, reports, o); err != nil {
		return exitFailed, err
	}
	return exitCode(reports), nil
}

// exitCode is that of the whole.
func exitCode(reports []report) int {
	switch {
	case len(reports) != 1:
		return 0
	case reports[0].Refused != "":
		return exitRefused
	case reports[0].count(broken) > 0:
		return exitBroken
	}
	return 0
}
