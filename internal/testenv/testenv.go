// Package testenv is what this project's tests share: commands that can't
// outlive their test, folders and git repositories to work on, a second user to
// be, helper processes, and skips that a strict run turns into failures.
//
// It uses the real kernel, the real git and real files. Nothing here may be
// imported outside of tests.
package testenv

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// RequireVar is the environment variable that turns every skip into a failure.
const RequireVar = "SHOFER_TEST_REQUIRE"

// Required reports whether this run may skip nothing.
func Required() bool { return os.Getenv(RequireVar) != "" }

// Skip skips t because this machine can't hold the test; with [RequireVar] set
// it fails t instead. Every skip of the project goes through here.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf(RequireVar+" is set, so this may not be skipped: "+format, args...)
	} else {
		t.Skipf(format, args...)
	}
}

// toolProbes holds, for a tool whose mere presence says little, the arguments
// that make it do something harmless. All others are asked for --version.
var toolProbes = map[string][]string{
	"bwrap":   {"--ro-bind", "/", "/", "--dev", "/dev", "/bin/true"},
	"go":      {"version"},
	"javac":   {"-version"},
	"jar":     {"--help"},
	"sh":      {"-c", ":"},
	"strace":  {"-V"},
	"tmux":    {"-V"},
	"sshd":    {"-V"},
	"ssh":     {"-V"},
	"openssl": {"version"},
}

type toolKey struct {
	uid  int
	name string
}

var tools sync.Map // toolKey -> error

// NeedTool skips t (see [Skip]) unless each named program can be run by this
// process. Programs are run, not only looked up: a version manager's shim that
// another user can't use, or a bwrap that may not make namespaces, is missing.
func NeedTool(t testing.TB, names ...string) {
	t.Helper()
	Self().NeedTool(t, names...)
}

// UnsharePID returns the arguments by which unshare(1) runs what follows them as
// the first process of a PID namespace, below the /proc of another one. The test is
// skipped where this user can't.
func UnsharePID(t testing.TB) []string {
	t.Helper()
	NeedTool(t, "unshare")
	args := []string{"--pid", "--fork"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-current-user")
	}
	if r := Run(t, Command(t, "unshare", append(slices.Clip(args), "true")...)); r.Code != 0 {
		Skip(t, "needs PID namespaces: %s", r)
	}
	return args
}

// NeedTool is like the function of that name, for a program run by u.
func (u User) NeedTool(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		key := toolKey{u.UID, name}
		got, ok := tools.Load(key)
		if !ok {
			got, _ = tools.LoadOrStore(key, toolError{u.tryTool(name)})
		}
		if err := got.(toolError).error; err != nil { //nolint:forcetypeassert // only toolError is ever stored
			Skip(t, "needs %s as %v: %v", name, u, err)
		}
	}
}

// toolError boxes an error, so that nil can be stored in a sync.Map.
type toolError struct{ error }

func (u User) tryTool(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	args, ok := toolProbes[name]
	if !ok {
		args = []string{"--version"}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	u.Apply(cmd)
	return cmd.Run()
}

// ModuleRoot returns the folder of this module's go.mod. It fails t when the
// test doesn't run inside the module.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}
