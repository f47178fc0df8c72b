package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// needBwrap skips t where there is no bubblewrap that works.
func needBwrap(t *testing.T) {
	t.Helper()
	if s := bwrap.Probe(t.Context(), ""); !s.Usable() {
		testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
	}
}

// inBwrap returns a run of the launcher with bubblewrap in the stage's tree,
// with a status record.
func (s *stage) inBwrap(args ...string) (*exec.Cmd, func() []event) {
	s.t.Helper()
	cmd := s.launch(append([]string{"--backend", "bwrap", "--status-fd", "3"}, args...)...)
	return cmd, s.status(cmd)
}

// TestBwrapConfines: writes go where they may, and nowhere else, the errno is
// that of a read-only file system, and the record says what holds.
func TestBwrapConfines(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/file", "outside\n", 0o666)
		before := snapshot(t, s.outside)
		cmd, record := s.inBwrap(".", "--", "sh", "-c", `
			cat "$0/file"; echo in >in && cat in
			echo x >"$0/file"; echo x >"$0/new"; rm "$0/file"; chmod 600 "$0/file"; true >"$0/file"
			echo tmp >"/tmp/$$" && rm "/tmp/$$" && echo >/dev/null && echo err >&2`, s.outside)
		r := testenv.Run(t, cmd)
		if r.Code != 0 || r.Stdout != "outside\nin\n" || strings.Count(r.Stderr, "Read-only file system") != 5 || !strings.HasSuffix(r.Stderr, "err\n") {
			t.Errorf("%v\nwant five refusals by a read-only file system, and the rest done", r)
		}
		before.same(t, snapshot(t, s.outside))
		list := record()
		if names(list) != "applied started exited" || list[0]["backend"] != "bwrap" || list[2]["code"] != 0.0 {
			t.Fatalf("record: %v", list)
		}
		states := map[any]any{}
		for _, f := range list[0]["features"].([]any) {
			f := f.(map[string]any)
			states[f["promise"]] = f["state"]
			if by, _ := f["by"].(string); f["promise"] == "write" && !strings.HasPrefix(by, "bwrap") {
				t.Errorf("write is held by %q", by)
			}
		}
		for promise, want := range map[string]string{"write": "enforced", "metadata": "enforced", "device-ioctl": "enforced", "signals": "enforced", "path-sockets": "absent"} {
			if states[promise] != want {
				t.Errorf("%s is %v; want %s", promise, states[promise], want)
			}
		}
		if pid, _ := list[1]["pid"].(float64); pid <= 1 {
			t.Errorf("started: %v; want the command's pid", list[1])
		}
	})
}

// TestBwrapOptions: what takes a mount layer, or a filter, is there too.
func TestBwrapOptions(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/secret", "secret\n", 0o644)
		s.write(s.tree+"/kept", "kept\n", 0o644)
		for _, tt := range []struct {
			options []string
			script  string
			out     string
			err     string
			code    int
		}{
			{[]string{"--hide", s.outside}, `ls -A "$0"`, "", "", 0},
			{[]string{"--hide", s.outside + "/secret"}, `cat "$0/secret"`, "", "", 0},
			{[]string{"--protect", s.tree + "/kept"}, `cat kept; rm -f kept; echo x >kept`, "kept\n", "Read-only file system", 2},
			{[]string{"--private-tmp"}, `ls -A /tmp; touch /tmp/new && ls /tmp`, "new\n", "", 0},
			{[]string{"--net", "none"}, `grep -c : /proc/net/dev`, "1\n", "", 0}, // lo, which is down
			{[]string{"--read", "system"}, `cat "$0/secret"`, "", "No such file or directory", 1},
			{[]string{"--mode", "read-only"}, `: >new`, "", "Read-only file system", 2},
			{[]string{"--new-session"}, `test "$(ps -o sid= -p $$)" -eq $$ && echo leader`, "leader\n", "", 0},
			{[]string{"--rw", s.outside}, `: >"$0/new" && echo done`, "done\n", "", 0},
			{[]string{"--chdir", "/usr"}, `pwd`, "/usr\n", "", 0},
			{[]string{"--env", "A=\xff"}, `printf %s "$A"`, "\xff", "", 0},
			{[]string{"--keep-fd", "4"}, `read x <&4 && echo "$x"`, "secret\n", "", 0},
			{[]string{"--keep-fd", "4"}, `echo x >/proc/self/fd/4`, "", "Read-only file system", 2},
		} {
			cmd, record := s.inBwrap(append(tt.options, ".", "--", "sh", "-c", tt.script, s.outside)...)
			f, err := os.Open(s.outside + "/secret")
			if err != nil {
				t.Fatal(err)
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
			r := testenv.Run(t, cmd)
			_ = f.Close()
			if r.Code != tt.code || r.Stdout != tt.out || !strings.Contains(r.Stderr, tt.err) || tt.err == "" && r.Stderr != "" {
				t.Errorf("%q %s: %v\nwant exit %d, stdout %q, stderr %q; record %v", tt.options, tt.script, r, tt.code, tt.out, tt.err, record())
			}
		}
		if b, err := os.ReadFile(s.outside + "/secret"); string(b) != "secret\n" {
			t.Errorf("what was hidden is now %q, %v", b, err)
		}
	})
}

// TestBwrapCodes: what comes back is the command's own end, those codes
// included that the launcher and bubblewrap use themselves.
func TestBwrapCodes(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, code := range []int{0, 1, 3, 125, 126, 127, 137, 255} {
			cmd, record := s.inBwrap(".", "--", "sh", "-c", "exit $0", strconv.Itoa(code))
			r := testenv.Run(t, cmd)
			list := record()
			if r.Code != code || r.Stdout != "" || r.Stderr != "" || names(list) != "applied started exited" || list[2]["code"] != float64(code) {
				t.Errorf("exit %d: %v, record %v", code, r, list)
			}
		}
		for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGKILL, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, 64} {
			cmd, record := s.inBwrap(".", "--", "sh", "-c", "ulimit -c 0; kill -$0 $$", strconv.Itoa(int(sig)))
			r := testenv.Run(t, cmd)
			list := record()
			name := unix.SignalName(sig)
			if name == "" {
				name = fmt.Sprintf("signal %d", int(sig))
			}
			if r.Code != 128+int(sig) || names(list) != "applied started exited" || list[2]["signal"] != name || list[2]["code"] != nil {
				t.Errorf("signal %d: %v, record %v", int(sig), r, list)
			}
		}
	})
}

// TestBwrapExecFailures: the errno of the exec is the inner stage's, and found
// where the command would have run.
func TestBwrapExecFailures(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := contractStage(t, u)
		for _, tt := range execFailures {
			if tt.command == "plain" || tt.command == "./foreign" && foreignMachine() == 0x4321 {
				continue
			}
			cmd := s.launch("--backend", "bwrap", "--status-fd", "3", "tree", tt.command, "argument")
			cmd.Dir = s.base
			record := s.status(cmd)
			r := testenv.Run(t, cmd)
			says := ownOutput(t, r)
			if r.Code != tt.code || r.Stdout != "" || !strings.HasPrefix(says.err, tt.says) || !strings.Contains(says.hint, tt.hint) {
				t.Errorf("%s: %v\nwant exit %d, %q, hint %q", tt.command, r, tt.code, tt.says, tt.hint)
			}
			list := record()
			last := list[len(list)-1]
			got := fmt.Sprint(last["event"], " ", last["stage"], " ", last["exit_code"], " ", last["errno"], " ", last["command"])
			if want := fmt.Sprintf("exec-failed exec %d %s %s", tt.code, tt.errno, tt.command); got != want || strings.Contains(names(list), "started") {
				t.Errorf("%s: record: %s, the last: %s; want %s", tt.command, names(list), got, want)
			}
		}
		cmd := s.launch("--backend", "bwrap", "--status-fd", "3", "--chdir", s.base+"/nonexistent", "tree", "true")
		cmd.Dir = s.base
		record := s.status(cmd)
		r := testenv.Run(t, cmd)
		list := record()
		last := list[len(list)-1]
		if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "does not exist") || last["stage"] != "chdir" || last["path"] != s.base+"/nonexistent" {
			t.Errorf("--chdir: %v, record %v", r, list)
		}
	})
}

// TestBwrapSignals: each signal to the launcher reaches the command once, and
// none reaches bubblewrap or the inner stage.
func TestBwrapSignals(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, alone := range []bool{false, true} {
			options := []string{".", "--", "sh", "-c", `
				for s in HUP INT QUIT USR1 USR2; do trap "echo $s" $s; done
				trap "echo TERM; exit 9" TERM
				echo ready; while :; do sleep 0.02; done`}
			if alone {
				options = append([]string{"--new-session"}, options...)
			}
			cmd, record := s.inBwrap(options...)
			leadGroup(cmd)
			lines := startLines(t, cmd)
			next := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Errorf("the command says %q, %v; want %s", lines.Text(), lines.Err(), want)
				}
			}
			next("ready")
			for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGINT, unix.SIGTERM} {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Error(err)
				}
				next(strings.TrimPrefix(unix.SignalName(sig), "SIG"))
			}
			for lines.Scan() {
				t.Errorf("the command says %q besides", lines.Text())
			}
			_ = cmd.Wait()
			if list := record(); cmd.ProcessState.ExitCode() != 9 || names(list) != "applied started exited" {
				t.Errorf("alone %v: %v, record %v; want exit 9", alone, cmd.ProcessState, list)
			}
		}
	})
}

// TestBwrapKilled: nothing survives the launcher, nor the command, without a pid
// namespace too, which an ordinary user who may signal others doesn't get.
func TestBwrapKilled(t *testing.T) {
	needBwrap(t)
	for _, option := range []string{"--quiet", "--allow-signals"} {
		t.Run(option, func(t *testing.T) {
			testenv.EachUser(t, func(t *testing.T, u testenv.User) { bwrapKilled(t, u, option) })
		})
	}
}

// startLines starts a command whose output is read line by line.
func startLines(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out)
}

func bwrapKilled(t *testing.T, u testenv.User, option string) {
	s := newStage(t, u)
	cmd, _ := s.inBwrap(option, ".", "--", "sh", "-c", "setsid sleep 1000 & echo ready; wait")
	lines := startLines(t, cmd)
	if !lines.Scan() {
		t.Fatal("the command didn't start")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // ends when the last one that has the pipe does
	}
	_ = cmd.Wait()

	cmd, record := s.inBwrap(option, ".", "--", "sh", "-c", "setsid sleep 1000 & exit 4")
	if r := testenv.Run(t, cmd); r.Code != 4 || names(record()) != "applied started exited" {
		t.Errorf("a command that leaves something: %v, record %v; want 4", r, record())
	}
	cmd, _ = s.inBwrap(option, ".", "--", "sh", "-c", "kill -STOP $$; kill -TERM $$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It stops with its command, and is continued as a shell does it.
	var ws unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Errorf("a command that stops: status %#x, %v; want the launcher stopped", ws, err)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Error(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(unix.SIGTERM) {
		t.Errorf("a command that died of SIGTERM: %v; want exit 143", cmd.ProcessState)
	}
}

// TestBwrapForeignProc: where /proc is another PID namespace's, bubblewrap isn't even
// tried: it would look at somebody else's child, or fail and leave its own.
func TestBwrapForeignProc(t *testing.T) {
	needBwrap(t)
	if os.Geteuid() != 0 {
		t.Skip("in a PID namespace of an ordinary user's, root's bubblewrap is somebody else's, and not trusted")
	}
	unshare := testenv.UnsharePID(t)
	s := newStage(t, testenv.Self())
	line := append(slices.Clip(unshare), s.launcher, "--backend", "bwrap", ".", "--", "true")
	r := testenv.Run(t, s.command("unshare", line...))
	if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "another PID namespace") || !strings.Contains(says.hint, "--mount-proc") {
		t.Errorf("%v; want exit 125, and why", r)
	}
	line = append(slices.Clip(unshare), "--mount-proc", s.launcher, "--backend", "bwrap", ".", "--", "true")
	if r := testenv.Run(t, s.command("unshare", line...)); r.Code != 0 {
		t.Errorf("with its own /proc: %v", r)
	}
}

// TestBwrapKilledEarly: who is killed before the command runs leaves nothing, and
// the command doesn't run.
func TestBwrapKilledEarly(t *testing.T) {
	needBwrap(t)
	path := bwrap.Probe(t.Context(), "").Path
	tests := []struct {
		name, script string
		held         bool // the inner stage, until something is written to the FIFO go
		code         int  // of the launcher
	}{
		{"the launcher, before bubblewrap begins", `kill -9 $PPID; exec PATH "$@"`, false, -1},
		{"the launcher, before the inner stage does", `echo $PPID >pid; exec PATH "$1" "$2" -- /bin/sh -c 'read x <go; exec "$0" "$@"' "$4" "$5"`, true, -1},
		{"bubblewrap, before the inner stage begins", `echo $$ >pid; exec PATH "$1" "$2" -- /bin/sh -c 'read x <go; exec "$0" "$@"' "$4" "$5"`, true, 125},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			testenv.EachUser(t, func(t *testing.T, u testenv.User) {
				s := newStage(t, u)
				script := strings.NewReplacer("PATH", path, ">pid", ">"+s.base+"/pid", "<go", "<"+s.tree+"/go").Replace(tt.script)
				s.write(s.base+"/bwrap", "#!/bin/sh\n"+script+"\n", 0o755)
				fifo := s.tree + "/go"
				if err := unix.Mkfifo(fifo, 0o666); err != nil {
					t.Fatal(err)
				}
				s.chown(fifo)
				cmd, record := s.inBwrap("--bwrap", s.base+"/bwrap", ".", "--", "touch", "ran")
				out, end, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = out.Close() }()
				cmd.Stdout = end
				err = cmd.Start()
				_ = end.Close()
				if err != nil {
					t.Fatal(err)
				}
				if tt.held {
					release, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = release.Close() }()
					b, err := os.ReadFile(s.base + "/pid")
					if err != nil {
						t.Fatal(err)
					}
					pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
					if err != nil {
						t.Fatal(err)
					}
					if err := unix.Kill(pid, unix.SIGKILL); err != nil {
						t.Fatal(err)
					}
					if pid == cmd.Process.Pid {
						_ = cmd.Wait() // all of its threads
					} else {
						testenv.AwaitEnd(t, pid)
					}
					if _, err := release.WriteString("\n"); err != nil {
						t.Error(err)
					}
				}
				_ = cmd.Wait() // or has been
				if got := cmd.ProcessState.ExitCode(); got != tt.code {
					t.Errorf("the launcher's exit code is %d, record %v; want %d", got, record(), tt.code)
				}
				// It is the last one's that has the pipe.
				if err := out.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
					t.Error(err)
				}
				if b, err := io.ReadAll(out); err != nil || len(b) > 0 {
					t.Errorf("the command's output: %q, %v; want its end", b, err)
				}
				if _, err := os.Lstat(s.tree + "/ran"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the command's file: %v; want none", err)
				}
			})
		})
	}
}

// TestBwrapStdio: the streams are the command's, and lead nowhere else.
func TestBwrapStdio(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/in", "first\nsecond\n", 0o666)
		s.write(s.outside+"/out", "", 0o666)
		big := strings.Repeat("x", 1<<20)
		cmd, _ := s.inBwrap(".", "--", "cat")
		cmd.Stdin = strings.NewReader(big)
		if r := testenv.Run(t, cmd); r.Code != 0 || r.Stdout != big {
			t.Errorf("cat of a mebibyte: exit %d, %d bytes", r.Code, len(r.Stdout))
		}
		// A pipeline ends with its reader.
		shell := s.command("sh", "-c", `"$0" --backend bwrap . -- yes | head -n 1`, s.launcher)
		if r := testenv.Run(t, shell); r.Code != 0 || r.Stdout != "y\n" {
			t.Errorf("yes | head: %v", r)
		}
		// What is open for reading isn't for writing; what is for writing is,
		// by its name among the descriptors too.
		shell = s.command("sh", "-c", `"$0" --backend bwrap . -- sh -c 'read x; echo "$x"; echo err >/dev/stderr; echo x >/dev/stdin' <"$1/in" >"$1/out" 2>>"$1/err"`, s.launcher, s.outside)
		r := testenv.Run(t, shell)
		for name, want := range map[string]string{"in": "first\nsecond\n", "out": "first\n"} {
			if b, err := os.ReadFile(s.outside + "/" + name); err != nil || string(b) != want {
				t.Errorf("%s is %q, %v; want %q", name, b, err, want)
			}
		}
		if b, _ := os.ReadFile(s.outside + "/err"); !strings.HasPrefix(string(b), "err\n") || !strings.Contains(string(b), "Read-only file system") {
			t.Errorf("stderr: %q, %v; want err, and a refusal", b, r)
		}
		// What the sandbox doesn't show can't be handed in.
		shell = s.command("sh", "-c", `"$0" --backend bwrap --hide "$1" . -- cat <"$1/in"`, s.launcher, s.outside)
		r = testenv.Run(t, shell)
		if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "descriptor") || !strings.Contains(says.hint, "pipe") {
			t.Errorf("a hidden file as standard input: %v", r)
		}
	})
}

// TestBwrapAuto: without a Landlock that confines writes bubblewrap is taken,
// and without either nothing runs.
func TestBwrapAuto(t *testing.T) {
	needBwrap(t)
	sim := buildProgram(t, "./test/llsim")
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.base+"/broken", "#!/bin/sh\nexit 1\n", 0o755)
		s.write(s.base+"/open", "#!/bin/sh\nexec /usr/bin/bwrap \"$@\"\n", 0o777)
		// llsim hands on nothing but the standard streams.
		under := func(abi string, args ...string) (testenv.Result, []event) {
			shell := []string{"-abi", abi, "--", "sh", "-c", `exec "$0" --status-fd 3 "$@" 3>record`, s.launcher}
			r := testenv.Run(t, s.command(sim, append(shell, args...)...))
			b, err := os.ReadFile(s.tree + "/record")
			if err != nil {
				t.Fatal(err)
			}
			return r, events(t, b)
		}
		for _, abi := range []string{"0", "off", "1", "2"} {
			r, list := under(abi, ".", "--", "sh", "-c", `echo in >in && cat in; : >"$0/x"`, s.outside)
			if r.Code != 2 || r.Stdout != "in\n" || !strings.Contains(r.Stderr, "Read-only file system") || names(list) != "applied started exited" || list[0]["backend"] != "bwrap" {
				t.Errorf("ABI %s: %v, record %v", abi, r, list)
			}
			r, list = under(abi, "--bwrap", "/nonexistent", ".", "--", "touch", "ran")
			if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, `can't hold the promise "write"`) ||
				!strings.Contains(says.err, "bubblewrap") || !strings.Contains(says.hint, "install the package bubblewrap") || names(list) != "setup-failed" {
				t.Errorf("ABI %s, no bubblewrap: %v, record %v", abi, r, list)
			}
		}
		for _, tt := range []struct{ bwrap, says, hint string }{
			{s.base + "/broken", "bubblewrap doesn't run", "again"},
			{s.base + "/open", "can be written to by others", "write permission"},
			{s.base + "/none", "no such file", "install"},
		} {
			for _, cmd := range []*exec.Cmd{
				s.command(sim, "-abi", "0", "--", s.launcher, "--bwrap", tt.bwrap, ".", "--", "touch", "ran"),
				s.launch("--backend", "bwrap", "--bwrap", tt.bwrap, ".", "--", "touch", "ran"),
			} {
				r := testenv.Run(t, cmd)
				says := ownOutput(t, r)
				if r.Code != 125 || !strings.Contains(says.err, `can't hold the promise "write"`) || !strings.Contains(says.err, tt.says) || !strings.Contains(says.hint, tt.hint) {
					t.Errorf("%q: %v\nwant exit 125, %q, hint %q", cmd.Args, r, tt.says, tt.hint)
				}
			}
		}
		if u.UID != 0 { // root needs no user namespace
			r := testenv.Run(t, s.command(sim, "-abi", "0", "-no-userns", "--", s.launcher, ".", "--", "touch", "ran"))
			if says := ownOutput(t, r); r.Code != 125 || !strings.Contains(says.err, "user namespaces") || says.hint == "" {
				t.Errorf("no user namespaces: %v; want exit 125, the reason and a hint", r)
			}
		}
		if _, err := os.Lstat(s.tree + "/ran"); err == nil {
			t.Error("the command ran")
		}
		r := testenv.Run(t, s.command(sim, "-abi", "0", "--", s.launcher, "--explain", ".", "--", "true"))
		if r.Code != 0 || !strings.Contains(r.Stdout, "by bwrap") {
			t.Errorf("--explain: %v; want exit 0, and bwrap", r)
		}
	})
}

// TestBwrapSupervise: the guard and bubblewrap go together.
func TestBwrapSupervise(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		cmd, record := s.inBwrap("--supervise", ".", "--", "sh", "-c", `setsid sleep 1000 & echo "$0"; exit 6`, "out")
		if r := testenv.Run(t, cmd); r.Code != 6 || r.Stdout != "out\n" || names(record()) != "applied started exited" {
			t.Errorf("--supervise: %v, record %v; want exit 6", r, record())
		}
	})
}

// TestBwrapHooks: what git executes or follows stays as it is, and a commit
// works, in a linked worktree.
func TestBwrapHooks(t *testing.T) {
	needBwrap(t)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		c := newCheckout(t, u, "beside")
		in := c.confined("bwrap")
		if r := in.run("sh", "-c", "echo x >new && git add new && git commit -qm new && git log --format=%s -n 1"); r.Code != 0 || r.Stdout != "new\n" {
			t.Errorf("commit: %v", r)
		}
		common := c.common.Dir + "/.git"
		for _, script := range []string{
			`echo x >"$0/hooks/post-commit"`, `mv "$0/hooks" "$0/moved"`, `echo x >"$0/config"`, `rm -f "$0/config"; test ! -e "$0/config"`,
			`echo x >.git`, `rm -f .git; test ! -e .git`,
		} {
			if r := in.run("sh", "-c", script, common); r.Code == 0 {
				t.Errorf("%s: %v; want it to be refused", script, r)
			}
		}
		if r := in.run("git", "config", "core.fsmonitor", "./evil"); r.Code == 0 {
			t.Errorf("git config: %v; want it to be refused", r)
		}
		c.check()
	})
}
