package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// options are the command line, read.
type options struct {
	policy     policy.Policy
	backend    launch.Backend
	bwrap      string // zero is one of the usual places
	command    []string
	dashes     bool // -- stood before the command
	chdir      string
	statusFD   int // -1 without
	keepFDs    []int
	newSession bool
	supervise  bool
	linger     time.Duration
	parent     int // 0 is the process that started this one
	restore    bool
	trace      bool
	quiet      bool
	guardFD    int // -1 unless this process is the guard
	// forks says that the command gets a guard that is a copy of this process.
	forks bool
	// policyFile is the text of the policy file. The guard gets it from the
	// process before it, in guardPolicy: the file may be a pipe, or change.
	policyFile  []byte
	guardPolicy int // -1 without
	scopeFD     int // -1 unless this process has been started in a scope

	// why is the path of --why, and op what is asked of it.
	why string
	op  policy.Op

	help, version, explain, json bool
	doctor, verify               bool
}

// form is how a command is run.
const form = "shofer-sandbox [options] <worktree-dir> [--] command [arg...]"

// usageError is a *launch.SetupError for a bad command line.
func usageError(why, hint string) error {
	return &launch.SetupError{Stage: launch.StageUsage, Err: &policy.Error{Why: why, Hint: hint}}
}

func newOptions() *options {
	return &options{statusFD: -1, guardFD: -1, guardPolicy: -1, scopeFD: -1}
}

// parse reads the command line. Options end at the first operand. With an
// error it returns what it read until then, so that the error can be reported
// as the user asked.
func parse(args []string) (*options, error) {
	o := newOptions()
	var f flags
	operands, err := f.scan(o, args)
	if e := f.descriptors(o); err == nil {
		err = e
	}
	if err != nil || o.help || o.version {
		return o, err
	}
	if o.verify && f.bwrap != nil {
		f.other = "bwrap" // which --doctor takes
	}
	if o.doctor || o.verify {
		if err := f.applyBwrap(o); err != nil {
			return o, err
		}
		return o, o.looking(operands, f.other)
	}
	if err := f.apply(o); err != nil {
		return o, err
	}
	return o, o.operands(operands)
}

// looking takes the worktree of an option that runs no command. Other is an
// option that was given besides.
func (o *options) looking(args []string, other string) error {
	name, form := "doctor", "shofer-sandbox --doctor [--json] [--bwrap FILE] [worktree-dir]"
	if o.verify {
		name, form = "verify", "shofer-sandbox --verify [--json] <worktree-dir>"
	}
	switch {
	case o.doctor && o.verify:
		return usageError("--doctor and --verify exclude each other", "one looks at the machine, the other at a worktree: run both")
	case other != "":
		return usageError("--"+other+" has no effect with --"+name, form)
	case len(args) > 1:
		return usageError("--"+name+" runs no command", form)
	case len(args) == 0 && o.verify:
		return usageError("the worktree directory is missing", form)
	case len(args) == 0:
		return nil
	case args[0] == "":
		return usageError("the worktree directory is empty", "an unset variable? name a directory, such as .")
	}
	abs, err := absolute(args[0])
	if err != nil {
		return &launch.SetupError{Stage: launch.StageUsage, Err: err}
	}
	o.policy.Worktree = abs
	return nil
}

// operands takes the worktree and the command.
func (o *options) operands(args []string) error {
	if len(args) == 0 {
		return usageError("the worktree directory is missing", form+"; see --help")
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
	if o.dashes = len(rest) > 0 && rest[0] == "--"; o.dashes {
		rest = rest[1:]
	}
	switch {
	case o.explain && o.why != "":
		return usageError("--explain and --why exclude each other", "one is about all paths, the other about one")
	case o.why != "":
		return o.asking(rest)
	case o.explain:
	case o.json:
		return usageError("--json goes with --explain, --why, --doctor or --verify", "the status record of a run is JSON already: --status-fd")
	case len(rest) == 0 && !o.dashes && !isFolder(dir):
		return usageError(fmt.Sprintf("either the worktree directory or the command is missing: %q is not a directory", dir), form)
	case len(rest) == 0:
		return usageError("the command is missing", "shofer-sandbox "+dir+" -- command [arg...]")
	case rest[0] == "":
		return usageError("the command is empty", "an unset variable? quote it and check")
	case strings.HasPrefix(rest[0], "-") && !o.dashes:
		return usageError(fmt.Sprintf("%q comes after the worktree directory, where the command begins", rest[0]),
			"put options before the directory, or write -- before a command with such a name")
	}
	o.command = rest
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// asking takes the operation that --why is about.
func (o *options) asking(args []string) error {
	if len(args) == 0 {
		o.op = policy.OpWrite
		return nil
	}
	o.op = policy.Op(args[0])
	if len(args) > 1 || !slices.Contains(policy.Ops(), o.op) {
		var ops []string
		for _, op := range policy.Ops() {
			ops = append(ops, string(op))
		}
		return usageError(fmt.Sprintf("--why takes an operation after the worktree directory, not %q", strings.Join(args, " ")),
			"one of "+strings.Join(ops, ", "))
	}
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

// flags are the values as they were given, before they are understood. A
// pointer is nil unless the option was given.
type flags struct {
	policyFile, backend, mode, net, caps  *string
	chdir, statusFD, bwrap, linger, why   *string
	parent                                *string
	guardFD, guardPolicy, scopeFD         *string
	rw, rwCreate, read, unix              []string
	protect, hide                         []string
	privateTmp, strictMetadata            bool
	connectTCP, bindTCP                   []string
	connectUDP, bindUDP                   []string
	require, env, unset, keepFD           []string
	clearEnv, keepGit                     bool
	broad, noProtect, noCache, bestEffort bool
	allowSignals, allowAbstract           bool

	limitFlags

	// other is the last option that doesn't go with --doctor and --verify.
	other string
}

// descriptors reads the numbers of descriptors. What can't be read of one
// doesn't keep it from the others.
func (f *flags) descriptors(o *options) (err error) {
	for _, d := range []struct {
		to   *int
		name string
		v    *string
	}{
		{&o.statusFD, "status-fd", f.statusFD},
		{&o.guardFD, guardOption, f.guardFD},
		{&o.guardPolicy, guardPolicyOption, f.guardPolicy},
		{&o.scopeFD, scopeOption, f.scopeFD},
	} {
		if d.v == nil {
			continue
		}
		if fd, e := descriptor(d.name, *d.v); e == nil {
			*d.to = fd
		} else {
			err = e
		}
	}
	for _, v := range f.keepFD {
		fd, e := descriptor("keep-fd", v)
		switch {
		case e != nil:
			err = e
		case fd == o.statusFD:
			err = usageError(fmt.Sprintf("--keep-fd %d is the descriptor of --status-fd", fd), "give the command another one")
		}
		o.keepFDs = append(o.keepFDs, fd)
	}
	return err
}

// apply adds the flags to the policy file, if there is one, or to the default
// policy.
func (f *flags) apply(o *options) error {
	p := policy.Policy{Mode: policy.WorkspaceWrite}
	if f.policyFile != nil {
		file := *f.policyFile
		if o.guardPolicy >= 0 {
			file = "/proc/self/fd/" + strconv.Itoa(o.guardPolicy)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return &launch.SetupError{Stage: launch.StagePolicy, Err: fmt.Errorf("policy file: %w", err)}
		}
		o.policyFile = data
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
	// Or what it leaves would be stuck without us.
	o.supervise = o.supervise || o.trace
	if f.parent != nil {
		pid, ok := atoi(*f.parent)
		if !ok || pid == 0 {
			return usageError("--parent "+*f.parent+": not the number of a process", "such as $$ in a shell")
		}
		if !o.supervise {
			return usageError("--parent has no effect without --supervise", "without it, nothing ends the command when its parent ends")
		}
		o.parent = pid
	}
	if f.linger != nil {
		d, err := time.ParseDuration(*f.linger)
		if err != nil || d < 0 {
			return usageError("--linger "+*f.linger+": not a time", "such as 500ms or 2s")
		}
		if !o.supervise {
			return usageError("--linger has no effect without --supervise", "without it, what the command leaves goes on")
		}
		o.linger = d
	}
	if f.chdir != nil {
		o.chdir = *f.chdir
	}
	if f.why != nil {
		o.why = *f.why
	}
	if f.backend != nil && *f.backend != "auto" {
		o.backend = launch.Backend(*f.backend)
	}
	if err := f.applyBwrap(o); err != nil {
		return err
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
	if err := f.limitFlags.apply(&p.Limits); err != nil {
		return err
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
		{&p.PrivateTmp, f.privateTmp},
		{&p.StrictMetadata, f.strictMetadata},
		{&p.IPC.AllowSignals, f.allowSignals},
		{&p.IPC.AllowAbstract, f.allowAbstract},
	} {
		*b.to = *b.to || b.from
	}
	o.policy = p
	return nil
}

// applyBwrap takes the bubblewrap to use.
func (f *flags) applyBwrap(o *options) error {
	if f.bwrap == nil {
		return nil
	}
	path, err := absolute(*f.bwrap)
	if err != nil {
		return &launch.SetupError{Stage: launch.StageUsage, Err: err}
	}
	o.bwrap = string(path)
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
		{&p.Protect, f.protect, nil},
		{&p.Hide, f.hide, nil},
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
