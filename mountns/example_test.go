package mountns_test

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func ExampleCompile() {
	plan := mountns.Compile(&policy.Resolved{Protect: []policy.Protected{
		{Path: "/srv/repo/.git", Kind: policy.Pinned},
		{Path: "/srv/repo/.git/hooks", Kind: policy.Frozen},
	}})
	for _, m := range plan.Mounts {
		fmt.Println(m)
	}
	// Output:
	// bind /srv/repo/.git
	// bind /srv/repo/.git/hooks
	// attributes +0x1 -0x0 /srv/repo/.git/hooks
}
