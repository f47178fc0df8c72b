package bwrap

import (
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

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
