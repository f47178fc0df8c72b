// Package rpc lets a host in any language run commands: it writes requests to
// standard input, a JSON object on each line, and reads answers, events and
// questions from standard output. [Schema] has the form of all of them, and
// docs/rpc.md says what they mean.
//
// Requests run at the same time and are answered by their ids, in any order. A
// line that isn't a request is answered, too, and never the end. When the input
// ends, or the host does, all commands are ended.
//
// # Limitations
//
// A host that doesn't read its answers is given up once 64 MiB of them wait. It
// never keeps a command waiting. The host is trusted: what it asks for is bounded
// by the runner's configuration only, and a model's words are for the host to
// check.
package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/stdio"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Protocol is the version of the messages. It changes when a host would have to;
// fields, methods and kinds of events may be added without.
const Protocol = 1

// MaxRequests is how many requests may be under way at once.
const MaxRequests = 1024

// lastWords is how long a host has to read what is left when it has closed the
// input.
const lastWords = 10 * time.Second

// Config is what a server is made of.
type Config struct {
	// Runner says where and how commands run. Its executor is closed in the
	// end, its store stays the caller's. Observe is told of everything besides
	// the host, and Approve is asked first.
	Runner runner.Config
	// Approve asks the host before each start.
	Approve bool
	// Version is what the server says that it is.
	Version string
}

// server is one session with a host.
type server struct {
	config Config
	runner *runner.Runner
	out    *stdio.Queue
	// ctx ends with the session.
	ctx      context.Context
	end      context.CancelCauseFunc
	requests sync.WaitGroup

	mu        sync.Mutex
	pending   map[string]context.CancelCauseFunc // by the id's text
	lanes     map[string]chan struct{}           // what the last of each lane closes
	approvals approvals
	subs      subscriptions
}

// Serve answers what in asks for on out until in ends, ctx does, or the process
// that started this one has ended. Then it ends all commands, and returns when
// that is done. Reading in may go on afterwards if that can't be interrupted.
//
// The error is nil when the input or the parent ended; it is what [runner.New]
// returns, the cause of ctx's end, or what kept answers from being written:
// [stdio.ErrUnread] among that.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	ctx, release := stdio.Session(ctx)
	defer release()
	s := &server{config: c, pending: map[string]context.CancelCauseFunc{}, lanes: map[string]chan struct{}{}}
	s.ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)

	rc := c.Runner
	rc.Observe, rc.Approve = s.observe, s.ask
	var err error
	if s.runner, err = runner.New(rc); err != nil {
		return err
	}
	s.out = stdio.NewQueue(out, s.end)
	lines := stdio.NewLines(in)
	defer lines.Stop()
	err = s.listen(lines)
	s.end(err)

	// What still waits for a command sees its end, and may say it.
	closed := s.runner.Close(context.WithoutCancel(ctx))
	s.requests.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	s.subs.end(last)
	_ = s.out.Close(last) // a host that is gone doesn't hear it
	if errors.Is(err, io.EOF) || errors.Is(err, stdio.ErrParent) {
		err = nil
	}
	return errors.Join(err, closed)
}

// listen accepts requests until there can be no more.
func (s *server) listen(lines *stdio.Lines) error {
	for {
		line, err := lines.Next(s.ctx)
		switch {
		case errors.Is(err, stdio.ErrTooLong):
			s.answer(nil, nil, &Error{Code: CodeInvalidRequest, Message: err.Error()})
		case err != nil:
			return err
		default:
			s.accept(line)
		}
	}
}

// accept takes a request, and refuses it or begins it.
func (s *server) accept(line []byte) {
	q, err := parseRequest(line)
	if err != nil {
		s.answer(q.ID, nil, err)
		return
	}
	m, ok := methods[q.Method]
	if !ok {
		s.answer(q.ID, nil, &Error{Code: CodeUnknownMethod, Message: "there is no method " + quoted(q.Method)})
		return
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	key := string(q.ID)
	s.mu.Lock()
	_, used := s.pending[key]
	full := len(s.pending) >= MaxRequests
	if !used && !full {
		s.pending[key] = cancel
	}
	s.mu.Unlock()
	switch {
	case used:
		err = &Error{Code: CodeDuplicateID, Message: "a request with the id " + key + " is under way"}
		q.ID = nil // that of the other
	case full:
		err = &Error{Code: CodeTooManyRequests, Message: "too many requests are under way"}
	}
	if err != nil {
		cancel(nil)
		s.answer(q.ID, nil, err)
		return
	}
	do := func() {
		result, err := m.do(s, ctx, q)
		s.mu.Lock()
		delete(s.pending, key)
		s.mu.Unlock()
		cancel(nil)
		s.answer(q.ID, result, err)
	}
	if m.quick { // in order: what is subscribed to before a start is
		do()
		return
	}
	before, done := s.enter(m.lane(q))
	s.requests.Go(func() {
		defer done()
		if before != nil {
			<-before
		}
		do()
	})
}

// enter puts a request into a lane, "" for none: it begins when before, if not
// nil, is closed, and calls done in the end.
func (s *server) enter(lane string) (before <-chan struct{}, done func()) {
	if lane == "" {
		return nil, func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := make(chan struct{})
	last, ok := s.lanes[lane]
	s.lanes[lane] = mine
	if ok {
		before = last
	}
	return before, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lanes[lane] == mine {
			delete(s.lanes, lane)
		}
		close(mine)
	}
}

// answer answers a request; a nil id is that of a line that has none.
func (s *server) answer(id json.RawMessage, result any, err error) {
	if id == nil {
		id = json.RawMessage("null")
	}
	if err != nil {
		s.send(message{ID: id, Error: asError(err)})
		return
	}
	s.send(message{ID: id, Result: result})
}

// send writes a message, without waiting for the host to read it. If it can't
// be written, the session ends.
func (s *server) send(m message) {
	b, err := m.line()
	if err != nil {
		s.end(err)
		return
	}
	_ = s.out.Put(b) // an error is told to s.end
}
