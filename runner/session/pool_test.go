package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

func TestSnapshot(t *testing.T) {
	home := t.TempDir()
	rc := `echo noise; echo noise >&2
alias ll='echo "listed"'
greet() { if [[ $1 == +(x) ]]; then echo "hello $1"; fi; }
shopt -s extglob nullglob
set -o noclobber
set -o vi
case $- in *i*) ;; *) return;; esac
late() { echo late; }
`
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	c := session.Config{Starter: direct, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Dir: home}
	snap, err := session.Take(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(sc *session.Config) { sc.Snapshot = snap })
	for _, tt := range []struct{ text, out string }{
		{"ll", "listed\n"},
		{"greet xx; late", "hello xx\nlate\n"},
		{"shopt -q nullglob && set -o | grep -E '^(noclobber|vi|history|monitor)' | tr -d ' \t' | tr '\\n' ,", "historyoff,monitoroff,noclobberon,vioff,"},
	} {
		if out, _ := run(t, s, tt.text); out != tt.out {
			t.Errorf("%q writes %q; want %q", tt.text, out, tt.out)
		}
	}
	for _, rc := range []string{"exit 1", "exec true", "kill -9 $$"} {
		if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte(rc), 0o600); err != nil {
			t.Fatal(err)
		}
		var e *session.StartError
		if snap, err := session.Take(t.Context(), c); !errors.As(err, &e) {
			t.Errorf("a start-up file %q: %v, %v; want a StartError", rc, snap, err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte("sleep 600"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if snap, err := session.Take(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start-up file that hangs: %v, %v", snap, err)
	}
}

// TestSnapshotWrites has a snapshot that fills the pipe: the shell reports its
// end while it is still being read.
func TestSnapshotWrites(t *testing.T) {
	snap := session.SnapshotOf("printf %0100000d 0; printf %050000d 0 >&2")
	for range 50 {
		s := open(t, func(c *session.Config) { c.Snapshot = snap })
		if out, _ := run(t, s, "echo first"); out != "first\n" {
			t.Fatalf("the first command writes %.80q (%d bytes); want %q", out, len(out), "first\n")
		}
	}
}

func TestPool(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.NeedTool(t, "bash")
	p := &session.Pool{Max: 2}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir()}
	do := func(key, text string) string {
		t.Helper()
		var out bytes.Buffer
		r, err := p.Start(t.Context(), key, c, session.Command{Text: text, Stdout: &out})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if _, err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	do("a", "x=a")
	do("b", "x=b")
	if got := do("a", "echo $x") + do("b", "echo $x"); got != "a\nb\n" {
		t.Errorf("the sessions have %q", got)
	}
	do("c", "x=c") // a was used before b
	if got := do("b", "echo $x"); got != "b\n" {
		t.Errorf("b has %q", got)
	}
	if got := keys(p); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("the pool has %q", got)
	}
	// Jobs and commands keep theirs.
	do("b", "sleep 600 >/dev/null 2>&1 &")
	busy, err := p.Start(t.Context(), "c", c, session.Command{Text: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	var full *session.LimitError
	if _, err := p.Start(t.Context(), "d", c, session.Command{Text: ":"}); !errors.As(err, &full) || full.Max != 2 {
		t.Errorf("with all in use: %v; want a LimitError", err)
	}
	var e *session.BusyError
	if _, err := p.Start(t.Context(), "c", c, session.Command{Text: ":"}); !errors.As(err, &e) {
		t.Errorf("in a busy session: %v; want a BusyError", err)
	}
	if err := p.End("c"); err != nil {
		t.Error(err)
	}
	if r, _ := busy.Wait(); !r.Ended {
		t.Errorf("the command of a session that was ended: %+v", r)
	}
	// Another environment is another session.
	c.Env = append(slices.Clone(c.Env), "EXTRA=1")
	if got := do("b", "echo [$x]"); got != "[]\n" {
		t.Errorf("with another environment: %q", got)
	}
	if got := keys(p); !slices.Equal(got, []string{"b", "b"}) {
		t.Errorf("the pool has %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Start(t.Context(), "b", c, session.Command{Text: ":"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("in a closed pool: %v", err)
	}
}

// Many use a pool at once, which ends, evicts and closes meanwhile.
func TestPoolConcurrent(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.NeedTool(t, "bash")
	p := &session.Pool{Max: 3}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir(), Idle: 5 * time.Millisecond}
	var all sync.WaitGroup
	var done, refused atomic.Int64
	for worker := range 8 {
		all.Go(func() {
			for i := range 25 {
				key := string(rune('a' + (worker+i)%5))
				want := fmt.Sprintf("%d-%d\n", worker, i)
				var out bytes.Buffer
				r, err := p.Start(t.Context(), key, c, session.Command{Text: "echo " + strings.TrimSpace(want), Stdout: &out})
				var busy *session.BusyError
				var full *session.LimitError
				if errors.As(err, &busy) || errors.As(err, &full) {
					refused.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("Start: %v", err)
					continue
				}
				res, err := r.Wait()
				switch {
				case err != nil:
					t.Errorf("Wait: %v", err)
				case res.Ended: // by End, below
				case out.String() != want || res.Code != 0:
					t.Errorf("%q, %+v; want %q", out.String(), res, want)
				default:
					done.Add(1)
				}
				if i%10 == 9 {
					if err := p.End(key); err != nil {
						t.Errorf("End: %v", err)
					}
				}
				p.List()
			}
		})
	}
	all.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if done.Load() < 20 {
		t.Errorf("%d commands have run, %d were refused", done.Load(), refused.Load())
	}
}

func keys(p *session.Pool) (list []string) {
	for _, info := range p.List() {
		list = append(list, info.Key)
	}
	return list
}

// Who makes room takes no session away from a command.
func TestPoolRoom(t *testing.T) {
	testenv.NeedTool(t, "bash")
	p := &session.Pool{Max: 2}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir()}
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for i := 0; i < 30; {
				r, err := p.Start(t.Context(), string(rune('a'+(worker+i)%3)), c, session.Command{Text: ":"})
				var busy *session.BusyError
				var full *session.LimitError
				if errors.As(err, &busy) || errors.As(err, &full) {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				i++
				if err != nil {
					t.Errorf("Start: %v", err)
					return
				}
				if res, err := r.Wait(); err != nil || res.Ended {
					t.Errorf("%+v, %v; want a session that goes on", res, err)
				}
			}
		})
	}
	all.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A command that is just being started in a session that somebody ends gets
// another one.
func TestPoolEnds(t *testing.T) {
	testenv.NeedTool(t, "bash")
	p := &session.Pool{}
	c := session.Config{Starter: direct, Env: environment, Dir: t.TempDir()}
	for range 50 {
		var all sync.WaitGroup
		all.Go(func() {
			for range 20 {
				if err := p.End("a"); err != nil {
					t.Errorf("End: %v", err)
				}
				time.Sleep(500 * time.Microsecond)
			}
		})
		if r, err := p.Start(t.Context(), "a", c, session.Command{Text: ":"}); err != nil {
			t.Errorf("Start: %v", err)
		} else {
			_, _ = r.Wait() // it may be ended by now
		}
		all.Wait()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
