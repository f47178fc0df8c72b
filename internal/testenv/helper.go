package testenv

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// helperVar names the helper that a re-executed test binary is to be.
const helperVar = "SHOFER_TEST_HELPER"

// raceVar has options of the race detector. With it, a process that says nothing
// else sleeps for a second before it ends.
const raceVar = "GORACE"

// Helpers maps the names of a package's helpers to what they do. A helper is
// the test binary run again, for what can't be undone in the test process:
// Landlock, capabilities, limits, the environment. It gets its arguments and
// returns its exit code; it may also exec, or panic (which is exit code 2).
type Helpers map[string]func(args []string) int

var (
	mainCalled  bool
	known       Helpers
	helpersUsed sync.Map // name -> true
)

// Main is what a TestMain calls, as os.Exit(testenv.Main(m, helpers)): it runs
// the helper that this process is to be, or the tests. After a whole run by
// root that passed, a helper that no test used is a failure.
func Main(m *testing.M, helpers Helpers) int {
	mainCalled, known = true, helpers
	if name := os.Getenv(helperVar); name != "" {
		if err := os.Unsetenv(helperVar); err != nil { // a helper may start us again, as itself
			panic(err)
		}
		f, ok := helpers[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "testenv: no helper is called %q\n", name)
			return 2
		}
		return f(os.Args[1:])
	}
	heedSignals()
	code := m.Run()
	cleanShared()
	// Some tests are root's alone, and others truly can't be skipped by root.
	if code == 0 && wholeRun() && os.Geteuid() == 0 {
		for _, name := range slices.Sorted(maps.Keys(helpers)) {
			if _, ok := helpersUsed.Load(name); !ok {
				fmt.Fprintf(os.Stderr, "testenv: helper unused: %q\n", name)
				code = 1
			}
		}
	}
	return code
}

// heedSignals has what tests start begin as usual where this process was told to
// ignore signals, as by nohup(1): a program inherits that.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} { // Go handles the others anyway
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// wholeRun reports whether no flag left tests out.
func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}

// Helper returns a command, as [Command] does, that runs the named helper of
// the Helpers given to [Main]. Under the race detector it ends without delay.
func Helper(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return Self().Helper(t, name, args...)
}

// Helper is like the function of that name, run by u.
func (u User) Helper(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if !mainCalled {
		t.Fatal("TestMain must call testenv.Main before there can be helpers")
	}
	if _, ok := known[name]; !ok {
		t.Fatalf("no helper is called %q", name)
	}
	helpersUsed.Store(name, true)
	exe, err := selfCopy()
	if err != nil {
		t.Fatal(err)
	}
	cmd := Command(t, exe, args...)
	cmd.Env = append(cmd.Env, helperVar+"="+name, raceVar+"="+strings.TrimSpace("atexit_sleep_ms=0 "+os.Getenv(raceVar)))
	u.Apply(cmd)
	return cmd
}
