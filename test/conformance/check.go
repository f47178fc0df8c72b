package main

import (
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

// check is one thing that is tried.
type check struct {
	family, name string
	// control says that it must work; else it must be refused.
	control bool
}

// String is the check's name.
func (c check) String() string { return c.family + "/" + c.name }

func (c check) kind() string {
	if c.control {
		return "control"
	}
	return "refusal"
}

// families are all there are, in the order of reports.
var families = []string{
	"control", "write", "detour", "mount", "system", "descriptor", "process", "signal", "socket", "ipc",
	"terminal", "environment", "git", "lifetime",
}

// insideGroups are attacks of package attack that are ordinary work, and must go
// well where writing is granted.
var insideGroups = []string{"open", "tree", "transfer"}

// notInside are those that nobody needs.
var notInside = []string{"mknod-char", "mknod-block"}

// familyOf maps the groups of package attack.
var familyOf = map[string]string{
	"open": "write", "tree": "write", "transfer": "write",
	"uring": "detour", "detour": "detour", "child": "detour", "mount": "mount",
}

// systemAttacks are those of package attack on what a machine has one of, with
// the families that they are in; empty for controls.
var systemAttacks = map[string]string{
	"sysctl": "system", "sysrq": "system", "memory-device": "system", "sysfs": "system", "disk": "system", "acct": "system",
	"stdin-reopen": "descriptor", "leaked-file": "descriptor", "leaked-dir": "descriptor",
	"sysctl-read": "", "zero-device": "", "null-device": "", "stdin-read": "",
}

// notOfChild are attacks on processes that needn't work on a child of one's own.
var notOfChild = []string{"prlimit", "proc-mem"}

// attackChecks maps what package attack reports, as WHERE NAME, to checks.
func attackChecks() map[string]check {
	m := map[string]check{}
	for group, names := range attack.Groups() {
		for _, name := range names {
			m["outside "+name] = check{familyOf[group], name, false}
			if slices.Contains(insideGroups, group) && !slices.Contains(notInside, name) {
				m["inside "+name] = check{"control", "inside-" + name, true}
			}
		}
	}
	for name, family := range systemAttacks {
		if family == "" {
			m["system "+name] = check{"control", name, true}
		} else {
			m["system "+name] = check{family, name, false}
		}
	}
	signals, others := attack.Processes()
	for family, names := range map[string][]string{"signal": signals, "process": others} {
		for _, name := range names {
			if name == "proc-fd-list" { // it is no secret which there are
				continue
			}
			m["host "+name] = check{family, name, false}
			m["thread "+name] = check{family, "thread-" + name, false}
			if !slices.Contains(notOfChild, name) {
				m["child "+name] = check{"control", "child-" + name, true}
			}
		}
	}
	for _, name := range attack.Once() {
		delete(m, "thread "+name)
	}
	return m
}

// allChecks lists all there are, by family and name.
func allChecks() []check {
	var all []check
	for _, c := range attackChecks() {
		all = append(all, c)
	}
	all = append(all, memoryIntact)
	for _, c := range insideChecks() {
		all = append(all, c.check)
	}
	for _, list := range [][]check{contractChecks(), terminalChecks(), environmentChecks(), lifeChecks()} {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b check) int {
		if a.family != b.family {
			return slices.Index(families, a.family) - slices.Index(families, b.family)
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

// outcome is what came of trying.
type outcome struct {
	Check string `json:"check"`
	// Err is why it was not done; empty if it was.
	Err string `json:"err,omitempty"`
	// Skip is why it could not be tried.
	Skip string `json:"skip,omitempty"`
	// Effect says that it changed something outside, whatever the calls said.
	Effect bool `json:"effect,omitempty"`
	// Lost is why nothing came back.
	Lost string `json:"lost,omitempty"`
}

// outcomes are those of one launcher, by the checks' names.
type outcomes map[string]outcome

// add adds one. Of several, one that was done counts.
func (all outcomes) add(o outcome) {
	if had, ok := all[o.Check]; ok && had.Err == "" && had.Skip == "" {
		return
	}
	all[o.Check] = o
}

// verdict says what a sandbox makes of a check.
type verdict string

const (
	held   verdict = "held"
	broken verdict = "broken"
	none   verdict = "n.a."
)

// result is a check with its verdict.
type result struct {
	Family  string  `json:"family"`
	Check   string  `json:"check"`
	Kind    string  `json:"kind"`
	Verdict verdict `json:"verdict"`
	// Why is the error that was seen, or why there is nothing to say.
	Why string `json:"why,omitempty"`
}

// judge compares what came of a check in a sandbox with what comes of it
// without.
func judge(c check, without, within outcomes) result {
	r := result{Family: c.family, Check: c.name, Kind: c.kind()}
	free, ok := without[c.String()]
	got := within[c.String()]
	r.Why = got.Err
	switch {
	case !ok || free.Lost != "":
		r.Verdict, r.Why = none, "not tried"
	case got.Lost != "":
		r.Verdict, r.Why = broken, got.Lost
	case free.Skip != "":
		r.Verdict, r.Why = none, free.Skip
	case free.Err != "" && !free.Effect:
		r.Verdict, r.Why = none, "can't be done without a sandbox either: "+free.Err
	case c.control && got.Skip != "":
		r.Verdict, r.Why = broken, got.Skip
	case c.control && got.Err == "":
		r.Verdict = held
	case c.control:
		r.Verdict = broken
	case got.Effect:
		r.Verdict = broken
	case got.Skip != "":
		r.Verdict, r.Why = held, got.Skip // what it takes isn't there
	case got.Err != "":
		r.Verdict = held
	case free.Effect:
		r.Verdict, r.Why = held, "done, without effect outside"
	default:
		r.Verdict = broken
	}
	return r
}
