package launch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/launch"
)

// A file that a command gets as its output is added to the one ruleset if that is
// for one command: a second one that is started all the same has it, too. Otherwise
// it is in a ruleset of the command's own.
func TestOnce(t *testing.T) {
	needLandlock(t)
	for _, once := range []bool{false, true} {
		inside, outside := places(t)
		p := workspace(inside)
		p.NoCache = true
		s := prepareWith(t, p, launch.Options{Backend: launch.BackendLandlock, Once: once})
		log, err := os.Create(filepath.Join(outside, "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = log.Close() }()
		c := s.Command("sh", "-c", "echo one >>/dev/stdout")
		c.Dir, c.Stdout = inside, log
		if err := c.Run(); err != nil {
			t.Errorf("once %v: a command with the file as its output: %v", once, err)
		}
		c = s.Command("sh", "-c", `echo two >>"$0"`, log.Name())
		c.Dir = inside
		if err := c.Run(); (err == nil) != once {
			t.Errorf("once %v: a second command writes to the file: %v", once, err)
		}
	}
}
