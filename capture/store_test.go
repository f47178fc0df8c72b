package capture

import (
	"path/filepath"
	"testing"
)

// openStore returns a new store that is closed when t ends. Without a limit of
// free space, so that it works anywhere.
func openStore(t testing.TB, l Limits) *Store {
	t.Helper()
	if l.Free == 0 {
		l.Free = -1
	}
	s, err := OpenStore(filepath.Join(t.TempDir(), "store"), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
