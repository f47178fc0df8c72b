package integration

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// raceVar is the number of starts that each test of this file makes. Without
// it there are [raceStarts], or fewer where those would take longer than
// [raceTime].
const raceVar = "SHOFER_RACE_STARTS"

const (
	raceStarts = 2000
	raceTime   = 8 * time.Second
)

// races returns how many starts to make, and until when.
func races(t *testing.T) (starts int, end time.Time) {
	t.Helper()
	text := os.Getenv(raceVar)
	if text == "" {
		return raceStarts, time.Now().Add(raceTime)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", raceVar, err)
	}
	return n, time.Now().Add(24 * time.Hour)
}

// burn keeps the processors busy until t ends, so that threads are preempted
// where it hurts.
func (s *stage) burn() {
	s.t.Helper()
	for range runtime.NumCPU() {
		cmd := unbounded(s.command("sh", "-c", "while test -e /proc/$PPID; do :; done"))
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// unbounded returns a command like cmd that may take as long as it likes.
func unbounded(cmd *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, SysProcAttr: cmd.SysProcAttr}
}

// raceLeast is how many starts there are at least, however slow they are.
const raceLeast = 100

// workers run f with the numbers up to starts, several at a time, and return
// how many were run before end, or until there were enough.
func workers(starts int, end time.Time, f func(i int) error) (done int, err error) {
	var next, ran atomic.Int64
	var first atomic.Pointer[error]
	var group sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		group.Go(func() {
			for {
				i := int(next.Add(1))
				late := time.Now().After(end) && ran.Load() >= raceLeast
				if i > starts || late || first.Load() != nil {
					return
				}
				if err := f(i); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				ran.Add(1)
			}
		})
	}
	group.Wait()
	if p := first.Load(); p != nil {
		err = *p
	}
	return int(ran.Load()), err
}

// refusedTouch checks that touch ended as it does when one of its two files
// can't be made.
func refusedTouch(err error, stderr string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr, "Permission denied") {
		return fmt.Errorf("touch inside outside: %v: %s; want it refused outside", err, stderr)
	}
	return nil
}

// TestNoRaceLauncher: of thousands of starts under load not one writes outside.
// Confinement belongs to a thread, and a program of many threads that confines
// the wrong one would let a few through.
func TestNoRaceLauncher(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("touch")
		s.burn()
		starts, end := races(t)
		pattern := s.launch(".", "--", s.find("touch"))
		ran, err := workers(starts, end, func(i int) error {
			cmd := unbounded(pattern)
			cmd.Args = append(slices.Clone(cmd.Args), fmt.Sprintf("%s/%d", s.tree, i), fmt.Sprintf("%s/%d", s.outside, i))
			out, err := cmd.CombinedOutput()
			return refusedTouch(err, string(out))
		})
		s.raced(ran, err)
	})
}

// TestNoRaceGo: the same for a Go program that starts commands from many
// goroutines, while others start commands that aren't confined.
func TestNoRaceGo(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("touch")
		s.burn()
		s.mkdir(s.base + "/free")
		starts, end := races(t)
		host := unbounded(u.Helper(t, "race host", s.base, s.find("touch"), strconv.Itoa(starts), end.Format(time.RFC3339Nano)))
		host.Env = append(host.Env, "HOME="+s.home)
		out := strings.Fields(testenv.Output(t, host))
		if len(out) != 2 {
			t.Fatalf("the host says %q; want two numbers", out)
		}
		ran, _ := strconv.Atoi(out[0])
		free, _ := strconv.Atoi(out[1])
		s.raced(ran, nil)
		if made := count(t, s.base+"/free"); made != free || free == 0 {
			t.Errorf("%d of %d commands that weren't confined could write", made, free)
		}
	})
}

// raced checks what a race has left.
func (s *stage) raced(ran int, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
	if n := count(s.t, s.outside); n != 0 {
		s.t.Errorf("%d of %d commands wrote outside", n, ran)
	}
	if n := count(s.t, s.tree); n < ran {
		s.t.Errorf("%d of %d commands wrote inside", n, ran)
	}
	if ran < raceLeast {
		s.t.Errorf("only %d commands ran", ran)
	}
	s.t.Logf("%d starts, none wrote outside", ran)
}

func count(t testing.TB, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// raceHost is the Go program of [TestNoRaceGo]. It prints how many commands it
// has run, confined and not.
func raceHost(args []string) int {
	base, touch := args[0], args[1]
	starts, err := strconv.Atoi(args[2])
	if err != nil {
		panic(err)
	}
	end, err := time.Parse(time.RFC3339Nano, args[3])
	if err != nil {
		panic(err)
	}
	sandbox, err := launch.Prepare(policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(base + "/tree")}, launch.Options{})
	if err != nil {
		panic(err)
	}
	defer sandbox.Close()

	stop := make(chan struct{})
	var free atomic.Int64
	var beside sync.WaitGroup
	beside.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// On a thread that ends with its goroutine, so that the runtime
			// makes new ones all the time.
			made := make(chan error)
			go func() {
				runtime.LockOSThread()
				made <- exec.Command(touch, filepath.Join(base, "free", strconv.FormatInt(free.Load(), 10))).Run()
			}()
			if err := <-made; err != nil {
				fmt.Fprintln(os.Stderr, "not confined:", err)
			}
			free.Add(1)
			runtime.GC()
		}
	})
	ran, err := workers(starts, end, func(i int) error {
		cmd := sandbox.Command(touch, fmt.Sprintf("%s/tree/%d", base, i), fmt.Sprintf("%s/outside/%d", base, i))
		out, err := cmd.CombinedOutput()
		return refusedTouch(err, string(out))
	})
	close(stop)
	beside.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(ran, free.Load())
	return 0
}
