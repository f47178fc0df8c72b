package spawn_test

import (
	"fmt"
	"os"
	"runtime"

	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// execHelper is replaced by the report helper, or fails to.
func execHelper() {
	runtime.LockOSThread()
	p := self()
	if os.Args[1] == "missing" {
		p.Path = "/nonexistent"
	}
	p.Files = []int{0, 1, 2}
	p.NoNewPrivs = true
	fmt.Fprintln(os.Stderr, spawn.Exec(p))
	os.Exit(9)
}
