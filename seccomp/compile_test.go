package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// data is what a program sees of a call, struct seccomp_data.
type data struct {
	nr, arch uint32
	args     [6]uint64
}

// vm returns the program of f for m, to be run here.
func vm(t testing.TB, f Filter, m machine) *bpf.VM {
	t.Helper()
	code, err := f.compile(m)
	if err != nil {
		t.Fatalf("(%v).compile() = %v", f, err)
	}
	raw := make([]bpf.RawInstruction, len(code))
	for i, c := range code {
		raw[i] = bpf.RawInstruction{Op: c.Code, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	insts, known := bpf.Disassemble(raw)
	if !known {
		t.Fatalf("(%v).compile() has an instruction that can't be read", f)
	}
	v, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatalf("(%v).compile() is no program: %v", f, err)
	}
	return v
}

// evaluate runs a program on d.
func evaluate(t testing.TB, v *bpf.VM, d data) uint32 {
	t.Helper()
	// The kernel's words are in its own order, those of this machine for packets
	// in the network's.
	b := make([]byte, 0, 64)
	for _, w := range [...]uint32{d.nr, d.arch, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	for _, a := range d.args {
		b = binary.BigEndian.AppendUint32(b, uint32(a))
		b = binary.BigEndian.AppendUint32(b, uint32(a>>32))
	}
	got, err := v.Run(b)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// decide runs a program on d: 0 if the call passes, else its errno.
func decide(t testing.TB, v *bpf.VM, d data) syscall.Errno {
	t.Helper()
	got := evaluate(t, v, d)
	switch action := got & unix.SECCOMP_RET_ACTION_FULL; action {
	case unix.SECCOMP_RET_ALLOW:
		return 0
	case unix.SECCOMP_RET_ERRNO:
		return syscall.Errno(got & unix.SECCOMP_RET_DATA)
	default:
		t.Fatalf("%+v ends in action %#x", d, action)
		return 0
	}
}

// want is what the documentation says about a call, in other words than the
// rules.
func want(f Filter, m machine, d data) syscall.Errno {
	i := slices.IndexFunc(m, func(door door) bool { return door.arch == d.arch })
	if i < 0 || d.arch == unix.AUDIT_ARCH_X86_64 && d.nr >= 0x40000000 {
		return syscall.ENOSYS
	}
	c := numCalls
	for x, nr := range m[i].nr {
		if nr == d.nr && nr != none {
			c = call(x)
		}
	}
	arg := func(i int) uint32 { return uint32(d.args[i]) }
	sockets := f.NoNetwork || f.PlainTCP || f.NoListen
	truncates := func(flags uint32) bool { return flags&0x200 != 0 && flags&3 != 1 && flags&3 != 2 }
	fastOpen := func(flags uint32) bool { return flags>>29&1 == 1 }
	switch c {
	case callIoctl:
		switch {
		case f.NoTerminalInjection && arg(1) == 0x5412:
			return syscall.EIO
		case f.NoTerminalInjection && arg(1) == 0x541c:
			return syscall.EPERM
		case f.NoSubvolumes && slices.Contains([]uint32{0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x5000943f}, arg(1)):
			return syscall.EACCES
		case f.NoSubvolumes && arg(1)>>8&0xff == 0xbc && (arg(1)&0xff == 17 || arg(1)&0xff == 30):
			return syscall.EACCES
		}
	case callSocket:
		inet := arg(0) == 2 || arg(0) == 10
		switch {
		case f.NoNetwork && arg(0) != 1:
			return syscall.EAFNOSUPPORT
		case f.PlainTCP && arg(0) == 43:
			return syscall.EAFNOSUPPORT
		case f.PlainTCP && inet && (arg(2) == 262 || arg(2) == 256):
			return syscall.EPROTONOSUPPORT
		}
	case callSocketpair:
		if f.NoNetwork && arg(0) != 1 {
			return syscall.EAFNOSUPPORT
		}
	case callSocketcall:
		if sockets {
			return syscall.ENOSYS
		}
	case callListen:
		if f.NoListen {
			return syscall.EACCES
		}
	case callSetsockopt:
		if f.PlainTCP && arg(1) == 6 && arg(2) == 31 {
			return syscall.ENOENT
		}
	case callSend, callSendto, callSendmmsg:
		if f.PlainTCP && fastOpen(arg(3)) {
			return syscall.EOPNOTSUPP
		}
	case callSendmsg:
		if f.PlainTCP && fastOpen(arg(2)) {
			return syscall.EOPNOTSUPP
		}
	case callTruncate, callTruncate64:
		if f.NoTruncate {
			return syscall.EACCES
		}
	case callOpen:
		if f.NoTruncate && truncates(arg(1)) {
			return syscall.EACCES
		}
	case callOpenat, callOpenByHandleAt:
		if f.NoTruncate && truncates(arg(2)) {
			return syscall.EACCES
		}
	case callOpenat2:
		if f.NoTruncate {
			return syscall.ENOSYS
		}
	case callFsopen, callFsconfig, callFspick:
		if f.NoNewFilesystems {
			return syscall.EPERM
		}
	case callPrlimit:
		if f.NoForeignLimits && arg(0) != 0 && d.args[2] != 0 {
			return syscall.EPERM
		}
	case callClone3:
		if f.NoForeignGroups {
			return syscall.ENOSYS
		}
	case callIOUringSetup, callIOUringEnter, callIOUringRegister:
		if sockets || f.NoTruncate {
			return syscall.ENOSYS
		}
	}
	return 0
}

// allFields has a bit for each field of a filter.
const allFields = 1<<9 - 1

// filterOf returns one of the 512 filters.
func filterOf(bits uint16) Filter {
	return Filter{
		NoNetwork:           bits&1 != 0,
		NoTerminalInjection: bits&2 != 0,
		NoTruncate:          bits&4 != 0,
		PlainTCP:            bits&8 != 0,
		NoListen:            bits&16 != 0,
		NoNewFilesystems:    bits&32 != 0,
		NoSubvolumes:        bits&64 != 0,
		NoForeignLimits:     bits&128 != 0,
		NoForeignGroups:     bits&256 != 0,
	}
}

// some returns each filter that has one or two fields set, and the one with all.
func some() []Filter {
	fs := []Filter{filterOf(allFields)}
	for i := range 9 {
		for j := range i + 1 {
			fs = append(fs, filterOf(1<<i|1<<j))
		}
	}
	return fs
}

var machines = map[string]machine{"amd64": amd64, "arm64": arm64}

// TestEveryCall runs each of the filters on each call number of each machine,
// with arguments that are, or are near, what the rules are about.
func TestEveryCall(t *testing.T) {
	words := []uint32{
		0, 1, 2, 3, 6, 10, 16, 31, 43, 256, 262, 0x200, 0x201, 0x202, 0x203, 0x80200,
		unix.TIOCSTI, unix.TIOCLINUX, unix.TCGETS, unix.MSG_FASTOPEN, unix.MSG_NOSIGNAL, unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL, whole,
		0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x5000943f, 0x5000940d, 0x4020bc11, 0x4028bc1e, 0xbc12,
	}
	r := rand.New(rand.NewPCG(1, 2))
	word := func() uint64 { return uint64(words[r.IntN(len(words))]) }
	for name, m := range machines {
		for _, f := range some() {
			v := vm(t, f, m)
			for _, door := range m {
				for nr := range uint32(500) {
					n := 1
					if slices.Contains(door.nr[:], nr) {
						n = 60
					}
					for range n {
						d := data{nr: nr, arch: door.arch}
						for i := range d.args {
							if d.args[i] = word(); r.IntN(2) == 0 {
								d.args[i] |= word() << 32
							}
						}
						if got, want := decide(t, v, d), want(f, m, d); got != want {
							t.Fatalf("%s: %v of %+v = %v; want %v", name, f, d, got, want)
						}
					}
				}
			}
		}
	}
}

// TestOtherDoors: calls of x32 and of architectures that the machine hasn't.
func TestOtherDoors(t *testing.T) {
	for name, m := range machines {
		for _, f := range some() {
			v := vm(t, f, m)
			var ds []data
			for _, arch := range []uint32{0, unix.AUDIT_ARCH_S390X, unix.AUDIT_ARCH_ARMEB, unix.AUDIT_ARCH_RISCV64, whole} {
				ds = append(ds, data{nr: 39, arch: arch})
			}
			if name == "amd64" {
				for _, nr := range []uint32{x32Bit, x32Bit + 39, x32Bit + 41, x32Bit + 514, 1 << 31, whole} {
					ds = append(ds, data{nr: nr, arch: unix.AUDIT_ARCH_X86_64})
				}
				ds = append(ds, data{nr: 39, arch: unix.AUDIT_ARCH_AARCH64})
			} else {
				ds = append(ds, data{nr: 39, arch: unix.AUDIT_ARCH_X86_64}, data{nr: 39, arch: unix.AUDIT_ARCH_I386})
			}
			for _, d := range ds {
				if got := decide(t, v, d); got != syscall.ENOSYS {
					t.Errorf("%s: %v of %+v = %v; want %v", name, f, d, got, syscall.ENOSYS)
				}
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(uint16(1), true, uint32(unix.AUDIT_ARCH_X86_64), uint32(41), uint64(2), uint64(1), uint64(0), uint64(0))
	f.Add(uint16(2), true, uint32(unix.AUDIT_ARCH_I386), uint32(54), uint64(0), uint64(0x5412), uint64(0), uint64(0))
	f.Add(uint16(8), false, uint32(unix.AUDIT_ARCH_ARM), uint32(290), uint64(0), uint64(0), uint64(0), uint64(1<<29))
	f.Add(uint16(31), false, uint32(unix.AUDIT_ARCH_AARCH64), uint32(56), uint64(0), uint64(0), uint64(0x203), uint64(0))
	f.Fuzz(func(t *testing.T, bits uint16, onAMD64 bool, arch, nr uint32, a0, a1, a2, a3 uint64) {
		filter, m := filterOf(bits&allFields), arm64
		if onAMD64 {
			m = amd64
		}
		if filter == (Filter{}) {
			return
		}
		d := data{nr, arch, [6]uint64{a0, a1, a2, a3}}
		if got, want := decide(t, vm(t, filter, m), d), want(filter, m, d); got != want {
			t.Errorf("%v of %+v = %v; want %v", filter, d, got, want)
		}
	})
}

// TestCompile holds one program against what it should be, word for word.
func TestCompile(t *testing.T) {
	code, err := Filter{NoTerminalInjection: true}.compile(amd64)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range code {
		got = append(got, fmt.Sprint(bpf.RawInstruction{Op: c.Code, Jt: c.Jt, Jf: c.Jf, K: c.K}.Disassemble()))
	}
	want := strings.Split(`ld [4]
jneq #3221225534,11
ld [0]
jge #1073741824,6
jneq #16,4
ld [24]
jeq #21522,4
jeq #21532,4
ret #2147418112
ret #2147418112
ret #327718
ret #327685
ret #327681
jneq #1073741827,9
ld [0]
jneq #54,4
ld [24]
jeq #21522,3
jeq #21532,3
ret #2147418112
ret #2147418112
ret #327685
ret #327681
ret #327718`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("compile() =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCompileForThisMachine(t *testing.T) {
	if p, err := (Filter{}).Compile(); p != nil || err != nil {
		t.Errorf("Filter{}.Compile() = %v, %v; want nothing", p, err)
	}
	m, known := machineFor(runtime.GOARCH)
	got, err := Filter{NoNetwork: true}.Compile()
	var unknown *ArchError
	if !known {
		if !errors.As(err, &unknown) || unknown.Arch != runtime.GOARCH {
			t.Errorf("Compile() = %v; want an *ArchError for %s", err, runtime.GOARCH)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := Filter{NoNetwork: true}.compile(m)
	if err != nil || !reflect.DeepEqual(got, [][]unix.SockFilter{want}) {
		t.Errorf("Compile() = %v; want %v, %v", got, want, err)
	}
	if _, ok := machineFor("mips"); ok {
		t.Error("mips is known; want only what the tables have")
	}
}

// TestLongJump: a program that can't be is an error, and not another program.
func TestLongJump(t *testing.T) {
	rules := make([]rule, 300)
	for i := range rules {
		rules[i] = rule{callIoctl, syscall.EPERM, []condition{{arg: 1, mask: whole, val: uint32(i)}}}
	}
	var a assembler
	a.door(&amd64[0], [][]rule{rules})
	if a.err == nil {
		t.Error("a jump over 300 instructions is no error")
	}
}
