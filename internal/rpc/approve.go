package rpc

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// approval is a question to the host: may this run?
type approval struct {
	ID string `json:"id"`
	// Spec is what would run.
	Spec *runner.Spec `json:"spec,omitempty"`
	// Withdrawn says that the question need not be answered any more.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// verdict is the answer.
type verdict struct {
	allow  bool
	reason string
}

// approvals are the questions that wait for an answer.
type approvals struct {
	count   int
	waiting map[string]chan verdict
}

// ask is [runner.Config.Approve].
func (s *server) ask(ctx context.Context, spec *runner.Spec) error {
	if first := s.config.Runner.Approve; first != nil {
		if err := first(ctx, spec); err != nil {
			return err
		}
	}
	if !s.config.Approve {
		return nil
	}
	answer := make(chan verdict, 1)
	s.mu.Lock()
	s.approvals.count++
	id := "a" + strconv.Itoa(s.approvals.count)
	if s.approvals.waiting == nil {
		s.approvals.waiting = map[string]chan verdict{}
	}
	s.approvals.waiting[id] = answer
	s.mu.Unlock()
	s.send(message{Approval: &approval{ID: id, Spec: spec}})
	select {
	case v := <-answer:
		switch {
		case v.allow:
			return nil
		case v.reason != "":
			return fmt.Errorf("%w: %s", runner.ErrDenied, v.reason)
		}
		return runner.ErrDenied
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.approvals.waiting, id)
	s.mu.Unlock()
	s.send(message{Approval: &approval{ID: id, Withdrawn: true}})
	return fmt.Errorf("%w: nobody answered: %w", runner.ErrDenied, context.Cause(ctx))
}

// approve answers a question.
func (s *server) approve(_ context.Context, p *struct {
	Approval string `json:"approval"`
	Allow    bool   `json:"allow"`
	Reason   string `json:"reason"`
},
) (any, error) {
	s.mu.Lock()
	answer, ok := s.approvals.waiting[p.Approval]
	delete(s.approvals.waiting, p.Approval)
	s.mu.Unlock()
	if !ok {
		return nil, &Error{Code: CodeUnknownApproval, Message: "no question " + quoted(p.Approval) + " waits for an answer"}
	}
	answer <- verdict{p.Allow, p.Reason}
	return none{}, nil
}
