package local_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/executortest"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// A launcher of its own supervises as well as this program does.
func TestLauncher(t *testing.T) {
	exe := testenv.BuildLauncher(t)
	executortest.Test(t, executortest.Options{
		New: func(testing.TB) runner.Executor { return executor(t, func(c *local.Config) { c.Supervisor = exe }) },
	})
}

// Where nothing is to be confined a guard confines nothing.
func TestGuardUnconfined(t *testing.T) {
	r := newRunner(t, runner.Config{Executor: executor(t, func(c *local.Config) {
		c.Supervisor, c.Policy.Mode = local.Self, policy.Unconfined
	})})
	const line = "grep NoNewPrivs /proc/self/status"
	own := testenv.Output(t, testenv.Command(t, "sh", "-c", line))
	if res := run(t, r, runner.Request{Command: line}); string(res.Stdout.Text()) != own {
		t.Errorf("below a guard: %q; want %q", res.Stdout.Text(), own)
	}
}

// Where /proc has the numbers of another namespace commands end as elsewhere.
func TestForeignProc(t *testing.T) {
	unshare := testenv.UnsharePID(t)
	for _, option := range []string{"--mode=unconfined", "--mode=workspace-write", "--no-protect"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			// The first process of the namespace stays until it has been seen who is
			// left: its end would be that of all. The time is long enough for a busy
			// machine to get as far as the trap.
			args := append(slices.Clip(unshare), "sh", "-c", `"$@"; echo $?; read wait`, "sh",
				testenv.BuildRunner(t), "run", "--no-save", option, "--timeout=4s", "--kill-after=1h", "--",
				"sh", "-c", "trap 'echo told; exit' TERM; setsid sh -c 'sleep 3600; echo survivor' & wait")
			cmd := testenv.Command(t, "unshare", args...)
			cmd.Dir = testenv.Self().Dir(t)
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			for _, want := range []string{"told\n", "124\n"} {
				if got, err := said.ReadString('\n'); got != want {
					t.Errorf("it says %q, %v; want %q", got, err, want)
				}
			}
			for _, p := range testenv.WorkingIn(t, cmd.Dir) {
				if strings.Contains(p, "sleep 3600") && !strings.Contains(p, "runner run") {
					t.Errorf("left: %s", p)
				}
			}
			if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
				t.Log(err) // of read
			}
		})
	}
}

// parentOf returns a process's parent.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// Without its guard a command is ended by what its processes have in common, and
// nobody pretends to know how it ended.
func TestGuardKilled(t *testing.T) {
	r := newRunner(t, runner.Config{Executor: executor(t, func(c *local.Config) { c.Supervisor = local.Self })})
	spec, err := r.Resolve(runner.Request{Command: "setsid sleep 300 & sleep 300"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	settled(t, "processes missing", 0, func() int { return 3 - len(e.Processes()) })
	all := e.Processes()
	guard := parentOf(t, e.Pid())
	if guard == os.Getpid() {
		testenv.Skip(t, "needs a guard")
	}
	for _, p := range all {
		if p.Pid == guard {
			t.Errorf("the guard is among the command's processes: %v", all)
		}
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-e.Done()
	res := e.Result()
	if res.ExitCode != -1 || res.Err == nil {
		t.Errorf("exit code %d, %v; want it unknown", res.ExitCode, res.Err)
	}
	settled(t, "processes alive", 0, func() (n int) {
		for _, p := range all {
			if syscall.Kill(p.Pid, 0) == nil && !zombie(p.Pid) {
				n++
			}
		}
		return n
	})
}

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}
