package launch_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/launch"
)

// A signal and an exit code that looks like one are told apart, under
// bubblewrap too.
func TestCmdStatus(t *testing.T) {
	needLandlock(t)
	inside, _ := places(t)
	plain, err := launch.Prepare(workspace(inside), launch.Options{Backend: launch.BackendLandlock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	for name, s := range map[string]*launch.Sandbox{"plain": plain, "boxed": boxed(t, workspace(inside))} {
		for script, want := range map[string]syscall.WaitStatus{
			"kill -9 $$": syscall.WaitStatus(syscall.SIGKILL),
			"exit 137":   137 << 8,
			"exit 0":     0,
		} {
			c := s.Command("sh", "-c", script)
			c.Dir = inside
			if _, ok := c.Status(); ok {
				t.Error("Status() before the end is ok")
			}
			_ = c.Run() // Status says it
			if got, ok := c.Status(); !ok || got.Status != want || got.Rusage.Maxrss == 0 {
				t.Errorf("%s: %q: Status() = %#x, %v, rss %d; want %#x", name, script, got.Status, ok, got.Rusage.Maxrss, want)
			}
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := launch.LookPath("tool", "", []string{"PATH=/nowhere:" + dir}); err != nil || got != filepath.Join(dir, "tool") {
		t.Errorf("LookPath = %q, %v; want the one in %s", got, err, dir)
	}
	if got, err := launch.LookPath("tool", "", []string{"PATH=/nowhere"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LookPath elsewhere = %q, %v; want not exist", got, err)
	}
	if got, err := launch.LookPath("./tool", dir, nil); err != nil || got != "./tool" {
		t.Errorf("LookPath of a path = %q, %v; want it as it is", got, err)
	}
}
