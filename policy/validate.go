package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

// Validate checks what can be known without looking at the machine. The error
// is an [*Error] that names the first part that is wrong.
func (p Policy) Validate() error {
	checks := []func() error{
		p.validateMode, p.validatePaths, p.validateNetwork, p.validateEnv,
		p.validateCaps, p.validatePromises, p.validateLimits,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p Policy) validateMode() error {
	switch p.Mode {
	case "", WorkspaceWrite:
	case ReadOnly:
	case Unconfined:
		return p.validateUnconfined()
	default:
		return &Error{
			Field: "mode", Value: string(p.Mode), Why: "no such mode",
			Hint: didYouMean(string(p.Mode), []string{string(ReadOnly), string(WorkspaceWrite), string(Unconfined)}),
		}
	}
	if p.Mode != WorkspaceWrite {
		if len(p.Write) > 0 {
			return readOnlyError("write", p.Write[0])
		}
		if len(p.WriteCreate) > 0 {
			return readOnlyError("write_create", p.WriteCreate[0])
		}
	}
	return nil
}

func readOnlyError(field string, path Path) error {
	return &Error{
		Field: field, Value: string(path), Why: "not allowed in mode read-only",
		Hint: "use mode workspace-write",
	}
}

// validateUnconfined refuses what asks for confinement and would not get it.
func (p Policy) validateUnconfined() error {
	const why = "nothing holds this in mode unconfined"
	switch {
	case p.Read != nil:
		return &Error{Field: "read", Why: why, Hint: "use another mode, or leave it out"}
	case len(p.Protect) > 0:
		return &Error{Field: "protect", Value: string(p.Protect[0]), Why: why, Hint: "use another mode, or leave it out"}
	case len(p.Hide) > 0:
		return &Error{Field: "hide", Value: string(p.Hide[0]), Why: why, Hint: "use another mode, or leave it out"}
	case p.PrivateTmp:
		return &Error{Field: "private_tmp", Why: why, Hint: "use another mode, or leave it out"}
	case p.StrictMetadata:
		return &Error{Field: "strict_metadata", Why: why, Hint: "use another mode, or leave it out"}
	case p.Network.Limited():
		return &Error{Field: "network", Why: why, Hint: "use another mode, or leave it out"}
	case len(p.Require) > 0:
		return &Error{
			Field: "require", Value: string(p.Require[0]), Why: why,
			Hint: "use another mode, or leave it out",
		}
	}
	return nil
}

func (p Policy) validatePaths() error {
	if p.Worktree != "" {
		if err := validatePath("worktree", p.Worktree); err != nil {
			return err
		}
	}
	lists := []struct {
		field   string
		paths   []Path
		presets []Path
	}{
		{"write", p.Write, nil},
		{"write_create", p.WriteCreate, nil},
		{"protect", p.Protect, nil},
		{"hide", p.Hide, nil},
		{"read", p.Read, []Path{ReadSystem}},
		{"unix", p.Unix, []Path{UnixSSHAgent, UnixGPGAgent}},
	}
	for _, list := range lists {
		for i, path := range list.paths {
			if slices.Contains(list.presets, path) {
				continue
			}
			err := validatePath(list.field, path)
			if err == nil {
				continue
			}
			err.Field += "[" + strconv.Itoa(i) + "]"
			if len(list.presets) > 0 && !strings.Contains(string(path), "/") && err.Err == nil {
				err.Why = "neither an absolute path nor a preset"
				err.Hint = didYouMean(string(path), pathStrings(list.presets))
			}
			return err
		}
	}
	return nil
}

func pathStrings(paths []Path) []string {
	out := make([]string, len(paths))
	for i, path := range paths {
		out[i] = string(path)
	}
	return out
}

func validatePath(field string, path Path) *Error {
	switch {
	case path == "":
		return &Error{Field: field, Why: "empty path"}
	case strings.IndexByte(string(path), 0) >= 0:
		return &Error{Field: field, Value: string(path), Why: errNUL.Error(), Err: errNUL}
	case path[0] != '/':
		return &Error{Field: field, Value: string(path), Why: "not an absolute path", Hint: "write it out from / on: neither ~ nor a variable is expanded"}
	}
	return nil
}

func (p Policy) validateNetwork() error {
	n := p.Network
	switch n.Mode {
	case "", NetworkAll, NetworkNone:
	default:
		return &Error{
			Field: "network.mode", Value: string(n.Mode), Why: "no such network mode",
			Hint: didYouMean(string(n.Mode), []string{string(NetworkAll), string(NetworkNone)}),
		}
	}
	lists := []struct {
		field string
		ports []uint16
		bind  bool
	}{
		{"network.connect_tcp", n.ConnectTCP, false},
		{"network.bind_tcp", n.BindTCP, true},
		{"network.connect_udp", n.ConnectUDP, false},
		{"network.bind_udp", n.BindUDP, true},
	}
	for _, list := range lists {
		if len(list.ports) > 0 && n.Mode == NetworkNone {
			return &Error{
				Field: list.field, Why: "network mode none allows no port",
				Hint: "leave the mode out: a port list shuts every other port",
			}
		}
		// Binding to 0 asks the kernel for any free port. Connecting to it
		// has no meaning.
		if i := slices.Index(list.ports, 0); i >= 0 && !list.bind {
			return &Error{Field: list.field + "[" + strconv.Itoa(i) + "]", Value: "0", Why: "no such port"}
		}
	}
	return nil
}

func (p Policy) validateEnv() error {
	for i, name := range p.Env.Unset {
		field := "env.unset[" + strconv.Itoa(i) + "]"
		switch {
		case name == "":
			return &Error{Field: field, Why: "empty name"}
		case strings.IndexByte(name, 0) >= 0:
			return &Error{Field: field, Value: name, Why: errNUL.Error(), Err: errNUL}
		case strings.IndexByte(name, '=') >= 0:
			return &Error{Field: field, Value: name, Why: "a name has no \"=\"", Hint: "what removes a variable takes its name; to change it, set it"}
		}
	}
	for i, entry := range p.Env.Set {
		field := "env.set[" + strconv.Itoa(i) + "]"
		switch eq := strings.IndexByte(entry, '='); {
		case strings.IndexByte(entry, 0) >= 0:
			return &Error{Field: field, Value: entry, Why: errNUL.Error(), Err: errNUL}
		case eq < 0:
			return &Error{Field: field, Value: entry, Why: "not of the form NAME=VALUE"}
		case eq == 0:
			return &Error{Field: field, Value: entry, Why: "empty name"}
		}
	}
	return nil
}

func (p Policy) validateCaps() error {
	if len(p.Caps) == 0 {
		return nil
	}
	names := Capabilities()
	for i, name := range p.Caps {
		field := "caps[" + strconv.Itoa(i) + "]"
		switch {
		case name == CapsAll || name == CapsNone:
			if len(p.Caps) > 1 {
				return &Error{Field: field, Value: name, Why: "stands alone"}
			}
		case slices.Contains(names, name):
		default:
			plain, _ := strings.CutPrefix(lower(name), "cap_")
			return &Error{
				Field: field, Value: name, Why: "no such capability",
				Hint: capHint(plain, names),
			}
		}
	}
	return nil
}

func capHint(plain string, names []string) string {
	if slices.Contains(names, plain) {
		return "did you mean \"" + plain + "\"?"
	}
	if near := nearest.Word(plain, names); near != "" {
		return "did you mean \"" + near + "\"?"
	}
	return "names are lower case and without \"cap_\", as in setuid"
}

func (p Policy) validatePromises() error {
	all := Promises()
	for i, promise := range p.Require {
		if slices.Contains(all, promise) {
			continue
		}
		names := make([]string, len(all))
		for j, name := range all {
			names[j] = string(name)
		}
		return &Error{
			Field: "require[" + strconv.Itoa(i) + "]", Value: string(promise), Why: "no such promise",
			Hint: didYouMean(string(promise), names),
		}
	}
	return nil
}
