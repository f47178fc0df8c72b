package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"github.com/shofer-dev/shofer-sandbox/runner/pty"
	"golang.org/x/sys/unix"
)

// files are a command's descriptors: its ends, and the caller's.
type files struct {
	// The command's: a nil stdin is the null device.
	stdin, stdout, stderr *os.File
	extra                 []*os.File
	terminal              *pty.Terminal
	input                 input
	stages                *os.File // where bash says how they ended; nil if it isn't asked

	streams runner.Streams
	ours    []io.Closer
}

// openFiles makes what a spec asks for.
func openFiles(s *runner.Spec) (_ *files, err error) {
	f := &files{}
	defer func() {
		if err != nil {
			f.closeChild()
			_ = f.Close()
		}
	}()
	if s.Script != nil {
		script, err := scriptFile(s.Script)
		if err != nil {
			return nil, err
		}
		f.extra = []*os.File{script}
	}
	if s.PipeStatus {
		if err := f.openStages(); err != nil {
			return nil, err
		}
	}
	if s.Terminal != nil {
		t, err := pty.Open(pty.Options{Size: pty.Size{Rows: s.Terminal.Rows, Cols: s.Terminal.Cols}})
		if err != nil {
			return nil, err
		}
		f.terminal, f.ours = t, append(f.ours, t)
		f.stdin, f.stdout, f.stderr = t.Child(), t.Child(), t.Child()
		f.input = inputOf(t.Child())
		f.streams = runner.Streams{Stdin: t, Stdout: t.Host()}
		return f, nil
	}
	if s.OpenStdin || s.Stdin != nil {
		in, out, err := pipe(true)
		if err != nil {
			return nil, err
		}
		f.stdin, f.streams.Stdin, f.ours = in, out, append(f.ours, out)
		f.input = inputOf(out)
	}
	in, out, err := capture.NewPipe()
	if err != nil {
		return nil, err
	}
	f.stdout, f.stderr, f.streams.Stdout, f.ours = out, out, in, append(f.ours, in)
	if s.Merge {
		return f, nil
	}
	in, out, err = capture.NewPipe()
	if err != nil {
		return nil, err
	}
	f.stderr, f.streams.Stderr, f.ours = out, in, append(f.ours, in)
	return f, nil
}

// openStages makes the file for what bash says of a pipeline's stages.
func (f *files) openStages() error {
	fd, err := unix.MemfdCreate("stages", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f.stages = os.NewFile(uintptr(fd), "stages")
	f.ours = append(f.ours, f.stages)
	theirs, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	f.extra = append(f.extra, os.NewFile(uintptr(theirs), "stages"))
	return nil
}

// pipeStatus is what bash has said, nil if that makes no sense.
func (f *files) pipeStatus() (codes []int) {
	if f.stages == nil {
		return nil
	}
	var buf [4096]byte
	n, _ := f.stages.ReadAt(buf[:], 0)
	for _, word := range strings.Fields(string(buf[:n])) {
		code, err := strconv.ParseUint(word, 10, 8)
		if err != nil {
			return nil
		}
		codes = append(codes, int(code))
	}
	return codes
}

// pipe returns a pipe whose one end, the writing one if ours is that, is
// watched by the poller. The other one is the command's, which expects that it
// waits.
func pipe(writing bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := fds[0]
	if writing {
		ours = fds[1]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// scriptFile returns a file in memory that nobody can change any more.
func scriptFile(script []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	if _, err := f.Write(script); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("seal the script: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// closeChild closes the command's ends, which it has by now.
func (f *files) closeChild() {
	if f.terminal != nil {
		_ = f.terminal.CloseChild()
		f.stdin, f.stdout, f.stderr = nil, nil, nil
	}
	if f.stdin != nil {
		_ = f.stdin.Close()
	}
	if f.stderr != nil && f.stderr != f.stdout {
		_ = f.stderr.Close()
	}
	if f.stdout != nil {
		_ = f.stdout.Close()
	}
	for _, x := range f.extra {
		_ = x.Close()
	}
}

// Close closes the caller's ends. What waits for them returns.
func (f *files) Close() error {
	for _, c := range f.ours {
		_ = c.Close() // of a pipe, after which nobody asks
	}
	return nil
}

func (f *files) close() { _ = f.Close() }

func (f *files) resize(s runner.Size) error {
	if f.terminal == nil {
		return runner.ErrNoTerminal
	}
	return f.terminal.Resize(pty.Size{Rows: s.Rows, Cols: s.Cols})
}
