package local_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"golang.org/x/sys/unix"
)

// unforkable makes this process too large for the kernel to promise a copy of it,
// if args say so, and runs a command that says whose child it is.
func unforkable(args []string) int {
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	if args[1] == "large" {
		var info unix.Sysinfo_t
		if err := unix.Sysinfo(&info); err != nil {
			return fail(err)
		}
		// The kernel's guess is about one mapping at a time, and at most all there is.
		// Each half is less than that; in a copy they are one.
		half := int(info.Totalram+info.Totalswap) * int(info.Unit) / 3 * 2 &^ (os.Getpagesize() - 1)
		large, err := unix.Mmap(-1, 0, 2*half, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fail(err)
		}
		for _, part := range [][]byte{large[:half], large[half:]} {
			if err := unix.Mprotect(part, unix.PROT_READ|unix.PROT_WRITE); err != nil {
				return fail(err)
			}
		}
	}
	e, err := local.New(configOf(args[0], func(c *local.Config) { c.Supervisor = local.Self }))
	if err != nil {
		return fail(err)
	}
	r, err := runner.New(runner.Config{Executor: e})
	if err != nil {
		return fail(err)
	}
	s, err := r.Resolve(runner.Request{Command: `tr '\0' ' ' </proc/$PPID/cmdline; exit 5`})
	if err != nil {
		return fail(err)
	}
	res, err := r.Run(context.Background(), s)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%d %s\n", res.ExitCode, res.Stdout.Text())
	if err := r.Close(context.Background()); err != nil {
		return fail(err)
	}
	return 0
}

// A process that the kernel can't copy has its commands guarded by a program.
func TestNoCopy(t *testing.T) {
	if b, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err != nil || string(b) != "0\n" {
		testenv.Skip(t, "needs a kernel that refuses to promise more memory than there is: overcommit_memory %q, %v", b, err)
	}
	for size, guard := range map[string]string{"small": " small \n", "large": "5 shofer-sandbox-supervisor "} {
		got := testenv.Output(t, testenv.Helper(t, "unforkable", testenv.Self().Dir(t), size))
		if !strings.HasPrefix(got, "5 ") || !strings.Contains(got, guard) {
			t.Errorf("%s: the exit code and the command line of the guard: %q; want 5 and %q", size, got, guard)
		}
	}
}
