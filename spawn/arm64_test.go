package spawn_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestArm64 runs this package's tests of an unconfined start as an arm64
// program under emulation, which knows neither Landlock nor seccomp, turns
// vfork into fork, and has no CLONE_PIDFD.
func TestArm64(t *testing.T) {
	if runtime.GOARCH == "arm64" {
		return // all tests are
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		testenv.Skip(t, "needs qemu-aarch64-static, of Debian's qemu-user-static")
	}
	testenv.NeedTool(t, "go")
	bin := filepath.Join(t.TempDir(), "arm64.test")
	build := testenv.Command(t, "go", "test", "-c", "-o", bin, ".")
	build.Env = append(build.Env, "GOARCH=arm64", "CGO_ENABLED=0")
	testenv.Output(t, build)

	// Nothing with other threads: the emulator has fork(2) for vfork(2), and its own
	// locks, which some thread may hold just then, hold up the child for ever.
	run := testenv.Command(t, emulator, bin, "-test.v",
		"-test.run=^(TestStart|TestStartSettings|TestStartFiles|TestStartErrors)$",
		"-test.skip=/(seccomp|bad_ruleset|bad_filter|bad_witness|nothing_to_witness|no_caps)$")
	run.Env = append(run.Env, "SPAWN_EMULATOR="+emulator)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
