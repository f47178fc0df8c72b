package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/executortest"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(testenv.Main(m, testenv.Helpers{"host": host, "unforkable": unforkable}))
}

// ways are the ways to start a command.
var ways = map[string]func(*local.Config){
	"direct":     func(*local.Config) {},
	"unconfined": func(c *local.Config) { c.Policy = policy.Policy{Mode: policy.Unconfined, Worktree: c.Policy.Worktree} },
	"supervised": func(c *local.Config) { c.Supervisor = local.Self },
	"boxed":      func(c *local.Config) { c.Options.Backend = launch.BackendBwrap },
}

// each runs a test for each way, in a worktree of its own.
func each(t *testing.T, test func(t *testing.T, way string, c runner.Config)) {
	for way, set := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			test(t, way, runner.Config{Executor: executor(t, set)})
		})
	}
}

func executor(t *testing.T, set func(*local.Config)) *local.Executor {
	t.Helper()
	e, err := local.New(configOf(testenv.Self().Dir(t), set))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e
}

func configOf(dir string, set func(*local.Config)) local.Config {
	c := local.Config{Policy: policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(dir), NoCache: true}}
	set(&c)
	return c
}

func newRunner(t *testing.T, c runner.Config) *runner.Runner {
	t.Helper()
	r, err := runner.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func run(t *testing.T, r *runner.Runner, q runner.Request) *runner.Result {
	t.Helper()
	s, err := r.Resolve(q)
	if err != nil {
		t.Fatalf("Resolve(%+v): %v", q, err)
	}
	res, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("Run(%q): %v", q.Command, err)
	}
	return res
}

func TestExecutor(t *testing.T) {
	for way, set := range ways {
		t.Run(way, func(t *testing.T) {
			executortest.Test(t, executortest.Options{
				New:       func(testing.TB) runner.Executor { return executor(t, set) },
				OneSignal: way == "boxed",
			})
			testenv.CheckFDs(t)
		})
	}
}

func TestConfines(t *testing.T) {
	each(t, func(t *testing.T, way string, c runner.Config) {
		r := newRunner(t, c)
		outside := testenv.Self().Dir(t)
		res := run(t, r, runner.Request{Command: "echo in >in; echo out >" + outside + "/out"})
		_, inErr := os.Stat(filepath.Join(res.Dir, "in"))
		_, outErr := os.Stat(filepath.Join(outside, "out"))
		if inErr != nil || (outErr == nil) != (way == "unconfined") {
			t.Errorf("inside: %v; outside: %v", inErr, outErr)
		}
		if res.Sandbox == nil || res.Sandbox.Backend == "" || (res.Sandbox.Enforcement == "none") != (way == "unconfined") {
			t.Errorf("Sandbox = %+v", res.Sandbox)
		}
	})
}

// Output isn't kept where the command could change it.
func TestStoreOutside(t *testing.T) {
	for way := range ways {
		if way == "unconfined" {
			continue
		}
		e := executor(t, ways[way])
		store, err := capture.OpenStore(filepath.Join(e.Authority().Dir, "store"), capture.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runner.New(runner.Config{Executor: e, Store: store}); !errors.Is(err, runner.ErrInvalidConfig) {
			t.Errorf("%s: New() with a store in the worktree = %v; want ErrInvalidConfig", way, err)
		}
		if err := errors.Join(store.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// What is written as soon as there is an execution isn't lost.
func TestWriteAtOnce(t *testing.T) {
	each(t, func(t *testing.T, way string, c runner.Config) {
		r := newRunner(t, c)
		spec, err := r.Resolve(runner.Request{Command: "cat", OpenStdin: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			e, err := r.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Write([]byte("at once")); err != nil {
				t.Fatalf("Write() = %v", err)
			}
			if err := e.CloseStdin(); err != nil {
				t.Fatalf("CloseStdin() = %v", err)
			}
			<-e.Done()
			if got := string(e.Result().Stdout.Text()); got != "at once" {
				t.Fatalf("output %q", got)
			}
		}
	})
}
