package mcpserver_test

import (
	"context"
	"log"
	"os"

	"github.com/shofer-dev/shofer-sandbox/internal/mcpserver"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// A program that an agent's host starts and speaks to.
func Example() {
	local.Init()

	exec, err := local.New(local.Config{
		Policy:     policy.Policy{Mode: policy.WorkspaceWrite, Worktree: "/src/project"},
		Supervisor: local.Self,
	})
	if err != nil {
		log.Fatal(err)
	}
	c := mcpserver.Config{Runner: runner.Config{Executor: exec}}
	if err := mcpserver.Serve(context.Background(), c, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
