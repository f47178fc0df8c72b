package integration

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// leadGroup starts cmd as the leader of a process group: --new-session then
// needs a child, and the launcher stays as its parent.
func leadGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// pipe gives cmd a pipe as descriptor 3 and returns both its ends. The test
// has to close its writing end once cmd is started.
func pipe(t *testing.T, cmd *exec.Cmd) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	cmd.ExtraFiles = []*os.File{w}
	return r, w
}

// TestRecordInPlace: without a parent the record ends with the line applied
// while the command runs, and the command doesn't get the descriptor.
func TestRecordInPlace(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		cmd := s.launch("--status-fd", "3", ".", "--", "sh", "-c", "readlink /proc/self/fd/3; cat")
		r, w := pipe(t, cmd)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		record, err := io.ReadAll(r) // ends at end of file, although cat goes on
		if err != nil {
			t.Fatal(err)
		}
		list := events(t, record)
		if names(list) != "applied" {
			t.Errorf("record: %s; want applied alone", names(list))
		}
		if _, err := io.WriteString(stdin, "still here\n"); err != nil {
			t.Errorf("the command ended with the record: %v", err)
		}
		stdin.Close()
		if err := cmd.Wait(); err != nil || out.String() != "still here\n" {
			t.Errorf("%v, stdout %q; want only what cat was given", err, &out)
		}
	})
}

// TestRecordParent: with a parent, started names the process once its exec has
// succeeded, and exited comes last.
func TestRecordParent(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		cmd := s.launch("--new-session", "--status-fd", "3", ".", "--", "sh", "-c", "echo $$; read x; exit 5")
		leadGroup(cmd)
		r, w := pipe(t, cmd)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		lines := bufio.NewReader(r)
		next := func() string {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Errorf("status record: %v after %q", err, line)
			}
			return line
		}
		if e := events(t, []byte(next())); names(e) != "applied" {
			t.Errorf("first line: %v; want applied", e)
		}
		started := events(t, []byte(next()))
		stdin.Close()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 5 {
			t.Errorf("%v; want exit status 5", err)
		}
		if pid := strings.TrimSpace(out.String()); names(started) != "started" || fmt.Sprint(started[0]["pid"]) != pid || pid == fmt.Sprint(cmd.Process.Pid) {
			t.Errorf("second line: %v; want started and pid %s, which isn't the launcher's %d", started, pid, cmd.Process.Pid)
		}
		rest, err := io.ReadAll(lines)
		last := events(t, rest)
		if err != nil || names(last) != "exited" || last[0]["code"] != 5.0 || last[0]["signal"] != nil || last[0]["core"] != false {
			t.Errorf("the record ends with %v (%v); want exited with code 5", last, err)
		}
	})
}

// TestRecordReaderGone: a reader that goes away does no harm, before the first
// line or between two.
func TestRecordReaderGone(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, parent := range []bool{false, true} {
			args := []string{"--status-fd", "3", ".", "--", "sh", "-c", "echo out; read x; kill -PIPE $$; exit 3"}
			if parent {
				args = append([]string{"--new-session"}, args...)
			}
			for _, after := range []int{0, 1} { // lines read
				cmd := s.launch(args...)
				if parent {
					leadGroup(cmd)
				}
				r, w := pipe(t, cmd)
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				cmd.Stdout = &out
				if after == 0 {
					r.Close()
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				w.Close()
				if after > 0 {
					if _, err := bufio.NewReaderSize(r, 16).ReadString('\n'); err != nil {
						t.Error(err)
					}
					r.Close()
				}
				stdin.Close()
				_ = cmd.Wait()
				// The command has SIGPIPE's usual effect: ours ignored none of it.
				want := 128 + int(unix.SIGPIPE)
				if got := shellCode(cmd.ProcessState); got != want || out.String() != "out\n" {
					t.Errorf("parent %v, reader gone after %d lines: %v, stdout %q; want %d and out", parent, after, cmd.ProcessState, &out, want)
				}
			}
		}
	})
}

// shellCode is what a shell would see.
func shellCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// TestRecordSlowReader: a record that is larger than its pipe waits for the
// reader and arrives whole, also through a pipe opened non-blocking.
func TestRecordSlowReader(t *testing.T) {
	s := newStage(t, testenv.Self())
	args := []string{"--status-fd", "3"}
	for i := range 300 {
		dir := fmt.Sprintf("%s/%s%03d", s.outside, strings.Repeat("d", 200), i)
		s.mkdir(dir)
		args = append(args, "--rw", dir)
	}
	for _, nonblock := range []bool{false, true} {
		// Starting a command makes what it gets blocking, so the change to
		// that comes between the start of the shell and that of the launcher.
		cmd := s.command("sh", append([]string{"-c", `read x; exec "$@"`, "sh", s.launcher}, append(args, ".", "true")...)...)
		r, w := pipe(t, cmd)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		raw := int(w.Fd())
		if err := unix.SetNonblock(raw, nonblock); err != nil {
			t.Fatal(err)
		}
		size, err := unix.FcntlInt(uintptr(raw), unix.F_SETPIPE_SZ, 4096)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stdin, "go\n"); err != nil {
			t.Fatal(err)
		}
		stdin.Close()
		// Don't read before the pipe is full.
		for {
			n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
			if err != nil {
				t.Fatal(err)
			}
			if n >= size {
				break
			}
			if cmd.Process.Signal(syscall.Signal(0)) != nil {
				t.Fatal("the launcher is gone")
			}
		}
		w.Close()
		record, err := io.ReadAll(r)
		if werr := cmd.Wait(); err != nil || werr != nil {
			t.Errorf("nonblock %v: %v, %v", nonblock, err, werr)
		}
		list := events(t, record)
		if len(list) != 1 || len(record) < 64<<10 || len(list[0]["rules"].([]any)) < 300 {
			t.Errorf("nonblock %v: the record has %d bytes, %s", nonblock, len(record), names(list))
		}
	}
}

// TestRecordApplied: the line says what holds, in the words of its reference.
func TestRecordApplied(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		odd := s.base + "/b\xffd \"x\"\n"
		s.mkdir(odd)
		cmd := s.launch("--rw", s.outside, "--status-fd", "3", odd, "--", "true")
		record := s.status(cmd)
		r := testenv.Run(t, cmd)
		list := record()
		if r.Code != 0 || r.Stderr != "" || names(list) != "applied" {
			t.Fatalf("%v, record %v", r, list)
		}
		a := list[0]
		for key, want := range map[string]string{"mode": "workspace-write", "backend": "landlock", "enforcement": "partial"} {
			if a[key] != want {
				t.Errorf("%s: %v; want %s", key, a[key], want)
			}
		}
		path, _ := a["worktree"].(map[string]any)
		b64, _ := path["base64"].(string)
		if got, _ := base64.StdEncoding.DecodeString(b64); string(got) != odd {
			t.Errorf("worktree: %v; want the base64 of %q", a["worktree"], odd)
		}
		states := map[string]string{}
		for _, f := range a["features"].([]any) {
			f := f.(map[string]any)
			states[f["promise"].(string)] = f["state"].(string)
			if f["state"] == "absent" && f["why"] == nil || f["state"] == "enforced" && f["by"] == nil {
				t.Errorf("feature without a reason: %v", f)
			}
		}
		if states["write"] != "enforced" || states["metadata"] != "absent" {
			t.Errorf("features: %v; want write enforced, metadata absent", states)
		}
		origins := map[string]bool{}
		for _, rule := range a["rules"].([]any) {
			origins[rule.(map[string]any)["origin"].(string)] = true
		}
		for _, o := range []string{"worktree", "tmp", "device", "user"} {
			if !origins[o] {
				t.Errorf("no rule of origin %s: %v", o, a["rules"])
			}
		}
		checkKeys(t, "", a)
	})
}

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// checkKeys fails t for a key that isn't in lower case.
func checkKeys(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if !keyForm.MatchString(key) {
				t.Errorf("key %s.%s: want lower case", at, key)
			}
			checkKeys(t, at+"."+key, value)
		}
	case event:
		checkKeys(t, at, map[string]any(v))
	case []any:
		for _, value := range v {
			checkKeys(t, at+"[]", value)
		}
	}
}

// TestRecordTampered: notes are in the record, and on standard error.
func TestRecordTampered(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.tree+"/.git", "gitdir: "+s.outside+"\n", 0o644)
		cmd := s.launch("--status-fd", "3", ".", "--", "true")
		record := s.status(cmd)
		r := testenv.Run(t, cmd)
		list := record()
		if r.Code != 0 || len(list) == 0 || list[0]["event"] != "applied" || list[0]["notes"] == nil {
			t.Fatalf("%v, record %v; want a note", r, list)
		}
		checkKeys(t, "notes", list[0]["notes"])
		for _, rule := range list[0]["rules"].([]any) {
			if p, _ := rule.(map[string]any)["path"].(string); strings.HasPrefix(p, s.outside) {
				t.Errorf("a pointer in the tree granted %s", p)
			}
		}
	})
}

// TestKernelTooOld: a promise that the kernel can't hold is named, with what
// would hold it, and nothing runs unless that is asked for.
func TestKernelTooOld(t *testing.T) {
	sim := buildProgram(t, "./test/llsim")
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, abi := range []string{"0", "off", "1", "2"} {
			run := s.command(sim, "-abi", abi, "--", s.launcher, "--bwrap", "/nonexistent", ".", "--", "touch", "ran")
			r := testenv.Run(t, run)
			says := ownOutput(t, r)
			if r.Code != 125 || !strings.Contains(says.err, `can't hold the promise "write"`) || says.hint == "" {
				t.Errorf("ABI %s: %v\nwant exit 125, the promise write and a hint", abi, r)
			}
			run = s.command(sim, "-abi", abi, "--", s.launcher, "--bwrap", "/nonexistent", "--explain", ".", "--", "touch", "ran")
			if r := testenv.Run(t, run); r.Code != 125 || !strings.Contains(r.Stdout, "would not be started") {
				t.Errorf("ABI %s, --explain: %v; want exit 125", abi, r)
			}
			if _, err := os.Lstat(s.tree + "/ran"); err == nil {
				t.Errorf("ABI %s: the command ran", abi)
			}
			run = s.command(sim, "-abi", abi, "--", s.launcher, "--best-effort", ".", "--", "true")
			if r := testenv.Run(t, run); r.Code != 0 {
				t.Errorf("ABI %s, --best-effort: %v; want 0", abi, r)
			}
		}
		run := s.command(sim, "-abi", "3", "--", s.launcher, ".", "--", "sh", "-c", ": >"+s.outside+"/x")
		if r := testenv.Run(t, run); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
			t.Errorf("ABI 3: %v; want the write to be refused", r)
		}
	})
}

// TestTooManyLayers: the kernel nests 16 rulesets. The launcher below them
// says so, and runs nothing.
func TestTooManyLayers(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		nest := func(n int) testenv.Result {
			var args []string
			for range n {
				args = append(args, s.launcher, ".", "--")
			}
			return testenv.Run(t, s.command(args[0], append(args[1:], "echo", "ran")...))
		}
		// Fewer than 16, since these tests may be run in a sandbox.
		if r := nest(8); r.Code != 0 || r.Stdout != "ran\n" {
			t.Errorf("8 layers: %v; want ran", r)
		}
		r := nest(17)
		if says := ownOutput(t, r); r.Code != 125 || r.Stdout != "" || !strings.Contains(says.err, "16") || says.hint == "" {
			t.Errorf("17 layers: %v; want exit 125, an error that names the limit, and a hint", r)
		}
	})
}
