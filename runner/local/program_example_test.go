package local_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner/environ"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

// Shells that live between commands, confined to a worktree, one for each of
// the host's sessions, whose output is bounded like a command's.
func ExampleExecutor_StartProgram() {
	exec, err := local.New(local.Config{Policy: policy.Policy{Mode: policy.WorkspaceWrite, Worktree: "/src/project"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = exec.Close() }()
	env, _, err := environ.Build(environ.Layers{Ambient: exec.Environ(), Managed: []string{"SHOFER_SESSION=s1"}})
	if err != nil {
		log.Fatal(err)
	}
	shells := &session.Pool{Max: 4}
	defer func() { _ = shells.Close() }()
	shell := session.Config{Starter: exec, Env: env, Dir: "/src/project", Idle: 10 * time.Minute}

	for _, text := range []string{"cd web && export NODE_ENV=test", "npm test"} {
		output := capture.New(capture.Options{Merged: true})
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		run, err := shells.Start(ctx, "s1", shell, session.Command{Text: text, Stdout: output.Stdout})
		if err != nil {
			log.Fatal(err) // busy, not to be parsed, no directory, …
		}
		res, err := run.Wait()
		cancel()
		output.End()
		if err != nil {
			fmt.Fprintln(os.Stderr, "ended:", err)
		}
		kept := output.Stdout.Snapshot()
		fmt.Printf("%s%s\nexit code %d, in %s\n", kept.Head, kept.Tail, res.Code, res.DirAfter)
	}
}
