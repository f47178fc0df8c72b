package runner_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// A host that runs commands in a worktree: confined, for two minutes at most,
// and after ten seconds in the background.
func Example() {
	local.Init() // first in main: this program can then be its own supervisor

	store, err := capture.OpenStore("/var/lib/host/output", capture.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	exec, err := local.New(local.Config{
		Policy:     policy.Policy{Mode: policy.WorkspaceWrite, Worktree: "/src/project"},
		Supervisor: local.Self,
	})
	if err != nil {
		log.Fatal(err) // no confinement, no commands
	}
	r, err := runner.New(runner.Config{
		Executor: exec, Store: store,
		Timeout: 2 * time.Minute, SoftTimeout: 10 * time.Second,
		Observe: func(e runner.Event) { fmt.Fprintln(os.Stderr, e.Kind, e.ID) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()

	spec, err := r.Resolve(runner.Request{Command: "npm test", Dir: "web"})
	if err != nil {
		log.Fatal(err)
	}
	res, err := r.Run(context.Background(), spec)
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case !res.State.Final():
		fmt.Println("still running:", res.ID)
	case res.TimedOut:
		fmt.Println("took too long")
	default:
		fmt.Println("exit code", res.ExitCode)
	}
	fmt.Printf("%s", res.Stdout.Text())
}
