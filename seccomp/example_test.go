package seccomp_test

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
)

func ExampleFilter() {
	f := seccomp.ForNetwork(policy.Network{Mode: policy.NetworkNone})
	f.NoTerminalInjection = true
	programs, err := f.Compile() // for spawn.Plan's Filters
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f, len(programs))
	// Output: network, terminal-injection 1
}
