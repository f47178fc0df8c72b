package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// long chooses a number: for every day, or for when there is time.
func long(daily, whole int) int {
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		return whole
	}
	return daily
}

// threads counts the threads of this process.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// children lists those of this process, zombies included.
func children(t *testing.T) []string {
	t.Helper()
	var all []string
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}

// settled waits until a number isn't larger than it was.
func settled(t *testing.T, what string, was int, now func() int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); now() > was; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d %s; %d before", now(), what, was)
			return
		}
	}
}

// Many short commands leave nothing behind: no goroutine, descriptor, zombie.
func TestManyShort(t *testing.T) {
	for way, n := range map[string]int{"direct": long(500, 10_000), "supervised": long(50, 2000), "boxed": long(50, 2000)} {
		t.Run(way, func(t *testing.T) {
			r := newRunner(t, runner.Config{Executor: executor(t, ways[way])})
			spec, err := r.Resolve(runner.Request{Command: "echo x; echo y >&2; true &"})
			if err != nil {
				t.Fatal(err)
			}
			terminal, err := r.Resolve(runner.Request{Command: "echo x", Terminal: &runner.Size{Rows: 24, Cols: 80}})
			if err != nil {
				t.Fatal(err)
			}
			once := func(s *runner.Spec, want string) {
				res, err := r.Run(t.Context(), s)
				if err != nil || res.ExitCode != 0 || len(res.Survivors) > 0 || !bytes.HasPrefix(append(res.Stdout.Text(), res.Merged.Text()...), []byte(want)) {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			once(spec, "x\n") // what is made once
			once(terminal, "x\r\n")
			testenv.CheckFDs(t)
			goroutines := runtime.NumGoroutine()
			for i := range n {
				if i%8 == 7 {
					once(terminal, "x\r\n")
				} else {
					once(spec, "x\n")
				}
			}
			settled(t, "goroutines", goroutines, runtime.NumGoroutine)
			settled(t, "children", 0, func() int { return len(children(t)) }) // the last guard may just be ending
		})
	}
}

// Those who wait for many commands at once need no threads for it.
func TestManyAtOnce(t *testing.T) {
	n := long(100, 500) + runtime.GOMAXPROCS(0)
	r := newRunner(t, runner.Config{Executor: executor(t, ways["direct"])})
	s, err := r.Resolve(runner.Request{Command: "echo started; exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	before := threads(t)
	goroutines := runtime.NumGoroutine()
	var all []*runner.Execution
	for range n {
		e, err := r.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for _, e := range all {
		out, _ := e.Output()
		if err := out.Wait(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if got := threads(t); got > before+20+runtime.GOMAXPROCS(0) { // so many may just be running
		t.Errorf("%d threads for %d commands; %d before", got, n, before)
	}
	var wg sync.WaitGroup
	for _, e := range all {
		wg.Go(func() {
			if ok, err := e.Kill(t.Context(), nil); !ok || err != nil {
				t.Errorf("Kill() = %v, %v", ok, err)
			}
		})
	}
	wg.Wait()
	settled(t, "goroutines", goroutines, runtime.NumGoroutine)
	if left := children(t); len(left) > 0 {
		t.Errorf("children are left: %v", left)
	}
}

// tree is a script that makes a tree of processes which try to get away, and
// then says so. %d is how many of each kind.
const tree = `
n=%d
for i in $(seq $n); do sleep 1000 & done
for i in $(seq $n); do setsid sleep 1000 & done
for i in $(seq $n); do (setsid sleep 1000 &); done
for i in $(seq $n); do (setsid sh -c 'trap "" TERM HUP; sleep 1000; sleep 1000' &); done
%s
echo grown
wait; sleep 1000
`

// away is what can't be found without a domain or a namespace: orphans of other
// sessions without an environment.
const away = `for i in $(seq $n); do (setsid env -i sleep 1000 &); done`

// A large tree is gone after a kill, or what isn't is named.
func TestKillTree(t *testing.T) {
	n := long(20, 1000)
	for way, more := range map[string]string{"direct": "", "supervised": away, "boxed": away} {
		t.Run(way, func(t *testing.T) {
			r := newRunner(t, runner.Config{
				Executor: executor(t, ways[way]), Timeout: 5 * time.Minute, StopBound: time.Minute,
				Stop: []runner.StopStep{{Signal: syscall.SIGTERM, Wait: 100 * time.Millisecond}},
			})
			s, err := r.Resolve(runner.Request{Command: fmt.Sprintf(tree, n, more)})
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := e.Output()
			if err := out.Wait(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			if got := testenv.WorkingIn(t, e.Spec().Dir); len(got) < 4*n {
				t.Errorf("%d processes; want at least %d", len(got), 4*n)
			}
			if ok, err := e.Kill(t.Context(), nil); !ok || err != nil {
				t.Errorf("Kill() = %v, %v", ok, err)
			}
			if res := e.Result(); len(res.Survivors) > 0 {
				t.Errorf("%d survivors, as %v", len(res.Survivors), res.Survivors[0])
			}
			if left := testenv.WorkingIn(t, e.Spec().Dir); len(left) > 0 {
				t.Errorf("%d processes are left, as %s", len(left), left[0])
			}
		})
	}
}

// host is a program that runs commands until it is killed.
func host(args []string) int {
	way, dir := args[0], args[1]
	e, err := local.New(configOf(dir, ways[way]))
	if err != nil {
		panic(err)
	}
	r, err := runner.New(runner.Config{Executor: e})
	if err != nil {
		panic(err)
	}
	for i := range 4 {
		s, err := r.Resolve(runner.Request{Command: fmt.Sprintf(tree, 2, away)})
		if err != nil {
			panic(err)
		}
		if _, err := r.Start(context.Background(), s); err != nil {
			panic(err)
		}
		if i == 0 {
			fmt.Println("ready")
		}
	}
	select {}
}

// When the host is killed at any moment, what the way promises holds.
func TestHostKilled(t *testing.T) {
	rounds := long(5, 300)
	for _, way := range []string{"supervised", "boxed"} {
		t.Run(way, func(t *testing.T) {
			for i := range rounds {
				dir := testenv.Self().Dir(t)
				cmd := testenv.Helper(t, "host", way, dir)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := out.Read(make([]byte, 16)); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Duration(i%50) * time.Millisecond)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				deadline := time.Now().Add(time.Minute)
				for left := testenv.WorkingIn(t, dir); len(left) > 0; left = testenv.WorkingIn(t, dir) {
					if time.Now().After(deadline) {
						t.Fatalf("round %d: %d processes are left, as %s", i, len(left), left[0])
					}
					<-time.After(time.Millisecond)
				}
			}
		})
	}
}

// A command in the background costs little memory, no timer and no thread.
func TestIdleCost(t *testing.T) {
	n := long(50, 200) + runtime.GOMAXPROCS(0)
	r := newRunner(t, runner.Config{Executor: executor(t, ways["direct"]), Timeout: runner.None, AllowNoTimeout: true})
	s, err := r.Resolve(runner.Request{Command: "exec sleep 1000", SoftTimeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	if _, err := r.Run(t.Context(), s); err != nil { // what is made once
		t.Fatal(err)
	}
	before, beforeThreads := memory(), threads(t)
	for range n {
		if res, err := r.Run(t.Context(), s); err != nil || res.State != runner.StateBackgrounded {
			t.Fatalf("%+v, %v; want a command in the background", res, err)
		}
	}
	if each := int64(memory()-before) / int64(n); each > 64<<10 {
		t.Errorf("%d bytes for each command; want at most 64 KiB", each)
	} else {
		t.Logf("%d bytes for each of %d commands", each, n)
	}
	if got := threads(t); got > beforeThreads+10+runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads; %d before", got, beforeThreads)
	}
}
