// Package environ makes the environment of a command that nobody attends, out
// of layers, and says of each name what became of it and why.
//
// The layers, each with the last word over those before:
//
//  1. ambient: what the host's own environment has;
//  2. scrub: what looks like a credential is dropped from it, by name and by
//     the shape of the value;
//  3. hardening: pagers, editors, prompts and colours are turned off, and
//     start-up files of shells;
//  4. caller: what the caller sets or unsets for this command. The scrub
//     doesn't look at it;
//  5. guards: what would leave a command waiting for somebody, were it set
//     otherwise;
//  6. managed: facts under the prefix SHOFER_, which no other layer can set.
//
// Limitations: the scrub keeps credentials from going along by accident. It is
// no boundary: a command reads files, and where it may look into its host's
// /proc/PID/environ, that too. It knows some shapes of credentials and not all.
// The variables that tie git to one repository (GIT_DIR and others) aren't its
// subject; package policy drops them.
package environ

import (
	"fmt"
	"slices"
	"strings"
)

// Prefix begins the names that only the managed layer can set.
const Prefix = "SHOFER_"

// Layers is what an environment is made of. The zero value makes an empty
// environment, hardened. Entries are NAME=VALUE; of several with one name in
// one layer the last counts.
type Layers struct {
	// Ambient is the host's own environment, such as [os.Environ] returns it.
	// Entries that are no NAME=VALUE are dropped.
	Ambient []string
	// Scrub says what is dropped from it.
	Scrub Scrub
	// Hardening says how the command is kept from waiting for somebody.
	Hardening Hardening
	// Caller is set for this command, credentials too.
	Caller []string
	// Unset are names that this command doesn't get, wherever they are from.
	// A name that Caller sets too stays set.
	Unset []string
	// Managed are the entries whose names begin with Prefix.
	Managed []string
}

// Layer is one of the layers.
type Layer string

// The layers, in their order.
const (
	Ambient   Layer = "ambient"
	Scrubbed  Layer = "scrub"
	Hardened  Layer = "hardening"
	Caller    Layer = "caller"
	Guard     Layer = "guard"
	Namespace Layer = "managed"
)

// Action is what a layer does with a name.
type Action string

// The actions.
const (
	Kept    Action = "kept"
	Dropped Action = "dropped"
	Set     Action = "set"
)

// Decision says what a layer did with a name. It never has the value.
type Decision struct {
	// Name is empty for what isn't of the form NAME=VALUE.
	Name   string `json:"name"`
	Layer  Layer  `json:"layer"`
	Action Action `json:"action"`
	Reason string `json:"reason"`
}

// String returns the decision in one line.
func (d Decision) String() string {
	return fmt.Sprintf("%s: %s (%s: %s)", d.Name, d.Action, d.Layer, d.Reason)
}

// EntryError says that a layer has an entry that it can't have. It never has
// the value.
type EntryError struct {
	Layer Layer
	Name  string
	Why   string
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("environment: %s variable %q %s", e.Layer, e.Name, e.Why)
}

// Build makes an environment of its layers. The decisions come in the order in
// which they were taken: the last one about a name is what holds, and every
// name that is in any layer has one.
//
// It depends on its argument alone, which it neither changes nor keeps. The
// only error is an [*EntryError].
func Build(l Layers) (env []string, decisions []Decision, err error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	n := len(l.Ambient) + len(hardened) + len(l.Unset) + len(l.Caller) + len(l.Managed)
	b := &builder{list: make([]string, 0, n), at: make(map[string]int, n), decisions: make([]Decision, 0, n)}
	b.ambient(l.Ambient, &l.Scrub)
	settings := l.Hardening.settings()
	b.harden(&l.Hardening, settings)
	for _, name := range l.Unset {
		b.drop(name, Caller, "unset by the caller")
	}
	b.setAll(l.Caller, Caller, "set by the caller")
	b.guard(settings)
	b.setAll(l.Managed, Namespace, "set by the runner")
	return b.entries(), b.decisions, nil
}

// check refuses entries that would be misunderstood, or that are of another
// layer.
func (l *Layers) check() error {
	for _, entry := range l.Caller {
		name, err := nameOf(entry, Caller)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, Prefix) {
			return &EntryError{Caller, name, "begins with " + Prefix + ", which is the runner's"}
		}
	}
	for _, name := range l.Unset {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return &EntryError{Caller, name, "is no name"}
		case strings.HasPrefix(name, Prefix):
			return &EntryError{Caller, name, "begins with " + Prefix + ", which is the runner's"}
		}
	}
	for _, entry := range l.Managed {
		name, err := nameOf(entry, Namespace)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(name, Prefix) || name == Prefix {
			return &EntryError{Namespace, name, "doesn't begin with " + Prefix}
		}
	}
	return nil
}

// nameOf returns the name of an entry.
func nameOf(entry string, layer Layer) (string, error) {
	name, _, ok := strings.Cut(entry, "=")
	switch {
	case strings.Contains(entry, "\x00"):
		return "", &EntryError{layer, strings.ReplaceAll(name, "\x00", `\0`), "has a NUL byte"}
	case !ok:
		return "", &EntryError{layer, "", "has no ="} // it may be nothing but a value
	case name == "":
		return "", &EntryError{layer, name, "has no name"}
	}
	return name, nil
}

// builder is an environment under change.
type builder struct {
	list      []string
	at        map[string]int // name -> index in list
	decisions []Decision
}

func (b *builder) decide(name string, layer Layer, action Action, reason string) {
	b.decisions = append(b.decisions, Decision{name, layer, action, reason})
}

func (b *builder) ambient(env []string, s *Scrub) {
	last := make(map[string]int, len(env))
	for i, entry := range env {
		if name, _, ok := strings.Cut(entry, "="); ok {
			last[name] = i
		}
	}
	for i, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "" || strings.Contains(entry, "\x00"):
			b.decide("", Ambient, Dropped, "not of the form NAME=VALUE")
			continue
		case last[name] != i:
			continue // a later entry of the name counts
		case strings.HasPrefix(name, Prefix):
			b.decide(name, Namespace, Dropped, "names that begin with "+Prefix+" are not inherited")
			continue
		}
		if reason, drop := s.drops(name, value); drop {
			b.decide(name, Scrubbed, Dropped, reason)
			continue
		} else if reason != "" {
			b.decide(name, Scrubbed, Kept, reason)
		} else {
			b.decide(name, Ambient, Kept, "inherited")
		}
		b.put(name, entry)
	}
}

func (b *builder) setAll(env []string, layer Layer, reason string) {
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		b.put(name, entry)
		b.decide(name, layer, Set, reason)
	}
}

func (b *builder) set(name, value string) { b.put(name, name+"="+value) }

func (b *builder) put(name, entry string) {
	if i, ok := b.at[name]; ok {
		b.list[i] = entry
		return
	}
	b.at[name] = len(b.list)
	b.list = append(b.list, entry)
}

// get returns the value of name, "" if it isn't set.
func (b *builder) get(name string) string {
	if i, ok := b.at[name]; ok {
		return b.list[i][len(name)+1:]
	}
	return ""
}

func (b *builder) drop(name string, layer Layer, reason string) {
	if i, ok := b.at[name]; ok {
		b.list[i] = ""
		delete(b.at, name)
	}
	b.decide(name, layer, Dropped, reason)
}

func (b *builder) entries() []string {
	return slices.DeleteFunc(b.list, func(entry string) bool { return entry == "" })
}
