package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// mutants are launchers that were broken on purpose: in a source file, from is
// replaced by to.
var mutants = []struct {
	name           string
	file, from, to string
	abi            int    // what the kernel must have for the part that is broken
	says           string // in what the tests say
}{
	{
		"rename is not granted", "landlock/abi.go",
		"ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |", "ll.AccessFSWriteFile | ll.AccessFSTruncate |",
		3, "move can't be done inside",
	},
	{
		"truncate is not handled", "landlock/rules.go",
		"HandledFS: fs & abi.FS}", "HandledFS: fs & abi.FS &^ (1 << 14)}",
		3, "write is called enforced, and truncate was done",
	},
	{
		"descriptors stay open", "spawn/child_unsafe.go",
		"_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(n), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)", "var e syscall.Errno",
		3, "write is called enforced, and leaked-descriptor was done",
	},
	{
		"hooks are granted", "policy/protect.go",
		"p.hooks(dir)", "",
		3, "protect is called enforced, and hook was done",
	},
	{
		"signals are not scoped", "landlock/rules.go",
		"!r.Policy.IPC.AllowSignals", "false",
		6, "signals is called enforced, and kill was done",
	},
	{
		"the record claims too much", "landlock/features.go",
		"f.add(policy.PromisePathSockets, 9,", "f.add(policy.PromisePathSockets, 3,",
		3, "path-sockets is called enforced, and connect was done",
	},
}

// These tests fail for a launcher that is broken.
func TestMutants(t *testing.T) {
	testenv.NeedTool(t, "go")
	if testing.Short() {
		t.Skip("builds many launchers")
	}
	root := testenv.ModuleRoot(t)
	testenv.BuildLauncher(t) // looks at every source file, so that go test does
	whole, _ := newScene(t, testenv.Self()).explain()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if s := landlock.Probe(); s.ABI < m.abi {
				testenv.Skip(t, "needs Landlock ABI %d, this kernel has %d", m.abi, s.ABI)
			}
			promise, _, _ := strings.Cut(m.says, " ")
			if i := slices.IndexFunc(whole.Features, func(f policy.Feature) bool { return string(f.Promise) == promise }); i >= 0 {
				if whole.Features[i].State == policy.Absent && m.file != "landlock/features.go" {
					testenv.Skip(t, "%s isn't held here: %s", promise, whole.Features[i].Why)
				}
			}
			exe := mutate(t, root, m.file, m.from, m.to)
			cmd := testenv.Command(t, os.Args[0], "-test.run=^TestRecordIsTrue$/^"+testenv.Self().String()+"$/^default$")
			cmd.Env = append(cmd.Env, testenv.LauncherVar+"="+exe)
			r := testenv.Run(t, cmd)
			if r.Code == 0 || !strings.Contains(r.Stdout, m.says) {
				t.Errorf("the tests of the broken launcher: %v; want a failure that says %q", r, m.says)
			}
		})
	}
}

// mutate builds a launcher with a change in one source file, which stays as it
// is.
func mutate(t *testing.T, root, file, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), from); n != 1 {
		t.Fatalf("%s has %q %d times; want it once: say anew where this mutant is broken", file, from, n)
	}
	dir := testenv.Dir(t)
	changed, overlay, exe := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "shofer-sandbox")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, file): changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "go", "build", "-overlay", overlay, "-buildvcs=false", "-o", exe, "./cmd/shofer-sandbox")
	cmd.Dir = root
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	testenv.Output(t, cmd)
	return exe
}
