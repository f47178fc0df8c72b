package landlock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	code := testenv.Main(m, testenv.Helpers{
		"confined":    confinedMain,
		"layers":      layersMain,
		"thread":      threadMain,
		"unreachable": unreachableMain,
	})
	if simulatorDir != "" {
		_ = os.RemoveAll(simulatorDir) // nothing depends on it any more
	}
	os.Exit(code)
}

// needABI skips t unless the kernel has Landlock of at least version abi.
func needABI(t testing.TB, abi int) {
	t.Helper()
	if s := Probe(); s.ABI < abi {
		testenv.Skip(t, "needs Landlock ABI %d, this kernel has %d %s", abi, s.ABI, s.Reason())
	}
}

// simulatorVar names a prebuilt simulator, for machines without Go.
const simulatorVar = "SHOFER_TEST_LLSIM"

var simulatorDir string

// simulator builds test/llsim, once.
var simulator = sync.OnceValues(func() (string, error) {
	if exe := os.Getenv(simulatorVar); exe != "" {
		return exe, nil
	}
	dir, err := os.MkdirTemp("", "shofer-llsim-")
	if err != nil {
		return "", err
	}
	simulatorDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // for the ordinary user
		return "", err
	}
	exe := filepath.Join(dir, "llsim")
	ctx, cancel := context.WithTimeout(context.Background(), testenv.CommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", exe, "../test/llsim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return exe, nil
})

// kernel is the real one, or one that the simulator plays.
type kernel struct {
	name string // for -abi, empty for the real one
	abi  int
}

// eachKernel runs f as a subtest for the real kernel and for each older one.
func eachKernel(t *testing.T, f func(t *testing.T, k kernel)) {
	t.Helper()
	real := Probe().ABI
	t.Run("real", func(t *testing.T) { f(t, kernel{abi: real}) })
	kernels := []kernel{{"0", 0}, {"off", 0}}
	for abi := 1; abi <= 6; abi++ {
		kernels = append(kernels, kernel{strconv.Itoa(abi), abi})
	}
	for _, k := range kernels {
		t.Run("abi-"+k.name, func(t *testing.T) {
			needABI(t, max(1, k.abi))
			if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
				testenv.Skip(t, "the simulator doesn't know %s", runtime.GOARCH)
			}
			if os.Getenv(simulatorVar) == "" {
				testenv.NeedTool(t, "go")
			}
			f(t, k)
		})
	}
}

// under makes cmd run on k.
func (k kernel) under(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // or each takes a second
	if k.name == "" {
		return cmd
	}
	exe, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append([]string{exe, "-abi", k.name, "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = exe
	return cmd
}
