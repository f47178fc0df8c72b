package background

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Keep bounds what is kept of commands that have ended. Zero is 256 of them, for
// seven days.
type Keep struct {
	Count int
	Age   time.Duration
}

// halfMade is how old a folder without an id is before it is taken for what a
// killed supervisor left.
const halfMade = time.Minute

// Sweep removes commands that have ended long ago, those that are too many, and
// what killed supervisors have left behind. It returns how many commands that
// were. What they printed is the store's.
func (d *Dir) Sweep(k Keep) (removed int, err error) {
	if k.Count == 0 {
		k.Count = 256
	}
	if k.Age == 0 {
		k.Age = 7 * 24 * time.Hour
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < halfMade || isLocked(filepath.Join(path, lockName)) {
			continue
		}
		if strings.HasPrefix(e.Name(), newPrefix) {
			errs = append(errs, os.RemoveAll(path))
			continue
		}
		if isID(e.Name()) {
			if _, err := readStatus(path); err != nil {
				errs = append(errs, os.RemoveAll(path)) // a crash of the machine
			}
		}
	}
	all, err := d.List()
	if err != nil {
		return 0, errors.Join(append(errs, err)...)
	}
	left := 0
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		if !c.Final() {
			continue
		}
		at := c.Ended
		if at.IsZero() {
			at = c.Started
		}
		if left < k.Count && time.Since(at) < k.Age {
			left++
			continue
		}
		errs = append(errs, c.Remove())
		removed++
	}
	return removed, errors.Join(errs...)
}

// ErrRuns is returned for what can't be removed since it runs.
var ErrRuns = errors.New("the command runs")

// Remove removes a command that has ended; what it printed stays in the store.
func (c *Command) Remove() error {
	if !c.Final() {
		return ErrRuns
	}
	return os.RemoveAll(c.dir)
}
