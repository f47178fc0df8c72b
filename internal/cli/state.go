package cli

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
)

// stateDir is where output and background commands are kept.
func (p *program) stateDir() (string, error) {
	if p.state != "" {
		return filepath.Abs(p.state)
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // a relative one is to be ignored
		home := os.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", &hinted{errors.New("where to keep output isn't known: HOME isn't set"), "set HOME or XDG_STATE_HOME, or give --state DIR"}
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "shofer-sandbox"), nil
}

// background opens the folder of commands in the background.
func (p *program) background() (*background.Dir, error) {
	dir, err := p.stateDir()
	if err != nil {
		return nil, err
	}
	d, err := background.Open(filepath.Join(dir, "commands"))
	if err != nil {
		return nil, &hinted{err, "give another folder with --state"}
	}
	return d, nil
}

// store opens the store of output.
func (p *program) store() (*capture.Store, error) {
	dir, err := p.stateDir()
	if err != nil {
		return nil, err
	}
	s, err := capture.OpenStore(filepath.Join(dir, "output"), capture.Limits{})
	if err != nil {
		return nil, &hinted{err, "give another folder with --state"}
	}
	return s, nil
}
