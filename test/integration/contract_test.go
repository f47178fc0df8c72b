package integration

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// contractStage is a stage whose base folder, where its commands start, holds
// what can't be used in one way or another.
func contractStage(t *testing.T, u testenv.User) *stage {
	t.Helper()
	s := newStage(t, u)
	s.write(s.base+"/file", "text\n", 0o644)
	s.mkdir(s.base + "/locked")
	if err := os.Chmod(s.base+"/locked", 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", s.base+"/dangling"); err != nil {
		t.Fatal(err)
	}
	s.write(s.base+"/unknown.json", "{\"mode\": \"workspace-write\",\n \"writ\": [\"/x\"]}\n", 0o644)
	s.write(s.base+"/twice.json", `{"write": [], "write": []}`, 0o644)
	s.write(s.base+"/missing.json", `{"mode": "workspace-write", "write": ["/nonexistent/a"]}`, 0o644)
	s.write(s.base+"/none", "", 0o755)
	s.write(s.base+"/nohash", "echo hello\n", 0o755)
	s.write(s.base+"/nointerp", "#!/nonexistent/interpreter -x\n", 0o755)
	s.write(s.base+"/crlf", "#!/bin/sh\r\necho hello\r\n", 0o755)
	s.write(s.base+"/garbage", "\x00\x01\x02\x03", 0o755)
	s.write(s.base+"/otherelf", elf(0x1234), 0o755)
	s.write(s.base+"/foreign", elf(foreignMachine()), 0o755)
	return s
}

// elf is the header of a program for a machine, by the number in elf.h.
func elf(machine uint16) string {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01") // 64 bits, little-endian
	b[16], b[18], b[19], b[20] = 2, byte(machine), byte(machine>>8), 1
	b[52] = 64 // size of this header
	return string(b)
}

// foreignMachine is one that this machine can't run, by emulation neither.
func foreignMachine() uint16 {
	machines := map[string]uint16{"qemu-aarch64": 183, "qemu-x86_64": 62, "qemu-riscv64": 243}
	if runtime.GOARCH == "arm64" {
		delete(machines, "qemu-aarch64")
	} else {
		delete(machines, "qemu-x86_64")
	}
	for emulator, machine := range machines {
		if _, err := os.Stat("/proc/sys/fs/binfmt_misc/" + emulator); err != nil {
			return machine
		}
	}
	return 0x4321
}

// setupFailures are command lines that confine nothing and run nothing: exit
// code 125. BASE and HOME in them stand for those folders.
var setupFailures = []struct {
	args  []string
	stage string
	says  string // a part of the error
	hint  string // a part of the hint; may be empty
	path  string // the record's path; may be empty
	user  bool   // root can do it
}{
	{args: nil, stage: "usage", says: "worktree directory is missing", hint: "<worktree-dir>"},
	{args: []string{"tree"}, stage: "usage", says: "command is missing", hint: "tree -- command"},
	{args: []string{"true"}, stage: "usage", says: `"true" is not a directory`, hint: "<worktree-dir> [--] command"},
	{args: []string{"tree", "--"}, stage: "usage", says: "command is missing"},
	{args: []string{"tree", "--", ""}, stage: "usage", says: "command is empty", hint: "unset variable"},
	{args: []string{"tree", ""}, stage: "usage", says: "command is empty"},
	{args: []string{"", "--", "true"}, stage: "usage", says: "worktree directory is empty"},
	{args: []string{"tree", "--new-session", "true"}, stage: "usage", says: `"--new-session" comes after the worktree directory`},
	{args: []string{"--allow-braod", "tree", "true"}, stage: "usage", says: "unknown option --allow-braod", hint: "did you mean --allow-broad?"},
	{args: []string{"--zzzzzz", "tree", "true"}, stage: "usage", says: "unknown option --zzzzzz", hint: "--help"},
	{args: []string{"--timeout=5s", "tree", "true"}, stage: "usage", says: "unknown option --timeout=5s", hint: "runner run --timeout"},
	{args: []string{"-x", "tree", "true"}, stage: "usage", says: "unknown option -x"},
	{args: []string{"--rw"}, stage: "usage", says: "--rw"},
	{args: []string{"--backend", "nonsense", "tree", "true"}, stage: "policy", says: `--backend "nonsense": no such backend`, hint: "landlock+mountns"},
	{args: []string{"--net", "lan", "tree", "true"}, stage: "policy", says: `--net "lan": no such network mode`},
	{args: []string{"--json", "tree", "true"}, stage: "usage", says: "--json goes with --explain"},
	{args: []string{"--keep-fd", "99", "tree", "true"}, stage: "usage", says: "--keep-fd 99: the descriptor is not open"},
	// 4 is the lowest free one: a file that Go's runtime had open would be there.
	{args: []string{"--keep-fd", "4", "tree", "true"}, stage: "usage", says: "--keep-fd 4: the descriptor is not open"},
	{args: []string{"--keep-fd", "3", "tree", "true"}, stage: "usage", says: "--keep-fd 3 is the descriptor of --status-fd"},
	{args: []string{"--connect-tcp", "65536", "tree", "true"}, stage: "usage", says: `--connect-tcp "65536" is not a port`},
	{args: []string{"--rw", "", "tree", "true"}, stage: "usage", says: "--rw is empty", hint: "unset variable"},
	{args: []string{"--read", "", "tree", "true"}, stage: "usage", says: "--read is empty"},
	{args: []string{"--policy", "", "tree", "true"}, stage: "usage", says: "--policy is empty"},
	{args: []string{"--net", "", "tree", "true"}, stage: "usage", says: "--net is empty"},
	{args: []string{"--connect-tcp", "", "tree", "true"}, stage: "usage", says: "--connect-tcp is empty"},

	{args: []string{"nonexistent", "true"}, stage: "policy", says: `worktree "BASE/nonexistent": does not exist`, hint: "before the command", path: "BASE/nonexistent"},
	{args: []string{"dangling", "true"}, stage: "policy", says: `worktree "BASE/dangling": does not exist`, path: "BASE/dangling"},
	{args: []string{"file", "true"}, stage: "policy", says: `worktree "BASE/file": is not a folder`, path: "BASE/file"},
	{args: []string{"file/below", "true"}, stage: "policy", says: `worktree "BASE/file/below": does not exist`, path: "BASE/file/below"},
	{args: []string{"/", "true"}, stage: "policy", says: `worktree "/": is the whole file system`, hint: "--allow-broad"},
	{args: []string{"HOME", "true"}, stage: "policy", says: `worktree "HOME": is the home directory`, hint: "--allow-broad"},
	{args: []string{"HOME/..", "true"}, stage: "policy", says: `worktree "BASE": is the home directory or holds it`, hint: "--allow-broad"},
	{args: []string{"locked", "true"}, stage: "policy", says: `worktree "BASE/locked"`, path: "BASE/locked", user: true},
	{args: []string{"locked/tree", "true"}, stage: "policy", says: `worktree "BASE/locked/tree": cannot be reached: permission denied`, hint: "search permission", path: "BASE/locked/tree", user: true},
	{args: []string{"--rw", "nonexistent", "tree", "true"}, stage: "policy", says: `--rw "BASE/nonexistent": does not exist`, hint: "--rw-create", path: "BASE/nonexistent"},
	{args: []string{"--rw", "~/x", "tree", "true"}, stage: "policy", says: `--rw "BASE/~/x": does not exist`, hint: "no shell has expanded the ~"},
	{args: []string{"--rw", "/", "tree", "true"}, stage: "policy", says: `"/": is the whole file system`, hint: "--allow-broad"},
	{args: []string{"--rw", "HOME", "tree", "true"}, stage: "policy", says: `"HOME": is the home directory`, hint: "--allow-broad"},
	{args: []string{"--rw-create", "file/new", "tree", "true"}, stage: "policy", says: `"BASE/file/new": does not exist: a part of it is not a folder`, path: "BASE/file/new"},
	{args: []string{"--mode", "read-only", "--rw", "file", "tree", "true"}, stage: "policy", says: "not allowed in mode read-only", hint: "workspace-write"},
	{args: []string{"--mode", "wirte", "tree", "true"}, stage: "policy", says: `--mode "wirte": no such mode`},
	{args: []string{"--mode", "read-onyl", "tree", "true"}, stage: "policy", says: `mode "read-onyl"`, hint: `did you mean "read-only"?`},
	{args: []string{"--require", "signal", "tree", "true"}, stage: "policy", says: `--require "signal": no such promise`, hint: `did you mean "signals"?`},
	{args: []string{"--caps", "CAP_KILL", "tree", "true"}, stage: "policy", says: `--caps "CAP_KILL": no such capability`, hint: `did you mean "kill"?`},
	{args: []string{"--env", "=x", "tree", "true"}, stage: "policy", says: `"=x": empty name`},
	{args: []string{"--unsetenv", "A=x", "tree", "true"}, stage: "policy", says: `--unsetenv "A=x": a name has no "="`},
	{args: []string{"--policy", "nonexistent.json", "tree", "true"}, stage: "policy", says: "nonexistent.json: no such file", path: "nonexistent.json"},
	{args: []string{"--policy", "unknown.json", "tree", "true"}, stage: "policy", says: `unknown.json:2:2: writ: unknown key, did you mean "write"?`},
	{args: []string{"--policy", "twice.json", "tree", "true"}, stage: "policy", says: "twice.json:1:"},
	{args: []string{"--policy", "missing.json", "tree", "true"}, stage: "policy", says: `write[0] "/nonexistent/a": does not exist`, path: "/nonexistent/a"},
	{args: []string{"--backend", "landlock", "--require", "metadata", "tree", "true"}, stage: "probe", says: `can't hold the promise "metadata"`, hint: "--best-effort"},
	{args: []string{"--chdir", "BASE/nonexistent", "tree", "true"}, stage: "chdir", says: `working directory "BASE/nonexistent": does not exist`, path: "BASE/nonexistent"},
	{args: []string{"--chdir", "BASE/file", "tree", "true"}, stage: "chdir", says: `working directory "BASE/file": is not a directory`, path: "BASE/file"},
}

func TestSetupFailures(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := contractStage(t, u)
		expand := strings.NewReplacer("BASE", s.base, "HOME", s.home)
		for _, tt := range setupFailures {
			if tt.user && u.UID == 0 {
				continue
			}
			t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
				s := *s
				s.t = t
				args := []string{"--status-fd", "3"}
				for _, a := range tt.args {
					args = append(args, expand.Replace(a))
				}
				cmd := s.launch(args...)
				cmd.Dir = s.base
				record := s.status(cmd)
				r := testenv.Run(t, cmd)

				says := ownOutput(t, r)
				if r.Code != 125 || r.Stdout != "" {
					t.Errorf("%q: %v\nwant exit 125 and nothing on stdout", args, r)
				}
				if want := expand.Replace(tt.says); !strings.Contains(says.err, want) || !strings.Contains(says.hint, tt.hint) {
					t.Errorf("%q says %q, hint %q; want %q, hint %q", args, says.err, says.hint, want, tt.hint)
				}
				list := record()
				if len(list) == 0 {
					t.Fatalf("%q: no status record", args)
				}
				last := list[len(list)-1]
				got := fmt.Sprint(last["event"], " ", last["stage"], " ", last["exit_code"], " ", last["error"])
				if want := "setup-failed " + tt.stage + " 125 " + says.err; got != want {
					t.Errorf("%q: the record ends with %s; want %s", args, got, want)
				}
				if tt.path != "" && last["path"] != expand.Replace(tt.path) {
					t.Errorf("%q: the record names the path %v; want %s", args, last["path"], expand.Replace(tt.path))
				}
				if tt.stage != "chdir" && names(list) != "setup-failed" {
					t.Errorf("%q: record: %s; want setup-failed alone", args, names(list))
				}
			})
		}
	})
}

// ownLine is the form of all that the launcher itself says.
var ownLine = regexp.MustCompile(`^(shofer-sandbox: (error|warning): |hint: )[^\n]+\n?$`)

// said is what the launcher said on standard error.
type said struct{ err, hint string }

// ownOutput takes standard error apart, where nothing but the launcher wrote
// to it.
func ownOutput(t *testing.T, r testenv.Result) (s said) {
	t.Helper()
	for line := range strings.Lines(r.Stderr) {
		if !ownLine.MatchString(line) {
			t.Errorf("stderr has a line of another form: %q", line)
		}
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "shofer-sandbox: error: "); ok {
			s.err += text
		}
		if text, ok := strings.CutPrefix(line, "hint: "); ok {
			s.hint += text
		}
	}
	return s
}

// execFailures are commands that can't be executed. They start in the base
// folder; PATH is base/bin and that of the stage.
var execFailures = []struct {
	command string
	code    int
	says    string
	hint    string
	errno   string
}{
	{"nonexistent-command", 127, "cannot execute nonexistent-command: command not found in PATH", "spelling", "ENOENT"},
	{"./nonexistent", 127, "cannot execute ./nonexistent: no such file", "", "ENOENT"},
	{"file/below", 127, "cannot execute file/below: no such file", "", "ENOENT"},
	{"dangling", 127, "cannot execute dangling: command not found in PATH", "", "ENOENT"},
	{"./file", 126, "cannot execute ./file: it has no permission to execute", "chmod +x ./file", "EACCES"},
	{"plain", 126, "cannot execute plain (BASE/bin/plain): it has no permission to execute", "chmod +x BASE/bin/plain", "EACCES"},
	{"./tree", 126, "cannot execute ./tree: it is a directory", "", "EACCES"},
	{"./none", 126, "cannot execute ./none: the file is empty", "", "ENOEXEC"},
	{"./nohash", 126, "cannot execute ./nohash: it is a script without a #! line", "#!/bin/sh", "ENOEXEC"},
	{"./nointerp", 126, "cannot execute ./nointerp: its interpreter /nonexistent/interpreter does not exist", "install it", "ENOENT"},
	{"./crlf", 126, "cannot execute ./crlf: its interpreter /bin/sh does not exist (the line ends with a carriage return)", "line ends", "ENOENT"},
	{"./garbage", 126, "cannot execute ./garbage: ", "", "ENOEXEC"},
	{"./otherelf", 126, "cannot execute ./otherelf: it is a damaged program, or one for another kind of machine", "", "ENOEXEC"},
	{"./foreign", 126, "cannot execute ./foreign: it is a program for ", "", "ENOEXEC"},
}

func TestExecFailures(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := contractStage(t, u)
		s.mkdir(s.base + "/bin")
		s.write(s.base+"/bin/plain", "#!/bin/sh\n", 0o644)
		s.env = []string{"PATH=" + s.base + "/bin:" + toolPath()}
		expand := strings.NewReplacer("BASE", s.base)
		for _, tt := range execFailures {
			for _, parent := range []bool{false, true} {
				if foreign := tt.command == "./foreign"; foreign && foreignMachine() == 0x4321 {
					continue // everything is emulated here
				}
				cmd := s.launch("--status-fd", "3", "tree", tt.command, "argument")
				if parent {
					cmd = s.launch("--new-session", "--status-fd", "3", "tree", tt.command, "argument")
					leadGroup(cmd)
				}
				cmd.Dir = s.base
				record := s.status(cmd)
				r := testenv.Run(t, cmd)
				says := ownOutput(t, r)
				if r.Code != tt.code || r.Stdout != "" {
					t.Errorf("%s: %v\nwant exit %d and nothing on stdout", tt.command, r, tt.code)
				}
				if !strings.HasPrefix(says.err, expand.Replace(tt.says)) || !strings.Contains(says.hint, expand.Replace(tt.hint)) {
					t.Errorf("%s: says %q, hint %q; want %q, hint %q", tt.command, says.err, says.hint, tt.says, tt.hint)
				}
				list := record()
				if len(list) == 0 {
					t.Errorf("%s: no status record", tt.command)
					continue
				}
				last := list[len(list)-1]
				path := last["path"]
				if strings.Contains(tt.says, "not found in PATH") {
					path = tt.command // there is none
				} else if strings.Contains(tt.says, "(BASE") {
					path = strings.TrimPrefix(fmt.Sprint(path), s.base+"/bin/")
				}
				got := fmt.Sprint(last["event"], " ", last["stage"], " ", last["exit_code"], " ", last["errno"], " ", path, " ", last["command"])
				want := fmt.Sprintf("exec-failed exec %d %s %s %s", tt.code, tt.errno, tt.command, tt.command)
				if got != want {
					t.Errorf("%s: the record ends with %s; want %s", tt.command, got, want)
				}
				for _, e := range list {
					if e["event"] == "started" {
						t.Errorf("%s: record: %s; nothing has started", tt.command, names(list))
					}
				}
			}
		}
	})
}

// TestOwnCode: the command's own exit code comes back as it is, those included
// that the launcher uses itself. The status record tells them apart.
func TestOwnCode(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, code := range []int{0, 1, 2, 124, 125, 126, 127, 128, 137, 139, 255} {
			for _, parent := range []bool{false, true} {
				args := []string{"--status-fd", "3", ".", "--", "sh", "-c", "exit $1", "sh", fmt.Sprint(code)}
				want, wantLast := "applied", any(nil)
				if parent {
					args = append([]string{"--new-session"}, args...)
					want, wantLast = "applied started exited", float64(code)
				}
				cmd := s.launch(args...)
				if parent {
					leadGroup(cmd)
				}
				record := s.status(cmd)
				r := testenv.Run(t, cmd)
				list := record()
				if r.Code != code || r.Stdout != "" || r.Stderr != "" {
					t.Errorf("parent %v: exit %d became %v", parent, code, r)
				}
				if names(list) != want || list[len(list)-1]["code"] != wantLast {
					t.Errorf("parent %v, exit %d: record: %v; want %s", parent, code, list, want)
				}
			}
		}
	})
}

// TestOwnSignal: the launcher has become the command, so it is the process
// that dies of the command's signal, and a shell sees 128+n. With a parent the
// launcher itself exits with that code.
func TestOwnSignal(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		signals := []syscall.Signal{
			unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGABRT, unix.SIGKILL,
			unix.SIGSEGV, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGUSR1, unix.SIGXCPU, 34, 64,
		}
		for _, sig := range signals {
			if sig == unix.SIGHUP && signal.Ignored(sig) {
				continue // below nohup, which the launcher respects
			}
			die := []string{".", "--", "sh", "-c", "ulimit -c 0; kill -$1 $$", "sh", fmt.Sprint(int(sig))}
			if r := s.inside(die[2:]...); r.Signal != sig {
				t.Errorf("%v in place: %v", sig, r)
			}
			shell := s.command("sh", append([]string{"-c", `"$@"; echo $?`, "sh", s.launcher}, die...)...)
			if r := testenv.Run(t, shell); r.Stdout != fmt.Sprintln(128+int(sig)) {
				t.Errorf("%v: the shell sees %s; want %d", sig, strings.TrimSpace(r.Stdout), 128+int(sig))
			}

			cmd := s.launch(append([]string{"--new-session", "--status-fd", "3"}, die...)...)
			leadGroup(cmd)
			record := s.status(cmd)
			r, list := testenv.Run(t, cmd), record()
			if r.Code != 128+int(sig) {
				t.Errorf("%v with a parent: %v; want exit %d", sig, r, 128+int(sig))
			}
			name := unix.SignalName(sig)
			if name == "" {
				name = fmt.Sprintf("signal %d", int(sig))
			}
			if last := list[len(list)-1]; last["event"] != "exited" || last["signal"] != name || last["code"] != nil {
				t.Errorf("%v with a parent: the record ends with %v; want signal %s", sig, last, name)
			}
		}
	})
}

// TestInPlace: the command is the launcher's process, with its streams, and
// lies in the session and group that the launcher was started in.
func TestInPlace(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		cmd := s.launch(".", "--", "sh", "-c", `echo $$ $PPID; cat; echo err >&2; ps -o sid= -o pgid= -p $$`)
		cmd.Stdin = strings.NewReader("input\n")
		r := testenv.Run(t, cmd)
		sid, _ := unix.Getsid(0)
		fields := strings.Fields(r.Stdout)
		want := fmt.Sprint([]any{cmd.Process.Pid, os.Getpid(), "input", sid, unix.Getpgrp()})
		if r.Code != 0 || r.Stderr != "err\n" || fmt.Sprint(fields) != want {
			t.Errorf("%v\nwant %s", r, want)
		}

		r = testenv.Run(t, s.launch("--new-session", ".", "--", "sh", "-c", `ps -o sid= -p $$; echo $$`))
		if f := strings.Fields(r.Stdout); len(f) != 2 || f[0] != f[1] {
			t.Errorf("--new-session: session %q; want the command's own", f)
		}
	})
}

// TestParent: where the launcher stays, it hands signals on.
func TestParent(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		script := `trap 'exit 7' TERM; trap 'echo usr1' USR1; kill -USR1 $PPID; kill -TERM $PPID; while :; do sleep 0.01; done`
		cmd := s.launch("--allow-signals", "--new-session", ".", "--", "sh", "-c", script)
		leadGroup(cmd)
		if r := testenv.Run(t, cmd); r.Code != 7 || !strings.Contains(r.Stdout, "usr1") {
			t.Errorf("USR1 and TERM to the launcher: %v; want usr1 and exit 7", r)
		}
	})
}

// TestOperands: options end at the first operand, and -- is optional.
func TestOperands(t *testing.T) {
	s := newStage(t, testenv.Self())
	for _, args := range [][]string{
		{s.tree, "echo", "-n", "--help", "--"},
		{s.tree, "--", "echo", "-n", "--help", "--"},
		{"--", s.tree, "echo", "-n", "--help", "--"},
		{"--", s.tree, "--", "echo", "-n", "--help", "--"},
		{"--no-cache", s.tree, "echo", "-n", "--help", "--"},
		{filepath.Join("..", "tree"), "echo", "-n", "--help", "--"},
	} {
		if r := testenv.Run(t, s.launch(args...)); r.Code != 0 || r.Stdout != "--help --" {
			t.Errorf("%q: %v; want --help --", args, r)
		}
	}
}
