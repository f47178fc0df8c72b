package launch_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

func TestMain(m *testing.M) {
	if os.Getenv("SHOFER_TEST_HELPER") != "no init" {
		launch.Init()
	}
	os.Exit(testenv.Main(m, testenv.Helpers{
		"no init": noInit, "connect": connectAll, "aliased": aliased, "late mount": lateMount, "undo": undo, "leave": leave,
		"trying": trying, "racing": racing, "traced": traced, "undumpable": undumpable,
	}))
}

// noInit prints what a host is told that can't be the inner stage.
func noInit(args []string) int {
	s, err := launch.Prepare(workspace(args[0]), launch.Options{Backend: launch.BackendBwrap})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = s.Close() }()
	err = s.Command("true").Run()
	var setup *launch.SetupError
	if !errors.As(err, &setup) {
		fmt.Println(err)
		return 1
	}
	fmt.Println(launch.Hint(err))
	return 0
}
