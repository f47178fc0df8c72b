package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// piece is a kernel and an image that vmrun prepares.
type piece struct{ kernel, suite string }

// piece returns what a cell needs.
func (c cell) piece() piece {
	if c.suite == "" {
		return piece{c.kernel, "bookworm"}
	}
	return piece{c.kernel, c.suite}
}

// preparation is a piece on its way. err is readable once done is closed.
type preparation struct {
	done chan struct{}
	err  error
}

// pieces are prepared one after the other, while cells that have theirs run.
type pieces map[piece]*preparation

// prepare starts to prepare all that the cells need, in their order.
func prepare(ctx context.Context, vmrun string, cells []cell) pieces {
	all := pieces{}
	var order []piece
	for _, c := range cells {
		if !c.host() && all[c.piece()] == nil {
			all[c.piece()] = &preparation{done: make(chan struct{})}
			order = append(order, c.piece())
		}
	}
	go func() {
		for _, p := range order {
			all[p].err = p.prepare(ctx, vmrun)
			close(all[p].done)
		}
	}()
	return all
}

// prepare prepares one; the error is what vmrun says.
func (p piece) prepare(ctx context.Context, vmrun string) error {
	out, err := exec.CommandContext(ctx, vmrun, "prepare", "-suite", p.suite, p.kernel).CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := strings.TrimSpace(string(out))
	if said == "" {
		return fmt.Errorf("vmrun prepare: %w", err)
	}
	return errors.New(said)
}

// wait waits until a cell's piece is there, and returns why not.
func (all pieces) wait(ctx context.Context, c cell) error {
	p := all[c.piece()]
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
