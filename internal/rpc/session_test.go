package rpc

import (
	"encoding/json"
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

// calls is how many requests the long session has.
func calls() int {
	if os.Getenv("SHOFER_TEST_LONG") != "" {
		return 1000
	}
	return 150
}

// TestSession lets four hosts' worth of random calls loose on one server, with
// aborts and kills in between, and looks for what is left.
func TestSession(t *testing.T) {
	testenv.CheckFDs(t)
	testenv.CheckGoroutines(t)
	rc := runnerConfig(t, func(c *local.Config) {
		c.Options.Environ = append(os.Environ(), testenv.CheckProcesses(t))
	})
	rc.Retain = 2 * calls() // what was ended stays known
	c := newSession(t, Config{Runner: rc})
	c.subscribe(params{"output": true})
	if r := c.run(params{"command": "echo $TEST_COOKIE"}); r.Stdout.Text == "\n" {
		t.Error("commands don't get the mark by which they are found")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			h := &host{client: c.client, r: rand.New(rand.NewPCG(seed, i))}
			for range calls() / 4 {
				h.step()
			}
			h.finish()
		})
	}
	wg.Wait() // what was started runs on, and ends with the session
}

// host makes random calls, and checks what it is answered.
type host struct {
	*client
	r       *rand.Rand
	started []string // that may still run
	waiting []waiting
}

type waiting struct {
	id     string
	answer <-chan got
}

func (h *host) step() {
	switch n := h.r.IntN(12); {
	case n < 3:
		word := fmt.Sprint(h.r.Int())
		if r := h.run(params{"command": "echo " + word}); r.Stdout.Text != word+"\n" {
			h.t.Errorf("echo %s: %+v", word, r)
		}
	case n == 3:
		if r := h.run(params{"command": "seq 20000", "merge": true}); !r.Merged.Truncated || r.Merged.Artifact == nil {
			h.t.Errorf("seq: %+v", r.Merged)
		}
	case n == 4:
		r := h.run(params{"command": "sleep 60", "timeout_ms": 1 + h.r.IntN(100)})
		if !r.TimedOut {
			h.t.Errorf("with a timeout: %+v", r)
		}
	case n == 5:
		id, answer := h.send("run", params{"command": "echo; sleep 60 & setsid sleep 60; wait"})
		h.waiting = append(h.waiting, waiting{id, answer})
	case n == 6:
		r := h.start(params{"command": "while read -r x; do echo $x; done", "open_stdin": true})
		h.started = append(h.started, r.ID)
	case n == 7 && len(h.started) > 0:
		h.call("write", params{"command": h.one(), "text": "x\n"})
	case n == 8 && len(h.started) > 0:
		h.ok("read", params{"command": h.one(), "wait_ms": h.r.IntN(20)}, nil)
	case n == 9 && len(h.started) > 0:
		h.ok("kill", params{"command": h.one()}, nil)
	case n == 10 && len(h.waiting) > 0:
		h.abort()
	default:
		h.line(`{"nonsense": ` + strings.Repeat("[", h.r.IntN(100)))
		h.ok("list", nil, nil)
	}
}

// one returns a command that was started.
func (h *host) one() string { return h.started[h.r.IntN(len(h.started))] }

// abort aborts a run, whatever it has come to by now.
func (h *host) abort() {
	w := h.waiting[0]
	h.waiting = h.waiting[1:]
	h.ok("abort", params{"request": json.RawMessage(w.id)}, nil)
	m := h.await(w.answer)
	var r result
	if m.Error != nil && m.Error.Code != CodeAborted || m.Error == nil && (json.Unmarshal(m.Result, &r) != nil || !r.Aborted) {
		h.t.Errorf("aborted: %s, %+v", m.Result, m.Error)
	}
}

func (h *host) finish() {
	for len(h.waiting) > 0 {
		h.abort()
	}
}
