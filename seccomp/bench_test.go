package seccomp

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// all are the filters that are measured, nothing first.
var all = []Filter{
	{},
	{NoTerminalInjection: true},
	{NoTerminalInjection: true, NoNetwork: true},
	{NoTerminalInjection: true, PlainTCP: true},
	{NoTerminalInjection: true, NoNewFilesystems: true, NoSubvolumes: true, NoForeignLimits: true},
	filterOf(allFields),
}

func benchName(f Filter) string { return strings.ReplaceAll(f.String(), ", ", "+") }

func BenchmarkCompile(b *testing.B) {
	for _, f := range all {
		b.Run(benchName(f), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Compile(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStart starts /bin/true under each filter.
func BenchmarkStart(b *testing.B) {
	needFilters(b)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	for _, f := range all {
		b.Run(benchName(f), func(b *testing.B) {
			filters, err := f.Compile()
			if err != nil {
				b.Fatal(err)
			}
			p := &spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, Files: []int{fd, fd, fd}, NoNewPrivs: true, Filters: filters}
			for b.Loop() {
				c, err := spawn.Start(p)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := unix.Wait4(c.Pid, nil, 0, nil); err != nil {
					b.Fatal(err)
				}
				unix.Close(c.PidFD)
			}
		})
	}
}

// BenchmarkCalls makes a system call under each filter: one that no rule is
// about, one that a rule looks at and lets pass.
func BenchmarkCalls(b *testing.B) {
	for _, c := range []struct {
		name string
		op   []any
	}{
		{"getppid", []any{unix.SYS_GETPPID}},
		{"ioctl", []any{unix.SYS_IOCTL, 0, 0x5451 /* FIOCLEX */}},
	} {
		for _, f := range all {
			b.Run(c.name+"/"+benchName(f), func(b *testing.B) {
				got := runOps(b, testenv.Self(), setup{Filter: f}, []op{do("repeat", append([]any{b.N}, c.op...)...)})
				if got[0] != 0 {
					b.Fatal(got[0])
				}
			})
		}
	}
}
