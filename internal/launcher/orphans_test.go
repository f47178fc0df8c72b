package launcher_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// Orphans that end don't stay as zombies while the command runs.
func TestSuperviseReaps(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, layer := range []string{"--no-protect", "--protect=kept"} {
			cmd, dir := superviseIn(t, u, "i=0; while [ $i -lt 50 ]; do (true &); i=$((i+1)); done; echo done; exec sleep 1000")
			if err := os.WriteFile(dir+"/kept", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			u.Own(t, dir)
			cmd.Args = append(cmd.Args[:1], append([]string{layer}, cmd.Args[1:]...)...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			guard := strings.TrimSpace(childrenOf(t, fmt.Sprint(cmd.Process.Pid)))
			for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
				children := strings.Fields(childrenOf(t, guard))
				if len(children) == 1 {
					break
				}
				if time.Now().After(end) {
					t.Errorf("%s: the guard has %d children; want the command alone", layer, len(children))
					break
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			testenv.AwaitNobodyIn(t, dir)
		}
	})
}

// childrenOf lists the children of a process's threads.
func childrenOf(t *testing.T, pid string) (list string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
		list += string(b)
	}
	return list
}

// The guard is a copy of the launcher. Without it, the command ends, and the launcher
// says that the rest may not.
func TestSuperviseGuardKilled(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		cmd, dir := superviseIn(t, u, "exec sleep 1000")
		record, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer record.Close()
		var words strings.Builder
		cmd.Args = append(cmd.Args[:1], append([]string{"--status-fd", "3"}, cmd.Args[1:]...)...)
		cmd.Stderr, cmd.ExtraFiles = &words, []*os.File{w}
		err = cmd.Start()
		_ = w.Close()
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(record); !strings.Contains(lines.Text(), `"started"`); {
			if !lines.Scan() {
				t.Fatalf("it doesn't start: %s", words.String())
			}
		}
		guard, err := strconv.Atoi(strings.TrimSpace(childrenOf(t, strconv.Itoa(cmd.Process.Pid))))
		if err != nil {
			t.Fatal(err)
		}
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", guard)); string(name) != "shofer-guard\n" {
			t.Errorf("the guard is called %q, %v", name, err)
		}
		if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 137 || !strings.Contains(words.String(), "guard of the command was killed") {
			t.Errorf("exit code %d, %q; want 137, and a warning", code, words.String())
		}
		testenv.AwaitNobodyIn(t, dir)
	})
}
