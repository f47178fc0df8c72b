package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// A server that is started, waited for until it says that it is ready, read
// while it runs, and ended with everything that it has started.
func ExampleExecution_Output() {
	local.Init() // first in main

	exec, err := local.New(local.Config{
		Policy:     policy.Policy{Mode: policy.WorkspaceWrite, Worktree: "/src/project"},
		Supervisor: local.Self,
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := runner.New(runner.Config{Executor: exec, AllowNoTimeout: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = r.Close(ctx) }()

	spec, err := r.Resolve(runner.Request{Command: "npm run dev", Merge: true, Timeout: runner.None})
	if err != nil {
		log.Fatal(err)
	}
	server, err := r.Start(ctx, spec)
	if err != nil {
		log.Fatal(err)
	}
	server.Background() // ctx no longer ends it

	// Each reader has a cursor of its own, and gets each byte once.
	out, _ := server.Output()
	cursor := capture.Cursor{Source: out}
	for {
		piece, err := cursor.Next(64 << 10)
		if errors.Is(err, io.EOF) {
			break // the server has ended
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s", piece.Text)
		if bytes.Contains(piece.Text, []byte("ready")) {
			break
		}
		if err := out.Wait(ctx, cursor.Offset); err != nil {
			break
		}
	}
	if _, err := server.Kill(ctx, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Result().KilledBy)
}
