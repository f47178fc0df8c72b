// Noop executes its arguments and does nothing else: the least that a launcher
// written in Go can cost.
package main

import (
	"os"
	"syscall"
)

func main() {
	err := syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	println(os.Args[1]+":", err.Error()) // package fmt would make it more than nothing
	os.Exit(127)
}
