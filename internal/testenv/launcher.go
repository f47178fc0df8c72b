package testenv

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// LauncherVar and RunnerVar are the environment variables that name a program
// to test, in place of one built from this tree.
const (
	LauncherVar = "SHOFER_TEST_LAUNCHER"
	RunnerVar   = "SHOFER_TEST_RUNNER"
)

var (
	launcher = program("shofer-sandbox", LauncherVar)
	runner   = program("runner", RunnerVar)
)

// buildTime bounds a build from nothing, on a busy machine too.
const buildTime = 5 * CommandTimeout

// program returns a function that builds a program of this tree once, unless
// the variable names one.
func program(name, variable string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if exe := os.Getenv(variable); exe != "" {
			_, err := os.Stat(exe) // go test remembers that it was looked at
			return exe, err
		}
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		// Look at every source file, so that go test doesn't take a pass from its
		// cache after a change in a package that the test doesn't import.
		if err := touchSources(root); err != nil {
			return "", err
		}
		dir, err := sharedDir()
		if err != nil {
			return "", err
		}
		exe := filepath.Join(dir, name)
		ctx, cancel := context.WithTimeout(context.Background(), buildTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", exe, "./cmd/"+name)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
		return exe, nil
	})
}

// BuildLauncher returns the launcher's static binary, built from this tree once
// per test process, or the one that [LauncherVar] names, which needs neither this
// tree nor a go command. Every user may execute
// it. It is removed when [Main] returns.
func BuildLauncher(t testing.TB) string {
	t.Helper()
	return build(t, launcher)
}

// BuildRunner is [BuildLauncher] for the runner, and [RunnerVar].
func BuildRunner(t testing.TB) string {
	t.Helper()
	return build(t, runner)
}

func build(t testing.TB, program func() (string, error)) string {
	t.Helper()
	if !mainCalled {
		t.Fatal("TestMain must call testenv.Main, which removes what is built here")
	}
	exe, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func touchSources(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".s") || e.Name() == "go.mod" {
			_, err = os.Stat(path)
		}
		return err
	})
}
