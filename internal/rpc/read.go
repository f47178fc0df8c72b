package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Bytes that a read returns at most, and when nothing is said.
const (
	readAtMost   = 1 << 20
	readStandard = 40 << 10
)

// source names a stream: of a command, or an artifact.
type source struct {
	Command  string `json:"command"`
	Artifact string `json:"artifact"`
	Stream   string `json:"stream"`
}

// delta is a part of a stream.
type delta struct {
	// ID is the command's, in a message to a subscriber.
	ID string `json:"id,omitempty"`
	// Stream is stdout, stderr, or output where the two are one.
	Stream string `json:"stream,omitempty"`
	// From and Next are the offsets of the first byte and of that after the
	// last.
	From int64 `json:"from"`
	Next int64 `json:"next"`
	// Lost is how many bytes before From are not kept any longer, and were not
	// read.
	Lost int64 `json:"lost"`
	text
}

// open returns a stream, its name, and what releases it.
func (s *server) open(p *source) (capture.Source, string, func(), error) {
	switch {
	case (p.Command == "") == (p.Artifact == ""):
		return nil, "", nil, invalid("one of command and artifact must be given")
	case p.Artifact != "" && p.Stream != "":
		return nil, "", nil, invalid("an artifact is of one stream")
	case p.Artifact != "":
		return s.openArtifact(p.Artifact)
	}
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, "", nil, err
	}
	stdout, stderr := e.Output()
	switch p.Stream {
	case "", "stdout", "output":
		return stdout, stdout.Name(), func() {}, nil
	case "stderr":
		return stderr, stderr.Name(), func() {}, nil
	}
	return nil, "", nil, invalid("stream %s is none of stdout, stderr and output", quoted(p.Stream))
}

func (s *server) openArtifact(name string) (capture.Source, string, func(), error) {
	store := s.config.Runner.Store
	if store == nil {
		return nil, "", nil, &Error{Code: CodeUnknownArtifact, Message: "no output is stored"}
	}
	a, err := store.Open(capture.ID(name))
	if err != nil {
		return nil, "", nil, err
	}
	release := func() { _ = a.Close() }
	i, err := a.Info()
	if err != nil {
		release()
		return nil, "", nil, err
	}
	return a, i.Stream, release, nil
}

func (s *server) read(ctx context.Context, p *struct {
	source
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit"`
	Wait   millis `json:"wait_ms"`
},
) (any, error) {
	if p.Offset < 0 || p.Limit < 0 {
		return nil, invalid("an offset or a limit is negative")
	}
	within, cancel, err := p.Wait.bound(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	src, name, release, err := s.open(&p.source)
	if err != nil {
		return nil, err
	}
	defer release()
	if p.Wait > 0 {
		_ = src.Wait(within, p.Offset) // what there is then is the answer
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	limit := p.Limit
	if limit == 0 {
		limit = readStandard
	}
	c := capture.Cursor{Source: src, Offset: p.Offset}
	d, err := next(&c, min(limit, readAtMost))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	d.Stream = name
	live, size := src.Live(), src.Size() // in this order: then the size is final
	return struct {
		delta
		Size int64 `json:"size"`
		// End says that nothing comes after Next.
		End  bool `json:"end"`
		Live bool `json:"live"`
	}{d, size, !live && d.Next >= size, live}, nil
}

// search looks for lines, as text: what isn't UTF-8 in them is replaced.
func (s *server) search(ctx context.Context, p *struct {
	source
	Pattern string        `json:"pattern"`
	Before  int           `json:"before"`
	After   int           `json:"after"`
	Limit   int64         `json:"limit"`
	From    capture.Place `json:"from"`
},
) (any, error) {
	src, _, release, err := s.open(&p.source)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := capture.NewReader(src).Search(ctx, capture.Query{
		Pattern: p.Pattern, Before: p.Before, After: p.After, Limit: min(p.Limit, readAtMost), From: p.From,
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, capture.ErrPattern) || errors.Is(err, capture.ErrPlace):
		return nil, invalid("%v", err)
	case err != nil:
		return nil, err
	}
	return m, nil
}

// next reads on.
func next(c *capture.Cursor, limit int) (delta, error) {
	d, err := c.Next(limit)
	return delta{From: d.From, Next: c.Offset, Lost: d.Lost, text: textOf(d.Text)}, err
}

// streams returns a reader for each stream of a command.
func streams(e *runner.Execution) []*reader {
	stdout, stderr := e.Output()
	rs := []*reader{{stdout.Name(), capture.Cursor{Source: stdout}}}
	if stderr != stdout {
		rs = append(rs, &reader{stderr.Name(), capture.Cursor{Source: stderr}})
	}
	return rs
}

// reader reads a stream bit by bit.
type reader struct {
	name string
	capture.Cursor
}
