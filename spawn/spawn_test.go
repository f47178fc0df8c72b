package spawn_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/nofile"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// The test binary runs itself as the programs that it starts. SPAWN_HELPER
// says as which.
func TestMain(m *testing.M) {
	switch os.Getenv("SPAWN_HELPER") {
	case "":
		os.Exit(m.Run())
	case "report":
		report()
	case "exec":
		execHelper()
	case "strict-host":
		strictHost()
		os.Exit(0)
	case "guarded-host":
		guardedHost()
	case "no-close-range":
		os.Exit(noCloseRange())
	case "no-clone3":
		os.Exit(noClone3(os.Args[1:]))
	case "unknown-signal-state":
		startUnderIgnoredSignals()
	default:
		fmt.Fprintln(os.Stderr, "unknown helper")
		os.Exit(2)
	}
}

// facts is what a started program finds out about itself.
type facts struct {
	Args   []string
	Env    []string
	Dir    string
	Umask  int
	Leader bool // of its session
	Group  bool // leader of its process group
	Fds    []string
	Nofile uint64
	Core   uint64
	Nice   int
	OOM    string
	Status map[string]string
}

func report() {
	f := facts{Args: os.Args[1:], Env: os.Environ(), Status: map[string]string{}}
	f.Dir, _ = os.Getwd()
	f.Umask = unix.Umask(0)
	sid, _ := unix.Getsid(0)
	f.Leader = sid == os.Getpid()
	f.Group = unix.Getpgrp() == os.Getpid()
	status, _ := os.Open("/proc/self/status")
	for sc := bufio.NewScanner(status); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":\t"); ok {
			f.Status[k] = strings.TrimSpace(v)
		}
	}
	_ = status.Close()
	for fd := range 64 {
		if l, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !isRuntimes(l) {
			f.Fds = append(f.Fds, fmt.Sprintf("%d %s", fd, l))
		}
	}
	f.Nofile, _, _ = nofile.Original()
	f.Core = softLimit(unix.RLIMIT_CORE)
	f.Nice = niceness()
	f.OOM = oomScoreAdj()
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

// isRuntimes tells whether a descriptor is one that Go's runtime opens for
// itself.
func isRuntimes(target string) bool {
	return strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "/sys/fs/cgroup/")
}

func softLimit(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return 0
	}
	return l.Cur
}

func niceness() int {
	n, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - n
}

func oomScoreAdj() string {
	b, _ := os.ReadFile("/proc/self/oom_score_adj")
	return strings.TrimSpace(string(b))
}

// self returns a plan that starts the report helper. The test binary may be
// for another machine; SPAWN_EMULATOR then runs it.
func self(args ...string) *spawn.Plan {
	path, argv := os.Args[0], []string{"report"}
	if e := os.Getenv("SPAWN_EMULATOR"); e != "" {
		path, argv = e, []string{e, os.Args[0]}
	}
	return &spawn.Plan{
		Path: path,
		Argv: append(argv, args...),
		Env:  []string{"SPAWN_HELPER=report", "GORACE=atexit_sleep_ms=0"},
	}
}

// run starts the plan with a pipe as its output and returns what it wrote and
// how it ended.
func run(t *testing.T, p *spawn.Plan) ([]byte, syscall.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if p.Files == nil {
		p.Files = []int{0, 0, 2}
	}
	p.Files[1] = int(w.Fd())
	proc, err := spawn.Start(p)
	_ = w.Close()
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), wait(t, proc)
}

func wait(t testing.TB, p *spawn.Process) syscall.WaitStatus {
	t.Helper()
	if p.PidFD >= 0 {
		_ = unix.Close(p.PidFD)
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Pid, &ws, 0, nil)
		if err == nil {
			return ws
		}
		if !errors.Is(err, syscall.EINTR) {
			t.Fatalf("wait4(%d): %v", p.Pid, err)
		}
	}
}

func runFacts(t *testing.T, p *spawn.Plan) facts {
	t.Helper()
	out, ws := run(t, p)
	var f facts
	if err := json.Unmarshal(out, &f); err != nil || !ws.Exited() || ws.ExitStatus() != 0 {
		t.Fatalf("helper: %v, status %v, output %q", err, ws, out)
	}
	return f
}

func TestStart(t *testing.T) {
	p := self("one", "two words")
	p.Env = append(p.Env, "X=1")
	p.Dir = t.TempDir()
	f := runFacts(t, p)
	if want := []string{"one", "two words"}; !slices.Equal(f.Args, want) {
		t.Errorf("Args = %q; want %q", f.Args, want)
	}
	if want := []string{"SPAWN_HELPER=report", "GORACE=atexit_sleep_ms=0", "X=1"}; !slices.Equal(slices.Sorted(slices.Values(f.Env)), slices.Sorted(slices.Values(want))) {
		t.Errorf("Env = %q; want %q", f.Env, want)
	}
	if f.Dir != p.Dir {
		t.Errorf("Dir = %q; want %q", f.Dir, p.Dir)
	}
	if f.Leader || f.Group {
		t.Errorf("session leader %v, group leader %v; want neither", f.Leader, f.Group)
	}
	if f.Status["NoNewPrivs"] != "0" || f.Status["Seccomp"] != "0" {
		t.Errorf("NoNewPrivs %s, Seccomp %s; want 0, 0", f.Status["NoNewPrivs"], f.Status["Seccomp"])
	}
}

func TestStartSettings(t *testing.T) {
	umask := 0o137
	oom, nice := 321, niceness()
	tests := []struct {
		name string
		set  func(*spawn.Plan)
		ok   func(facts) bool
	}{
		{"umask", func(p *spawn.Plan) { p.Umask = &umask }, func(f facts) bool { return f.Umask == umask }},
		{"session", func(p *spawn.Plan) { p.NewSession = true }, func(f facts) bool { return f.Leader && f.Group }},
		{"group", func(p *spawn.Plan) { p.NewGroup = true }, func(f facts) bool { return !f.Leader && f.Group }},
		{"joined group", func(p *spawn.Plan) { p.Group = unix.Getpgrp() }, func(f facts) bool { return !f.Leader && !f.Group }},
		{"rlimit", func(p *spawn.Plan) { p.Rlimits = []spawn.Rlimit{{Resource: unix.RLIMIT_CORE}} }, func(f facts) bool { return f.Core == 0 }},
		{"niceness", func(p *spawn.Plan) { p.Nice = 3 }, func(f facts) bool { return f.Nice == nice+3 }},
		{"most niceness", func(p *spawn.Plan) { p.Nice = 39 }, func(f facts) bool { return f.Nice == 19 }},
		{"oom_score_adj", func(p *spawn.Plan) { p.OOMScoreAdj = &oom }, func(f facts) bool { return f.OOM == "321" }},
		{"no_new_privs", func(p *spawn.Plan) { p.NoNewPrivs = true }, func(f facts) bool { return f.Status["NoNewPrivs"] == "1" }},
		{"no caps", func(p *spawn.Plan) { p.Caps = new(uint64) }, func(f facts) bool {
			return strings.Trim(f.Status["CapPrm"]+f.Status["CapEff"]+f.Status["CapInh"]+f.Status["CapAmb"], "0") == "" &&
				(os.Getuid() != 0 || strings.Trim(f.Status["CapBnd"], "0") == "")
		}},
		{"seccomp", func(p *spawn.Plan) {
			p.NoNewPrivs = true
			p.Filters = [][]unix.SockFilter{{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}}
		}, func(f facts) bool { return f.Status["Seccomp"] == "2" && f.Status["Seccomp_filters"] == "1" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := self()
			tt.set(p)
			if f := runFacts(t, p); !tt.ok(f) {
				t.Errorf("got %+v", f)
			}
			if n, s := niceness(), oomScoreAdj(); n != nice || s == "321" {
				t.Errorf("the caller has niceness %d and oom_score_adj %s", n, s)
			}
		})
	}
}

// TestStartCaps wants root, since only root has capabilities to keep some of.
func TestStartCaps(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs capabilities")
	}
	keep := uint64(1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL)
	p := self()
	p.Caps = &keep
	want := fmt.Sprintf("%016x", keep)
	for _, p.NoNewPrivs = range []bool{false, true} {
		f := runFacts(t, p)
		for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
			if f.Status[set] != want && (!p.NoNewPrivs || set != "CapBnd") {
				t.Errorf("no_new_privs %v: %s = %s; want %s", p.NoNewPrivs, set, f.Status[set], want)
			}
		}
	}
}

// Descriptors are moved to their places without one overwriting another that
// is still needed, and no other reaches the program.
func TestStartFiles(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	a, b := open("a"), open("b")
	// A leak: inheritable, as an IDE or a C library might leave it.
	leak, err := unix.Dup(int(a.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leak) }()
	keep, err := unix.FcntlInt(b.Fd(), unix.F_DUPFD, 40)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(keep) }()

	for _, tt := range []struct {
		name  string
		files []int
		want  []string // by descriptor, "" for closed
	}{
		{"in order", []int{-1, 0, 2, int(a.Fd()), int(b.Fd())}, []string{"", "pipe", "*", "a", "b"}},
		{"swapped", []int{-1, 0, 2, int(b.Fd()), int(a.Fd())}, []string{"", "pipe", "*", "b", "a"}},
		{"twice", []int{int(a.Fd()), 0, int(a.Fd())}, []string{"a", "pipe", "a"}},
		{"many", []int{-1, 0, 2, 2, 2, 2, 2, 2, 2, 2, int(a.Fd()), int(b.Fd())}, []string{"", "pipe", "*", "*", "*", "*", "*", "*", "*", "*", "a", "b"}},
		{"short", []int{int(a.Fd()), 0}, []string{"a", "pipe"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := self()
			p.Files = slices.Clone(tt.files)
			p.Inherit = []int{keep}
			f := runFacts(t, p)
			got := map[string]string{}
			for _, l := range f.Fds {
				fd, what, _ := strings.Cut(l, " ")
				got[fd] = what
			}
			for i, want := range tt.want {
				what := got[fmt.Sprint(i)]
				delete(got, fmt.Sprint(i))
				switch want {
				case "*":
				case "":
					if what != "/dev/null" { // what Go's runtime opens in its place
						t.Errorf("descriptor %d is %q; want it closed", i, what)
					}
				case "pipe":
					if !strings.HasPrefix(what, "pipe:") {
						t.Errorf("descriptor %d is %q; want a pipe", i, what)
					}
				default:
					if filepath.Base(what) != want {
						t.Errorf("descriptor %d is %q; want %q", i, what, want)
					}
				}
			}
			if what := got[fmt.Sprint(keep)]; filepath.Base(what) != "b" {
				t.Errorf("inherited descriptor %d is %q; want b", keep, what)
			}
			delete(got, fmt.Sprint(keep))
			if len(tt.files) < 3 {
				delete(got, "2") // Go's runtime again
			}
			if len(got) > 0 {
				t.Errorf("unexpected descriptors: %v", got)
			}
		})
	}
}

// The soft limit on open files that Go raised for itself is put back.
func TestStartNofile(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -Sn 123; exec "$0" -test.run='^TestNofileHelper$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "SPAWN_NOFILE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("nofile=123\n")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestNofileHelper(t *testing.T) {
	if os.Getenv("SPAWN_NOFILE") == "" {
		return // only for TestStartNofile
	}
	fmt.Printf("nofile=%d\n", runFacts(t, self()).Nofile)
}

// Ignored and blocked signals don't reach the program, except those to keep.
func TestStartSignals(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SPAWN_HELPER=unknown-signal-state")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f facts
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	// Only SIGHUP, which the plan keeps, and SIGINT, which it ignores: bits 0
	// and 1. Go's runtime in the reporting program leaves these two ignored.
	if got, want := f.Status["SigIgn"], "0000000000000003"; got != want {
		t.Errorf("SigIgn = %s; want %s", got, want)
	}
	if got, want := f.Status["SigBlk"], "0000000000000000"; got != want {
		t.Errorf("SigBlk = %s; want %s", got, want)
	}
}

func startUnderIgnoredSignals() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTERM)
	p := self()
	p.Files = []int{0, 1, 2}
	p.KeepIgnored = []syscall.Signal{syscall.SIGHUP}
	p.Ignore = []syscall.Signal{syscall.SIGINT}
	proc, err := spawn.Start(p)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := syscall.Wait4(proc.Pid, nil, 0, nil); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo hello\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		set   func(*spawn.Plan)
		stage spawn.Stage
		errno syscall.Errno
	}{
		{"missing program", func(p *spawn.Plan) { p.Path = filepath.Join(dir, "nope") }, spawn.StageExec, syscall.ENOENT},
		{"not executable", func(p *spawn.Plan) { p.Path = "/etc/passwd" }, spawn.StageExec, syscall.EACCES},
		{"no format", func(p *spawn.Plan) { p.Path = script }, spawn.StageExec, syscall.ENOEXEC},
		{"a folder", func(p *spawn.Plan) { p.Path = dir }, spawn.StageExec, syscall.EACCES},
		{"missing dir", func(p *spawn.Plan) { p.Dir = filepath.Join(dir, "nope") }, spawn.StageDir, syscall.ENOENT},
		{"bad descriptor", func(p *spawn.Plan) { p.Files = []int{0, 1, 999} }, spawn.StageFiles, syscall.EBADF},
		{"bad inherit", func(p *spawn.Plan) { p.Inherit = []int{999} }, spawn.StageFiles, syscall.EBADF},
		{"bad ruleset", func(p *spawn.Plan) { p.RulesetFD, p.NoNewPrivs = 998, true }, spawn.StageLandlock, syscall.EBADF},
		{"bad filter", func(p *spawn.Plan) {
			p.Filters, p.NoNewPrivs = [][]unix.SockFilter{{{Code: 0xffff}}}, true
		}, spawn.StageSeccomp, syscall.EINVAL},
		{"bad witness", func(p *spawn.Plan) {
			p.Witness, p.NoNewPrivs = []unix.SockFilter{{Code: 0xffff}}, true
		}, spawn.StageWitness, syscall.EINVAL},
		{"empty witness", func(p *spawn.Plan) { p.Witness = []unix.SockFilter{} }, spawn.StagePlan, syscall.EINVAL},
		{"nothing to witness", func(p *spawn.Plan) {
			p.Witness, p.NoNewPrivs, p.Path = showParent, true, filepath.Join(dir, "nope")
		}, spawn.StageExec, syscall.ENOENT},
		{"bad group", func(p *spawn.Plan) { p.JoinFDs = []int{997} }, spawn.StageCgroup, syscall.EBADF},
		{"bad oom_score_adj", func(p *spawn.Plan) { n := 1001; p.OOMScoreAdj = &n }, spawn.StageOOMScoreAdj, syscall.EINVAL},
		{"bad rlimit", func(p *spawn.Plan) { p.Rlimits = []spawn.Rlimit{{Resource: 99}} }, spawn.StageRlimit, syscall.EINVAL},
		{"bad terminal", func(p *spawn.Plan) { p.NewSession, p.ControllingTerminal = true, true }, spawn.StageTerminal, syscall.ENOTTY},
		{"NUL", func(p *spawn.Plan) { p.Argv = []string{"a\x00b"} }, spawn.StagePlan, syscall.EINVAL},
		{"no arguments", func(p *spawn.Plan) { p.Argv = nil }, spawn.StagePlan, syscall.EINVAL},
		{"group of strangers", func(p *spawn.Plan) { p.Group = 1 }, spawn.StageSession, syscall.EPERM},
		{"session and group", func(p *spawn.Plan) { p.NewSession, p.NewGroup = true, true }, spawn.StagePlan, syscall.EINVAL},
		{"argument too long", func(p *spawn.Plan) { p.Argv = []string{strings.Repeat("x", 1<<18)} }, spawn.StageExec, syscall.E2BIG},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := self()
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = null.Close() }()
			p.Files = []int{int(null.Fd()), int(null.Fd()), 2}
			tt.set(p)
			before := descriptors(t)
			proc, err := spawn.Start(p)
			if err == nil {
				wait(t, proc)
				t.Fatal("Start succeeded")
			}
			var e *spawn.Error
			if !errors.As(err, &e) || e.Stage != tt.stage || !errors.Is(err, tt.errno) {
				t.Errorf("Start: %v; want stage %v, %v", err, tt.stage, tt.errno)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors open; want %d as before", after, before)
			}
			if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
				t.Errorf("wait4: %v; want no child left", err)
			}
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// Starts from many goroutines, beside os/exec and a system call on all
// threads, neither mix up their descriptors nor block one another.
func TestStartConcurrently(t *testing.T) {
	const workers, each = 8, 40
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
				t.Errorf("os/exec: %v", err)
				return
			}
			_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_GET_NO_NEW_PRIVS, 0, 0)
			if errno != 0 && errno != syscall.ENOTSUP { // ENOTSUP: built with cgo
				t.Errorf("AllThreadsSyscall: %v", errno)
				return
			}
			_ = make([]byte, 1<<20) // keep the collector busy
		}
	})
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				arg := fmt.Sprintf("%d-%d", w, i)
				p := &spawn.Plan{Path: "/bin/echo", Argv: []string{"echo", arg}, NoNewPrivs: true}
				out, ws := run(t, p)
				if string(out) != arg+"\n" || ws != 0 {
					t.Errorf("echo %s: %q, %v", arg, out, ws)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	others.Wait()
}

// Exec replaces the process and keeps its pid.
func TestExec(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "ok")
	cmd.Env = append(os.Environ(), "SPAWN_HELPER=exec")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f facts
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if got, want := f.Status["Pid"], fmt.Sprint(cmd.Process.Pid); got != want {
		t.Errorf("Pid = %s; want %s", got, want)
	}
	if f.Status["NoNewPrivs"] != "1" {
		t.Errorf("NoNewPrivs = %s; want 1", f.Status["NoNewPrivs"])
	}

	cmd = exec.CommandContext(t.Context(), os.Args[0], "missing")
	cmd.Env = append(os.Environ(), "SPAWN_HELPER=exec")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	if want := "exec /nonexistent: no such file or directory\n"; cmd.ProcessState.ExitCode() != 9 || stderr.String() != want {
		t.Errorf("Exec of a missing file: %v, %q; want exit status 9, %q", err, stderr.String(), want)
	}
}
