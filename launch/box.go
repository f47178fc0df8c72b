package launch

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

const (
	// boxStart bounds the time until a command in a sandbox of bubblewrap's
	// has started.
	boxStart = 30 * time.Second
	// boxEnd bounds the time between the end of the command and that of
	// bubblewrap.
	boxEnd = 5 * time.Second
	// boxDrain bounds the wait for what a bubblewrap that has ended said: 0.8.0
	// can leave a child that holds the pipes open.
	boxDrain = 500 * time.Millisecond
)

// unmoved are the signals that bubblewrap ignores: it would die of what its
// command may want to handle.
var unmoved = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP}

// Box is a command in a sandbox of bubblewrap's: bubblewrap is the child of
// this process, and the command a descendant. It may be used by one goroutine
// at a time, except for [Box.Signal].
type Box struct {
	// Pid is the command's, by its number here, or bubblewrap's where the
	// kernel can't tell (before Linux 5.3).
	Pid int

	bwrap int    // the child, not reaped
	stage packet // the inner stage; its pidfd is open until it is watched
	// listener is where the command's calls are shown, -1 if they aren't.
	listener int
	inner    <-chan packet
	exited   <-chan struct{} // closed when bwrap has ended
	words    <-chan string   // its standard error
	status   <-chan bwrap.Status
	last     report
	told     chan struct{} // closed when a [Cmd]'s reports have been read

	mu     sync.Mutex
	socket int // to the inner stage; -1 when it is closed
}

// packet is a report, and the process that it is about by its number here and an
// open pidfd, 0 and -1 unless they came along; or another descriptor that did,
// else -1.
type packet struct {
	report
	pid, pidfd, other int
}

// drop closes what came along.
func (p *packet) drop() {
	for _, fd := range [...]int{p.pidfd, p.other} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Signal sends the command a signal.
func (b *Box) Signal(s syscall.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket < 0 {
		return os.ErrProcessDone
	}
	_, err := unix.SendmsgN(b.socket, []byte{byte(s)}, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	return err
}

// Change waits until the command stops, which it reports, or has ended.
func (b *Box) Change() (stopped bool) {
	for p := range b.inner {
		switch p.Event {
		case reportStopped:
			return true
		case reportEnded:
			b.last = p.report
			return false
		case reportReady, reportWitness, reportStarted, reportFailed: // not twice
		}
	}
	return false
}

// Reap waits for bubblewrap, when Change has said that the command has ended,
// and says how the command did. It releases the box.
func (b *Box) Reap() (Ended, error) {
	defer b.close()
	ws, ru, status, err := b.reap(boxEnd)
	if err != nil {
		return Ended{}, err
	}
	if b.last.Event == reportEnded {
		return Ended{Status: syscall.WaitStatus(b.last.Status), Rusage: b.last.Rusage}, nil
	}
	// Somebody killed the inner stage, and all with it, or bubblewrap.
	switch {
	case ws.Signaled():
	case status.Ended && status.Code > 128:
		ws = syscall.WaitStatus(status.Code - 128)
	default:
		ws = syscall.WaitStatus(syscall.SIGKILL)
	}
	return Ended{Status: ws, Rusage: ru}, nil
}

// ended returns how the command ended, when bubblewrap has; nil if that wasn't
// reported. It is for a [Cmd].
func (b *Box) ended() *Ended {
	for told := false; !told; {
		select {
		case <-b.told:
			told = true
		case <-time.After(boxDrain):
			if !b.unread() {
				return nil
			} // else this process had no time to
		}
	}
	if b.last.Event != reportEnded {
		return nil
	}
	return &Ended{Status: syscall.WaitStatus(b.last.Status), Rusage: b.last.Rusage}
}

// unread reports whether something that the inner stage said hasn't been read,
// however long ago that was, or was just read.
func (b *Box) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.told: // nil before there is somebody to tell
		return true
	default:
	}
	if len(b.inner) > 0 || b.socket < 0 {
		return len(b.inner) > 0
	}
	n, err := unix.IoctlGetInt(b.socket, unix.TIOCINQ)
	return err == nil && n > 0
}

// reap waits for bubblewrap to end, kills it if it takes longer than the given
// time, and returns what it said about its program.
func (b *Box) reap(within time.Duration) (ws syscall.WaitStatus, ru syscall.Rusage, status bwrap.Status, err error) {
	select {
	case <-b.exited:
	case <-time.After(within):
		_ = unix.Kill(b.bwrap, unix.SIGKILL) // not reaped, so the number is its own
		<-b.exited
	}
	for {
		_, err = syscall.Wait4(b.bwrap, &ws, 0, &ru)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return ws, ru, status, os.NewSyscallError("wait4", err)
	}
	select {
	case status = <-b.status:
	case <-time.After(boxDrain):
		select {
		case status = <-b.status: // both
		default:
		}
	}
	return ws, ru, status, nil
}

// close ends the goroutines that receive, when bubblewrap has ended.
func (b *Box) close() {
	b.closeStage()
	timer := time.NewTimer(boxDrain)
	defer timer.Stop()
	select {
	case <-b.words:
	case <-timer.C:
	}
	select {
	case <-b.status:
	case <-timer.C:
	}
	_ = unix.Shutdown(b.socket, unix.SHUT_RDWR)
	for p := range b.inner { // what nobody has asked for
		p.drop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = unix.Close(b.socket)
	b.socket = -1
}

// startBox starts what the plan p says in a sandbox of bubblewrap's. Linger is
// as in [Cmd].
func (v *variant) startBox(p *spawn.Plan, linger time.Duration) (*Box, error) {
	if !initialised.Load() {
		return nil, &SetupError{Stage: StageStart, Err: errNoInit}
	}
	var files boxFiles
	defer files.close()
	plan, ends, err := v.boxPlan(p, linger, &files)
	if err != nil {
		return nil, err
	}
	proc, err := spawn.Start(plan)
	if err != nil {
		ends.close()
		return nil, &boxError{words: err.Error(), err: err}
	}
	if proc.PidFD >= 0 {
		_ = unix.Close(proc.PidFD)
	}
	exited := make(chan struct{})
	b := &Box{bwrap: proc.Pid, exited: exited, socket: ends.socket, stage: packet{pidfd: -1}, listener: -1}
	go func() {
		awaitEnd(proc.Pid)
		b.release()
		close(exited)
	}()
	files.close() // or their ends wouldn't be seen
	b.inner, b.words, b.status = receive(b.socket), firstWords(ends.words), readStatus(ends.status)
	if err := b.await(v, p.Argv[0]); err != nil {
		b.close()
		if b.listener >= 0 {
			_ = unix.Close(b.listener)
		}
		return nil, err
	}
	return b, nil
}

// permit lets the inner stage start the command. If it has ended, that is seen.
func (b *Box) permit() { _ = b.Signal(0) }

// release tells the inner stage, if it is left, that bubblewrap has ended. What it
// has said can still be read.
func (b *Box) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket >= 0 {
		_ = unix.Shutdown(b.socket, unix.SHUT_RDWR)
	}
}

// takeStage returns the id of the command in the sandbox, and what tells it from
// others, which is the caller's then; -1 is none.
func (b *Box) takeStage() (pid, pidfd int) {
	pid, pidfd = b.stage.pid, b.stage.pidfd
	b.stage.pidfd = -1
	return pid, pidfd
}

// closeStage closes what tells the inner stage from others.
func (b *Box) closeStage() {
	if b.stage.pidfd >= 0 {
		_ = unix.Close(b.stage.pidfd)
		b.stage.pidfd = -1
	}
}

// await waits until the command has started. When it hasn't, bubblewrap has
// ended too.
func (b *Box) await(v *variant, name string) error {
	timer := time.NewTimer(boxStart)
	defer timer.Stop()
	ready, exited := false, b.exited
	var late <-chan time.Time
	for {
		select {
		case p, ok := <-b.inner:
			switch {
			case !ok:
				return b.failed(ready, "")
			case p.Event == reportReady:
				ready, b.stage = true, p
				if err := v.seal(p.pid, p.pidfd); err != nil {
					_ = unix.Kill(b.bwrap, unix.SIGKILL)
					_, _, _, _ = b.reap(boxDrain)
					return err
				}
				b.permit()
			case p.Event == reportWitness:
				b.listener = p.other
			case p.Event == reportFailed:
				if _, _, _, err := b.reap(boxEnd); err != nil {
					return startFailure(err)
				}
				return p.err(name)
			case p.Event == reportStarted:
				if b.Pid = p.pid; p.pidfd >= 0 {
					_ = unix.Close(p.pidfd)
				}
				if b.Pid == 0 {
					b.Pid = b.bwrap
				}
				return nil
			}
		case <-exited:
			exited, late = nil, time.After(boxDrain)
		case <-late:
			if b.unread() {
				late = time.After(boxDrain) // this process had no time to
				continue
			}
			return b.failed(ready, "")
		case <-timer.C:
			_ = unix.Kill(b.bwrap, unix.SIGKILL)
			return b.failed(ready, "it was not ready within "+boxStart.String())
		}
	}
}

// failed says why nothing was started. ready says that the inner stage ran.
func (b *Box) failed(ready bool, why string) error {
	ws, _, _, err := b.reap(boxEnd)
	if err != nil {
		return &SetupError{Stage: StageStart, Err: err}
	}
	select {
	case words := <-b.words:
		if why == "" {
			why = words
		}
	case <-time.After(boxDrain):
	}
	if why == "" {
		why = "it exited with " + strconv.Itoa(ws.ExitStatus())
		if ws.Signaled() {
			why = "it was killed by " + signalName(ws.Signal())
		}
	}
	return &boxError{words: why, ready: ready}
}

// boxError is what became of a bubblewrap that started no command.
type boxError struct {
	words string
	ready bool // the inner stage ran, so that bubblewrap works
	err   error
}

func (e *boxError) Error() string { return "bubblewrap made no sandbox: " + e.words }

func (e *boxError) Unwrap() error { return e.err }

// receive returns what comes from the inner stage, until it ends.
func receive(socket int) <-chan packet {
	packets := make(chan packet, 8)
	go func() {
		defer close(packets)
		buf, oob := make([]byte, reportLimit), make([]byte, unix.CmsgSpace(4))
		for {
			n, oobn, _, _, err := unix.Recvmsg(socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				return
			}
			p, err := parseReport(buf[:n])
			if err != nil {
				return // nobody else has the socket: a bug
			}
			received := packet{report: p, pidfd: -1, other: -1}
			if fd := rightOf(oob[:oobn]); p.Event == reportWitness {
				received.other = fd
			} else {
				received.pid, received.pidfd = processOf(fd)
			}
			packets <- received
		}
	}()
	return packets
}

// rightOf returns a descriptor that came along, -1 if none did.
func rightOf(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1
	}
	return fds[0]
}

// processOf returns a pidfd and its process by its number here; 0 and -1 if it is
// none.
func processOf(fd int) (pid, pidfd int) {
	if fd < 0 {
		return 0, -1
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if number, ok := strings.CutPrefix(line, "Pid:"); ok {
				if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && pid > 0 {
					return pid, fd
				}
			}
		}
	}
	_ = unix.Close(fd)
	return 0, -1
}

// wordsLimit bounds what is read of bubblewrap's standard error.
const wordsLimit = 4 << 10

// firstWords returns the last line of what comes from f, once it ends.
func firstWords(f *os.File) <-chan string {
	words := make(chan string, 1)
	go func() {
		defer close(words)
		var kept []byte
		buf := make([]byte, 1<<10)
		for {
			n, err := f.Read(buf)
			kept = append(kept, buf[:min(n, wordsLimit-len(kept))]...)
			if err != nil {
				break
			}
		}
		_ = f.Close()
		text := strings.TrimRight(string(kept), "\n")
		words <- text[strings.LastIndexByte(text, '\n')+1:]
	}()
	return words
}

// readStatus returns what bubblewrap says about itself, once it ends.
func readStatus(f *os.File) <-chan bwrap.Status {
	status := make(chan bwrap.Status, 1)
	go func() {
		defer close(status)
		s, _ := bwrap.ReadStatus(f) // as far as it is one
		_ = f.Close()
		status <- s
	}()
	return status
}
