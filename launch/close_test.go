package launch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// A closed sandbox has no ruleset any more: nothing may start without.
func TestClosed(t *testing.T) {
	needLandlock(t)
	testenv.CheckFDs(t)
	for _, b := range []launch.Backend{launch.BackendAuto, launch.BackendLandlock} {
		for _, before := range []bool{false, true} {
			inside, outside := places(t)
			p := workspace(inside)
			p.NoCache = true
			s, err := launch.Prepare(p, launch.Options{Backend: b})
			if err != nil {
				t.Fatal(err)
			}
			if before {
				if err := s.Command("true").Run(); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Errorf("Close: %v", err)
			}
			write := []string{"sh", "-c", `echo x >"$0"`, filepath.Join(outside, "file")}
			_, startErr := s.Start(&launch.Command{Args: write})
			execErr := s.Exec(&launch.Command{Args: []string{"nosuch"}}) // else it would be us that is replaced
			for _, err := range []error{s.Command(write[0], write[1:]...).Run(), startErr, execErr} {
				var setup *launch.SetupError
				if !errors.Is(err, launch.ErrClosed) || !errors.As(err, &setup) {
					t.Errorf("backend %q, used before %v: a start after Close: %v; want ErrClosed in a SetupError", b, before, err)
				}
			}
			if _, err := os.Lstat(write[3]); err == nil {
				t.Errorf("backend %q, used before %v: a command ran unconfined", b, before)
			}
		}
	}
}

// What is started while the sandbox is closed is confined, or doesn't start.
func TestCloseMeanwhile(t *testing.T) {
	needLandlock(t)
	inside, outside := places(t)
	p := workspace(inside)
	p.NoCache = true
	for round := range 10 {
		s, err := launch.Prepare(p, launch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				file := filepath.Join(outside, fmt.Sprint(round, "-", i))
				if err := s.Command("sh", "-c", `echo x >"$0"`, file).Run(); err == nil {
					t.Errorf("%s could be written to", file)
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// What wasn't made ready starts nothing either, and doesn't panic.
func TestNeverOpened(t *testing.T) {
	if err := (&launch.Cmd{Path: "/bin/true"}).Run(); err == nil {
		t.Error("a Cmd of no Sandbox ran")
	}
	needLandlock(t)
	inside, _ := places(t)
	s, err := launch.Prepare(workspace(inside), launch.Options{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	var setup *launch.SetupError
	if err := s.Command("true").Run(); !errors.As(err, &setup) {
		t.Errorf("a start after a dry run: %v; want a SetupError", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
