package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/mcpserver"
	"github.com/shofer-dev/shofer-sandbox/internal/rpc"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// hosts compares a run by the library with the same asked for in the ways of
// hosts: a request on a pipe, and its answer.
func (b *bench) hosts() (section, error) {
	s := section{Title: "run of sh -c true, asked for", As: b.as, Rounds: b.rounds, Against: []string{"by the library"}}
	p := policy.Policy{Mode: policy.WorkspaceWrite, NoProtect: true}
	r, spec, err := b.newRunner(p)
	if err != nil {
		return s, err
	}
	defer func() { _ = r.Close(context.Background()) }()
	cs := []contender{{"by the library", func() error { return runOnce(r, spec) }}}
	for _, way := range []struct {
		name, hello, ask string
		serve            func(runner.Config, io.Reader, io.Writer) error
	}{
		{
			"by RPC", `{"id":0,"method":"info"}`,
			`{"id":1,"method":"run","params":{"command":"true","merge":true}}`,
			func(c runner.Config, in io.Reader, out io.Writer) error {
				return rpc.Serve(context.Background(), rpc.Config{Runner: c}, in, out)
			},
		},
		{
			"by MCP", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"true"}}}`,
			func(c runner.Config, in io.Reader, out io.Writer) error {
				return mcpserver.Serve(context.Background(), mcpserver.Config{Runner: c}, in, out)
			},
		},
	} {
		exec, err := b.newExecutor(p)
		if err != nil {
			return s, err
		}
		h, err := newHost(func(in io.Reader, out io.Writer) error {
			return way.serve(runner.Config{Executor: exec}, in, out)
		})
		if err != nil {
			return s, err
		}
		defer func() { _ = h.close() }() // it has been measured
		if err := h.ask(way.hello, `"id":0`); err != nil {
			return s, err
		}
		cs = append(cs, contender{way.name, func() error { return h.ask(way.ask, `"exit_code":0`) }})
	}
	got, err := interleave(b.rounds, cs)
	s.rows(got)
	return s, err
}

// host speaks to a server over pipes.
type host struct {
	in   *os.File
	out  *bufio.Reader
	done chan error
}

func newHost(serve func(io.Reader, io.Writer) error) (*host, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	h := &host{in: inW, out: bufio.NewReader(outR), done: make(chan error, 1)}
	go func() {
		err := serve(inR, outW)
		h.done <- errors.Join(err, inR.Close(), outW.Close())
	}()
	return h, nil
}

// ask writes a request and reads its answer, which must have a word in it.
func (h *host) ask(request, word string) error {
	if _, err := io.WriteString(h.in, request+"\n"); err != nil {
		return err
	}
	line, err := h.out.ReadString('\n')
	if err == nil && !strings.Contains(line, word) {
		err = fmt.Errorf("the answer to %s: %s", request, line)
	}
	return err
}

func (h *host) close() error { return errors.Join(h.in.Close(), <-h.done) }
