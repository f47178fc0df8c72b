// Runner runs commands confined, in time, and tells the truth about them.
//
// See runner --help.
package main

import (
	"os"

	"github.com/shofer-dev/shofer-sandbox/internal/cli"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// version is set by the linker.
var version = "development"

func main() {
	local.Init() // this program is its own supervisor
	os.Exit(cli.Main(os.Args[1:], version))
}
