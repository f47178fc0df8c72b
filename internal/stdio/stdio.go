// Package stdio is what the programs have in common that are spoken to in lines
// on standard input and answer on standard output, by a host that may be slow,
// write nonsense, or be killed at any time.
//
// Reading never waits for writing: the end of the input is always noticed.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// MaxLine is how long a line may be, in bytes.
const MaxLine = 16 << 20

// ErrTooLong is matched by the error for a line that is too long. The next call
// returns the line after it.
var ErrTooLong = errors.New("line too long")

// Lines reads lines. It is for one goroutine.
type Lines struct {
	lines <-chan line
	quit  chan struct{}
}

type line struct {
	text []byte
	err  error
}

// NewLines returns a reader of the lines of r, which is read by a goroutine
// until it ends, or until Stop; a read that is under way then is left to itself.
func NewLines(r io.Reader) *Lines {
	lines, quit := make(chan line), make(chan struct{})
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(r, 64<<10)
		for {
			text, err := readLine(in)
			select {
			case lines <- line{text, err}:
			case <-quit:
				return
			}
			if err != nil && !errors.Is(err, ErrTooLong) {
				return
			}
		}
	}()
	return &Lines{lines, quit}
}

// Next returns the next line that isn't blank, without its end. The error is
// [io.EOF] at the end of the input, the input's, or the cause of ctx's end; all
// these are final. A last line without an end counts.
func (l *Lines) Next(ctx context.Context) ([]byte, error) {
	select {
	case n, ok := <-l.lines:
		if !ok {
			return nil, io.EOF
		}
		return n.text, n.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Stop ends the reading. It is called once.
func (l *Lines) Stop() { close(l.quit) }

// readLine reads a line that isn't blank.
func readLine(in *bufio.Reader) ([]byte, error) {
	for {
		text, size, err := readRaw(in)
		switch {
		case size > MaxLine:
			return nil, fmt.Errorf("%w: %d bytes, and at most %d are read", ErrTooLong, size, MaxLine)
		case len(bytes.TrimSpace(text)) > 0:
			return bytes.TrimSpace(text), nil // an error comes again
		case err != nil:
			return nil, err
		}
	}
}

// readRaw reads to the end of a line, and keeps no more than MaxLine of it.
func readRaw(in *bufio.Reader) (text []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if size <= MaxLine {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}
