// Command attack tries to get out of a confinement; see package attack.
package main

import (
	"os"

	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

func main() { os.Exit(attack.Main(os.Args[1:])) }
