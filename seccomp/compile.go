package seccomp

import (
	"fmt"
	"math"
	"runtime"
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
	rules := f.rules()
	a := assembler{code: make([]unix.SockFilter, 0, 128)}
	a.load(offsetArch)
	for i := range m {
		start := len(a.code)
		a.jump(bpf.JumpEqual, m[i].arch, 0)
		a.door(&m[i], rules)
		a.code[start].Jf = a.distance(start)
	}
	a.refuse(syscall.ENOSYS)
	return a.code, a.err
}

// assembler writes a program. The first error stays.
type assembler struct {
	code []unix.SockFilter
	err  error
}

// door writes what is done about the calls of d. It ends in a return.
func (a *assembler) door(d *door, rules [][]rule) {
	a.load(offsetNumber)
	if d.x32 {
		a.jump(bpf.JumpGreaterOrEqual, x32Bit, 1)
		a.refuse(syscall.ENOSYS)
	}
	for c := range numCalls {
		if d.nr[c] != none {
			a.call(c, d.nr[c], rules)
		}
	}
	a.allow()
}

// call writes the rules of a call, if there are any.
func (a *assembler) call(c call, nr uint32, rules [][]rule) {
	start := len(a.code)
	a.jump(bpf.JumpEqual, nr, 0)
	for _, list := range rules {
		for i := range list {
			if list[i].call != c {
				continue
			}
			a.rule(&list[i])
			if list[i].when == nil { // nothing comes after it
				a.code[start].Jf = a.distance(start)
				return
			}
		}
	}
	if len(a.code) == start+1 {
		a.code = a.code[:start]
		return
	}
	a.allow()
	a.code[start].Jf = a.distance(start)
}

// rule writes what is done when the call of r is made.
func (a *assembler) rule(r *rule) {
	start := len(a.code)
	for _, c := range r.when {
		at := offsetArgs + argSize*uint32(c.arg)
		if c.high {
			at += wordSize
		}
		a.load(at)
		if c.mask != whole {
			a.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask}.Assemble())
		}
		a.jump(bpf.JumpEqual, c.val, 0)
	}
	a.refuse(r.errno)

	// Each condition that doesn't hold leads to behind the rule.
	i := start
	for _, c := range r.when {
		i++
		if c.mask != whole {
			i++
		}
		if c.not {
			a.code[i].Jt = a.distance(i)
		} else {
			a.code[i].Jf = a.distance(i)
		}
		i++
	}
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

// jump goes on if the test holds, and skips some instructions otherwise.
func (a *assembler) jump(test bpf.JumpTest, val uint32, otherwise uint8) {
	a.add(bpf.JumpIf{Cond: test, Val: val, SkipFalse: otherwise}.Assemble())
}

func (a *assembler) allow() {
	a.add(bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}.Assemble())
}

func (a *assembler) refuse(e syscall.Errno) {
	a.add(bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}.Assemble())
}

func (a *assembler) add(i bpf.RawInstruction, err error) {
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("seccomp: bug: %w", err)
	}
	a.code = append(a.code, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
}
