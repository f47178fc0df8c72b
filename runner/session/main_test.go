package session_test

import (
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }
