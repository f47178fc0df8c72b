package cli

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// signalText is a signal's name.
func signalText(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}

// columns is how wide a terminal is, 0 if it is none.
func columns(f *os.File) int {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(w.Col)
}

// plain reports whether a terminal shall get text alone.
func plain() bool {
	t := os.Getenv("TERM")
	return t == "" || t == "dumb"
}
