package pty_test

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner/pty"
)

// A confined command at a terminal of its own.
func Example() {
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	sandbox, err := launch.Prepare(policy.Policy{Worktree: policy.Path(dir), NoCache: true}, launch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Close()

	term, err := pty.Open(pty.Options{Size: pty.Size{Rows: 40, Cols: 132}})
	if err != nil {
		log.Fatal(err)
	}
	defer term.Close()
	cmd := sandbox.Command("sh", "-c", "stty size; read name; echo hello $name >/dev/tty")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Child(), term.Child(), term.Child()
	cmd.NewSession, cmd.ControllingTerminal = true, true
	err = cmd.Start()
	term.CloseChild()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.WriteString(term, "ann\r"); err != nil {
		log.Fatal(err)
	}
	out, err := io.ReadAll(term)
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", out)
}
