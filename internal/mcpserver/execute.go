package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// progressEvery is how often a host that wants to know is told how far a command
// is.
const progressEvery = time.Second

// executeInput is all that a model can say of a command.
type executeInput struct {
	Command     string   `json:"command" jsonschema:"the shell command"`
	Cwd         *string  `json:"cwd,omitempty" jsonschema:"the working directory; a relative one is relative to the folder of the server"`
	Timeout     *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait before the command goes on in the background; 0 waits until it ends"`
	Head        *int     `json:"head,omitempty" jsonschema:"show only that many lines of the beginning"`
	Tail        *int     `json:"tail,omitempty" jsonschema:"show only that many lines of the end"`
	Interactive *bool    `json:"interactive,omitempty" jsonschema:"keep standard input open for write_stdin"`
	TTY         *bool    `json:"tty,omitempty" jsonschema:"run the command in a terminal, also open for write_stdin"`
}

// terminalSize is that of the terminal of a command.
var terminalSize = runner.Size{Rows: 40, Cols: 120}

// request returns what the model asks for, field by field.
func (in *executeInput) request() (runner.Request, error) {
	q := runner.Request{Command: in.Command, Merge: true, OpenStdin: isSet(in.Interactive)}
	if in.Cwd != nil {
		q.Dir = *in.Cwd
	}
	if isSet(in.TTY) {
		size := terminalSize
		q.Terminal = &size
	}
	if in.Head != nil && *in.Head < 0 || in.Tail != nil && *in.Tail < 0 {
		return q, fmt.Errorf("%w: head and tail are numbers of lines", runner.ErrInvalidInput)
	}
	if in.Timeout == nil {
		return q, nil
	}
	d, err := duration(*in.Timeout)
	if d == 0 {
		d = runner.None
	}
	q.SoftTimeout = d
	return q, err
}

// year is longer than anybody waits.
const year = 365 * 24 * time.Hour

func isSet(b *bool) bool { return b != nil && *b }

// duration returns a time of so many seconds. Longer ones than a year are cut.
func duration(s float64) (time.Duration, error) {
	if math.IsNaN(s) || s < 0 {
		return 0, fmt.Errorf("%w: %v seconds", runner.ErrInvalidInput, s)
	}
	return time.Duration(min(s, year.Seconds()) * float64(time.Second)), nil
}

func (s *server) execute(ctx context.Context, req *mcp.CallToolRequest, in executeInput) (*mcp.CallToolResult, any, error) {
	q, err := in.request()
	if err != nil {
		return failure(err, nil), nil, nil
	}
	q.PipeStatus = s.stages && strings.Contains(q.Command, "|")
	spec, err := s.runner.Resolve(q)
	if err != nil {
		return failure(err, nil), nil, nil
	}
	e, err := s.runner.Start(ctx, spec)
	if err != nil {
		return notStarted(ctx, err, e), nil, nil
	}
	s.wait(ctx, req, e)
	r := s.shown(e)
	if in.Head != nil || in.Tail != nil {
		s.choose(ctx, e, r, in.Head, in.Tail)
	}
	a := answer(text(r, isWhole(e)), r)
	a.IsError = r.TimedOut || r.Aborted && r.KilledBy != runner.CauseKilled
	return a, nil, nil
}

// notStarted is the answer about a command that hasn't run; e may be nil.
func notStarted(ctx context.Context, err error, e *runner.Execution) *mcp.CallToolResult {
	if e == nil {
		return failure(err, nil)
	}
	a := failure(err, e.Result())
	if ctx.Err() != nil {
		a.Content = []mcp.Content{&mcp.TextContent{Text: "Command execution was aborted by the user."}}
	}
	return a
}

// wait waits for a command until it has ended, or goes on in the background, and
// tells the host how far it is.
func (s *server) wait(ctx context.Context, req *mcp.CallToolRequest, e *runner.Execution) {
	var soft, tick <-chan time.Time
	if d := e.Spec().SoftTimeout; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		soft = t.C
	}
	token := req.Params.GetProgressToken()
	if token != nil {
		t := time.NewTicker(s.every)
		defer t.Stop()
		tick = t.C
	}
	began := time.Now()
	for {
		select {
		case <-e.Done(): // ctx ends it, too
			return
		case <-soft:
			e.Background()
			return
		case <-tick:
			out, _ := e.Output()
			passed := time.Since(began)
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // of a host that is gone, the call ends
				ProgressToken: token, Progress: passed.Seconds(),
				Message: fmt.Sprintf("running for %ss, %d bytes of output", seconds(passed.Round(time.Second)), out.Size()),
			})
		}
	}
}

// isWhole reports whether all of a command's output is kept.
func isWhole(e *runner.Execution) bool {
	out, _ := e.Output()
	return out.Gap() == capture.Gap{}
}

// shown is a command's result as a model sees it: the output as a terminal would
// show it, and without the long list of what the sandbox promises.
func (s *server) shown(e *runner.Execution) *runner.Result {
	r := e.Result()
	if n := s.show(r.Merged); n > 0 {
		r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("secrets that were hidden: %d", n))
	}
	if r.Sandbox != nil {
		box := *r.Sandbox
		box.Features = nil
		r.Sandbox = &box
	}
	return r
}

// show makes the output what a terminal would show, and returns how many secrets
// it has hidden.
func (s *server) show(o *runner.Output) (hidden int) {
	head, n := s.view.Show(o.Head)
	tail, m := s.view.Show(o.Tail)
	o.Head, o.Tail = []byte(head), []byte(tail)
	return n + m
}

// choose shows the first lines of the output and the last ones instead, as far as
// they can be read and aren't too long.
func (s *server) choose(ctx context.Context, e *runner.Execution, r *runner.Result, head, tail *int) {
	src, _ := e.Output()
	size := src.Size()
	in := capture.NewReader(src)
	end, begin := int64(0), size // of what is left out
	if head != nil && *head > 0 {
		p, err := in.Lines(ctx, 1, int64(*head), 0)
		if err != nil {
			return
		}
		end = p.End
	}
	if tail != nil && *tail > 0 {
		p, err := in.Tail(ctx, int64(*tail), 0)
		if err != nil {
			return
		}
		begin = p.Offset
	}
	if end >= begin {
		end, begin = size, size
	}
	o := *r.Merged
	var err error
	if o.Head, err = bytesOf(src, 0, end); err != nil {
		return
	}
	if o.Tail, err = bytesOf(src, begin, size); err != nil {
		return
	}
	o.Bytes, o.Omitted = size, begin-end
	o.Truncated = o.Omitted > 0
	s.show(&o)
	r.Merged = &o
}

// bytesOf reads a part of a stream.
func bytesOf(src io.ReaderAt, from, to int64) ([]byte, error) {
	b := make([]byte, to-from)
	n, err := io.ReadFull(io.NewSectionReader(src, from, to-from), b)
	if errors.Is(err, io.EOF) { // of nothing
		err = nil
	}
	return b[:n], err
}
