package local

import (
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// A number that was given away isn't taken for the command.
func TestOpenBelow(t *testing.T) {
	child := testenv.Command(t, "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	for launcher, want := range map[int]bool{os.Getpid(): true, os.Getppid(): true, pid: false} {
		fd := openBelow(pid, launcher)
		if (fd >= 0) != want {
			t.Errorf("openBelow(%d, %d) = %d; want one: %v", pid, launcher, fd, want)
		}
		_ = unix.Close(fd)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if fd := openBelow(pid, os.Getpid()); fd >= 0 {
		t.Errorf("openBelow(a process that has ended) = %d; want -1", fd)
	}
	if fd := openBelow(1, os.Getpid()); fd >= 0 {
		t.Errorf("openBelow(a stranger) = %d; want -1", fd)
	}
}
