package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// readInput is what a model can say of what it wants to read.
type readInput struct {
	ID     string   `json:"artifact_id" jsonschema:"the id of an artifact or of a command"`
	Offset *int64   `json:"offset,omitempty" jsonschema:"where to begin, in bytes; a negative one counts from the end"`
	Limit  *int64   `json:"limit,omitempty" jsonschema:"how many bytes to show"`
	Search *string  `json:"search,omitempty" jsonschema:"show only lines that match this regular expression"`
	Wait   *float64 `json:"wait,omitempty" jsonschema:"seconds to wait for output after offset of a command that runs"`
}

// maxRead is how much is shown at once, in bytes: more doesn't fit into a model.
const maxRead = 256 << 10

// readOutput is the structured content of what was read.
type readOutput struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Offset and End are those of a page, and Next is where it goes on.
	Offset *int64 `json:"offset,omitempty"`
	End    *int64 `json:"end,omitempty"`
	Next   *int64 `json:"next,omitempty"`
	// Matches is how many lines match.
	Matches  *int64 `json:"matches,omitempty"`
	Size     int64  `json:"size"`
	Live     bool   `json:"live"`
	Complete bool   `json:"complete"`
	// Command is what is known of the command, if it isn't an artifact.
	Command *runner.Result `json:"command,omitempty"`
}

// errUnknown is what a model is told of an id that there isn't.
var errUnknown = fmt.Errorf("%w, and no artifact: list_commands has the ids", runner.ErrUnknown)

func (s *server) read(ctx context.Context, _ *mcp.CallToolRequest, in readInput) (*mcp.CallToolResult, any, error) {
	src, e, release, err := s.open(in.ID)
	if err != nil {
		return failure(err, nil), nil, nil
	}
	defer release()
	offset, limit := int64(0), int64(0)
	if in.Offset != nil {
		offset = *in.Offset
	}
	if in.Limit != nil {
		limit = min(*in.Limit, maxRead)
	}
	if in.Wait != nil {
		d, err := duration(*in.Wait)
		if err != nil {
			return failure(err, nil), nil, nil
		}
		within, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		_ = src.Wait(within, max(0, offset)) // what there is then is the answer
	}
	r := capture.NewReader(src).With(s.view)
	o := readOutput{ID: in.ID}
	if e != nil {
		o.Command = s.shown(e).Brief()
	}
	if in.Search != nil && *in.Search != "" {
		m, err := r.Search(ctx, capture.Query{Pattern: *in.Search, Limit: limit})
		if err != nil {
			return failure(err, nil), nil, nil
		}
		o.Text, o.Matches, o.Size, o.Live, o.Complete = m.Text(capture.ID(in.ID)), &m.Total, m.Size, m.Live, m.Complete()
	} else {
		p, err := r.Page(ctx, offset, limit)
		if err != nil {
			return failure(err, nil), nil, nil
		}
		o.Text, o.Size, o.Live, o.Complete = p.Text(capture.ID(in.ID)), p.Size, p.Live, p.Complete()
		o.Offset, o.End, o.Next = &p.Offset, &p.End, &p.Next
		if !p.Complete() || p.Live {
			o.Text += fmt.Sprintf("\nTo go on, read at offset %d.", p.Next)
		}
	}
	if e != nil {
		o.Text += "\n" + strings.TrimRight(row(o.Command), "\n")
	}
	return answer(o.Text, o), nil, nil
}

// open returns the output of a command, or an artifact. The caller releases it.
func (s *server) open(id string) (capture.Source, *runner.Execution, func(), error) {
	if e, err := s.runner.Get(id); err == nil {
		out, _ := e.Output()
		return out, e, func() {}, nil
	}
	if s.store == nil {
		return nil, nil, nil, errUnknown
	}
	a, err := s.store.Open(capture.ID(id))
	switch {
	case errors.Is(err, capture.ErrBadID) || errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil, errUnknown
	case err != nil:
		return nil, nil, nil, err
	}
	return a, nil, func() { _ = a.Close() }, nil
}

func (s *server) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	l := struct {
		Commands []*runner.Result `json:"commands"`
	}{[]*runner.Result{}}
	var b strings.Builder
	b.WriteString("id | state | time | output | command\n")
	for _, e := range s.runner.List() {
		r := s.shown(e).Brief()
		l.Commands = append(l.Commands, r)
		b.WriteString(row(r))
	}
	if len(l.Commands) == 0 {
		return answer("No commands.", l), nil, nil
	}
	return answer(b.String(), l), nil, nil
}

type killInput struct {
	ID string `json:"id" jsonschema:"the command's id"`
}

func (s *server) kill(ctx context.Context, _ *mcp.CallToolRequest, in killInput) (*mcp.CallToolResult, any, error) {
	e, err := s.runner.Get(in.ID)
	if err != nil {
		return failure(err, nil), nil, nil
	}
	if _, err := e.Kill(ctx, nil); err != nil {
		return failure(err, nil), nil, nil
	}
	r := s.shown(e)
	return answer(text(r, isWhole(e)), r), nil, nil
}

type writeInput struct {
	ID    string  `json:"id" jsonschema:"the command's id"`
	Text  *string `json:"text,omitempty" jsonschema:"what to write"`
	Close *bool   `json:"close,omitempty" jsonschema:"close standard input afterwards"`
}

// writeFor is how long a command has to read what is written to it.
const writeFor = 5 * time.Second

// errNotRead is what a model is told of a command that doesn't read.
var errNotRead = errors.New("the command does not read its standard input now; what was written waits for it")

func (s *server) write(ctx context.Context, _ *mcp.CallToolRequest, in writeInput) (*mcp.CallToolResult, any, error) {
	e, err := s.runner.Get(in.ID)
	if err != nil {
		return failure(err, nil), nil, nil
	}
	text := ""
	if in.Text != nil {
		text = *in.Text
	}
	ends := isSet(in.Close)
	if ends && e.Spec().Terminal != nil {
		text, ends = text+"\x04", false
	}
	out, _ := e.Output()
	before := out.Size()
	done := make(chan error, 1)
	go func() { // until the command reads it, or ends
		_, err := e.Write([]byte(text))
		if err == nil && ends {
			err = e.CloseStdin()
		}
		done <- err
	}()
	bound := time.NewTimer(writeFor)
	defer bound.Stop()
	select {
	case err = <-done:
	case <-bound.C:
		err = errNotRead
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return failure(err, nil), nil, nil
	}
	return answer(fmt.Sprintf("Written. Use read_command_output with this id and offset %d to see what the command prints then.", before), struct {
		Written int   `json:"written"`
		Offset  int64 `json:"offset"`
	}{len(text), before}), nil, nil
}
