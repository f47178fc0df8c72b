package seccomp

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets into what a program sees of a call, struct seccomp_data. Arguments
// are 64 bits wide, the low half first on the machines that are known here.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	wordSize = 4
	argSize  = 8
)

// ArchError says that filters can't be compiled for an architecture.
type ArchError struct {
	Arch string // as Go calls it
}

func (e *ArchError) Error() string {
	return "seccomp: the system calls of " + e.Arch + " are not known"
}

// Compile returns the programs of f for this machine, in the order in which
// they are to be installed by seccomp(2) in mode filter; none for the zero
// value. The caller may change them. Installing needs no_new_privs or
// CAP_SYS_ADMIN.
//
// On an architecture other than amd64 and arm64 it fails with an [*ArchError].
func (f Filter) Compile() ([][]unix.SockFilter, error) {
	if f == (Filter{}) {
		return nil, nil
	}
	m, ok := machineFor(runtime.GOARCH)
	if !ok {
		return nil, &ArchError{runtime.GOARCH}
	}
	p, err := f.compile(m)
	if err != nil {
		return nil, err
	}
	return [][]unix.SockFilter{p}, nil
}

// compile returns the one program of f for m.
func (f Filter) compile(m machine) ([]unix.SockFilter, error) {
	return compile(m, f.rules(), true)
}

// compile returns a program for m. Strict says that it refuses calls of
// interfaces that aren't known.
func compile(m machine, rules [][]rule, strict bool) ([]unix.SockFilter, error) {
	a := assembler{code: make([]unix.SockFilter, 0, 128), exit: make([]exit, 0, 32)}
	a.load(offsetArch)
	for i := range m {
		over := a.jump(m[i].arch)
		d := m[i]
		d.x32 = d.x32 && strict
		a.door(&d, rules)
		a.code[over].Jf = a.distance(over)
	}
	if strict {
		a.refuse(syscall.ENOSYS)
	} else {
		a.allow()
	}
	return a.code, a.err
}

// assembler writes a program. It is short: installing one takes the kernel
// longer by each instruction, and by each step that a call takes to be let pass.
type assembler struct {
	code []unix.SockFilter
	exit []exit // of the door that is being written
	err  error  // the first one
}

// exit is a jump, by its index in the code, that is to lead to a refusal, once
// it is known where that is.
type exit struct {
	jump      int
	errno     syscall.Errno
	otherwise bool // it leads there when its test doesn't hold
}

// target is a call that rules are about, by its number.
type target struct {
	nr    uint32
	rules []*rule
}

// door writes what is done about the calls of d. It ends in a return.
func (a *assembler) door(d *door, rules [][]rule) {
	a.exit = a.exit[:0]
	a.load(offsetNumber)
	if d.x32 {
		a.exit = append(a.exit, exit{a.jumpFrom(x32Bit), syscall.ENOSYS, false})
	}
	a.dispatch(d.targets(rules))
	for len(a.exit) > 0 {
		e := a.exit[0].errno
		a.land(0, e)
		a.refuse(e)
	}
}

// targets returns what the rules are about, in the order of the numbers.
func (d *door) targets(rules [][]rule) []target {
	ts := make([]target, 0, numCalls)
	all := make([]*rule, 0, 64)
	for c, nr := range d.nr {
		if nr == none {
			continue
		}
		start := len(all)
		for _, list := range rules {
			for i := range list {
				if list[i].call == call(c) {
					all = append(all, &list[i])
				}
			}
		}
		if len(all) > start {
			ts = append(ts, target{nr, all[start:]})
		}
	}
	slices.SortFunc(ts, func(a, b target) int { return cmp.Compare(a.nr, b.nr) })
	return ts
}

// dispatch finds the call by its number, which is loaded, and writes what is
// done about it. It ends in a return.
func (a *assembler) dispatch(ts []target) {
	if len(ts) > 3 {
		mid := len(ts) / 2
		above := a.jumpFrom(ts[mid].nr)
		a.dispatch(ts[:mid])
		a.code[above].Jt = a.distance(above)
		a.dispatch(ts[mid:])
		return
	}
	for _, t := range ts {
		here := a.jump(t.nr)
		if first := t.rules[0]; first.when == nil {
			a.exit = append(a.exit, exit{here, first.errno, false})
			continue
		}
		a.call(t.rules)
		a.code[here].Jf = a.distance(here)
	}
	a.allow()
}

// call writes the rules of a call that is known to be the one that is made.
func (a *assembler) call(rules []*rule) {
	var loaded *condition // whose argument is at hand
	for _, r := range rules {
		if r.when == nil {
			a.refuse(r.errno)
			return
		}
		start := len(a.exit)
		for i := range r.when {
			c := &r.when[i]
			if loaded == nil || !c.sameArgument(loaded) {
				a.argument(c)
			}
			loaded = c
			here := a.jump(c.val)
			if i == len(r.when)-1 {
				a.exit = append(a.exit, exit{here, r.errno, c.not})
			} else { // leads to the next rule if it doesn't hold
				a.exit = append(a.exit, exit{here, 0, !c.not})
			}
		}
		if len(r.when) > 1 {
			loaded = nil
			a.land(start, 0)
		}
	}
	a.allow()
}

// land makes the exits from start on that are for e lead to the end of what has
// been written.
func (a *assembler) land(start int, e syscall.Errno) {
	rest := a.exit[:start]
	for _, x := range a.exit[start:] {
		switch {
		case x.errno != e:
			rest = append(rest, x)
		case x.otherwise:
			a.code[x.jump].Jf = a.distance(x.jump)
		default:
			a.code[x.jump].Jt = a.distance(x.jump)
		}
	}
	a.exit = rest
}

// distance returns what the conditional jump at i skips in order to lead to
// the end of what has been written.
func (a *assembler) distance(i int) uint8 {
	d := len(a.code) - i - 1
	if d > math.MaxUint8 && a.err == nil {
		a.err = fmt.Errorf("seccomp: bug: a jump over %d instructions", d)
	}
	return uint8(d)
}

func (a *assembler) load(offset uint32) {
	a.add(bpf.LoadAbsolute{Off: offset, Size: wordSize}.Assemble())
}

func (a *assembler) argument(c *condition) {
	at := offsetArgs + argSize*uint32(c.arg)
	if c.high {
		at += wordSize
	}
	a.load(at)
	if c.mask != whole {
		a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask}.Assemble())
	}
}

// jump writes a jump on what is loaded being val, and returns where it is.
func (a *assembler) jump(val uint32) int {
	a.add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: val}.Assemble())
	return len(a.code) - 1
}

// jumpFrom is like jump, on being val or more.
func (a *assembler) jumpFrom(val uint32) int {
	a.add(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: val}.Assemble())
	return len(a.code) - 1
}

func (a *assembler) allow() {
	a.add(bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}.Assemble())
}

func (a *assembler) refuse(e syscall.Errno) {
	action := unix.SECCOMP_RET_ERRNO | uint32(e)
	if e == shown {
		action = unix.SECCOMP_RET_USER_NOTIF
	}
	a.add(bpf.RetConstant{Val: action}.Assemble())
}

func (a *assembler) add(i bpf.RawInstruction, err error) {
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("seccomp: bug: %w", err)
	}
	a.code = append(a.code, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
}
