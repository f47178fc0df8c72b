package tamper_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What a command did to git's own files is found when it has ended, and put
// back.
func Example() {
	top, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(top) }()
	for _, dir := range []string{"objects", "refs", "hooks"} {
		if err := os.MkdirAll(filepath.Join(top, ".git", dir), 0o755); err != nil {
			log.Fatal(err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = false\n"} {
		if err := os.WriteFile(filepath.Join(top, ".git", name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(top), NoCache: true}
	r, err := policy.Resolve(p, policy.Options{Environ: []string{"HOME=/nonexistent"}})
	if err != nil {
		log.Fatal(err)
	}
	before, err := tamper.Snapshot(r)
	if err != nil {
		log.Fatal(err)
	}
	// The command runs here, and ends with all that it started.
	if err := os.WriteFile(filepath.Join(top, ".git/config"), []byte("[core]\n\tfsmonitor = ./evil\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	changes := before.Compare()
	for _, c := range changes {
		fmt.Println(filepath.Base(string(c.Path)), c.What, "-", c.Why)
	}
	for _, done := range before.Restore(changes) {
		fmt.Println(filepath.Base(string(done.Path)), "error:", done.Err)
	}
	fmt.Println("left:", len(before.Compare()))
	// Output:
	// config changed - git's configuration now sets core.fsmonitor = "./evil"
	// config error: <nil>
	// left: 0
}
