// Package policy imports what no package may import, and a library.
package policy

import (
	_ "example.com/bad/landlock"
	_ "github.com/spf13/pflag"
)
