package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// CommandTimeout is how long a command of [Command] may take at most. Use
// [CommandContext] with a deadline for another bound.
const CommandTimeout = 2 * time.Minute

// grace is the time between asking a late command to end and killing it.
const grace = 3 * time.Second

// cookieVar marks every process that a command of ours started, by its
// environment, so that what is left of it can be found.
const cookieVar = "SHOFER_TEST_COOKIE"

var cookies atomic.Int64

func newCookie() string {
	return fmt.Sprintf("%s=%d-%d-%d", cookieVar, os.Getpid(), time.Now().UnixNano(), cookies.Add(1))
}

// Command returns a command that ends at the latest after [CommandTimeout]:
// see [CommandContext].
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), CommandTimeout)
	t.Cleanup(cancel)
	return CommandContext(ctx, t, name, args...)
}

// CommandContext is like [exec.CommandContext], and
//   - ends the command when ctx or shortly before the test's own deadline
//     expires, with SIGQUIT (a Go program then says where it hangs) and, after a
//     grace, SIGKILL, and fails t;
//   - sets Env to this process's environment less the variables that change
//     what Go programs print, plus a mark by which descendants are found: append
//     to Env, don't replace it;
//   - when the test ends, fails t for a command that was started and not
//     waited for, and for each of its descendants that is still alive, and
//     kills these. A descendant that cleared its environment isn't found.
func CommandContext(ctx context.Context, t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cancel := context.CancelFunc(func() {})
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := d.Deadline(); ok {
			ctx, cancel = context.WithDeadline(ctx, at.Add(-3*grace))
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = grace
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("still running at its deadline: %v", cmd)
		}
		return cmd.Process.Signal(syscall.SIGQUIT)
	}
	cookie := newCookie()
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GODEBUG", "GOTRACEBACK", cookieVar:
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, cookie)
	t.Cleanup(func() {
		cancel()
		if cmd.Process != nil && cmd.ProcessState == nil {
			t.Errorf("started, but not waited for: %v", cmd)
		}
		for _, pid := range settle(cookie) {
			t.Errorf("left alive by %v: pid %d: %s", cmd, pid, commandLine(pid))
			kill(pid)
		}
	})
	return cmd
}

// settle returns the processes that carry the mark once there are none, or
// after a while: a killed process takes a moment to go, on a busy machine more.
func settle(cookie string) []int {
	for deadline := time.Now().Add(settleTime); ; {
		pids := marked(cookie)
		if len(pids) == 0 || time.Now().After(deadline) {
			return pids
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the processes aren't our children: nothing can be waited for
	}
}

// marked returns the processes with the given line in their environment.
func marked(cookie string) []int {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range dir {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(cookie+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // a process that is gone has none
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may be gone by now
		_ = p.Release()
	}
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int            // exit code, -1 after a signal
	Signal         syscall.Signal // the signal it died of, or 0
}

// String shows the whole result, for test failures.
func (r Result) String() string {
	how := "exit " + strconv.Itoa(r.Code)
	if r.Signal != 0 {
		how = r.Signal.String()
	}
	return fmt.Sprintf("%s\nstdout: %s\nstderr: %s", how, r.Stdout, r.Stderr)
}

// Run runs cmd, made by [Command], to its end and returns how it ended. Any
// exit code is fine; a command that can't be started fails t. Stdout and
// Stderr are collected unless cmd has them set.
func Run(t testing.TB, cmd *exec.Cmd) Result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%v: its output was still held open after its end", cmd)
	}
	r := Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = ws.Signal()
	}
	return r
}

// Output runs cmd, made by [Command], and returns its stdout. Anything but exit
// code 0 fails t.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	r := Run(t, cmd)
	if r.Code != 0 {
		t.Fatalf("%v: %v", cmd, r)
	}
	return r.Stdout
}
