package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// place is a repository with the runner to use in it.
type place struct {
	*testenv.Repo
	t   *testing.T
	exe string
}

// each runs f as a subtest for root and for a user without privileges, each with
// a place of its own.
func each(t *testing.T, f func(t *testing.T, p *place)) {
	t.Helper()
	exe := testenv.BuildRunner(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		f(t, &place{u.NewRepo(t), t, exe})
	})
}

// runner returns a command that runs the runner.
func (p *place) runner(args ...string) *exec.Cmd {
	p.t.Helper()
	return p.Command(p.exe, args...)
}

// run runs the runner to its end.
func (p *place) run(args ...string) testenv.Result {
	p.t.Helper()
	return testenv.Run(p.t, p.runner(args...))
}

// must is run, and fails the test unless the exit code is as wanted. It returns
// standard output.
func (p *place) must(code int, args ...string) string {
	p.t.Helper()
	r := p.run(args...)
	if r.Code != code {
		p.t.Fatalf("runner %q: %v; want exit %d", args, r, code)
	}
	return r.Stdout
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// pidIn waits for a process to write its number to a file of the place.
func (p *place) pidIn(name string) int {
	p.t.Helper()
	pid := 0
	eventually(p.t, name+" has a number", func() bool {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err == nil && bytes.HasSuffix(text, []byte("\n")) {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && pid > 0
	})
	return pid
}

// gone waits until processes have ended.
func (p *place) gone(pids ...int) {
	p.t.Helper()
	for _, pid := range pids {
		eventually(p.t, strconv.Itoa(pid)+" has ended", func() bool { return ended(pid) })
	}
}

// ended reports whether a process has ended; one that nobody has reaped has.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(text, []byte(") Z "))
}
