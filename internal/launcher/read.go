package launcher

import (
	"fmt"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

// The command line is read by hand: the standard library's flags, for as many
// options, cost as much of each start as half of the confinement does.

// toggle returns where an option without a value is stored, nil if there is no
// such option.
func (f *flags) toggle(o *options, name string) *bool {
	switch name {
	case "allow-broad":
		return &f.broad
	case "no-cache":
		return &f.noCache
	case "no-protect":
		return &f.noProtect
	case "allow-signals":
		return &f.allowSignals
	case "allow-abstract-sockets":
		return &f.allowAbstract
	case "private-tmp":
		return &f.privateTmp
	case "strict-metadata":
		return &f.strictMetadata
	case "clear-env":
		return &f.clearEnv
	case "keep-git-env":
		return &f.keepGit
	case "best-effort":
		return &f.bestEffort
	case "new-session":
		return &o.newSession
	case "restore":
		return &o.restore
	case "quiet":
		return &o.quiet
	case "supervise":
		return &o.supervise
	case "trace-denials":
		return &o.trace
	case "explain":
		return &o.explain
	case "doctor":
		return &o.doctor
	case "verify":
		return &o.verify
	case "json":
		return &o.json
	case "version":
		return &o.version
	case "help":
		return &o.help
	}
	return nil
}

// value returns where an option with one value is stored, nil if there is no
// such option.
func (f *flags) value(name string) **string {
	switch name {
	case "policy":
		return &f.policyFile
	case "mode":
		return &f.mode
	case "net":
		return &f.net
	case "caps":
		return &f.caps
	case "backend":
		return &f.backend
	case "bwrap":
		return &f.bwrap
	case "chdir":
		return &f.chdir
	case "status-fd":
		return &f.statusFD
	case "linger":
		return &f.linger
	case "parent":
		return &f.parent
	case "why":
		return &f.why
	case scopeOption:
		return &f.scopeFD
	case guardOption:
		return &f.guardFD
	case guardPolicyOption:
		return &f.guardPolicy
	}
	return f.limitFlags.value(name)
}

// list returns where an option that can be given more than once is stored, nil
// if there is no such option.
func (f *flags) list(name string) *[]string {
	switch name {
	case "rw":
		return &f.rw
	case "rw-create":
		return &f.rwCreate
	case "read":
		return &f.read
	case "protect":
		return &f.protect
	case "hide":
		return &f.hide
	case "connect-tcp":
		return &f.connectTCP
	case "bind-tcp":
		return &f.bindTCP
	case "connect-udp":
		return &f.connectUDP
	case "bind-udp":
		return &f.bindUDP
	case "unix":
		return &f.unix
	case "env":
		return &f.env
	case "unsetenv":
		return &f.unset
	case "require":
		return &f.require
	case "keep-fd":
		return &f.keepFD
	}
	return f.limitFlags.list(name)
}

// guardOption is how the launcher starts itself as the guard. It isn't for
// users, and not in names.
const guardOption = "guard-fd"

// guardPolicyOption goes with it where there is a policy file.
const guardPolicyOption = "guard-policy"

// names are the options that the help has.
var names = [...]string{
	"mode", "rw", "rw-create", "read", "allow-broad", "no-cache", "no-protect",
	"protect", "hide", "private-tmp", "strict-metadata", "restore",
	"net", "connect-tcp", "bind-tcp", "connect-udp", "bind-udp", "unix",
	"allow-signals", "allow-abstract-sockets",
	"env", "unsetenv", "clear-env", "keep-git-env", "chdir", "keep-fd", "caps",
	"new-session", "supervise",
	"memory", "swap", "pids", "cpus", "cpu-weight", "io-read", "io-write",
	"nofile", "fsize", "core", "nice", "oom-score-adj", "limits", "cgroup", "cgroup-parent", "linger", "parent",
	"require", "best-effort", "backend", "bwrap",
	"policy", "status-fd", "quiet", "trace-denials", "explain", "why", "doctor", "verify", "json",
	"version", "help",
}

// scan stores the options in args, up to the first operand or "--", and returns
// the operands.
func (f *flags) scan(o *options, args []string) ([]string, error) {
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		if arg == "-h" {
			arg = "--help"
		}
		name, v, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") {
			return nil, unknownOption(arg, name)
		}
		switch name {
		case "doctor", "verify", "json", "bwrap":
		default:
			f.other = name
		}
		if b := f.toggle(o, name); b != nil {
			if hasValue {
				return nil, usageError("option --"+name+" takes no value", "")
			}
			*b = true
			continue
		}
		single, list := f.value(name), f.list(name)
		if single == nil && list == nil {
			return nil, unknownOption(arg, name)
		}
		if !hasValue {
			if len(args) == 0 {
				return nil, usageError("option --"+name+" needs a value", "see --help")
			}
			v, args = args[0], args[1:]
		}
		if v == "" {
			// From a variable that isn't set. It would grant the current
			// directory, or limit nothing.
			return nil, usageError("--"+name+" is empty", "an unset variable? leave the option out, or give it a value")
		}
		if single != nil {
			*single = &v
		} else {
			*list = append(*list, v)
		}
	}
	return args, nil
}

func unknownOption(arg, name string) error {
	hint := "see --help"
	if name == "timeout" {
		hint = "the program runner ends commands in time: runner run --timeout"
	} else if near := nearest.Word(strings.TrimPrefix(name, "-"), names[:]); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return usageError("unknown option "+arg, hint)
}

// descriptor reads the number of a descriptor above 2.
func descriptor(name, v string) (int, error) {
	fd, ok := atoi(v)
	if !ok || fd < 3 {
		return 0, usageError(fmt.Sprintf("--%s %s: not the number of a descriptor above 2", name, v),
			"0, 1 and 2 are the command's in any case")
	}
	return fd, nil
}
