package launch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/exec"
	"time"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func Example() {
	// What a coding agent's commands may do in one worktree.
	s, err := launch.Prepare(policy.Policy{
		Mode:     policy.WorkspaceWrite,
		Worktree: "/home/me/src/project",
	}, launch.Options{})
	if err != nil {
		log.Fatal(err, "\n", launch.Hint(err))
	}
	defer func() { _ = s.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := s.CommandContext(ctx, "make", "-j4", "test")
	cmd.Dir = "/home/me/src/project"
	cmd.NewSession = true // the timeout then ends the whole group
	out, err := cmd.CombinedOutput()

	var setup *launch.SetupError
	var exit *exec.ExitError
	switch {
	case errors.As(err, &setup):
		log.Fatal("nothing ran: ", err)
	case errors.As(err, &exit):
		fmt.Println("the tests failed with code", exit.ExitCode())
	}
	fmt.Printf("%s", out)
}

func ExampleExplain() {
	a, err := launch.Explain(policy.Policy{Mode: policy.ReadOnly}, launch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range a.Features {
		fmt.Println(f.Promise, f.State, f.By, f.Why)
	}
}

func ExampleCmd_Trace() {
	s, err := launch.Prepare(policy.Policy{
		Mode:     policy.WorkspaceWrite,
		Worktree: "/home/me/src/project",
	}, launch.Options{TraceDenials: true})
	if err != nil {
		log.Fatal(err, "\n", launch.Hint(err))
	}
	defer func() { _ = s.Close() }()
	cmd := s.Command("./configure")
	_ = cmd.Run() // whether it fails is another question
	for _, r := range cmd.Trace().Refused {
		fmt.Printf("%s wanted to %s %s: %s; %s\n", r.Program, r.Op, r.Path, r.Text, r.Advice())
	}
}

// With a guard nothing of a command outlives the program that has started it,
// not even when that is killed.
func ExampleCmd_EndAll() {
	s, err := launch.Prepare(policy.Policy{
		Mode:     policy.WorkspaceWrite,
		Worktree: "/home/me/src/project",
	}, launch.Options{})
	if err != nil {
		log.Fatal(err, "\n", launch.Hint(err))
	}
	defer func() { _ = s.Close() }()

	cmd := s.Command("make", "serve")
	cmd.Dir = "/home/me/src/project"
	cmd.NewSession, cmd.Guard = true, s.CanGuard()
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, cmd.EndAll) // daemons of its, too
	defer stop.Stop()
	if err := cmd.Wait(); err != nil {
		log.Fatal(err)
	}
	if end, ok := cmd.Status(); ok && end.Status.Signaled() {
		fmt.Println("killed by", end.Status.Signal())
	}
}
