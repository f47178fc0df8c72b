package launcher_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
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
