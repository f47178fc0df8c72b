package policy_test

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// A policy in a file is read strictly.
func ExampleDecode() {
	file := `{
		"mode": "workspace-write",
		"worktree": "/srv/app",
		"network": {"connect_tcp": [443]}
	}`
	p, err := policy.Decode(strings.NewReader(file))
	fmt.Println(p.Mode, p.Worktree, p.Network.ConnectTCP, err)

	_, err = policy.Decode(strings.NewReader(`{"wirte": ["/srv"]}`))
	fmt.Println(err)
	// Output:
	// workspace-write /srv/app [443] <nil>
	// 1:2: wirte: unknown key, did you mean "write"?
}

// Resolve says what a policy means on this machine, before anything runs.
func ExampleResolve() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	r, err := policy.Resolve(policy.Policy{
		Mode:     policy.WorkspaceWrite,
		Worktree: policy.Path(dir),
		NoCache:  true,
	}, policy.Options{Environ: os.Environ()})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range r.Grants[1:4] {
		fmt.Println(g.Origin, g.Path)
	}
	// Output:
	// tmp /tmp
	// device /dev/null
	// device /dev/zero
}

// An error names the part that is wrong, and what to do about it.
func ExampleError() {
	_, err := policy.Resolve(policy.Policy{
		Mode:     policy.WorkspaceWrite,
		Worktree: "/",
	}, policy.Options{})
	if e, ok := errors.AsType[*policy.Error](err); ok {
		fmt.Println("error:", e)
		fmt.Println("hint:", e.Hint)
	}
	// Output:
	// error: worktree "/": is the whole file system
	// hint: name a folder further down, or pass --allow-broad if you mean it
}
