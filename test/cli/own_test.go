package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// The runner makes this project, confined, in a linked worktree.
func TestOwnBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles everything, with an empty cache")
	}
	testenv.NeedTool(t, "go", "git")
	root := testenv.ModuleRoot(t)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("no repository, as in a copy of the source: %v", err)
	}
	dir := testenv.Dir(t)
	// A repository of its own with what there is now, and a worktree of it.
	sh := testenv.Command(t, "sh", "-ec", `
		git init -q repo
		(cd "$1" && git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- --ignore-failed-read) | tar -x -C repo
		cd repo
		git add -A
		git config user.name a
		git config user.email a@example.com
		git commit -qm all
		git worktree add -q ../linked`, "sh", root)
	sh.Dir = dir
	testenv.Output(t, sh)
	p := testenv.BuildRunner(t)
	for _, line := range []string{"go build -buildvcs=false ./cmd/...", "go test ./runner/intercept ./internal/nearest", "git commit -qam nothing --allow-empty"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		cmd := testenv.CommandContext(ctx, t, p, "run", "--state", filepath.Join(dir, "state"), "--timeout", "9m", line)
		cmd.Dir = filepath.Join(dir, "linked")
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
		if r := testenv.Run(t, cmd); r.Code != 0 {
			t.Errorf("%s: %v", line, r)
		}
	}
}
