package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

//go:embed profiles/*.json
var profiles embed.FS

// profile is the form in which engines publish one. What isn't here is of no
// use on this architecture.
type profile struct {
	DefaultAction   string
	DefaultErrnoRet uint32
	Syscalls        []rule
}

// rule is about some calls.
type rule struct {
	Names              []string
	Action             string
	ErrnoRet           *uint32
	Args               []argument
	Includes, Excludes condition
}

// condition is of a container. An empty list is met by each.
type condition struct {
	Caps   []string
	Arches []string
}

// argument is compared; all of a rule's must match.
type argument struct {
	Index           uint32
	Value, ValueTwo uint64
	Op              string
}

// readProfile reads one of those in profiles.
func readProfile(name string) (p profile, err error) {
	b, err := profiles.ReadFile("profiles/" + name + ".json")
	if err != nil {
		return p, fmt.Errorf("no profile is called %q", name)
	}
	return p, json.Unmarshal(b, &p)
}

// applies reports whether a rule is for a container without capabilities.
func (r rule) applies() bool {
	return len(r.Includes.Caps) == 0 &&
		(len(r.Includes.Arches) == 0 || slices.Contains(r.Includes.Arches, "amd64")) &&
		!slices.Contains(r.Excludes.Arches, "amd64")
}

// action is what a filter returns.
func (p profile) action(name string, errno *uint32) (bpf.RetConstant, error) {
	switch name {
	case "SCMP_ACT_ALLOW":
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, nil
	case "SCMP_ACT_ERRNO":
		e := uint32(unix.EPERM)
		if errno != nil {
			e = *errno
		}
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | e}, nil
	}
	return bpf.RetConstant{}, fmt.Errorf("unknown action %q", name)
}

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // eight bytes each, the low half first
)

// x32 is where the numbers of that interface begin.
const x32 = 0x40000000

// compile returns the profile as a program for a container without
// capabilities, in which the calls called deny fail with EPERM. Calls of other
// architectures get the default.
func (p profile) compile(deny []string) ([]unix.SockFilter, error) {
	if len(calls) == 0 {
		return nil, fmt.Errorf("the numbers of system calls are known on amd64 only")
	}
	otherwise, err := p.action(p.DefaultAction, &p.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AUDIT_ARCH_X86_64, SkipTrue: 1},
		otherwise,
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		otherwise,
	}
	denied := rule{Names: deny, Action: "SCMP_ACT_ERRNO"}
	for _, r := range append([]rule{denied}, p.Syscalls...) {
		if !r.applies() {
			continue
		}
		part, err := p.rule(r)
		if err != nil {
			return nil, err
		}
		prog = append(prog, part...)
	}
	raw, err := bpf.Assemble(append(prog, otherwise))
	if err != nil {
		return nil, err
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filters, nil
}

// rule compiles one, for a program that has the number loaded, before and
// after.
func (p profile) rule(r rule) (prog []bpf.Instruction, err error) {
	do, err := p.action(r.Action, r.ErrnoRet)
	if err != nil {
		return nil, err
	}
	var match []bpf.Instruction
	for i := len(r.Args) - 1; i >= 0; i-- {
		match, err = r.Args[i].before(match)
		if err != nil {
			return nil, err
		}
	}
	for _, name := range r.Names {
		number, ok := calls[name]
		if !ok {
			continue
		}
		part := append(slices.Clone(match), do)
		if match != nil { // which has loaded arguments
			part = append(part, bpf.LoadAbsolute{Off: offNumber, Size: 4})
		}
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(part))})
		prog = append(prog, part...)
	}
	return prog, nil
}

// before returns what is to stand before rest, the tests of further arguments,
// and an action after them. It jumps over both where the argument doesn't
// match.
func (a argument) before(rest []bpf.Instruction) ([]bpf.Instruction, error) {
	low := bpf.LoadAbsolute{Off: offArgs + 8*a.Index, Size: 4}
	high := bpf.LoadAbsolute{Off: low.Off + 4, Size: 4}
	over := uint8(len(rest) + 1) // to behind the action
	value, mask := a.Value, ^uint64(0)
	switch a.Op {
	case "SCMP_CMP_EQ":
	case "SCMP_CMP_MASKED_EQ":
		value, mask = a.ValueTwo, a.Value
	case "SCMP_CMP_NE":
		return append([]bpf.Instruction{
			high,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(value >> 32), SkipTrue: 2},
			low,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(value), SkipTrue: over},
		}, rest...), nil
	case "SCMP_CMP_LT":
		if value>>32 != 0 {
			return nil, fmt.Errorf("%s of %d is not known", a.Op, value)
		}
		return append([]bpf.Instruction{
			high,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: over + 2},
			low,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(value), SkipTrue: over},
		}, rest...), nil
	default:
		return nil, fmt.Errorf("unknown comparison %q", a.Op)
	}
	return append([]bpf.Instruction{
		high,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(mask >> 32)},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(value >> 32), SkipTrue: over + 3},
		low,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(mask)},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(value), SkipTrue: over},
	}, rest...), nil
}
