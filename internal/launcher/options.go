package launcher

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
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
	supervise  bool
	guardFD    int // -1 unless this process is the guard

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
	o := &options{statusFD: -1, guardFD: -1}
	var f flags
	set := f.define(o)
	if err := set.Parse(args); err != nil {
		if set.err != nil {
			return o, set.err
		}
		return o, parseError(set.FlagSet, stoppedAt(set.FlagSet, args))
	}
	if o.help || o.version {
		return o, nil
	}
	if err := f.apply(o); err != nil {
		return o, err
	}
	return o, o.operands(set.Args())
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

// flags are the values that need more than being stored. A pointer is nil
// unless the option was given.
type flags struct {
	policyFile, backend, mode, net, caps  *string
	rw, rwCreate, read, unix              []string
	connectTCP, bindTCP                   []string
	connectUDP, bindUDP                   []string
	require, env, unset                   []string
	clearEnv, keepGit                     bool
	broad, noProtect, noCache, bestEffort bool
	allowSignals, allowAbstract           bool
}

// flagSet defines options that refuse an empty value: it comes from a variable
// that isn't set, and would grant the current directory, or limit nothing. The
// standard library's flags are all that is needed here, and the cheapest: what
// the launcher links it pays for at each start.
type flagSet struct {
	*flag.FlagSet
	err error // of the value that stopped Parse
}

func (s *flagSet) each(name string, use func(v string) error) {
	s.Func(name, "", func(v string) error {
		if v == "" {
			s.err = usageError("--"+name+" is empty", "an unset variable? leave the option out, or give it a value")
		} else {
			s.err = use(v)
		}
		return s.err
	})
}

func (s *flagSet) value(to **string, name string) {
	s.each(name, func(v string) error { *to = &v; return nil })
}

func (s *flagSet) list(to *[]string, name string) {
	s.each(name, func(v string) error { *to = append(*to, v); return nil })
}

func (s *flagSet) bool(to *bool, name string) { s.BoolVar(to, name, false, "") }

// descriptor defines an option whose value is a descriptor above 2.
func (s *flagSet) descriptor(name string, use func(fd int)) {
	s.each(name, func(v string) error {
		fd, ok := atoi(v)
		if !ok || fd < 3 {
			return usageError(fmt.Sprintf("--%s %s: not the number of a descriptor above 2", name, v),
				"0, 1 and 2 are the command's in any case")
		}
		use(fd)
		return nil
	})
}

// define lists the options.
func (f *flags) define(o *options) *flagSet {
	s := &flagSet{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	s.SetOutput(io.Discard)
	s.Usage = func() {}

	s.value(&f.policyFile, "policy")
	s.value(&f.mode, "mode")
	s.list(&f.rw, "rw")
	s.list(&f.rwCreate, "rw-create")
	s.list(&f.read, "read")
	s.bool(&f.broad, "allow-broad")
	s.bool(&f.noCache, "no-cache")
	s.bool(&f.noProtect, "no-protect")

	s.value(&f.net, "net")
	s.list(&f.connectTCP, "connect-tcp")
	s.list(&f.bindTCP, "bind-tcp")
	s.list(&f.connectUDP, "connect-udp")
	s.list(&f.bindUDP, "bind-udp")
	s.list(&f.unix, "unix")
	s.bool(&f.allowSignals, "allow-signals")
	s.bool(&f.allowAbstract, "allow-abstract-sockets")

	s.list(&f.env, "env")
	s.list(&f.unset, "unsetenv")
	s.bool(&f.clearEnv, "clear-env")
	s.bool(&f.keepGit, "keep-git-env")
	s.each("chdir", func(v string) error { o.chdir = v; return nil })
	s.descriptor("keep-fd", func(fd int) { o.keepFDs = append(o.keepFDs, fd) })
	s.value(&f.caps, "caps")
	s.bool(&o.newSession, "new-session")
	s.bool(&o.supervise, "supervise")
	s.descriptor(guardOption, func(fd int) { o.guardFD = fd })

	s.list(&f.require, "require")
	s.bool(&f.bestEffort, "best-effort")
	s.value(&f.backend, "backend")

	s.descriptor("status-fd", func(fd int) { o.statusFD = fd })
	s.bool(&o.explain, "explain")
	s.bool(&o.json, "json")
	s.bool(&o.version, "version")
	s.bool(&o.help, "help")
	s.bool(&o.help, "h")
	return s
}

// guardOption is how the launcher starts itself as the guard. It isn't for
// users.
const guardOption = "guard-fd"

// apply adds the flags to the policy file, if there is one, or to the default
// policy.
func (f *flags) apply(o *options) error {
	p := policy.Policy{Mode: policy.WorkspaceWrite}
	if f.policyFile != nil {
		data, err := os.ReadFile(*f.policyFile)
		if err != nil {
			return &launch.SetupError{Stage: launch.StagePolicy, Err: fmt.Errorf("policy file: %w", err)}
		}
		if p, err = policy.DecodeFile(*f.policyFile, data); err != nil {
			return &launch.SetupError{Stage: launch.StagePolicy, Err: err}
		}
	}
	if f.mode != nil {
		p.Mode = policy.Mode(*f.mode)
	}
	if f.net != nil {
		p.Network.Mode = policy.NetworkMode(*f.net)
	}
	if f.caps != nil {
		p.Caps = splitList(*f.caps)
	}
	if f.backend != nil && *f.backend != "auto" {
		o.backend = launch.Backend(*f.backend)
	}
	if err := f.addPaths(&p); err != nil {
		return err
	}
	for _, l := range []struct {
		name   string
		to     *[]uint16
		values []string
	}{
		{"connect-tcp", &p.Network.ConnectTCP, f.connectTCP},
		{"bind-tcp", &p.Network.BindTCP, f.bindTCP},
		{"connect-udp", &p.Network.ConnectUDP, f.connectUDP},
		{"bind-udp", &p.Network.BindUDP, f.bindUDP},
	} {
		if err := addPorts(l.to, l.name, l.values); err != nil {
			return err
		}
	}
	for _, r := range f.require {
		p.Require = append(p.Require, policy.Promise(r))
	}
	p.Env.Set = append(p.Env.Set, f.env...)
	p.Env.Unset = append(p.Env.Unset, f.unset...)
	for _, b := range []struct {
		to   *bool
		from bool
	}{
		{&p.AllowBroad, f.broad},
		{&p.NoProtect, f.noProtect},
		{&p.NoCache, f.noCache},
		{&p.BestEffort, f.bestEffort},
		{&p.Env.Clear, f.clearEnv},
		{&p.Env.KeepGit, f.keepGit},
		{&p.IPC.AllowSignals, f.allowSignals},
		{&p.IPC.AllowAbstract, f.allowAbstract},
	} {
		*b.to = *b.to || b.from
	}
	o.policy = p
	if slices.Contains(o.keepFDs, o.statusFD) {
		return usageError(fmt.Sprintf("--keep-fd %d is the descriptor of --status-fd", o.statusFD), "give the command another one")
	}
	return nil
}

// addPaths adds the paths of the command line, made absolute. A preset stays
// as it is; a path that is called like one can be written with a slash.
func (f *flags) addPaths(p *policy.Policy) error {
	for _, l := range []struct {
		to      *[]policy.Path
		values  []string
		presets []policy.Path
	}{
		{&p.Write, f.rw, nil},
		{&p.WriteCreate, f.rwCreate, nil},
		{&p.Read, f.read, []policy.Path{policy.ReadSystem}},
		{&p.Unix, f.unix, []policy.Path{policy.UnixSSHAgent, policy.UnixGPGAgent}},
	} {
		for _, v := range l.values {
			path := policy.Path(v)
			if !slices.Contains(l.presets, path) {
				var err error
				if path, err = absolute(v); err != nil {
					return &launch.SetupError{Stage: launch.StageUsage, Err: err}
				}
			}
			*l.to = append(*l.to, path)
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
	"doctor", "memory", "swap", "pids", "cpus", "cpu-weight",
	"io-read", "io-write", "oom-score-adj", "nofile", "fsize", "core", "nice",
	"limits", "cgroup", "cgroup-parent",
}

// stoppedAt returns the argument that Parse didn't like: the one before those
// that are left, or the first of these if it doesn't even look like an option.
func stoppedAt(set *flag.FlagSet, args []string) string {
	if set.NArg() > 0 {
		arg := set.Arg(0)
		if name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"); name != "" && name != arg && strings.ContainsAny(name[:1], "-=") {
			return arg
		}
	}
	return args[len(args)-set.NArg()-1]
}

// parseError says what is wrong with an option, as it was given.
func parseError(set *flag.FlagSet, arg string) error {
	name, _, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	if set.Lookup(name) != nil {
		if hasValue { // all that take a value take any
			return usageError("option --"+name+" takes no value", "")
		}
		return usageError("option --"+name+" needs a value", "see --help")
	}
	if slices.Contains(planned, name) {
		return usageError("--"+name+" is not available in this version", "")
	}
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	hint := "see --help"
	if near := nearest.Word(name, names); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return usageError("unknown option "+arg, hint)
}
