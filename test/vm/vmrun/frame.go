package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// frameType says what a frame from the guest to the host is. A frame is a type,
// a length of four bytes and the data; all go over one virtio-serial port.
type frameType byte

const (
	frameHello  frameType = 'h' // the agent runs; data: the guest's uptime
	frameStart  frameType = 's' // the command starts now
	frameStdout frameType = 'o'
	frameStderr frameType = 'e'
	frameTar    frameType = 't' // data: the number of a -out, and a piece of its tar
	frameFail   frameType = 'f' // what went wrong in the guest
	frameExit   frameType = 'x' // data: the status; always the last
)

const (
	frameHeader = 5
	framePiece  = 32 << 10
	// frameMax is more than a guest of ours sends in one frame.
	frameMax = 1 << 20
)

// frameWriter sends frames; many goroutines may use it.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frameWriter) send(t frameType, data []byte) error {
	b := make([]byte, frameHeader, frameHeader+len(data))
	b[0] = byte(t)
	binary.BigEndian.PutUint32(b[1:], uint32(len(data)))
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.w.Write(append(b, data...))
	return err
}

// stream returns a writer that sends what it gets as frames of one type, with
// the prefix before each piece.
func (f *frameWriter) stream(t frameType, prefix ...byte) io.Writer {
	return frameStream{f, t, prefix}
}

type frameStream struct {
	f      *frameWriter
	t      frameType
	prefix []byte
}

func (s frameStream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		piece := p[:min(len(p), framePiece)]
		if err := s.f.send(s.t, append(append([]byte(nil), s.prefix...), piece...)); err != nil {
			return n - len(p), err
		}
		p = p[len(piece):]
	}
	return n, nil
}

// readFrame reads one frame.
func readFrame(r io.Reader) (frameType, []byte, error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > frameMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes from the guest", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return frameType(h[0]), b, err
}
