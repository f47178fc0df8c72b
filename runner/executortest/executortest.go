// Package executortest holds an executor to what [runner.Executor] says, by
// running real commands with it. Whoever writes one, for a container or another
// machine, calls [Test] from a test of its own.
//
// The commands need a POSIX shell, bash for one of them, and the usual small
// tools where the executor runs them.
package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Options say what can be expected of an executor.
type Options struct {
	// New returns an executor. It is called for each group of tests, which
	// close it.
	New func(t testing.TB) runner.Executor
	// OneSignal says that a signal that isn't SIGKILL reaches the first
	// process alone, and that its end is that of all.
	OneSignal bool
	// NoTerminal says that commands can't have a terminal.
	NoTerminal bool
	// Without leaves out tests by name.
	Without []string
}

// check is a command and what must be seen of it.
type check struct {
	name string
	q    runner.Request
	want func(r *runner.Result) error
}

// Test holds an executor to its contract.
func Test(t *testing.T, o Options) {
	t.Run("Commands", func(t *testing.T) {
		r := newRunner(t, o, runner.Config{})
		for _, c := range commands(o) {
			t.Run(c.name, func(t *testing.T) {
				if slices.Contains(o.Without, c.name) {
					t.Skip("left out")
				}
				res := run(t, r, c.q)
				if err := c.want(res); err != nil {
					t.Errorf("%v\n%s", err, describe(res))
				}
			})
		}
	})
	t.Run("output after the end", func(t *testing.T) {
		if slices.Contains(o.Without, "output after the end") {
			t.Skip("left out")
		}
		// A busy machine may take its time for what is left.
		r := newRunner(t, o, runner.Config{DrainIdle: 30 * time.Second, DrainMax: time.Minute})
		res := run(t, r, runner.Request{Argv: []string{"bash", "-c", "exec > >(sleep 0.2; cat); echo late"}})
		if err := prints("late\n")(res); err != nil || res.OutputHeldOpen {
			t.Errorf("%v; want it, and that its end was seen\n%s", err, describe(res))
		}
	})
	t.Run("Endings", func(t *testing.T) {
		r := newRunner(t, o, runner.Config{
			Stop: []runner.StopStep{{Signal: syscall.SIGTERM, Wait: 500 * time.Millisecond}}, StopBound: time.Minute,
		})
		for _, c := range endings(o) {
			t.Run(c.name, func(t *testing.T) {
				if slices.Contains(o.Without, c.name) {
					t.Skip("left out")
				}
				t.Parallel()
				if c.q.Timeout == 0 {
					c.q.Timeout = time.Second
				}
				res := run(t, r, c.q)
				if !res.TimedOut || res.Aborted || res.KilledBy != runner.CauseTimeout {
					t.Errorf("it wasn't ended by the timeout\n%s", describe(res))
				}
				if len(res.Survivors) > 0 {
					t.Errorf("survivors\n%s", describe(res))
				}
				if err := c.want(res); err != nil {
					t.Errorf("%v\n%s", err, describe(res))
				}
			})
		}
	})
	t.Run("HandOff", func(t *testing.T) { testHandOff(t, o) })
	t.Run("Start", func(t *testing.T) { testStart(t, o) })
	t.Run("Many", func(t *testing.T) { testMany(t, o) })
}

func newRunner(t *testing.T, o Options, c runner.Config) *runner.Runner {
	t.Helper()
	c.Executor = o.New(t)
	r, err := runner.New(c)
	if err != nil {
		t.Fatalf("runner.New: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func run(t *testing.T, r *runner.Runner, q runner.Request) *runner.Result {
	t.Helper()
	s, err := r.Resolve(q)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	res, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("Run(%.60q): %v", q.Command, err)
	}
	return res
}

func describe(r *runner.Result) string {
	b, err := r.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// prints checks standard output.
func prints(want string) func(*runner.Result) error {
	return func(r *runner.Result) error {
		if got := string(r.Stdout.Text()); got != want {
			return fmt.Errorf("standard output %.200q; want %.200q", got, want)
		}
		return nil
	}
}

// exits checks the exit facts.
func exits(code int, sig syscall.Signal, by runner.Cause) func(*runner.Result) error {
	return func(r *runner.Result) error {
		if r.ExitCode != code || r.Signal != sig || r.KilledBy != by {
			return fmt.Errorf("exit code %d, signal %v, killed by %q; want %d, %v, %q", r.ExitCode, r.Signal, r.KilledBy, code, sig, by)
		}
		return nil
	}
}

func all(checks ...func(*runner.Result) error) func(*runner.Result) error {
	return func(r *runner.Result) error {
		var errs []error
		for _, c := range checks {
			errs = append(errs, c(r))
		}
		return errors.Join(errs...)
	}
}

// commands end by themselves.
func commands(o Options) []check {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	checks := []check{
		{"streams apart", runner.Request{Command: "echo out; echo err >&2"}, func(r *runner.Result) error {
			if string(r.Stdout.Text()) != "out\n" || string(r.Stderr.Text()) != "err\n" {
				return fmt.Errorf("%q and %q; want out and err", r.Stdout.Text(), r.Stderr.Text())
			}
			return exits(0, 0, "")(r)
		}},
		{"one stream", runner.Request{Command: "echo out; echo err >&2; echo out", Merge: true}, func(r *runner.Result) error {
			if string(r.Merged.Text()) != "out\nerr\nout\n" || r.Stdout != nil || r.Stderr != nil {
				return fmt.Errorf("%q; want the order in which it was written", r.Merged.Text())
			}
			return nil
		}},
		{"exit code", runner.Request{Command: "exit 7"}, exits(7, 0, "")},
		{"a signal", runner.Request{Command: "kill -SEGV $$"}, exits(-1, syscall.SIGSEGV, runner.CauseUnknown)},
		{"a code like a signal", runner.Request{Command: "exit 130"}, exits(130, 0, "")},
		{"no input", runner.Request{Command: "cat; [ -c /dev/stdin ] && echo char"}, prints("char\n")},
		{"input", runner.Request{Command: "cat", Stdin: everyByte}, prints(string(everyByte))},
		{"empty input", runner.Request{Command: "cat; [ -p /dev/stdin ] && echo pipe", Stdin: []byte{}}, prints("pipe\n")},
		{"input that isn't read", runner.Request{Command: "exec true", Stdin: make([]byte, 1<<20)}, exits(0, 0, "")},
		{"every byte", runner.Request{Argv: []string{"printf", octal(everyByte)}}, prints(string(everyByte))},
		{"no controlling terminal", runner.Request{Command: "read x </dev/tty || echo none"}, prints("none\n")},
		{"away from the host's terminal", runner.Request{Command: `set -- $(cat /proc/$$/stat); echo $7`}, prints("0\n")},
		{"arguments as they are", runner.Request{Argv: []string{"printf", "%s|", "a b", "", "$HOME", "é\xff"}}, prints("a b||$HOME|é\xff|")},
		{"a long command", runner.Request{Command: "printf %s " + strings.Repeat("x", 400<<10) + " | wc -c | tr -d ' '"}, prints("409600\n")},
		{"a script by descriptor", runner.Request{Command: "cat <<E\n  kept\nE\nread x; echo \"<$x>\"", Transport: runner.TransportFD}, prints("  kept\n<>\n")},
		{"its own text isn't seen", runner.Request{Command: "! grep -q own''text /proc/$$/cmdline && echo unseen # owntext", Transport: runner.TransportFD}, prints("unseen\n")},
		{"environment", runner.Request{Command: `echo "$A-$B-${SHOFER_X:-none}-$SHOFER_Y"`, Env: []string{"A=1", "B=2", "A=3"}, Managed: []string{"SHOFER_Y=4"}}, prints("3-2-none-4\n")},
		{"a long line", runner.Request{Command: "head -c 1000000 /dev/zero | tr '\\0' x"}, func(r *runner.Result) error {
			if o := r.Stdout; o.Bytes != 1000000 || o.Lines != 1 || !o.Truncated || o.Omitted+int64(len(o.Head)+len(o.Tail)) != o.Bytes {
				return fmt.Errorf("%d bytes, %d lines, %d omitted", o.Bytes, o.Lines, o.Omitted)
			}
			return nil
		}},
		{"a silent child", runner.Request{Command: "sleep 300 & echo done"}, all(prints("done\n"), exits(0, 0, ""), noSurvivors)},
		{"a child with nothing open", runner.Request{Command: "sleep 300 </dev/null >/dev/null 2>&1 & echo done"}, all(prints("done\n"), exits(0, 0, ""), noSurvivors)},
		{"a daemon", runner.Request{Command: "(setsid sleep 300 </dev/null >/dev/null 2>&1 &); echo done"}, all(prints("done\n"), exits(0, 0, ""), noSurvivors)},
	}
	if !o.NoTerminal {
		checks = append(checks,
			check{"a terminal", runner.Request{Command: "stty size; [ -t 1 ] && echo yes >/dev/tty", Terminal: &runner.Size{Rows: 11, Cols: 22}}, func(r *runner.Result) error {
				if got := string(r.Merged.Text()); got != "11 22\r\nyes\r\n" {
					return fmt.Errorf("%q; want a terminal of 11 lines and 22 columns", got)
				}
				return nil
			}},
			check{"all of a terminal's output", runner.Request{Command: "seq 20000", Terminal: &runner.Size{Rows: 24, Cols: 80}}, func(r *runner.Result) error {
				if r.Merged.Lines != 20000 || !bytes.HasSuffix(r.Merged.Tail, []byte("20000\r\n")) {
					return fmt.Errorf("%d lines, ending in %q", r.Merged.Lines, r.Merged.Tail[max(0, len(r.Merged.Tail)-20):])
				}
				return nil
			}})
	}
	return checks
}

func octal(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "\\%03o", c)
	}
	return s.String()
}

func noSurvivors(r *runner.Result) error {
	if len(r.Survivors) > 0 {
		return fmt.Errorf("survivors: %v", r.Survivors)
	}
	return nil
}

// endings would go on for minutes, and have a second, or as long as a busy machine
// may take until they are ready for the signal.
func endings(o Options) []check {
	const ready = 4 * time.Second
	patient := []runner.StopStep{{Signal: syscall.SIGTERM, Wait: 30 * time.Second}}
	anyEnd := func(*runner.Result) error { return nil }
	trapped := exits(0, 0, runner.CauseTimeout)
	if o.OneSignal {
		trapped = anyEnd
	}
	return []check{
		{"sleeps", runner.Request{Command: "sleep 300; echo never"}, func(r *runner.Result) error {
			if r.ExitCode == 0 || r.Stdout.Bytes > 0 {
				return errors.New("it went on")
			}
			return nil
		}},
		{"traps the signal", runner.Request{Command: "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", Timeout: ready, Stop: patient}, trapped},
		{"ignores the signal", runner.Request{Command: "trap '' TERM; sleep 300; sleep 300", Timeout: ready}, exits(-1, syscall.SIGKILL, runner.CauseTimeout)},
		{"its child ignores the signal", runner.Request{Command: "sh -c 'trap \"\" TERM; sleep 300; sleep 300' & wait"}, anyEnd},
		{"children of other sessions", runner.Request{Command: "setsid sh -c 'trap \"\" TERM; sleep 300; sleep 300' & setsid sleep 300 & wait"}, anyEnd},
		{"an orphan of another session", runner.Request{Command: "(setsid sleep 300 &) ; sleep 300"}, anyEnd},
		{"waits for input", runner.Request{Command: "cat", OpenStdin: true}, anyEnd},
		{"writes for ever", runner.Request{Command: "yes"}, func(r *runner.Result) error {
			if !r.Stdout.Truncated || r.Stdout.Bytes < 1<<16 {
				return fmt.Errorf("%d bytes", r.Stdout.Bytes)
			}
			return nil
		}},
		{"forks all the time", runner.Request{Command: "while :; do sleep 0.05 & done"}, anyEnd},
	}
}

// testHandOff checks that a start returns when the program was executed, which
// a silent one shows too.
func testHandOff(t *testing.T, o Options) {
	r := newRunner(t, o, runner.Config{})
	s, err := r.Resolve(runner.Request{Command: "exec sleep 300"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if res := e.Result(); !res.HandedOff || res.State != runner.StateRunning || res.ExitCode != -1 {
		t.Errorf("after Start: %s", describe(res))
	}
	if ok, err := e.Kill(t.Context(), runner.Immediate); !ok || err != nil {
		t.Errorf("Kill() = %v, %v; want true", ok, err)
	}
	if res := e.Result(); res.Signal != syscall.SIGKILL || !res.Aborted {
		t.Errorf("after Kill: %s", describe(res))
	}
	if ok, err := e.Kill(t.Context(), nil); ok || err != nil {
		t.Errorf("Kill() again = %v, %v; want false", ok, err)
	}
}

// testStart checks that what doesn't run is told from what ends badly.
func testStart(t *testing.T, o Options) {
	r := newRunner(t, o, runner.Config{})
	start := func(ctx context.Context, argv ...string) error {
		s, err := r.Resolve(runner.Request{Argv: argv})
		if err != nil {
			t.Fatal(err)
		}
		e, err := r.Start(ctx, s)
		if err == nil {
			_, _ = e.Kill(ctx, runner.Immediate)
		}
		return err
	}
	var failed *runner.StartError
	for _, name := range []string{"shofer-no-such-program", "/shofer/no/such/program", "/dev/null"} {
		if err := start(t.Context(), name); !errors.As(err, &failed) {
			t.Errorf("Start(%s) = %v (%T); want a *StartError", name, err, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start(gone, "true"); !errors.Is(err, context.Canceled) {
		t.Errorf("Start() with a context that has ended = %v; want its error", err)
	}
}

// testMany runs commands side by side.
func testMany(t *testing.T, o Options) {
	r := newRunner(t, o, runner.Config{})
	s, err := r.Resolve(runner.Request{Command: "echo $$ && sleep 0.01 && exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 10
	errs := make(chan error, workers*each)
	for range workers {
		go func() {
			for range each {
				res, err := r.Run(t.Context(), s)
				if err == nil && (res.ExitCode != 3 || res.Stdout.Lines != 1) {
					err = errors.New(describe(res))
				}
				errs <- err
			}
		}()
	}
	for range workers * each {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
