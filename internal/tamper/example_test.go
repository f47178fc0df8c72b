package tamper_test

import (
	"fmt"
	"log"
	"os"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What a command did to git's own files is found when it has ended.
func Example() {
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: "/srv/app"}
	r, err := policy.Resolve(p, policy.Options{Environ: os.Environ(), MountLayer: true})
	if err != nil {
		log.Fatal(err)
	}
	before, err := tamper.Snapshot(r)
	if err != nil {
		log.Fatal(err)
	}
	// The command runs, and ends with all that it started.
	changes := before.Compare()
	for _, c := range changes {
		fmt.Println(c)
	}
	for _, done := range before.Restore(changes) {
		fmt.Println(done)
	}
}
