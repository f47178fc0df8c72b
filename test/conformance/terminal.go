package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminalTries are made by a command that shares its caller's terminal.
var terminalTries = []struct {
	check
	run func() error
}{
	{check{"control", "terminal", true}, func() error {
		_, err := unix.IoctlGetTermios(0, unix.TCGETS)
		return err
	}},
	{check{"control", "terminal-size", true}, func() error {
		w, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err == nil && (w.Row != rows || w.Col != columns) {
			err = fmt.Errorf("the size is %dx%d", w.Row, w.Col)
		}
		return err
	}},
	{check{"control", "terminal-mode", true}, func() error {
		t, err := unix.IoctlGetTermios(0, unix.TCGETS)
		if err != nil {
			return err
		}
		return unix.IoctlSetTermios(0, unix.TCSETS, t)
	}},
	{check{"control", "terminal-by-name", true}, func() error { return openFor("/dev/tty", os.O_RDWR) }},
	{check{"terminal", "inject", false}, func() error { return inject(0, unix.TIOCSTI) }},
	{check{"terminal", "inject-high-bits", false}, func() error { return inject(0, unix.TIOCSTI|1<<32) }},
	{check{"terminal", "inject-by-name", false}, func() error {
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return inject(int(f.Fd()), unix.TIOCSTI)
	}},
	{check{"terminal", "console-selection", false}, func() error {
		return inject(0, unix.TIOCLINUX)
	}},
}

const rows, columns = 33, 77

// inject asks for a character to be put into a terminal's input. For a console
// the byte is the number of a subfunction, which asks only.
func inject(fd int, request uint64) error {
	b := byte('x')
	if request == unix.TIOCLINUX {
		b = 6 // which key is pressed
	}
	return ioctl(fd, request, &b)
}

func terminalChecks() (checks []check) {
	for _, t := range terminalTries {
		checks = append(checks, t.check)
	}
	return checks
}

// terminalMain makes the tries and leaves what came of them in a file: what it
// prints goes to the terminal.
func terminalMain(args []string) int {
	var all []outcome
	for _, t := range terminalTries {
		all = append(all, outcomeOf(t.check, t.run()))
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(args[0], b, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return 0
}

// terminalSession runs that on a terminal of its own.
func terminalSession(ctx context.Context, a *arena, l launcher, want func(check) bool) ([]outcome, error) {
	var checks []check
	for _, c := range terminalChecks() {
		if want(c) {
			checks = append(checks, c)
		}
	}
	if checks == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	ptmx, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer ptmx.Close()
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		return nil, errors.Join(err, tty.Close())
	}
	file := filepath.Join(a.in(), "terminal.json")
	cmd := l.command(ctx, a, a.Self, "conformance-terminal", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	tty.Close()
	if err != nil {
		return nil, err
	}
	said := make(chan string, 1)
	go func() {
		var text strings.Builder
		buf := make([]byte, 1024)
		for {
			n, err := ptmx.Read(buf)
			text.Write(buf[:n])
			if err != nil { // EIO is its end
				break
			}
		}
		said <- text.String()
	}()
	waitErr := cmd.Wait()
	var got []outcome
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		ptmx.Close()
		return lose(checks, fmt.Sprintf("%v: %s", waitErr, lastLine(<-said))), nil
	}
	return choose(got, want), nil
}

// choose returns the outcomes that are wanted.
func choose(all []outcome, want func(check) bool) (chosen []outcome) {
	for _, o := range all {
		family, name, _ := strings.Cut(o.Check, "/")
		if want(check{family: family, name: name}) {
			chosen = append(chosen, o)
		}
	}
	return chosen
}

// lose makes outcomes of which nothing came back.
func lose(checks []check, why string) (all []outcome) {
	for _, c := range checks {
		all = append(all, outcome{Check: c.String(), Lost: why})
	}
	return all
}
