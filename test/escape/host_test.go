package escape_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

// hostJob is what the helper "host" does: it starts the attack confined, and is
// what is attacked.
type hostJob struct {
	Backend  string // of backends
	Launcher string
	Attack   string
	In, Out  string
	Caps     []string
}

// hostReport is what it says afterwards.
type hostReport struct {
	// Output is the attack's.
	Output string
	Stderr string
	Err    string
	// Canary is what is left of its own memory.
	Canary string
	// Signals counts those that reached it.
	Signals int
	// Threads that it had, itself not counted.
	Threads int
	// Leaked says what the attack wrote to the descriptor that it should not
	// have.
	Leaked string
}

// backends confine the attack, with inside as the worktree.
var backends = map[string]func(j hostJob, args []string, stdin *os.File, stdout, stderr *bytes.Buffer) error{
	"launcher": launched(),
	"mounts":   launched("--backend", "landlock+mountns", "--hide", hidden),
	"bwrap":    launched("--backend", "bwrap"),
	"library": func(j hostJob, args []string, stdin *os.File, stdout, stderr *bytes.Buffer) error {
		s, err := launch.Prepare(policy.Policy{
			Mode: policy.WorkspaceWrite, Worktree: policy.Path(j.In), NoCache: true, Caps: j.Caps,
		}, launch.Options{Environ: os.Environ()})
		if err != nil {
			return err
		}
		defer s.Close()
		cmd := s.Command(j.Attack, args...)
		cmd.NewGroup = true
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		return cmd.Run()
	},
}

// hidden is a folder that is covered, so that there is a mount.
const hidden = "/usr/local"

// launched confines by the launcher.
func launched(options ...string) func(j hostJob, args []string, stdin *os.File, stdout, stderr *bytes.Buffer) error {
	return func(j hostJob, args []string, stdin *os.File, stdout, stderr *bytes.Buffer) error {
		argv := append([]string{"--no-cache"}, options...)
		if len(j.Caps) > 0 {
			argv = append(argv, "--caps", j.Caps[0])
		}
		argv = append(append(argv, j.In, "--", j.Attack), args...)
		cmd := exec.Command(j.Launcher, argv...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		return cmd.Run()
	}
}

// runHost runs j in a process of u.
func runHost(t *testing.T, u testenv.User, j hostJob) (hostReport, []attack.Result) {
	t.Helper()
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := u.Helper(t, "host", string(in))
	var r hostReport
	if err := json.Unmarshal([]byte(testenv.Output(t, cmd)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Err != "" || r.Stderr != "" {
		t.Fatalf("the attack ended with %q\nstderr: %s", r.Err, r.Stderr)
	}
	var results []attack.Result
	dec := json.NewDecoder(bytes.NewReader([]byte(r.Output)))
	for dec.More() {
		var one attack.Result
		if err := dec.Decode(&one); err != nil {
			t.Fatal(err)
		}
		results = append(results, one)
	}
	return r, results
}

func hostMain(args []string) int {
	var j hostJob
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	r, err := beHost(j)
	if err != nil {
		r.Err = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

func beHost(j hostJob) (r hostReport, err error) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGCONT)

	// Threads that stay: goroutines that are locked to one and wait in a call.
	const threads = 6
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return r, err
	}
	for range threads {
		go func() {
			runtime.LockOSThread()
			_, _ = unix.Read(pipe[0], make([]byte, 1)) // until this process ends
		}()
	}

	// Descriptors that are open in a host by carelessness: no close-on-exec.
	leaked := filepath.Join(j.Out, "leaked")
	file, err := unix.Open(leaked, unix.O_RDWR, 0)
	if err != nil {
		return r, err
	}
	dir, err := unix.Open(filepath.Join(j.Out, "open-wronly"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return r, err
	}
	stdin, err := os.Open(leaked)
	if err != nil {
		return r, err
	}
	defer stdin.Close()
	// High enough that nothing of the command's own has their numbers.
	for _, d := range []struct {
		fd  *int
		num int
	}{{&file, 250}, {&dir, 251}} {
		if err := unix.Dup3(*d.fd, d.num, 0); err != nil {
			return r, err
		}
		*d.fd = d.num
	}

	canary := new([8]byte)
	copy(canary[:], "canary!!")
	var stdout, stderr bytes.Buffer
	run, ok := backends[j.Backend]
	if !ok {
		return r, errors.New("no backend is called " + j.Backend)
	}
	err = run(j, []string{
		"-in", j.In, "-out", j.Out,
		"-host", strconv.Itoa(os.Getpid()), "-host-fd", strconv.Itoa(file), "-host-addr", addrOf(canary),
		"-leak-file", strconv.Itoa(file), "-leak-dir", strconv.Itoa(dir),
	}, stdin, &stdout, &stderr)
	r.Output, r.Stderr, r.Canary, r.Signals = stdout.String(), stderr.String(), string(canary[:]), len(signals)
	r.Threads = threads
	if err != nil {
		return r, err
	}
	text, err := os.ReadFile(leaked)
	r.Leaked = string(text)
	return r, err
}
