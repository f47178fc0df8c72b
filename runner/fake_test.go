package runner

import (
	"context"
	"io"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fake is an executor whose commands do what a test says, at the test's times.
type fake struct {
	mu      sync.Mutex
	started []*command
	// on is told each command that is started; nil does nothing.
	on  func(*command)
	err error
	// slow is how long a start takes.
	slow   time.Duration
	onlyMe Authority
}

func (f *fake) Authority() Authority {
	if f.onlyMe.Name == "" {
		return Authority{Name: "fake", Dir: "/fake", EndsAll: true}
	}
	return f.onlyMe
}

func (f *fake) Environ() []string { return []string{"PATH=/bin", "API_KEY=x"} }

func (f *fake) Close() error { return nil }

func (f *fake) Start(ctx context.Context, s *Spec) (Process, error) {
	if f.slow > 0 {
		select {
		case <-time.After(f.slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	c := &command{spec: s, ended: make(chan struct{}), deaf: map[syscall.Signal]bool{}, exit: Exit{Code: 0}, left: 1}
	c.out, c.err = newPipe(), newPipe()
	f.mu.Lock()
	f.started = append(f.started, c)
	f.mu.Unlock()
	if f.on != nil {
		go f.on(c)
	}
	return c, nil
}

// pipe is one of the kernel's, by synctest's time: it has room for some bytes,
// and after its end its reader gets what is left in it.
type pipe struct {
	data chan []byte
	done chan struct{} // closed at the end
	once sync.Once
	rest []byte
}

func newPipe() *pipe { return &pipe{data: make(chan []byte, 4), done: make(chan struct{})} }

func (p *pipe) end() { p.once.Do(func() { close(p.done) }) }

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-p.done:
		return 0, syscall.EPIPE
	default:
	}
	select {
	case p.data <- slices.Clone(b):
		return len(b), nil
	case <-p.done:
		return 0, syscall.EPIPE
	}
}

func (p *pipe) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case p.rest = <-p.data:
		default:
			select {
			case p.rest = <-p.data:
			case <-p.done:
				select {
				case p.rest = <-p.data:
				default:
					return 0, io.EOF
				}
			}
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close is the reader's.
func (p *pipe) Close() error {
	p.end()
	return nil
}

// command is a process of a fake.
type command struct {
	spec     *Spec
	out, err *pipe

	mu      sync.Mutex
	ended   chan struct{}
	exit    Exit
	deaf    map[syscall.Signal]bool // what it doesn't heed
	left    int                     // processes
	signals []syscall.Signal
	done    bool
	// holds says that something holds the output open after the end.
	holds bool
	// onSignal replaces what a signal does.
	onSignal func(syscall.Signal)
	finished bool
}

// end ends the first process.
func (c *command) end(e Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	c.done, c.exit = true, e
	c.left--
	if !c.holds {
		c.out.end()
		c.err.end()
	}
	close(c.ended)
}

func (c *command) Pid() int { return 4242 }

func (c *command) Streams() Streams { return Streams{Stdout: c.out, Stderr: c.err} }

func (c *command) Ended() <-chan struct{} { return c.ended }

func (c *command) Signal(s syscall.Signal) error {
	c.mu.Lock()
	c.signals = append(c.signals, s)
	on, deaf := c.onSignal, c.deaf[s]
	c.mu.Unlock()
	if on != nil {
		on(s)
		return nil
	}
	if !deaf {
		c.end(Exit{Code: -1, Signal: s})
		c.mu.Lock()
		c.left = 0
		c.mu.Unlock()
	}
	return nil
}

func (c *command) Remaining() (left []Survivor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.left {
		left = append(left, Survivor{Pid: 4242 + i, Name: "fake", Why: "fake"})
	}
	return left
}

func (c *command) Resize(Size) error { return ErrNoTerminal }

func (c *command) Finish() (Exit, error) {
	c.out.end()
	c.err.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		panic("Finish is called twice")
	}
	c.finished = true
	if !c.done {
		return Exit{Code: -1}, nil
	}
	return c.exit, nil
}

func (c *command) sent() []syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.signals)
}

// after ends a command by itself some time after its start.
func after(d time.Duration, code int) func(*command) {
	return func(c *command) {
		<-time.After(d)
		c.end(Exit{Code: code})
	}
}

// fakeRunner returns a runner on a fake, and what it tells its observer.
func fakeRunner(t *testing.T, f *fake, c Config) (*Runner, func() []EventKind) {
	t.Helper()
	var mu sync.Mutex
	var kinds []EventKind
	c.Executor = f
	c.Observe = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind != EventOutput {
			kinds = append(kinds, e.Kind)
		}
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r, func() []EventKind {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(kinds)
	}
}

func resolve(t *testing.T, r *Runner, q Request) *Spec {
	t.Helper()
	s, err := r.Resolve(q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
