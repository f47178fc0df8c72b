// Go's runtime looks for the processor limit of its control group at every
// start, whatever is said here. The first of these makes it close the limit's
// files again, which would otherwise have the lowest free numbers and pass for
// descriptors of the caller's (--keep-fd 3). The second keeps it from looking
// for a new limit, at the start and every second from then on.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Shofer-sandbox confines what a command may write, and becomes it.
//
//	shofer-sandbox [options] <worktree-dir> [--] command [arg…]
//
// See shofer-sandbox --help.
package main

import (
	"os"
	"runtime"

	"github.com/shofer-dev/shofer-sandbox/internal/launcher"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// version is set by the linker.
var version = "development"

func init() {
	// Confinement belongs to a thread: the one that confines itself must be
	// the one that execs, and no other may be confined by mistake.
	runtime.LockOSThread()
}

func main() {
	launch.Init()
	os.Exit(launcher.Main(os.Args[1:], version))
}
