// Package mcpserver lets a model run commands, by the Model Context Protocol over
// standard input and output: execute_command and what belongs to it.
//
// What commands may do is fixed when the server starts. The model chooses the
// command, its folder and its limits, and nothing else: requests are built from
// these by name, and arguments of other names are refused.
//
// A command has one stream of output, so that its complaints stand where they
// were made. A call that is cancelled ends its command. When the input ends, or
// the host does, all commands are ended, those in the background too.
//
// # Limitations
//
// Standard input of a command is the null device unless the model asks for
// another one. What isn't UTF-8 in the output is replaced. A text tells a model
// what is so, and a command's output can say the same words: a program should go
// by the structured content.
package mcpserver

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/stdio"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

const (
	// softTimeout is after what time a call returns if nobody says otherwise.
	softTimeout = 60 * time.Second
	// maxTimeout is how long a command may run then: what it is for may be a
	// server in the background.
	maxTimeout = time.Hour
	// lastWords is how long the host has to read what is left at the end.
	lastWords = 10 * time.Second
)

// Config is what a server is made of.
type Config struct {
	// Runner says where and how commands run. Its executor is closed in the
	// end, its store stays the caller's. Zero timeouts are not the runner's:
	// SoftTimeout is a minute, Timeout is MaxTimeout, and that is an hour.
	Runner runner.Config
	// Redact hides secrets from the model. Nil hides nothing.
	Redact *capture.Redactor
	// Version is what the server says that it is.
	Version string
}

// server is one session with a host.
type server struct {
	runner *runner.Runner
	store  *capture.Store
	view   capture.View
	// stages says that the shell can tell how those of a pipeline ended.
	stages bool
	// every is how often progress is told.
	every time.Duration
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
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r, err := runner.New(profile(c.Runner))
	if err != nil {
		return err
	}
	shell := c.Runner.Shell
	if len(shell) == 0 {
		shell = r.Authority().Shell
	}
	s := &server{runner: r, stages: len(shell) > 0 && filepath.Base(shell[0]) == "bash", store: c.Runner.Store, view: capture.View{Render: true, Redact: c.Redact}, every: progressEvery}

	conn := &conn{ctx: ctx, end: end, in: stdio.NewLines(in), out: stdio.NewQueue(out, end)}
	defer conn.in.Stop()
	session, err := s.protocol(c.Version).Connect(ctx, conn, nil)
	if err == nil {
		<-ctx.Done() // the protocol ends the calls that are under way
	}
	closed := r.Close(context.WithoutCancel(ctx))
	if err == nil {
		_ = session.Wait() // why it ended is known
		err = context.Cause(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_ = conn.out.Close(last) // a host that is gone doesn't hear it
	if errors.Is(err, io.EOF) || errors.Is(err, stdio.ErrParent) {
		err = nil
	}
	return errors.Join(err, closed)
}

// profile fills in what is right for a model.
func profile(c runner.Config) runner.Config {
	if c.MaxTimeout == 0 {
		c.MaxTimeout = maxTimeout
	}
	if c.Timeout == 0 {
		c.Timeout = c.MaxTimeout
	}
	if c.SoftTimeout == 0 {
		c.SoftTimeout = softTimeout
	}
	return c
}

// protocol returns a server with the tools.
func (s *server) protocol(version string) *mcp.Server {
	if version == "" {
		version = "unknown"
	}
	p := mcp.NewServer(&mcp.Implementation{Name: "runner", Title: "Runner", Version: version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	yes, no := true, false
	mcp.AddTool(p, &mcp.Tool{
		Name: "execute_command", Title: "Execute command", Description: s.describe(),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
	}, s.execute)
	mcp.AddTool(p, &mcp.Tool{
		Name: "read_command_output", Title: "Read command output", Description: aboutRead,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, s.read)
	mcp.AddTool(p, &mcp.Tool{
		Name: "list_commands", Title: "List commands", Description: aboutList,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, s.list)
	mcp.AddTool(p, &mcp.Tool{
		Name: "kill_command", Title: "Kill command", Description: aboutKill,
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, s.kill)
	mcp.AddTool(p, &mcp.Tool{
		Name: "write_stdin", Title: "Write to a command", Description: aboutWrite,
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
	}, s.write)
	return p
}

// answer is what a call returns: a text, and the same for programs.
func answer(text string, structured any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: structured}
}

// failure is what a call returns that has failed; result is what is known of the
// command, if there is one.
func failure(err error, result *runner.Result) *mcp.CallToolResult {
	f := struct {
		Error  string         `json:"error"`
		Code   string         `json:"code"`
		Hint   string         `json:"hint,omitempty"`
		Result *runner.Result `json:"result,omitempty"`
	}{err.Error(), runner.ErrorCode(err), runner.Hint(err), result}
	text := "Error: " + f.Error
	if f.Hint != "" {
		text += "\nHint: " + f.Hint
	}
	a := answer(text, f)
	a.IsError = true
	return a
}
