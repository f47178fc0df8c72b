package launcher_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// What a command leaves may end by itself for a while, and no longer.
func TestLinger(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, backend := range []string{"auto", "bwrap"} {
			if s := bwrap.Probe(t.Context(), ""); backend == "bwrap" && !s.Usable() {
				testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
			}
			for linger, want := range map[string]string{"30s": "late\n", "1ms": "", "": ""} {
				dir := u.Dir(t)
				args := []string{"--supervise", "--no-cache", "--backend", backend}
				if linger != "" {
					args = append(args, "--linger", linger)
				}
				rest := "0.3" // seconds
				if want == "" {
					rest = "60"
				}
				cmd := u.Command(t, testenv.BuildLauncher(t), append(args, ".", "--", "sh", "-c",
					"(sleep "+rest+"; echo late >late) & exit 5")...)
				cmd.Dir = dir
				if err := cmd.Run(); cmd.ProcessState.ExitCode() != 5 {
					t.Errorf("%s: %v; want exit code 5", backend, err)
				}
				if got, _ := os.ReadFile(filepath.Join(dir, "late")); string(got) != want {
					t.Errorf("%s: --linger %s: the rest wrote %q; want %q", backend, linger, got, want)
				}
				if left := testenv.WorkingIn(t, dir); len(left) > 0 {
					t.Errorf("%s: left behind: %q", backend, left)
				}
			}
		}
	})
}

// A policy file that can be read only once is enough for a supervised command.
func TestSupervisePolicyPipe(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		const script = `"$0" "$@" --policy <(echo '{"mode": "workspace-write", "no_cache": true, "env": {"set": ["GIVEN=yes"]}}') . -- sh -c 'echo $GIVEN; ls -l /proc/self/fd'`
		list := func(args ...string) string {
			cmd := u.Command(t, "bash", append([]string{"-c", script, testenv.BuildLauncher(t)}, args...)...)
			cmd.Dir = u.Dir(t)
			return testenv.Output(t, cmd)
		}
		with, without := list("--supervise"), list()
		if !strings.HasPrefix(with, "yes\n") || strings.Count(with, "\n") > strings.Count(without, "\n") {
			t.Errorf("the command says\n%s, and unsupervised\n%s; want yes, and no more descriptors", with, without)
		}
	})
}

// A process that is named ends everything with its own end, also when it has
// ended before it is looked at.
func TestSuperviseParent(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		other := u.Command(t, "sleep", "1000")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		start := func() (dir string, wait func()) {
			dir = u.Dir(t)
			cmd := u.Command(t, testenv.BuildLauncher(t), "--supervise", "--no-cache", "--parent", strconv.Itoa(other.Process.Pid),
				".", "--", "sh", "-c", "setsid sleep 1000 & echo >started; sleep 1000")
			cmd.Dir, cmd.SysProcAttr = dir, withSession(cmd.SysProcAttr)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return dir, func() { _ = cmd.Wait() }
		}
		dir, wait := start()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it doesn't start")
			}
		}
		if err := other.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = other.Wait()
		wait()
		testenv.AwaitNobodyIn(t, dir)

		dir, wait = start() // the number is nobody's now
		wait()
		testenv.AwaitNobodyIn(t, dir)
	})
}
