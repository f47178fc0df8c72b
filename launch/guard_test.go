package launch

import (
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// A number that was given away isn't taken for the guard's child.
func TestChildOf(t *testing.T) {
	child := testenv.Command(t, "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	for parent, want := range map[int]bool{os.Getpid(): true, os.Getppid(): false, pid: false} {
		fd := childOf(parent, pid)
		if (fd >= 0) != want {
			t.Errorf("childOf(%d, %d) = %d; want one: %v", parent, pid, fd, want)
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if fd := childOf(os.Getpid(), pid); fd >= 0 {
		t.Errorf("childOf(a process that has ended) = %d; want -1", fd)
	}
}
