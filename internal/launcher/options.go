package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/spf13/pflag"
)

// options are the command line, read.
type options struct {
	policy     policy.Policy
	backend    launch.Backend
	command    []string
	chdir      string
	statusFD   int // -1 without
	keepFDs    []int
	newSession bool

	help, version, explain, json bool
}

// usageError is a *launch.SetupError for a bad command line.
func usageError(why, hint string) error {
	return &launch.SetupError{Stage: launch.StageUsage, Err: &policy.Error{Why: why, Hint: hint}}
}

// parse reads the command line. Options end at the first operand. With an
// error it returns what it read until then, so that the error can be reported
// as the user asked.
func parse(args []string) (*options, error) {
	o := &options{statusFD: -1}
	var f flags
	set := f.define(o)
	if err := set.Parse(args); err != nil {
		return o, parseError(set, err)
	}
	if o.help || o.version {
		return o, nil
	}
	if err := noneEmpty(set); err != nil {
		return o, err
	}
	if err := f.apply(o, set); err != nil {
		return o, err
	}
	return o, o.operands(set.Args())
}

// noneEmpty refuses options with an empty value. It comes from a variable that
// isn't set, and would grant the current directory, or limit nothing.
func noneEmpty(set *pflag.FlagSet) (err error) {
	set.Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty {
			err = usageError("--"+f.Name+" is empty", "an unset variable? leave the option out, or give it a value")
		}
	})
	return err
}

// operands takes the worktree and the command.
func (o *options) operands(args []string) error {
	if len(args) == 0 {
		return usageError("the worktree directory is missing",
			"shofer-sandbox [options] <worktree-dir> [--] command [arg...]; see --help")
	}
	dir := args[0]
	if dir == "" {
		return usageError("the worktree directory is empty", "an unset variable? name a directory, such as .")
	}
	abs, err := absolute(dir)
	if err != nil {
		return &launch.SetupError{Stage: launch.StageUsage, Err: err}
	}
	if w := o.policy.Worktree; w != "" && w != abs {
		return usageError(fmt.Sprintf("the policy file names the worktree %q, and the command line %q", w, abs),
			"leave one of them out of the file, or make them the same")
	}
	o.policy.Worktree = abs

	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	switch {
	case o.explain:
	case o.json:
		return usageError("--json goes with --explain", "the status record of a run is JSON already: --status-fd")
	case len(rest) == 0:
		return usageError("the command is missing", "shofer-sandbox "+dir+" -- command [arg...]")
	case rest[0] == "":
		return usageError("the command is empty", "an unset variable? quote it and check")
	case strings.HasPrefix(rest[0], "-") && len(args) > 1 && args[1] != "--":
		return usageError(fmt.Sprintf("%q comes after the worktree directory, where the command begins", rest[0]),
			"put options before the directory, or write -- before a command with such a name")
	}
	o.command = rest
	return nil
}

// absolute makes a path of the command line absolute.
func absolute(path string) (policy.Path, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &policy.Error{
			Field: "path", Value: path, Why: "is relative, and the current directory does not exist (any more)",
			Hint: "cd to another directory, or give an absolute path", Err: err,
		}
	}
	return policy.Path(abs), nil
}

// flags are the values that need more than being stored.
type flags struct {
	policyFile                            string
	mode, net, backend, caps              string
	rw, rwCreate, read, unix              []string
	connectTCP, bindTCP                   []string
	connectUDP, bindUDP                   []string
	require, env, unset                   []string
	clearEnv, keepGit                     bool
	broad, noProtect, noCache, bestEffort bool
	allowSignals, allowAbstract           bool
}

func (f *flags) define(o *options) *pflag.FlagSet {
	s := pflag.NewFlagSet("shofer-sandbox", pflag.ContinueOnError)
	s.SetInterspersed(false)
	s.SortFlags = false
	s.Usage = func() {}

	s.StringVar(&f.policyFile, "policy", "", "")
	s.StringVar(&f.mode, "mode", "", "")
	s.StringArrayVar(&f.rw, "rw", nil, "")
	s.StringArrayVar(&f.rwCreate, "rw-create", nil, "")
	s.StringArrayVar(&f.read, "read", nil, "")
	s.BoolVar(&f.broad, "allow-broad", false, "")
	s.StringVar(&f.net, "net", "", "")
	s.StringArrayVar(&f.connectTCP, "connect-tcp", nil, "")
	s.StringArrayVar(&f.bindTCP, "bind-tcp", nil, "")
	s.StringArrayVar(&f.connectUDP, "connect-udp", nil, "")
	s.StringArrayVar(&f.bindUDP, "bind-udp", nil, "")
	s.StringArrayVar(&f.unix, "unix", nil, "")
	s.BoolVar(&f.allowSignals, "allow-signals", false, "")
	s.BoolVar(&f.allowAbstract, "allow-abstract-sockets", false, "")
	s.BoolVar(&f.noProtect, "no-protect", false, "")
	s.BoolVar(&f.noCache, "no-cache", false, "")
	s.StringArrayVar(&f.env, "env", nil, "")
	s.StringArrayVar(&f.unset, "unsetenv", nil, "")
	s.BoolVar(&f.clearEnv, "clear-env", false, "")
	s.BoolVar(&f.keepGit, "keep-git-env", false, "")
	s.StringVar(&f.caps, "caps", "", "")
	s.StringArrayVar(&f.require, "require", nil, "")
	s.BoolVar(&f.bestEffort, "best-effort", false, "")
	s.StringVar(&f.backend, "backend", "auto", "")

	s.StringVar(&o.chdir, "chdir", "", "")
	s.IntVar(&o.statusFD, "status-fd", -1, "")
	s.IntSliceVar(&o.keepFDs, "keep-fd", nil, "")
	s.BoolVar(&o.newSession, "new-session", false, "")
	s.BoolVar(&o.explain, "explain", false, "")
	s.BoolVar(&o.json, "json", false, "")
	s.BoolVar(&o.version, "version", false, "")
	s.BoolVarP(&o.help, "help", "h", false, "")
	return s
}

// apply adds the flags to the policy file, if there is one, or to the default
// policy.
func (f *flags) apply(o *options, set *pflag.FlagSet) error {
	p := policy.Policy{Mode: policy.WorkspaceWrite}
	if f.policyFile != "" {
		data, err := os.ReadFile(f.policyFile)
		if err != nil {
			return &launch.SetupError{Stage: launch.StagePolicy, Err: fmt.Errorf("policy file: %w", err)}
		}
		if p, err = policy.DecodeFile(f.policyFile, data); err != nil {
			return &launch.SetupError{Stage: launch.StagePolicy, Err: err}
		}
	}
	if set.Changed("mode") {
		p.Mode = policy.Mode(f.mode)
	}
	if set.Changed("net") {
		p.Network.Mode = policy.NetworkMode(f.net)
	}
	switch f.backend {
	case "auto", "":
	default:
		o.backend = launch.Backend(f.backend)
	}
	for _, list := range []struct {
		to     *[]policy.Path
		values []string
		preset bool
	}{{&p.Write, f.rw, false}, {&p.WriteCreate, f.rwCreate, false}, {&p.Read, f.read, true}, {&p.Unix, f.unix, true}} {
		for _, v := range list.values {
			path := policy.Path(v)
			if !list.preset || strings.Contains(v, "/") || v == "." || v == ".." {
				var err error
				if path, err = absolute(v); err != nil {
					return &launch.SetupError{Stage: launch.StageUsage, Err: err}
				}
			}
			*list.to = append(*list.to, path)
		}
	}
	for _, list := range []struct {
		name   string
		to     *[]uint16
		values []string
	}{
		{"connect-tcp", &p.Network.ConnectTCP, f.connectTCP},
		{"bind-tcp", &p.Network.BindTCP, f.bindTCP},
		{"connect-udp", &p.Network.ConnectUDP, f.connectUDP},
		{"bind-udp", &p.Network.BindUDP, f.bindUDP},
	} {
		if err := addPorts(list.to, list.name, list.values); err != nil {
			return err
		}
	}
	for _, r := range f.require {
		p.Require = append(p.Require, policy.Promise(r))
	}
	if set.Changed("caps") {
		p.Caps = splitList(f.caps)
	}
	p.Env.Set = append(p.Env.Set, f.env...)
	p.Env.Unset = append(p.Env.Unset, f.unset...)
	for _, b := range []struct {
		to   *bool
		from bool
	}{
		{&p.AllowBroad, f.broad}, {&p.NoProtect, f.noProtect}, {&p.NoCache, f.noCache},
		{&p.BestEffort, f.bestEffort}, {&p.Env.Clear, f.clearEnv}, {&p.Env.KeepGit, f.keepGit},
		{&p.IPC.AllowSignals, f.allowSignals}, {&p.IPC.AllowAbstract, f.allowAbstract},
	} {
		*b.to = *b.to || b.from
	}
	o.policy = p
	return o.checkDescriptors(set)
}

func (o *options) checkDescriptors(set *pflag.FlagSet) error {
	if set.Changed("status-fd") && o.statusFD < 3 {
		return usageError(fmt.Sprintf("--status-fd %d: 0, 1 and 2 belong to the command", o.statusFD), "use 3 or more")
	}
	for _, fd := range o.keepFDs {
		switch {
		case fd < 3:
			return usageError(fmt.Sprintf("--keep-fd %d: 0, 1 and 2 are always kept, and other numbers start at 3", fd), "")
		case fd == o.statusFD:
			return usageError(fmt.Sprintf("--keep-fd %d is the descriptor of --status-fd", fd), "give the command another one")
		}
	}
	return nil
}

// addPorts adds to a list of ports. The word none stands for the empty list.
func addPorts(to *[]uint16, name string, values []string) error {
	for _, v := range values {
		for _, word := range splitList(v) {
			if word == "none" {
				if *to == nil {
					*to = []uint16{}
				}
				continue
			}
			n, err := strconv.ParseUint(word, 10, 16)
			if err != nil {
				return usageError(fmt.Sprintf("--%s %q is not a port", name, word), "give numbers from 0 to 65535, or none")
			}
			*to = append(*to, uint16(n))
		}
	}
	return nil
}

// splitList splits at commas; an empty string is an empty list.
func splitList(s string) []string {
	if s == "" {
		return []string{}
	}
	return strings.Split(s, ",")
}

// planned are options of other versions, which must not be taken for a
// misspelling.
var planned = []string{
	"protect", "hide", "private-tmp", "strict-metadata", "restore", "verify",
	"supervise", "doctor", "memory", "swap", "pids", "cpus", "cpu-weight",
	"io-read", "io-write", "oom-score-adj", "nofile", "fsize", "core", "nice",
	"limits", "cgroup", "cgroup-parent",
}

// parseError says what is wrong with an option.
func parseError(set *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError(err.Error(), "see --help")
	}
	name := unknown.GetSpecifiedName()
	if slices.Contains(planned, name) {
		return usageError("--"+name+" is not available in this version", "")
	}
	var names []string
	set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := "see --help"
	if near := nearest.Word(name, names); near != "" {
		hint = "did you mean --" + near + "?"
	}
	if unknown.GetSpecifiedShortnames() != "" {
		return usageError("unknown option -"+name, hint)
	}
	return usageError("unknown option --"+name, hint)
}
