package linux_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv("LINUX_STOP") != "" {
		linux.StopSelf()
		fmt.Println("continued")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStopSelf(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stdout = append(os.Environ(), "LINUX_STOP=1"), w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("status %v, %v; want it stopped", ws, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var word string
	if _, err := fmt.Fscan(r, &word); err != nil || word != "continued" {
		t.Errorf("it says %q, %v", word, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A program stops like the one that it has started, so that a shell notices.
func ExampleStopSelf() {
	stopped := false // the child's state, say
	if stopped {
		linux.StopSelf()
	}
	fmt.Println("going on")
	// Output: going on
}

func TestOwnProc(t *testing.T) {
	if os.Getenv("LINUX_OWN_PROC") != "" {
		fmt.Println(linux.OwnProc())
		return
	}
	if !linux.OwnProc() {
		t.Error("OwnProc() = false; want true")
	}
	below := exec.Command(os.Args[0], "-test.run=^TestOwnProc$")
	below.Env = append(os.Environ(), "LINUX_OWN_PROC=1")
	below.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		below.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	out, err := below.Output()
	if err != nil {
		testenv.Skip(t, "needs PID namespaces: %v", err)
	}
	if !strings.HasPrefix(string(out), "false\n") {
		t.Errorf("below another namespace's /proc: %q; want false", out)
	}
}
