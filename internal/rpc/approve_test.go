package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// question returns the next question.
func (c *client) question() (id, command string) {
	c.t.Helper()
	for {
		m := c.next()
		if m.Approval == nil || m.Approval.Withdrawn {
			continue
		}
		var spec struct{ Command string }
		if err := json.Unmarshal(m.Approval.Spec, &spec); err != nil {
			c.t.Fatal(err)
		}
		return m.Approval.ID, spec.Command
	}
}

func TestApprove(t *testing.T) {
	c := newSession(t, Config{Approve: true})
	_, answer := c.send("run", params{"command": " echo yes "})
	id, command := c.question()
	if command != "echo yes" {
		t.Errorf("asked for %q", command)
	}
	var l struct{ Commands []result }
	if c.ok("list", nil, &l); l.Commands[0].State != "queued" {
		t.Errorf("before the answer: %+v", l)
	}
	c.ok("approve", params{"approval": id, "allow": true}, nil)
	var r result
	if m := c.await(answer); json.Unmarshal(m.Result, &r) != nil || r.Stdout.Text != "yes\n" {
		t.Errorf("allowed: %+v", m)
	}
	if got := c.code("approve", params{"approval": id, "allow": true}); got != CodeUnknownApproval {
		t.Errorf("answered twice: %s", got)
	}

	_, answer = c.send("run", params{"command": "echo no"})
	id, _ = c.question()
	c.ok("approve", params{"approval": id, "reason": "not on a Sunday"}, nil)
	m := c.await(answer)
	if m.Error == nil || m.Error.Code != "NOT_APPROVED" || !strings.HasSuffix(m.Error.Message, "not on a Sunday") {
		t.Errorf("refused: %+v", m.Error)
	}
	if json.Unmarshal(m.Error.Result, &r) != nil || r.HandedOff || r.State != "failed" {
		t.Errorf("refused: %+v", r)
	}

	_, answer = c.send("start", params{"command": "echo no"})
	id, _ = c.question()
	c.ok("abort", nil, nil)
	if m := c.await(answer); m.Error == nil || m.Error.Code != CodeAborted {
		t.Errorf("aborted: %s %+v", m.Result, m.Error)
	}
	if m := c.next(); m.Approval == nil || m.Approval.ID != id || !m.Approval.Withdrawn {
		t.Errorf("after the abort: %+v", m)
	}
}

func TestApproveNobody(t *testing.T) {
	c := newSession(t, Config{Approve: true, Runner: runner.Config{ApproveTimeout: time.Millisecond}})
	if got := c.code("run", params{"command": "true"}); got != "NOT_APPROVED" {
		t.Errorf("nobody answers: %s", got)
	}
	_, answer := c.send("run", params{"command": "true"})
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if m := c.await(answer); m.Error == nil {
		t.Errorf("at the end: %s", m.Result)
	}
}

// TestApproveFirst: the program's own approval comes before the host's, and its
// observer sees everything.
func TestApproveFirst(t *testing.T) {
	seen := make(chan runner.EventKind, 100)
	c := newSession(t, Config{Approve: true, Runner: runner.Config{
		Approve: func(context.Context, *runner.Spec) error { return errors.New("never") },
		Observe: func(e runner.Event) { seen <- e.Kind },
	}})
	if got := c.code("run", params{"command": "true"}); got != "NOT_APPROVED" {
		t.Errorf("run: %s", got)
	}
	if a, b := <-seen, <-seen; a != runner.EventQueued || b != runner.EventFailed {
		t.Errorf("seen: %s, %s", a, b)
	}
	if len(c.rest) > 0 {
		t.Errorf("the host is told %+v", <-c.rest)
	}
}
