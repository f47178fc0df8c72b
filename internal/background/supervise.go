package background

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// Summary is how a command went, for people and for exit codes.
type Summary struct {
	Exit    int
	Outcome string
	Remarks []string
}

// Job is a command to look after.
type Job struct {
	Runner *runner.Runner
	Spec   *runner.Spec
	// Name is what its user calls it; may be empty.
	Name string
	// Started is told when the command runs, and Status when it has ended.
	Started func(e *runner.Execution, s *Status)
	// Sum says how it went.
	Sum func(*runner.Result) Summary
	// Run runs a command in it, if it is a session: nil otherwise.
	Run func(ctx context.Context, t Task) (json.RawMessage, error)
}

// supervisor looks after one command.
type supervisor struct {
	job      Job
	dir      string
	e        *runner.Execution
	listener *net.UnixListener
	settled  chan struct{} // closed when the end is on disk
	conns    sync.WaitGroup

	mu     sync.Mutex
	status Status
}

// Supervise starts a command and looks after it until it has ended. When ctx
// ends, it ends the command. An error means that nothing runs any more: that of
// the start, if it didn't start, or a [*NameError].
func (d *Dir) Supervise(ctx context.Context, j Job) (err error) {
	if j.Name != "" {
		if err := checkName(j.Name); err != nil {
			return err
		}
	}
	dir, lock, err := d.create()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // what is on disk then is the end
	s := &supervisor{job: j, dir: dir, settled: make(chan struct{})}
	if s.listener, err = listen(dir); err == nil {
		err = d.exclusively(func() error { return s.start(ctx, d) })
	}
	if err != nil {
		if s.listener != nil {
			_ = s.listener.Close()
		}
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	defer func() { _ = os.Remove(filepath.Join(s.dir, socketName)) }() // nobody answers any more
	go s.serve()
	j.Started(s.e, &s.status)
	stop := s.noteOutput()
	<-s.e.Done()
	stop()
	err = s.settle()
	close(s.settled)
	_ = s.listener.Close()
	s.conns.Wait()
	return err
}

// start starts the command, and gives the folder its name.
func (s *supervisor) start(ctx context.Context, d *Dir) error {
	if s.job.Name != "" {
		all, err := d.List()
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Name == s.job.Name && !c.Final() {
				return &NameError{c.Name, c.ID}
			}
		}
	}
	e, err := s.job.Runner.Start(ctx, s.job.Spec)
	if err != nil {
		return err
	}
	s.e = e
	self := os.Getpid()
	s.status = Status{
		ID: e.ID(), Name: s.job.Name, Label: e.Spec().Label, Dir: policy.Path(e.Spec().Dir), State: runner.StateRunning, Started: time.Now(),
		Session: s.job.Run != nil, Pid: e.Pid(), Supervisor: self, Born: born(self), Output: map[string]capture.ID{},
	}
	for _, st := range s.streams() {
		s.status.Streams = append(s.status.Streams, st.Name())
	}
	err = s.status.write(s.dir)
	if err == nil {
		to := filepath.Join(d.path, e.ID())
		if err = os.Rename(s.dir, to); err == nil {
			s.dir = to
		}
	}
	if err != nil {
		_, kill := e.Kill(context.WithoutCancel(ctx), runner.Immediate)
		return errors.Join(err, kill)
	}
	return nil
}

// streams returns each stream of the command once.
func (s *supervisor) streams() []*capture.Stream {
	out, errs := s.e.Output()
	if out == errs {
		return []*capture.Stream{out}
	}
	return []*capture.Stream{out, errs}
}

// noteOutput notes where the output is as soon as there is some, so that it is
// found when this process is killed. The function that it returns ends that.
func (s *supervisor) noteOutput() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, st := range s.streams() {
		wg.Go(func() {
			if st.Wait(ctx, 0) != nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.noteArtifact(st)
			_ = s.status.write(s.dir) // it is written once more at the end
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// noteArtifact notes where a stream is. s.mu is held.
func (s *supervisor) noteArtifact(st *capture.Stream) {
	if id := st.Snapshot().Artifact; id != "" {
		s.status.Output[st.Name()] = id
	}
}

// settle writes down the end.
func (s *supervisor) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams() {
		s.noteArtifact(st)
	}
	res := s.e.Result()
	sum := s.job.Sum(res)
	s.status.State, s.status.Ended = res.State, time.Now()
	s.status.Exit, s.status.Outcome, s.status.Remarks = &sum.Exit, sum.Outcome, sum.Remarks
	text, err := json.Marshal(res)
	if err == nil {
		s.status.Result = text
		err = s.status.write(s.dir)
	}
	if err != nil { // no room, perhaps: less is better than nothing
		s.status.Result = nil
		return errors.Join(err, s.status.write(s.dir))
	}
	return nil
}

// listen makes the socket in a folder.
func listen(dir string) (*net.UnixListener, error) {
	var l *net.UnixListener
	err := inDir(dir, func(short string) error {
		var err error
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short + "/" + socketName, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, os.Chmod(filepath.Join(dir, socketName), 0o600)
}

// inDir calls f with a short path of a folder: those of sockets have at most
// 107 bytes.
func inDir(dir string, f func(short string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return f("/proc/self/fd/" + itoa(fd))
}

// serve answers until the listener is closed.
func (s *supervisor) serve() {
	for {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			defer func() { _ = c.Close() }()
			s.answer(c)
		})
	}
}

// patience is how long a peer has to say what it wants, and to take the answer.
const patience = 10 * time.Second

func (s *supervisor) answer(c *net.UnixConn) {
	reply := func(a *answer) {
		if text, err := line(a); err == nil && c.SetWriteDeadline(time.Now().Add(patience)) == nil {
			_, _ = c.Write(text) // who has gone away needs no answer
		}
	}
	if c.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	text, err := bufio.NewReader(io.LimitReader(c, maxOrder)).ReadBytes('\n')
	var o order
	if err != nil || json.Unmarshal(text, &o) != nil {
		reply(answerOf(errors.New("that is no order")))
		return
	}
	if err := checkPeer(c); err != nil {
		reply(answerOf(err))
		return
	}
	reply(s.obey(c, &o))
}

// untilGone is a context that ends when who asks goes away.
func untilGone(c *net.UnixConn) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.SetReadDeadline(time.Time{}) != nil {
		cancel()
	}
	go func() {
		_, _ = c.Read(make([]byte, 1)) // of which nothing comes
		cancel()
	}()
	return ctx, cancel
}

// obey does what it is told.
func (s *supervisor) obey(c *net.UnixConn, o *order) *answer {
	switch o.Do {
	case doWait:
		ctx, stop := untilGone(c)
		defer stop()
		select {
		case <-s.settled:
		case <-ctx.Done():
		}
		return &answer{}
	case doRun:
		return s.run(c, o)
	case doKill:
		killed, err := s.e.Kill(context.Background(), o.stop())
		<-s.settled
		a := answerOf(err)
		a.Killed = killed
		return a
	case doWrite:
		var err error
		if len(o.Data) > 0 {
			_, err = s.e.Write(o.Data)
		}
		if err == nil && o.EOF {
			err = s.e.CloseStdin()
		}
		return answerOf(err)
	case doResize:
		if o.Size == nil {
			return answerOf(errors.New("that is no size"))
		}
		return answerOf(s.e.Resize(*o.Size))
	case doLoad:
		l := Measure(s.e)
		return &answer{Load: &l}
	}
	return answerOf(errors.New("that is no order"))
}
