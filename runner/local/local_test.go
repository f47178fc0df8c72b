package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(testenv.Main(m, nil))
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
	dir := testenv.Self().Dir(t)
	c := local.Config{Policy: policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(dir), NoCache: true}}
	set(&c)
	e, err := local.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e
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

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, way string, c runner.Config) {
		r := newRunner(t, c)
		tests := []struct {
			name string
			q    runner.Request
			want func(t *testing.T, res *runner.Result)
		}{
			{"streams apart", runner.Request{Command: "echo out; echo err >&2"}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "out\n" || string(res.Stderr.Text()) != "err\n" || res.ExitCode != 0 || res.State != runner.StateExited {
					t.Errorf("%+v: %q, %q", res, res.Stdout.Text(), res.Stderr.Text())
				}
			}},
			{"merged", runner.Request{Command: "echo out; echo err >&2; echo out", Merge: true}, func(t *testing.T, res *runner.Result) {
				if string(res.Merged.Text()) != "out\nerr\nout\n" || res.Stdout != nil {
					t.Errorf("%q", res.Merged.Text())
				}
			}},
			{"exit code", runner.Request{Command: "exit 7"}, func(t *testing.T, res *runner.Result) {
				if res.ExitCode != 7 || res.Signal != 0 || res.KilledBy != "" || !res.HandedOff {
					t.Errorf("%+v", res)
				}
			}},
			{"its own signal", runner.Request{Command: "kill -SEGV $$"}, func(t *testing.T, res *runner.Result) {
				if res.ExitCode != -1 || res.Signal != syscall.SIGSEGV || res.KilledBy != runner.CauseUnknown || res.State != runner.StateKilled {
					t.Errorf("%+v", res)
				}
			}},
			{"an exit code like a signal", runner.Request{Command: "exit 130"}, func(t *testing.T, res *runner.Result) {
				if res.ExitCode != 130 || res.Signal != 0 || res.Inferred() != "SIGINT" {
					t.Errorf("%+v", res)
				}
			}},
			{"no input", runner.Request{Command: "cat; [ -c /dev/stdin ] && echo char"}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "char\n" {
					t.Errorf("%q", res.Stdout.Text())
				}
			}},
			{"input", runner.Request{Command: "cat", Stdin: []byte("given")}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "given" {
					t.Errorf("%q", res.Stdout.Text())
				}
			}},
			{"input that isn't read", runner.Request{Command: "exec true", Stdin: make([]byte, 1<<20)}, func(t *testing.T, res *runner.Result) {
				if res.ExitCode != 0 {
					t.Errorf("%+v", res)
				}
			}},
			{"no terminal", runner.Request{Command: "read x </dev/tty"}, func(t *testing.T, res *runner.Result) {
				if res.ExitCode == 0 {
					t.Errorf("%+v", res)
				}
			}},
			{"a terminal", runner.Request{Command: "stty size; [ -t 1 ] && echo yes >/dev/tty", Terminal: &runner.Size{Rows: 11, Cols: 22}}, func(t *testing.T, res *runner.Result) {
				if string(res.Merged.Text()) != "11 22\r\nyes\r\n" {
					t.Errorf("%q", res.Merged.Text())
				}
			}},
			{"a long command", runner.Request{Command: "echo " + strings.Repeat("x", 400<<10) + " | wc -c"}, func(t *testing.T, res *runner.Result) {
				if strings.TrimSpace(string(res.Stdout.Text())) != "409601" {
					t.Errorf("%q, %q", res.Stdout.Text(), res.Stderr.Text())
				}
			}},
			{"pkill by its own text", runner.Request{Command: "pkill -f shofer-own-text; echo lives", Transport: runner.TransportFD}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "lives\n" {
					t.Errorf("%q, %q", res.Stdout.Text(), res.Stderr.Text())
				}
			}},
			{"no shell", runner.Request{Argv: []string{"printf", "%s|", "a b", "$HOME"}}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "a b|$HOME|" {
					t.Errorf("%q", res.Stdout.Text())
				}
			}},
			{"a silent child", runner.Request{Command: "sleep 300 & echo done"}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "done\n" || res.ExitCode != 0 || len(res.Survivors) > 0 {
					t.Errorf("%+v", res)
				}
				if way == "direct" && (len(res.Leftover) != 1 || res.Leftover[0].Name != "sleep") {
					t.Errorf("Leftover = %+v; want the sleep", res.Leftover)
				}
			}},
			{"output after the end", runner.Request{Command: "exec > >(sleep 0.2; cat); echo late"}, func(t *testing.T, res *runner.Result) {
				if string(res.Stdout.Text()) != "late\n" || res.OutputHeldOpen {
					t.Errorf("%q, held open: %v", res.Stdout.Text(), res.OutputHeldOpen)
				}
			}},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				tt.want(t, run(t, r, tt.q))
			})
		}
	})
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

func TestTimeout(t *testing.T) {
	each(t, func(t *testing.T, way string, c runner.Config) {
		c.Stop = []runner.StopStep{{Signal: syscall.SIGTERM, Wait: 300 * time.Millisecond}}
		r := newRunner(t, c)
		for name, script := range map[string]string{
			"plain":          "sleep 300",
			"traps and ends": `trap 'exit 0' TERM; while :; do sleep 0.05; done`,
			"ignores TERM":   `trap '' TERM; sleep 300; sleep 300; sleep 300`,
			"escapes":        `setsid sh -c 'trap "" TERM; sleep 300; sleep 300' & setsid sleep 300 & sleep 300`,
		} {
			t.Run(name, func(t *testing.T) {
				res := run(t, r, runner.Request{Command: script, Timeout: 500 * time.Millisecond})
				if !res.TimedOut || res.Aborted || res.KilledBy != runner.CauseTimeout || len(res.Survivors) > 0 {
					t.Errorf("%+v", res)
				}
				if name == "traps and ends" && (res.ExitCode != 0 || res.State != runner.StateExited) && way != "boxed" {
					t.Errorf("exit code %d, state %s; want 0 and exited", res.ExitCode, res.State)
				}
				if name == "ignores TERM" && res.Signal != syscall.SIGKILL {
					t.Errorf("signal %v, code %d; want SIGKILL", res.Signal, res.ExitCode)
				}
			})
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
