package local

import (
	"errors"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// A program that would be executed again, and do all that it does once more, is
// told before anything starts.
func TestSelfWithoutInit(t *testing.T) {
	initialised.Store(false)
	defer initialised.Store(true)
	c := Config{Supervisor: Self, Policy: policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(t.TempDir()), NoCache: true}}
	if e, err := New(c); e != nil || !errors.Is(err, runner.ErrInvalidConfig) {
		t.Errorf("New without Init = %v, %v; want ErrInvalidConfig", e, err)
	}
}
