package launch

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
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

// A guard that was killed as it started the command is no reason to run it again,
// unless that hadn't begun.
func TestGuardLost(t *testing.T) {
	for _, tt := range []struct {
		errno  syscall.Errno
		begun  bool
		record string
	}{
		{syscall.ECANCELED, false, `{"event":"setup-failed","stage":"guard","error":"the guard of the command was killed before the command ran","hint":"` + guardHint + `","exit_code":125}` + "\n"},
		{syscall.EPIPE, true, ""},
	} {
		err := startError(&spawn.Error{Stage: spawn.StageGuard, Errno: tt.errno}, "true")
		var setup *SetupError
		if !errors.As(err, &setup) || errors.Is(err, ErrGuardKilled) != tt.begun || !strings.HasPrefix(Hint(err), guardHint) {
			t.Errorf("startError(%v) = %v (hint %q); want an ErrGuardKilled: %v", tt.errno, err, Hint(err), tt.begun)
		}
		var b strings.Builder
		NewRecord(&b).Failed(err)
		if b.String() != tt.record {
			t.Errorf("the record of %v is %q; want %q", err, b.String(), tt.record)
		}
	}
}
