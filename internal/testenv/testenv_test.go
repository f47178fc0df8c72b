package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	os.Exit(Main(m, Helpers{
		"echo": func(args []string) int {
			fmt.Println(os.Getuid(), strings.Join(args, ","))
			return 3
		},
		"race": func([]string) int {
			fmt.Print(os.Getenv("GORACE"))
			return 0
		},
		"launcher": func([]string) int {
			exe, err := launcher()
			if err != nil {
				fmt.Print(err)
				return 1
			}
			fmt.Print(exe)
			return 0
		},
		"raise": func([]string) int {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			return 1
		},
		"background": func([]string) int {
			// Out of the group and the session, with nothing of ours open.
			cmd := exec.Command("sleep", "60")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				fmt.Println(err)
				return 1
			}
			fmt.Println(cmd.Process.Pid)
			return 0
		},
		"hang": func([]string) int {
			time.Sleep(time.Minute)
			return 0
		},
	}))
}

// stays makes what stays be noticed soon.
func stays(t *testing.T) {
	t.Helper()
	old := settleTime
	settleTime = 200 * time.Millisecond
	t.Cleanup(func() { settleTime = old })
}

// recorder is a testing.TB that notes failures and runs its own cleanups.
type recorder struct {
	testing.TB
	errs     []string
	skipped  bool
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.errs = append(r.errs, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }
func (r *recorder) Skipf(string, ...any)      { r.skipped = true }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) finish() []string {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.errs
}

func TestSkip(t *testing.T) {
	for _, tt := range []struct {
		require string
		skipped bool
		errs    int
	}{
		{"", true, 0},
		{"1", false, 1},
	} {
		t.Setenv(RequireVar, tt.require)
		r := &recorder{TB: t}
		Skip(r, "no %s", "luck")
		if r.skipped != tt.skipped || len(r.errs) != tt.errs {
			t.Errorf("Skip with %s=%q: skipped = %v, errors = %q; want %v, %d", RequireVar, tt.require, r.skipped, r.errs, tt.skipped, tt.errs)
		}
	}
}

func TestNeedTool(t *testing.T) {
	t.Setenv(RequireVar, "")
	broken := filepath.Join(t.TempDir(), "broken-tool")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		skipped bool
	}{
		{"sh", false},
		{"no-such-tool-anywhere", true},
		{broken, true},
	} {
		r := &recorder{TB: t}
		NeedTool(r, tt.name)
		if r.skipped != tt.skipped {
			t.Errorf("NeedTool(%q): skipped = %v; want %v", tt.name, r.skipped, tt.skipped)
		}
	}
}

func TestRun(t *testing.T) {
	CheckFDs(t)
	EachUser(t, func(t *testing.T, u User) {
		got := Run(t, u.Helper(t, "echo", "a", "b"))
		want := Result{Stdout: fmt.Sprintf("%d a,b\n", u.UID), Code: 3}
		if got != want {
			t.Errorf("Run(echo a b) = %v; want %v", got, want)
		}
		if got := Run(t, u.Helper(t, "raise")); got.Code != -1 || got.Signal != syscall.SIGKILL {
			t.Errorf("Run(raise) = %v; want death by SIGKILL", got)
		}
	})
}

// TestHelperEndsAtOnce: the race detector's options of the caller come last, so
// that they hold.
func TestHelperEndsAtOnce(t *testing.T) {
	for caller, want := range map[string]string{
		"":                   "atexit_sleep_ms=0",
		"halt_on_error=1":    "atexit_sleep_ms=0 halt_on_error=1",
		"atexit_sleep_ms=20": "atexit_sleep_ms=0 atexit_sleep_ms=20",
	} {
		t.Setenv("GORACE", caller)
		if got := Output(t, Helper(t, "race")); got != want {
			t.Errorf("with GORACE=%q a helper has %q; want %q", caller, got, want)
		}
	}
}

// TestGivenLauncher: one that is named is taken where there is no source.
func TestGivenLauncher(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		given, want string
		code        int
	}{
		{exe, exe, 0},
		{exe + "-missing", "stat " + exe + "-missing: no such file or directory", 1},
		{"", "no go.mod above the working directory", 1},
	} {
		cmd := Helper(t, "launcher")
		cmd.Dir = "/"
		cmd.Env = append(cmd.Env, LauncherVar+"="+tt.given)
		if got, want := Run(t, cmd), (Result{Stdout: tt.want, Code: tt.code}); got != want {
			t.Errorf("launcher() with %s=%q: %v; want %v", LauncherVar, tt.given, got, want)
		}
	}
}

func TestUnknownHelper(t *testing.T) {
	cmd := Helper(t, "echo")
	cmd.Env = append(cmd.Env, helperVar+"=nobody")
	if got := Run(t, cmd); got.Code != 2 {
		t.Errorf("an unknown helper ended with %v; want exit 2", got)
	}
}

func TestLeftoverIsFoundAndKilled(t *testing.T) {
	stays(t)
	NeedTool(t, "sleep")
	r := &recorder{TB: t}
	pid, err := strconv.Atoi(strings.TrimSpace(Output(t, Helper(r, "background"))))
	if err != nil {
		t.Fatal(err)
	}
	errs := r.finish()
	if len(errs) != 1 || !strings.Contains(errs[0], fmt.Sprintf("pid %d: sleep 60", pid)) {
		t.Errorf("errors = %q; want one that names pid %d", errs, pid)
	}
	for range 500 {
		// It is nobody's child here: once dead, init reaps it sooner or later.
		if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(st), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("pid %d is still alive", pid)
}

func TestCommandNotWaitedFor(t *testing.T) {
	stays(t)
	r := &recorder{TB: t}
	cmd := Helper(r, "hang")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errs := r.finish()
	if len(errs) != 2 || !strings.Contains(errs[0], "not waited for") {
		t.Errorf("errors = %q; want that it wasn't waited for, and that it is left", errs)
	}
	_ = cmd.Wait()
}

func TestCommandDeadline(t *testing.T) {
	r := &recorder{TB: t}
	cmd := Helper(r, "hang")
	late := &deadline{r, time.Now().Add(3*grace + 3*time.Second)}
	c := CommandContext(t.Context(), late, cmd.Path)
	c.Env = cmd.Env
	start := time.Now()
	got := Run(t, c)
	if took := time.Since(start); took > 3*grace {
		t.Errorf("took %v", took)
	}
	if got.Code != 2 || !strings.Contains(got.Stderr, "SIGQUIT") {
		t.Errorf("Run(hang) = %v; want a stack trace and exit 2", got)
	}
	if errs := r.finish(); len(errs) != 1 || !strings.Contains(errs[0], "deadline") {
		t.Errorf("errors = %q; want one about the deadline", errs)
	}
}

type deadline struct {
	*recorder
	at time.Time
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func TestCheckFDs(t *testing.T) {
	stays(t)
	r := &recorder{TB: t}
	CheckFDs(r)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if errs := r.finish(); len(errs) != 1 || !strings.Contains(errs[0], "/dev/null") {
		t.Errorf("errors = %q; want one that names /dev/null", errs)
	}
}

func TestCheckProcesses(t *testing.T) {
	stays(t)
	r := &recorder{TB: t}
	cmd := Command(t, "sleep", "60")
	cmd.Env = append(cmd.Env, CheckProcesses(r))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errs := r.finish()
	if len(errs) != 1 || !strings.Contains(errs[0], "sleep 60") {
		t.Errorf("with a process that is left: %q", errs)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("what was left alive wasn't killed")
	}
}

func TestCheckGoroutines(t *testing.T) {
	stays(t)
	r := &recorder{TB: t}
	CheckGoroutines(r)
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	for range 10 { // more than may end meanwhile of what other tests began
		go func() { <-stop }()
	}
	errs := r.finish()
	close(stop)
	if len(errs) != 1 || !strings.Contains(errs[0], "TestCheckGoroutines") {
		t.Errorf("with goroutines that are left: %q", errs)
	}
	for runtime.NumGoroutine() > before {
		time.Sleep(time.Millisecond)
	}
}

func TestDir(t *testing.T) {
	EachUser(t, func(t *testing.T, u User) {
		dir := u.Dir(t)
		if within(dir, "/tmp") || within(dir, os.TempDir()) {
			t.Errorf("Dir() = %q, inside a folder for temporary files", dir)
		}
		Output(t, u.Command(t, "touch", filepath.Join(dir, "file")))
		fi, err := os.Stat(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if got := int(fi.Sys().(*syscall.Stat_t).Uid); got != u.UID {
			t.Errorf("owner = %d; want %d", got, u.UID)
		}
	})
}

func TestDirIsRemoved(t *testing.T) {
	r := &recorder{TB: t}
	dir := Dir(r)
	sub := filepath.Join(dir, "read-only")
	if err := errors.Join(os.Mkdir(sub, 0o700), os.WriteFile(filepath.Join(sub, "file"), nil, 0o400), os.Chmod(sub, 0o500)); err != nil {
		t.Fatal(err)
	}
	if errs := r.finish(); len(errs) != 0 {
		t.Errorf("errors = %q", errs)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat(%q) = %v; want that it doesn't exist", dir, err)
	}
}

func TestRepo(t *testing.T) {
	t.Setenv("GIT_DIR", "/nonexistent") // as git sets for a hook that runs tests
	EachUser(t, func(t *testing.T, u User) {
		repo := u.NewRepo(t)
		clone := repo.Clone(filepath.Join(u.Dir(t), "clone"))
		for _, r := range []*Repo{repo, clone, repo.WorktreeBeside(), repo.WorktreeBelow()} {
			r.Write("new/file", "two\n")
			r.Git("add", "--all")
			r.Git("commit", "--quiet", "--message", "second")
			if got, want := r.Git("log", "--format=%s %an"), "second Author\nfirst Author"; got != want {
				t.Errorf("%s: log = %q; want %q", r.Dir, got, want)
			}
			if got := r.Git("rev-parse", "--show-toplevel"); got != r.Dir {
				t.Errorf("toplevel = %q; want %q", got, r.Dir)
			}
			fi, err := os.Stat(filepath.Join(r.Dir, "new/file"))
			if err != nil {
				t.Fatal(err)
			}
			if got := int(fi.Sys().(*syscall.Stat_t).Uid); got != u.UID {
				t.Errorf("owner = %d; want %d", got, u.UID)
			}
			if got := r.TryGit("rev-parse", "nothing"); got.Code != 128 {
				t.Errorf("git rev-parse nothing: %v; want exit 128", got)
			}
		}
	})
}
