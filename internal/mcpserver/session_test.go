package mcpserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/runner/local"
)

// calls is how many calls the long session has.
func calls() int {
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		return 1000
	}
	return 120
}

// TestSession lets a model call tools at random, four at a time, with cancels and
// kills in between, and looks for what is left.
func TestSession(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.CheckGoroutines(t)
	rc := runnerConfig(t, func(c *local.Config) {
		c.Options.Environ = append(os.Environ(), testenv.CheckProcesses(t))
	})
	rc.Retain = 2 * calls() // what was ended stays known
	c := newClient(t, Config{Runner: rc})
	if _, r := c.ok("execute_command", args{"command": "echo $TEST_COOKIE"}); r.Merged.Text == "\n" {
		t.Error("commands don't get the mark by which they are found")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			m := &model{client: c, r: rand.New(rand.NewPCG(seed, i))}
			for range calls() / 4 {
				m.step()
			}
		})
	}
	wg.Wait()
	// What was started runs on, and ends with the session.
	c.end(t)
	_ = c.Close()
}

// model makes random calls, and checks what it is told.
type model struct {
	*client
	r       *rand.Rand
	started []string
}

func (m *model) step() {
	switch n := m.r.IntN(10); {
	case n < 3:
		word := fmt.Sprint(m.r.Int())
		if text, r := m.ok("execute_command", args{"command": "echo " + word}); !strings.HasSuffix(text, "\n"+word+"\n") || r.Merged.Text != word+"\n" {
			m.t.Errorf("echo %s: %s", word, text)
		}
	case n == 3:
		_, r := m.ok("execute_command", args{"command": "seq 20000; sleep 0.0" + fmt.Sprint(m.r.IntN(9))})
		if _, d := m.ok("read_command_output", args{"artifact_id": *r.Merged.Artifact, "search": "^1999.$"}); d.Matches != 10 {
			m.t.Errorf("search: %+v", d)
		}
	case n == 4:
		m.cancelled()
	case n == 5:
		_, r := m.ok("execute_command", args{"command": "while read -r x; do echo $x; done & sleep 60", "timeout": 0.01, "interactive": true})
		m.started = append(m.started, r.ID)
	case n == 6 && len(m.started) > 0:
		m.call("write_stdin", args{"id": m.one(), "text": "x\n"})
	case n == 7 && len(m.started) > 0:
		m.ok("read_command_output", args{"artifact_id": m.one(), "offset": -10, "wait": m.r.Float64() / 50})
	case n == 8 && len(m.started) > 0:
		m.ok("kill_command", args{"id": m.one()})
	default:
		m.ok("list_commands", nil)
	}
}

func (m *model) one() string { return m.started[m.r.IntN(len(m.started))] }

// cancelled runs something and doesn't wait for it.
func (m *model) cancelled() {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(m.r.IntN(50))*time.Millisecond)
	defer cancel()
	if _, _, _, err := m.try(ctx, "execute_command", args{"command": "sleep 60 & setsid sleep 60"}); err == nil {
		m.t.Error("a call that was cancelled has an answer")
	}
}
