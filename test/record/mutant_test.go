package record

import (
	"os"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
)

// These tests fail for a launcher whose record claims too much. What a launcher
// may do wrong else, test/conformance finds.
func TestMutants(t *testing.T) {
	testenv.NeedTool(t, "go")
	if testing.Short() {
		t.Skip("builds a launcher")
	}
	if s := landlock.Probe(); s.ABI < 3 || s.ABI >= 9 {
		testenv.Skip(t, "needs Landlock ABI 3 to 8, which hold no path sockets; this kernel has %d", s.ABI)
	}
	testenv.BuildLauncher(t) // looks at every source file, so that go test does
	exe := testenv.Mutant(t, testenv.Edit{
		File: "landlock/features.go",
		From: "f.add(policy.PromisePathSockets, 9,", To: "f.add(policy.PromisePathSockets, 3,",
	})
	cmd := testenv.Command(t, os.Args[0], "-test.run=^TestRecordIsTrue$/^"+testenv.Self().String()+"$/^default$")
	cmd.Env = append(cmd.Env, testenv.LauncherVar+"="+exe)
	const says = "path-sockets is called enforced, and connect was done"
	if r := testenv.Run(t, cmd); r.Code == 0 || !strings.Contains(r.Stdout, says) {
		t.Errorf("the tests of the broken launcher: %v; want a failure that says %q", r, says)
	}
}
