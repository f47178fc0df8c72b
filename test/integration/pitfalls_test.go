package integration

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// TestGrantedFiles: a grant for something that is no folder opens that, and
// making the rule doesn't wait for whoever opens the other end of a FIFO.
func TestGrantedFiles(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/file", "", 0o644)
		s.write(s.outside+"/neighbour", "", 0o644)
		s.must("mkfifo", s.outside+"/fifo")
		s.must("ln", "-s", "file", s.outside+"/link")
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: s.outside + "/socket"}); err != nil {
			t.Fatal(err)
		}
		for name, script := range map[string]string{
			"file":   "echo x >file && truncate -s 0 file",
			"link":   "echo x >link && echo x >file",
			"fifo":   "{ cat fifo >/dev/null & } && echo x >fifo && wait",
			"socket": "true",
		} {
			args := []string{"--rw", s.outside + "/" + name, ".", "--", "sh", "-c", "cd " + s.outside + " && " + script}
			if r := testenv.Run(t, s.launch(args...)); r.Code != 0 {
				t.Errorf("--rw %s: %v; want it to be writable", name, r)
			}
			args[len(args)-1] = "cd " + s.outside + " && { ! true >neighbour; } && ! rm " + name
			if r := testenv.Run(t, s.launch(args...)); r.Code != 0 {
				t.Errorf("--rw %s: %v; want nothing beside it to be writable", name, r)
			}
		}
		for _, device := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/shm"} {
			if _, err := os.Stat(device); err != nil {
				continue
			}
			if r := testenv.Run(t, s.launch("--rw", device, ".", "true")); r.Code != 0 {
				t.Errorf("--rw %s: %v", device, r)
			}
		}
	})
}

// TestSignals: they reach no process outside, and those outside reach in.
func TestSignals(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		victim := s.command("sleep", "60")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = victim.Wait() }()
		defer func() { _ = victim.Process.Kill() }()
		pid := strconv.Itoa(victim.Process.Pid)
		for _, how := range []string{"kill -0 " + pid, "kill -STOP " + pid, "kill -TERM " + pid, "kill -KILL -1; kill -0 " + pid, "kill -0 $PPID"} {
			if r := s.inside("sh", "-c", how); r.Code == 0 || r.Signal == 0 && !strings.Contains(strings.ToLower(r.Stderr), "not permitted") {
				t.Errorf("%s: %v; want it not to be permitted", how, r)
			}
			state := procState(t, victim.Process.Pid)
			for end := time.Now().Add(30 * time.Second); state != "S" && time.Now().Before(end); state = procState(t, victim.Process.Pid) {
				time.Sleep(time.Millisecond) // it may not have come to sleep yet
			}
			if state != "S" {
				t.Fatalf("%s: the process outside is in state %q; want S", how, state)
			}
		}
		if r := testenv.Run(t, s.launch("--allow-signals", ".", "kill", "-0", pid)); r.Code != 0 {
			t.Errorf("--allow-signals: %v", r)
		}

		cmd := s.launch(".", "--", "sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if got := shellCode(cmd.ProcessState); got != 128+15 {
			t.Errorf("SIGTERM from outside: %v; want it to kill", cmd.ProcessState)
		}
	})
}

// procState is the letter by which /proc says what a process does.
func procState(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0]
}

// TestIgnoredSignals: what an ancestor ignored or blocked has its usual effect,
// except SIGHUP, which nohup ignores on purpose.
func TestIgnoredSignals(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("python3")
		const before = `import os, signal, sys
for n in signal.valid_signals():
    if n not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(n, signal.SIG_IGN)
if sys.argv[1] == "no": signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
os.execv(sys.argv[2], sys.argv[2:])`
		for _, parent := range []bool{false, true} {
			for nohup, ignored := range map[string]string{"yes": "0000000000000001", "no": "0000000000000000"} {
				args := []string{"-c", before, nohup, s.launcher, ".", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}
				if parent {
					args = append(args[:4:4], append([]string{"--new-session"}, args[4:]...)...)
				}
				cmd := s.command("python3", args...)
				if parent {
					leadGroup(cmd)
				}
				r := testenv.Run(t, cmd)
				got := strings.Join(strings.Fields(r.Stdout), " ")
				if want := "SigBlk: 0000000000000000 SigIgn: " + ignored; got != want {
					t.Errorf("parent %v, SIGHUP ignored %s: %s; want %s (%v)", parent, nohup, got, want, r)
				}
			}
		}
		if r := testenv.Run(t, s.command("nohup", s.launcher, ".", "--", "sh", "-c", "kill -HUP $$; echo lived")); r.Stdout != "lived\n" {
			t.Errorf("nohup: %v; want it to live", r)
		}
	})
}

// TestTooLarge: arguments that the kernel doesn't take are said to be so.
func TestTooLarge(t *testing.T) {
	s := newStage(t, testenv.Self())
	sandbox := s.prepare(policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(s.tree)})
	err := sandbox.Command("sh", "-c", ": "+strings.Repeat("x", 1<<17)).Run()
	var exec *launch.ExecError
	if !errors.As(err, &exec) || !errors.Is(err, unix.E2BIG) || exec.ExitCode() != launch.ExitCannotExec || launch.Hint(err) == "" {
		t.Errorf("an argument of 128 KiB: %v; want an ExecError of E2BIG with a hint", err)
	}

	// The most that starts the launcher is too much for the command, which gets
	// a larger environment.
	var args []string
	for range 33 {
		args = append(args, strings.Repeat("x", 60_000))
	}
	for size := 120_000; size > 0; size -= 500 {
		cmd := s.launch(append([]string{"--env", "LARGE=" + strings.Repeat("y", 20_000), ".", "true", strings.Repeat("x", size)}, args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil && errors.Is(err, unix.E2BIG) {
			continue
		}
		if code := cmd.ProcessState.ExitCode(); code != 126 || !strings.Contains(string(out), "too large") {
			t.Errorf("too many arguments: exit %d: %s; want 126 and the reason", code, out)
		}
		return
	}
	t.Error("no number of arguments starts the launcher")
}

// prepare returns a sandbox of this process's user, in the stage's
// environment.
func (s *stage) prepare(p policy.Policy) *launch.Sandbox {
	s.t.Helper()
	sandbox, err := launch.Prepare(p, launch.Options{Environ: s.command("true").Env})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = sandbox.Close() })
	return sandbox
}

// TestCurrentDirectoryGone: it is named, and naming another one mends it.
func TestCurrentDirectoryGone(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		gone := func(args ...string) testenv.Result {
			s.mkdir(s.base + "/gone")
			return testenv.Run(t, s.command("sh", append([]string{"-c", `cd "$0" && rmdir "$0" && exec "$@"`, s.base + "/gone", s.launcher}, args...)...))
		}
		r := gone(".", "--", "pwd")
		if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "current directory does not exist") || says.hint == "" {
			t.Errorf("worktree .: %v; want exit 125 and the reason", r)
		}
		r = gone("--private-tmp", "--best-effort", s.tree, "--", "pwd") // with mounts, where there are some
		if says := ownOutput(t, r); r.Code != 0 && (!strings.Contains(says.err, "current directory does not exist") || says.hint == "") {
			t.Errorf("worktree %s: %v; want the reason", s.tree, r)
		}
		if r := gone("--chdir", s.tree, s.tree, "--", "pwd"); r.Code != 0 || r.Stdout != s.tree+"\n" {
			t.Errorf("--chdir %s: %v; want it to run there", s.tree, r)
		}
		if r := gone(s.tree, "--", "sh", "-c", "echo x >"+s.outside+"/x"); r.Code == 0 {
			t.Errorf("from nowhere: %v; want the write outside to be refused", r)
		}
	})
}

// TestNoexec: a program on a file system that executes none says so.
func TestNoexec(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.mkdir(s.tree + "/mount")
		unshare := []string{"--mount"}
		if u.UID != 0 {
			unshare = []string{"--user", "--map-root-user", "--mount"}
		}
		if r := testenv.Run(t, s.command("unshare", append(unshare, "true")...)); r.Code != 0 {
			testenv.Skip(t, "can't make a mount namespace: %v", r)
		}
		r := testenv.Run(t, s.command("unshare", append(unshare, "sh", "-ec",
			`mount -t tmpfs -o noexec none mount; cp "$1" mount/program; exec "$0" . mount/program`, s.launcher, s.find("true"))...))
		if says := ownOutput(t, r); r.Code != 126 || !strings.Contains(says.err, "noexec") || says.hint == "" {
			t.Errorf("%v; want exit 126, the reason and a hint", r)
		}
	})
}

// TestTerminal: the command has the terminal that the launcher was started in.
func TestTerminal(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("script")
		inside := `test -t 0 && test -t 1 && stty size && stty rows 33 && stty size && echo typed >/dev/tty && tty && ps -o tpgid=,pgid= -p $$`
		s.env = []string{"INSIDE=" + inside}
		r := testenv.Run(t, s.command("script", "-qec", s.launcher+` . -- sh -c "$INSIDE"`, "/dev/null"))
		if r.Code != 0 || !strings.Contains(r.Stdout, "33 ") || !strings.Contains(r.Stdout, "typed") || !strings.Contains(r.Stdout, "/dev/pts/") {
			t.Errorf("%v; want the terminal's size to change, and typed", r)
		}
		fields := strings.Fields(r.Stdout)
		if n := len(fields); n < 2 || fields[n-1] != fields[n-2] {
			t.Errorf("the terminal's group and the command's: %q; want them to be the same", fields)
		}
	})
}

// TestHardLinks: a new link from outside can't be made. One that is there
// already opens what it links to: rules belong to paths, and the file is in the
// worktree too.
func TestHardLinks(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/store", "old\n", 0o644)
		s.write(s.outside+"/other", "old\n", 0o644)
		if err := os.Link(s.outside+"/store", s.tree+"/linked"); err != nil {
			t.Fatal(err)
		}
		for _, script := range []string{"ln ../outside/other new", "ln linked ../outside/new", "mv ../outside/other .", "cp -l ../outside/other new", "mv linked ../outside/new"} {
			if r := s.inside("sh", "-c", script); r.Code == 0 {
				t.Errorf("%s: %v; want it to be refused", script, r)
			}
		}
		s.mustInside("sh", "-c", "echo new >linked")
		for name, want := range map[string]string{"store": "new\n", "other": "old\n"} {
			if b, err := os.ReadFile(filepath.Join(s.outside, name)); err != nil || string(b) != want {
				t.Errorf("outside/%s: %q, %v; want %q", name, b, err, want)
			}
		}
	})
}

// TestSymlinksOut: a link in the worktree grants nothing of what it leads to.
func TestSymlinksOut(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.must("ln", "-s", s.outside, "node_modules")
		s.must("ln", "-s", s.outside+"/file", "file")
		if r := s.inside("sh", "-c", "echo x >node_modules/file || echo x >file || mkdir node_modules/d"); r.Code == 0 {
			t.Errorf("%v; want it to be refused", r)
		}
		if n := count(t, s.outside); n != 0 {
			t.Errorf("%d files outside; want none", n)
		}
	})
}

// TestWorktreeReplaced: rules belong to the folder that was there at the start,
// not to its name.
func TestWorktreeReplaced(t *testing.T) {
	s := newStage(t, testenv.Self())
	sandbox := s.prepare(policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(s.tree)})
	cmd := s.launch(s.tree, "--", "sh", "-c", "echo ready; read x; echo x >"+s.tree+"/new")
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	if err := os.Rename(s.tree, s.tree+".old"); err != nil {
		t.Fatal(err)
	}
	s.mkdir(s.tree)
	stdin.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("a command could write in the folder that took its worktree's place")
	}
	var replaced *launch.ReplacedError
	if err := sandbox.Command("true").Run(); !errors.As(err, &replaced) || launch.Hint(err) == "" {
		t.Errorf("a start in a replaced worktree: %v; want a ReplacedError with a hint", err)
	}
}

// TestGitVariables: those that tie git to another repository don't reach the
// command, and those that carry settings do.
func TestGitVariables(t *testing.T) {
	s := newStage(t, testenv.Self())
	s.need("git")
	s.must("git", "init", "--quiet", s.tree)
	s.must("git", "init", "--quiet", s.outside)
	s.env = []string{
		"GIT_DIR=" + s.outside + "/.git", "GIT_WORK_TREE=" + s.outside, "GIT_INDEX_FILE=" + s.outside + "/.git/index",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=Given",
	}
	if out := s.mustInside("sh", "-c", "git rev-parse --show-toplevel; git config user.name"); out != s.tree+"\nGiven\n" {
		t.Errorf("git inside is at %q; want %s and the given name", out, s.tree)
	}
	r := testenv.Run(t, s.launch("--keep-git-env", ".", "--", "git", "rev-parse", "--absolute-git-dir"))
	if r.Stdout != s.outside+"/.git\n" {
		t.Errorf("--keep-git-env: %v; want the other repository", r)
	}
}
