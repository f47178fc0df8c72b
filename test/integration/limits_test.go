package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/internal/testgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// room is a group in which the groups of one test are made, so that others
// don't matter. It is empty where each has a scope of its own.
type room []string

// needGroups makes one, or skips the test where this process, which is who it
// is about, has no place for it.
func needGroups(t *testing.T) room {
	t.Helper()
	l := policy.Limits{Memory: 1 << 40, Pids: 1 << 20, CPUs: 1000}
	if _, err := cgroup.Find(l, cgroup.Options{}); needsScope(err) {
		scope, err := cgroup.TryScope(t.Context())
		if err == nil {
			err = scope.Holds(l, cgroup.Options{})
		}
		if err != nil {
			t.Skip(err) // a machine needn't delegate anything
		}
		return nil
	}
	g := testgroup.Create(t, testgroup.Place(t, l))
	parts := g.Parts()
	if len(parts) == 1 {
		return g.Folders()
	}
	var r room // of version 1 it has the same name in each hierarchy
	for _, p := range parts {
		dir := fmt.Sprintf("%s/shofer-test-room-%d", p.Mount, os.Getpid())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		r = append(r, dir)
	}
	return r
}

// needsScope reports whether only a scope of the user's systemd would help.
func needsScope(err error) bool {
	var support *cgroup.SupportError
	return errors.As(err, &support) && support.Scope
}

// options are how the launcher makes its groups in the room.
func (r room) options(more ...string) []string {
	if len(r) == 0 {
		return more
	}
	return append([]string{"--cgroup-parent", r[0]}, more...)
}

// groups lists what there is of groups.
func (r room) groups(t testing.TB) (names []string) {
	t.Helper()
	if len(r) == 0 {
		found, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@*.service/app.slice/*.scope/shofer-sandbox-*", os.Getuid()))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, dir := range r {
		found, err := filepath.Glob(dir + "/shofer-sandbox-*")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// ended is the last line of a record.
type ended struct {
	Event string `json:"event"`
	Code  *int   `json:"code"`
	Group *struct {
		Peak      *int64 `json:"memory_peak_bytes"`
		OOMKilled int64  `json:"oom_killed"`
		OOMGroup  bool   `json:"oom_group"`
		Pids      *int64 `json:"pids_limited"`
		Throttled *int64 `json:"throttled_us"`
	} `json:"group"`
	Hit []string `json:"limits_hit"`
}

// limited runs a command inside with options, and returns how it ended.
func (s *stage) limited(options []string, argv ...string) (testenv.Result, ended) {
	s.t.Helper()
	cmd := s.launch(slices.Concat(options, []string{"--status-fd", "3", ".", "--"}, argv)...)
	record, err := os.CreateTemp(s.base, "record")
	if err != nil {
		s.t.Fatal(err)
	}
	defer record.Close()
	cmd.ExtraFiles = []*os.File{record}
	r := testenv.Run(s.t, cmd)
	text, err := os.ReadFile(record.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var e ended
	if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil {
		s.t.Errorf("the record ends with %q: %v", lines[len(lines)-1], err)
	}
	return r, e
}

// TestPressure: bombs end with the right fact, nobody else does, and nothing is
// left.
func TestPressure(t *testing.T) {
	room := needGroups(t)
	s := newStage(t, testenv.Self())
	for _, tt := range []struct {
		name    string
		options []string
		argv    []string
		code    int // -1 is any
		hit     string
	}{
		{"memory", []string{"--memory", "48M"}, []string{"sh", "-c", "sleep 1000 & x=0123456789; while :; do x=$x$x; done"}, 137, "memory"},
		{"tmpfs", []string{"--memory", "48M", "--private-tmp"}, []string{"sh", "-c", "head -c 200M /dev/zero >/tmp/fill; sleep 60; exit 4"}, 137, "memory"},
		{"forks", []string{"--pids", "40", "--memory", "256M"}, []string{"sh", "-c", "f() { f | f & }; f 2>/dev/null; sleep 2; exit 5"}, -1, "pids"},
		{"disk", []string{"--fsize", "1M", "--pids", "50"}, []string{"sh", "-c", "exec cat /dev/zero >fill"}, 153, "fsize"},
		{"processor", []string{"--cpus", "0.05"}, []string{"sh", "-c", "n=0; while [ $n -lt 40000 ]; do n=$((n+1)); done"}, 0, "cpus"},
	} {
		for _, more := range [][]string{nil, {"--supervise"}} {
			if tt.name == "tmpfs" && os.Getuid() != 0 {
				continue
			}
			end := s.sibling(room)
			own := room.groups(t)
			r, e := s.limited(room.options(slices.Concat(tt.options, more)...), tt.argv...)
			code := r.Code
			if r.Signal != 0 {
				code = 128 + int(r.Signal)
			}
			if tt.code >= 0 && code != tt.code || e.Event != "exited" || !slices.Contains(e.Hit, tt.hit) {
				t.Errorf("%s %v: %v, record %+v; want code %d, and %s hit", tt.name, more, r, e, tt.code, tt.hit)
			}
			if tt.hit == "memory" && (e.Group == nil || e.Group.OOMKilled == 0 || !e.Group.OOMGroup) {
				t.Errorf("%s %v: group %+v", tt.name, more, e.Group)
			}
			if left := room.groups(t); len(left) != len(own) {
				t.Errorf("%s %v left %q; want %q", tt.name, more, left, own)
			}
			end()
		}
	}
	if left := room.groups(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// sibling starts another command, and returns what ends it, if it still lives.
func (s *stage) sibling(room room) (end func()) {
	s.t.Helper()
	cmd := s.launch(room.options("--memory", "64M", "--pids", "10", ".", "--", "sh", "-c", "echo up; sleep 1000")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		s.t.Fatalf("the sibling says %q, %v", line, err)
	}
	return func() {
		s.t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Errorf("the sibling: %v", err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
			s.t.Errorf("the sibling: %v; want it to have lived until it was ended", err)
		}
	}
}

// TestManyGroups: many at once, each in its own.
func TestManyGroups(t *testing.T) {
	room := needGroups(t)
	s := newStage(t, testenv.Self())
	n := 200
	if len(room) == 0 {
		n = 40 // systemd makes one scope after the other
	}
	seen := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		cmd := s.launch(room.options("--no-protect", "--memory", "64M", "--pids", "10", ".", "--", "sh", "-c", "cat /proc/self/cgroup; sleep 1 & wait")...)
		// A file, since a busy machine is slow to say that a pipe has ended.
		out, err := os.CreateTemp(s.base, "out")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		wg.Go(func() {
			r := testenv.Run(t, cmd)
			text, err := os.ReadFile(out.Name())
			if r.Code != 0 || err != nil {
				t.Errorf("%v, %v\n%s", r, err, text)
			}
			seen[i] = string(text)
		})
	}
	wg.Wait()
	slices.Sort(seen)
	if got := len(slices.Compact(seen)); got != n {
		t.Errorf("%d commands were in %d groups", n, got)
	}
	for _, in := range seen {
		if !strings.Contains(in, "/shofer-sandbox-") {
			t.Errorf("a command was in\n%s", in)
		}
	}
	if left := room.groups(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestKilledOwner kills the launcher, and the runner, at random moments. What it
// leaves is gone after the next start.
func TestKilledOwner(t *testing.T) {
	room := needGroups(t)
	s := newStage(t, testenv.Self())
	rounds, most, longest := 300, 0, 15*time.Millisecond
	if testing.Short() {
		rounds = 20
	}
	if len(room) == 0 {
		longest = 250 * time.Millisecond // it takes systemd that long
	}
	options := room.options("--no-protect", "--memory", "64M", "--pids", "10")
	owners := [][]string{
		slices.Concat([]string{s.launcher}, options, []string{"."}),
		slices.Concat([]string{s.launcher, "--supervise"}, options, []string{"."}),
		slices.Concat([]string{testenv.BuildRunner(t), "run", "--worktree", "."}, options),
	}
	for i := range rounds * len(owners) {
		argv := slices.Concat(owners[i%len(owners)], []string{"--", "sh", "-c", "sleep 1000 & exec sleep 1000"})
		cmd := s.command(argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(longest))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		most = max(most, len(room.groups(t)))
	}
	if most == 0 {
		t.Error("nothing was ever left, so that this tests nothing")
	}
	// Guards that are about to find that they are alone may still be at work.
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if r, _ := s.limited(room.options("--no-protect", "--pids", "5"), "true"); r.Code != 0 {
			t.Fatal(r)
		}
		left := room.groups(t)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left after the sweep: %q", left)
		}
	}
	t.Logf("up to %d folders were left at a time", most)
}

// TestRuntimes: what reserves far more memory than it uses starts under a limit.
func TestRuntimes(t *testing.T) {
	room := needGroups(t)
	s := newStage(t, testenv.Self())
	s.mkdir(s.tree + "/c")
	s.write(s.tree+"/c/asan.c", "#include <stdlib.h>\n#include <stdio.h>\nint main(void) { char *p = malloc(1 << 20); p[5] = 1; puts(\"up\"); free(p); return 0; }\n", 0o644)
	s.write(s.tree+"/go.mod", "module example.com/m\n\ngo 1.26\n", 0o644)
	s.write(s.tree+"/main.go", "package main\n\nfunc main() { println(\"up\") }\n", 0o644)
	for _, tt := range []struct {
		tool   string
		script string
	}{
		{"node", "node -e 'console.log(\"up\")'"},
		{"java", "java -version && echo up"},
		{"go", "go run . 2>&1"},
		{"gcc", "cd c && gcc -fsanitize=address asan.c -o asan && ./asan"},
		{"python3", "python3 -c 'print(\"up\")'"},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			testenv.NeedTool(t, tt.tool)
			r, e := s.limited(room.options("--memory", "1G", "--pids", "300"), "sh", "-c", tt.script)
			if r.Code != 0 || !strings.Contains(r.Stdout, "up\n") || len(e.Hit) > 0 {
				t.Errorf("%v, %+v", r, e)
			}
			if e.Group != nil && e.Group.Peak != nil {
				t.Logf("its peak was %s", fmt.Sprint(*e.Group.Peak>>20, " MiB"))
			}
		})
	}
}

// TestLimitsBestEffort: what can't be had is refused, or said.
func TestLimitsBestEffort(t *testing.T) {
	s := newStage(t, testenv.Self())
	const warning = "warning: not all limits hold: "
	nowhere := []string{"--cgroup-parent", s.tree, "--pids", "5"} // which is no control group
	if r := testenv.Run(t, s.launch(slices.Concat(nowhere, []string{".", "--", "true"})...)); r.Code != 125 || !strings.Contains(r.Stderr, "hint: ") {
		t.Errorf("required: %v; want a refusal", r)
	}
	for _, more := range [][]string{{"--limits", "best-effort"}, {"--best-effort"}, {"--limits", "best-effort", "--supervise"}} {
		r := testenv.Run(t, s.launch(slices.Concat(nowhere, more, []string{".", "--", "echo", "ran"})...))
		if r.Code != 0 || r.Stdout != "ran\n" || !strings.Contains(r.Stderr, warning) {
			t.Errorf("%q: %v; want it to run, with a warning", more, r)
		}
		r = testenv.Run(t, s.launch(slices.Concat(nowhere, more, []string{"--quiet", ".", "--", "echo", "ran"})...))
		if r.Code != 0 || r.Stdout != "ran\n" || strings.Contains(r.Stderr, warning) {
			t.Errorf("%q --quiet: %v; want it to run, without a warning", more, r)
		}
	}

	room := needGroups(t) // a place in which a sandbox makes no groups
	inner := slices.Concat([]string{s.launcher}, room.options("--limits", "best-effort", "--pids", "5", ".", "--", "echo", "ran"))
	r := testenv.Run(t, s.launch(slices.Concat([]string{".", "--"}, inner)...))
	if r.Code != 0 || r.Stdout != "ran\n" || !strings.Contains(r.Stderr, warning) {
		t.Errorf("in another sandbox: %v; want it to run, with a warning", r)
	}
}

// TestScope: where only the user's systemd can give a group it does, and if it
// doesn't, that is refused or said.
func TestScope(t *testing.T) {
	_, err := cgroup.Find(policy.Limits{Pids: 5}, cgroup.Options{})
	if !needsScope(err) {
		t.Skip("no scope is needed here, or none can be had")
	}
	s := newStage(t, testenv.Self())
	for _, more := range [][]string{nil, {"--supervise"}} {
		options := slices.Concat(more, []string{"--no-protect", "--pids", "30"})
		command := []string{".", "--", "cat", "/proc/self/cgroup"}
		s.env = nil
		r := testenv.Run(t, s.launch(slices.Concat(options, command)...))
		if r.Code != 0 || !strings.Contains(r.Stdout, ".scope/shofer-sandbox-") {
			t.Errorf("%q: %v; want it in a scope", more, r)
		}
		s.env = []string{"XDG_RUNTIME_DIR=" + s.base} // where there is no systemd
		r = testenv.Run(t, s.launch(slices.Concat(options, command)...))
		if r.Code != 125 || !strings.Contains(r.Stderr, "made no scope") || !strings.Contains(r.Stderr, "hint: ") {
			t.Errorf("%q without systemd: %v; want a refusal", more, r)
		}
		r = testenv.Run(t, s.launch(slices.Concat(options, []string{"--limits", "best-effort"}, command)...))
		if r.Code != 0 || strings.Contains(r.Stdout, "/shofer-sandbox-") || !strings.Contains(r.Stderr, "not all limits hold") {
			t.Errorf("%q without systemd, best effort: %v; want it to run, with a warning", more, r)
		}
	}
	s.env = nil
	r := testenv.Run(t, s.command(testenv.BuildRunner(t), "run", "--no-save", "--pids", "30", "--", "cat", "/proc/self/cgroup"))
	if r.Code != 0 || !strings.Contains(r.Stdout, ".scope/shofer-sandbox-") {
		t.Errorf("the runner: %v; want it in a scope", r)
	}

	// With --supervise the death of the launcher, or of what started it, is that of
	// all.
	for _, script := range []string{`kill -9 $!; wait`, `kill -9 $$`} {
		script = `"$0" --supervise --no-protect --pids 30 . -- sh -c 'echo up >ready; setsid sleep 1000 & sleep 1000' & while ! [ -e ready ]; do sleep 0.01; done; rm ready; ` + script
		_ = testenv.Run(t, s.command("sh", "-c", script, s.launcher))
		deadline := time.Now().Add(time.Minute)
		for len(testenv.WorkingIn(t, s.tree)) > 0 {
			if time.Now().After(deadline) {
				t.Fatalf("%s: left %v", script, testenv.WorkingIn(t, s.tree))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if left := room(nil).groups(t); len(left) > 0 {
			t.Errorf("%s: left %q", script, left)
		}
	}
}
