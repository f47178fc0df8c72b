package launcher_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// daemons is a script that leaves children of each kind behind: in the
// background, in another session, with another environment, deaf to all that
// can be ignored. Each holds the lock that is descriptor 9.
const daemons = `
sleep 1000 9>&9 &
setsid sleep 1000 &
(setsid sh -c 'sleep 1000 & exec env -i sleep 1000' &)
(trap '' TERM HUP INT; setsid sh -c 'while :; do sleep 1000; done' &)
`

func superviseIn(t *testing.T, u testenv.User, script string) (*exec.Cmd, string) {
	t.Helper()
	dir := u.Dir(t)
	cmd := u.Command(t, testenv.BuildLauncher(t), "--supervise", "--no-cache", ".", "--", "sh", "-c", script)
	cmd.Dir = dir
	return cmd, dir
}

func TestSuperviseEndsWhatIsLeft(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		cmd, dir := superviseIn(t, u, daemons+"exit 5")
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != 5 {
			t.Errorf("exit code %d; want 5", got)
		}
		if left := testenv.WorkingIn(t, dir); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// SIGKILL of the launcher, or of the process that started it, takes everything
// along.
func TestSuperviseKilled(t *testing.T) {
	rounds := 10
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		rounds = 1000
	}
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, who := range []string{"launcher", "its parent", "its group"} {
			t.Run(who, func(t *testing.T) {
				for range rounds {
					cmd, dir := superviseIn(t, u, daemons+"echo ready; sleep 1000")
					if who == "its parent" {
						args := append([]string{"-c", `"$@" & wait`, "sh"}, cmd.Args...)
						outer := u.Command(t, "sh", args...)
						outer.Dir, cmd = dir, outer
					}
					cmd.SysProcAttr = withSession(cmd.SysProcAttr)
					out, err := cmd.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					if _, err := out.Read(make([]byte, 16)); err != nil {
						t.Fatal(err)
					}
					victim := cmd.Process.Pid
					if who == "its group" {
						victim = -victim // the leader of its session leads the group
					}
					if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					_ = cmd.Wait()
					testenv.AwaitNobodyIn(t, dir)
					if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
						t.Fatalf("left behind: %v, %v", files, err)
					}
				}
			})
		}
	})
}

// A storm of forks ends too, and what is outside lives on.
func TestSuperviseForkStorm(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		sibling := u.Command(t, "sleep", "1000")
		if err := sibling.Start(); err != nil {
			t.Fatal(err)
		}
		cmd, dir := superviseIn(t, u, `
			storm() { while :; do (setsid sleep 1 &); done; }
			storm & storm & sleep 0.3; exit 0`)
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		if left := testenv.WorkingIn(t, dir); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		if err := sibling.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("a process outside: %v", err)
		}
		_ = sibling.Process.Kill()
		_ = sibling.Wait()
	})
}

// Signals that are sent to the launcher reach the command once, through the
// guard.
func TestSuperviseForwards(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
			if sig == syscall.SIGHUP && signal.Ignored(sig) {
				continue // below nohup, which the launcher respects
			}
			cmd, _ := superviseIn(t, u, fmt.Sprintf(`n=0; trap 'n=$((n+1))' %d; echo ready; while [ $n = 0 ]; do sleep 0.01; done; sleep 0.1; exit $((40+n))`, sig))
			cmd.SysProcAttr = withSession(cmd.SysProcAttr)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 41 {
				t.Errorf("%v: exit code %d; want 41, for one signal", sig, got)
			}
		}
	})
}

// withSession starts a process away from the test's terminal.
func withSession(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setsid = true
	return attr
}

// The launcher stops and continues with its command.
func TestSuperviseStops(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		cmd, _ := superviseIn(t, u, "kill -STOP $$; exit 6")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
			if strings.Contains(string(b), ") T ") {
				tick.Stop()
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the launcher didn't stop")
			}
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 6 {
			t.Errorf("exit code %d; want 6", got)
		}
	})
}

// Where the mode is unconfined, nothing confines the command, nor does its guard.
func TestSuperviseUnconfined(t *testing.T) {
	cmd := testenv.Command(t, testenv.BuildLauncher(t), "--supervise", "--mode", "unconfined", "--no-cache", testenv.Self().Dir(t), "--",
		"grep", "NoNewPrivs", "/proc/self/status")
	if got, want := testenv.Output(t, cmd), testenv.Output(t, testenv.Command(t, "grep", "NoNewPrivs", "/proc/self/status")); got != want {
		t.Errorf("below a guard: %q; want %q", got, want)
	}
}

// Where /proc has the numbers of another namespace the guard finds its children
// all the same.
func TestSuperviseForeignProc(t *testing.T) {
	unshare := testenv.UnsharePID(t)
	for _, mode := range []string{"unconfined", "workspace-write"} {
		dir := testenv.Self().Dir(t)
		// The first process of the namespace stays until it has been seen who is
		// left: its end would be that of all.
		args := append(slices.Clip(unshare), "sh", "-c", `"$@"; echo $?; read wait`, "sh",
			testenv.BuildLauncher(t), "--supervise", "--mode", mode, "--no-cache", dir, "--",
			"sh", "-c", "setsid sh -c 'sleep 3600; echo survivor' & exit 3")
		cmd := testenv.Command(t, "unshare", args...)
		cmd.Dir = dir
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if got, err := bufio.NewReader(out).ReadString('\n'); got != "3\n" {
			t.Errorf("%s: %q, %v; want 3", mode, got, err)
		}
		for _, p := range testenv.WorkingIn(t, dir) {
			if strings.Contains(p, "sleep 3600") && !strings.Contains(p, "--supervise") {
				t.Errorf("%s: left: %s", mode, p)
			}
		}
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Log(err) // of read
		}
	}
}
