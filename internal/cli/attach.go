package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// sizeOf is the size of the terminal that this program is at, or a usual one.
func sizeOf(f *os.File) runner.Size {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Row == 0 || w.Col == 0 {
		return runner.Size{Rows: 24, Cols: 80}
	}
	return runner.Size{Rows: w.Row, Cols: w.Col}
}

// attach hands what is typed at this program's terminal to the command's, byte
// by byte, so that Ctrl-C is the command's, and its size. It does nothing where
// standard input is no terminal. The function that it returns ends that.
func attach(e *runner.Execution) (detach func()) {
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || !isTerminal(os.Stdout) {
		return func() {}
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &raw) != nil {
		return func() {}
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-resized:
				_ = e.Resize(sizeOf(os.Stdin)) // it may have ended
			case <-stop:
				return
			}
		}
	}()
	go feed(e, os.Stdin, true)
	return func() {
		close(stop)
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, old)
	}
}
