package landlock_test

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What a policy means on a kernel can be looked at anywhere: only Create and
// Restrict touch the system.
func Example() {
	r := &policy.Resolved{
		Policy: policy.Policy{
			Mode:    policy.WorkspaceWrite,
			Network: policy.Network{ConnectTCP: []uint16{443}},
		},
		Grants: []policy.Grant{
			{Path: "/home/me/worktree", Access: policy.Read | policy.Write},
			{Path: "/dev/tty", Access: policy.Write | policy.Ioctl, Optional: true},
		},
	}
	s := landlock.Support{ABI: 3} // landlock.Probe() asks this kernel
	rs, err := landlock.Compile(s, r)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(rs)
	for _, f := range landlock.Features(s, r) {
		if f.Promise == policy.PromiseWrite || f.Promise == policy.PromiseNetwork {
			fmt.Printf("%s %s %s%s\n", f.Promise, f.State, f.By, f.Why)
		}
	}
	// To enforce it: rs.Create, then landlock.Restrict on a locked thread, or
	// the same in a child before its exec.

	// Output:
	// deny fs write_file,remove_dir,remove_file,make_char,make_dir,make_reg,make_sock,make_fifo,make_block,make_sym,refer,truncate
	// allow path "/home/me/worktree" write_file,remove_dir,remove_file,make_dir,make_reg,make_sock,make_fifo,make_sym,refer,truncate
	// allow path "/dev/tty" write_file,remove_dir,remove_file,make_dir,make_reg,make_sock,make_fifo,make_sym,refer,truncate if-present
	// write enforced landlock
	// network absent Landlock has the rights for TCP from ABI 4, and this kernel has ABI 3
}
