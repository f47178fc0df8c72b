package bwrap

import (
	"os"
	"runtime"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// The inner stage of these tests becomes the command, which it must do on the
// first thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	code := testenv.Main(m, testenv.Helpers{
		"inner":   innerMain,
		"nested":  nestedMain,
		"ops":     opsMain,
		"probe":   probeMain,
		"starter": starterMain,
	})
	if toolDir != "" {
		_ = os.RemoveAll(toolDir) // nothing depends on it any more
	}
	os.Exit(code)
}
