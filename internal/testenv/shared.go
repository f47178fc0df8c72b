package testenv

import (
	"os"
	"sync"
)

var (
	sharedMu   sync.Mutex
	sharedPath string
)

// sharedDir returns a folder of this process that lives until [Main] returns,
// and that every user can read. It lies in the folder for temporary files.
func sharedDir() (string, error) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedPath != "" {
		return sharedPath, nil
	}
	dir, err := os.MkdirTemp("", "shofer-test-")
	if err != nil {
		return "", err
	}
	sharedPath = dir
	return dir, os.Chmod(dir, 0o755)
}

// cleanShared removes what sharedDir made.
func cleanShared() {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedPath != "" {
		_ = os.RemoveAll(sharedPath) // nothing depends on it any more
		sharedPath = ""
	}
}
