package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// opsVar makes the test binary carry out the operations in it, as the program
// that is run under a filter.
const opsVar = "SHOFER_TEST_OPS"

func TestMain(m *testing.M) {
	if ops := os.Getenv(opsVar); ops != "" {
		os.Exit(opsMain(ops))
	}
	os.Exit(testenv.Main(m, testenv.Helpers{"filtered": filteredMain}))
}

// setup says how the helper "filtered" starts a program.
type setup struct {
	Filter Filter
	// Ports, if it has lists, makes a Landlock ruleset beside the filter.
	Ports policy.Network
	// FileRights, if not 0, makes a ruleset that handles these and grants none.
	FileRights uint64
	// Extra, if not nil, is a program that is installed after the filter's.
	Extra []unix.SockFilter
	Ops   string // for the environment
}

// filteredMain is a host: it starts the program that is its arguments with the
// filter that its first argument says, and ends as it does.
func filteredMain(args []string) int {
	code, err := filtered(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "filtered:", err)
		return 125
	}
	return code
}

func filtered(args []string) (int, error) {
	var s setup
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return 0, err
	}
	filters, err := s.Filter.Compile()
	if err != nil {
		return 0, err
	}
	if s.Extra != nil {
		filters = append(filters, s.Extra)
	}
	env := os.Environ()
	if s.Ops != "" {
		env = append(env, opsVar+"="+s.Ops)
	}
	ruleset, err := s.ruleset()
	if err != nil {
		return 0, err
	}
	p, err := spawn.Start(&spawn.Plan{
		Path: args[1], Argv: args[1:], Env: env, Files: []int{0, 1, 2},
		NoNewPrivs: true, RulesetFD: ruleset, Filters: filters,
	})
	if err != nil {
		return 0, err
	}
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err == nil {
			break
		} else if !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// run returns a command that runs argv as u under s.
func run(t testing.TB, u testenv.User, s setup, argv ...string) testenv.Result {
	t.Helper()
	needFilters(t)
	in, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := u.Helper(t, "filtered", append([]string{string(in)}, argv...)...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // a second for each process, if built for it
	return testenv.Run(t, cmd)
}

// runOps carries ops out as u under s and returns what each ended with.
func runOps(t testing.TB, u testenv.User, s setup, ops []op) []syscall.Errno {
	t.Helper()
	in, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	s.Ops = string(in)
	r := run(t, u, s, "/proc/self/exe")
	var got []syscall.Errno
	if r.Code != 0 || json.Unmarshal([]byte(r.Stdout), &got) != nil || len(got) != len(ops) {
		t.Fatalf("%v under %v: %v", ops, s.Filter, r)
	}
	return got
}

// needFilters skips t where no filter can be installed, or on a machine that
// isn't known.
func needFilters(t testing.TB) {
	t.Helper()
	if err := Probe(); err != nil {
		testenv.Skip(t, "%v", err)
	}
	if _, ok := machineFor(runtime.GOARCH); !ok {
		testenv.Skip(t, "%v", &ArchError{runtime.GOARCH})
	}
}
