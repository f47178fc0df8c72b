package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/nofile"
)

func TestMain(m *testing.M) {
	if os.Getenv("NOFILE_CHILD") != "" {
		soft, hard, ok := nofile.Original()
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
			panic(err)
		}
		fmt.Println(soft, hard, ok, now.Cur)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A child that a shell starts with a lowered soft limit must see that limit,
// although Go has raised it again by the time its code runs.
func TestOriginal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -Sn 123; ulimit -Hn 500; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "NOFILE_CHILD=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), "123 500 true 499"; got != want {
		t.Errorf("child saw %q; want %q", got, want)
	}
}
