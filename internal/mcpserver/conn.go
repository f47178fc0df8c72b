package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/internal/stdio"
)

// conn carries the protocol's messages, one a line. It is the protocol's
// transport and its connection. A line that isn't a message is answered, and
// isn't the end.
type conn struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	in   *stdio.Lines
	out  *stdio.Queue
	next []jsonrpc.Message // of a batch
}

func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *conn) SessionID() string { return "" }

func (c *conn) Close() error {
	c.end(context.Canceled)
	return nil
}

// Read returns the next message.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.next) > 0 {
			m := c.next[0]
			c.next = c.next[1:]
			return m, nil
		}
		line, err := c.in.Next(c.ctx)
		switch {
		case errors.Is(err, stdio.ErrTooLong):
			c.refuse(jsonrpc.CodeParseError, err)
		case err != nil:
			c.end(err)
			return nil, err
		default:
			c.parse(line)
		}
	}
}

// parse takes a line with a message, or with several as older versions of the
// protocol allow; these are answered one by one.
func (c *conn) parse(line []byte) {
	parts := []json.RawMessage{line}
	if bytes.HasPrefix(line, []byte("[")) {
		if err := json.Unmarshal(line, &parts); err != nil || len(parts) == 0 {
			c.refuse(jsonrpc.CodeParseError, errors.New("not a batch of messages"))
			return
		}
	}
	for _, part := range parts {
		m, err := jsonrpc.DecodeMessage(part)
		switch {
		case err == nil:
			c.next = append(c.next, m)
		case json.Valid(part):
			c.refuse(jsonrpc.CodeInvalidRequest, err)
		default:
			c.refuse(jsonrpc.CodeParseError, err)
		}
	}
}

// refuse answers what has no id.
func (c *conn) refuse(code int64, err error) {
	b, failed := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": err.Error()},
	})
	if failed == nil {
		_ = c.out.Put(append(b, '\n')) // an error is told to end
	}
}

// Write writes a message, without waiting for the host to read it.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.out.Put(append(b, '\n'))
}
