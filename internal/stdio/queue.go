package stdio

import (
	"context"
	"errors"
	"io"
	"sync"
)

// MaxUnread is how many bytes of answers may wait for the host to read them.
const MaxUnread = 64 << 20

// patience is how much may wait before those stop adding that can wait.
const patience = 256 << 10

// ErrUnread is what [Queue.Put] returns when the host reads no answers.
var ErrUnread = errors.New("the host does not read what is written to it")

// Queue writes messages one after the other, by a goroutine of its own.
type Queue struct {
	w      io.Writer
	broken func(error)
	closed chan struct{} // no more comes
	done   chan struct{} // all is written, or can't be

	mu      sync.Mutex
	waiting [][]byte
	size    int // of waiting and what is being written
	ended   bool
	err     error
	more    chan struct{} // has an element when there is something to write
	less    chan struct{} // closed when something has been written
}

// NewQueue returns a queue that writes to w until it is closed. If not nil, broken
// is told once why no more can be written, by Put or by the goroutine that writes.
func NewQueue(w io.Writer, broken func(error)) *Queue {
	q := &Queue{
		w: w, broken: broken, closed: make(chan struct{}), done: make(chan struct{}),
		more: make(chan struct{}, 1), less: make(chan struct{}),
	}
	go q.run()
	return q
}

// Put adds a message, which is the queue's from then on, and doesn't wait. The
// error is [ErrUnread], [io.ErrClosedPipe] after Close, or that of a write; then
// nothing is written any more.
func (q *Queue) Put(b []byte) error {
	q.mu.Lock()
	full := q.size+len(b) > MaxUnread
	q.mu.Unlock()
	if full {
		q.fail(ErrUnread)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return q.err
	case q.ended:
		return io.ErrClosedPipe
	}
	q.size += len(b)
	q.waiting = append(q.waiting, b)
	select {
	case q.more <- struct{}{}:
	default:
	}
	return nil
}

// Room waits until only little waits to be written: those who call it before
// each Put go no faster than the host reads. It returns an error as Put does,
// or the cause of ctx's end.
func (q *Queue) Room(ctx context.Context) error {
	for {
		q.mu.Lock()
		size, less, err := q.size, q.less, q.err
		q.mu.Unlock()
		if err != nil || size < patience {
			return err
		}
		select {
		case <-less:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close says that no more comes, and waits until all is written, can't be, or
// ctx ends. A write that is under way then is left to itself.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if !q.ended {
		q.ended = true
		close(q.closed)
	}
	q.mu.Unlock()
	select {
	case <-q.done:
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *Queue) run() {
	defer close(q.done)
	for {
		b, ok := q.take()
		if !ok {
			return
		}
		_, err := q.w.Write(b)
		if err != nil {
			q.fail(err)
		}
		q.mu.Lock()
		q.size -= len(b)
		close(q.less)
		q.less = make(chan struct{})
		q.mu.Unlock()
	}
}

// fail says that no more can be written.
func (q *Queue) fail(err error) {
	q.mu.Lock()
	first := q.err == nil
	if first {
		q.err = err
	}
	q.mu.Unlock()
	if first && q.broken != nil {
		q.broken(err)
	}
}

// take returns the next message, or false after the last one.
func (q *Queue) take() ([]byte, bool) {
	for {
		q.mu.Lock()
		if q.err != nil {
			q.waiting = nil
		}
		if len(q.waiting) > 0 {
			b := q.waiting[0]
			q.waiting[0] = nil
			q.waiting = q.waiting[1:]
			q.mu.Unlock()
			return b, true
		}
		ended := q.ended || q.err != nil
		q.mu.Unlock()
		if ended {
			return nil, false
		}
		select {
		case <-q.more:
		case <-q.closed:
		}
	}
}
