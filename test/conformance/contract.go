package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// contract is a control of how a launcher stands before a command.
type contract struct {
	name string
	run  func(ctx context.Context, a *arena, l launcher) error
}

// expect runs a shell line by the launcher and compares how it ends.
func expect(line string, code int, stdout string) func(context.Context, *arena, launcher) error {
	return func(ctx context.Context, a *arena, l launcher) error {
		cmd := l.command(ctx, a, "/bin/sh", "-c", line)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return err
		}
		got := cmd.ProcessState.ExitCode()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			got = 128 + int(ws.Signal())
		}
		if got != code || out.String() != stdout {
			return fmt.Errorf("exit %d, output %q; want %d, %q (%s)", got, out.String(), code, stdout, lastLine(errs.String()))
		}
		return nil
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// oddArgs are arguments that a careless launcher changes.
var oddArgs = []string{"", " ", "a b", "two\nlines", "--help", "-", "--", "*", `"'\`, "$HOME", "\xff\xfe"}

// contracts are all there are.
func contracts() []contract {
	list := []contract{
		{"exit-code", expect("exit 7", 7, "")},
		{"exit-code-125", expect("exit 125", 125, "")},
		{"death-by-signal", expect("kill -KILL $$", 128+9, "")},
		{"output", expect("printf '%s\\n' one two", 0, "one\ntwo\n")},
		{"working-directory", func(ctx context.Context, a *arena, l launcher) error {
			return expect("pwd -P", 0, a.Tree+"\n")(ctx, a, l)
		}},
		{"input", func(ctx context.Context, a *arena, l launcher) error {
			data := bytes.Repeat([]byte("\x00\x01\r\n\xff"), 20000)
			cmd := l.command(ctx, a, "/bin/cat")
			cmd.Stdin = bytes.NewReader(data)
			out, err := cmd.Output()
			if err == nil && !bytes.Equal(out, data) {
				err = fmt.Errorf("%d of %d bytes came back, or others", len(out), len(data))
			}
			return err
		}},
		{"arguments", func(ctx context.Context, a *arena, l launcher) error {
			cmd := l.command(ctx, a, append([]string{"/usr/bin/printf", `%s\0`}, oddArgs...)...)
			out, err := cmd.Output()
			if want := strings.Join(oddArgs, "\x00") + "\x00"; err == nil && string(out) != want {
				err = fmt.Errorf("the arguments are %q; want %q", out, want)
			}
			return err
		}},
		{"not-found", endsWith(127, "/nonexistent/command")},
		{"pipe-descriptor", func(ctx context.Context, a *arena, l launcher) error {
			r, w, err := os.Pipe()
			if err != nil {
				return err
			}
			defer r.Close()
			cmd := l.command(ctx, a, "/bin/sh", "-c", "echo through >&3")
			cmd.ExtraFiles = []*os.File{w}
			err = cmd.Run()
			w.Close()
			got, readErr := io.ReadAll(r)
			if err = errors.Join(err, readErr); err == nil && string(got) != "through\n" {
				err = fmt.Errorf("%q came through", got)
			}
			return err
		}},
	}
	for name, sig := range map[string]syscall.Signal{"signal-term": unix.SIGTERM, "signal-int": unix.SIGINT, "signal-hup": unix.SIGHUP} {
		list = append(list, contract{name, signalled(sig)})
	}
	return list
}

func contractChecks() (checks []check) {
	for _, c := range contracts() {
		checks = append(checks, check{"control", c.name, true})
	}
	return checks
}

// endsWith wants an exit code, whatever is said.
func endsWith(code int, args ...string) func(context.Context, *arena, launcher) error {
	return func(ctx context.Context, a *arena, l launcher) error {
		cmd := l.command(ctx, a, args...)
		err := cmd.Run()
		if cmd.ProcessState == nil && l.words != nil {
			return err
		}
		got := 127 // of what wasn't even started
		if cmd.ProcessState != nil {
			got = cmd.ProcessState.ExitCode()
		}
		if got != code {
			return fmt.Errorf("exit %d; want %d", got, code)
		}
		return nil
	}
}

// signalled sends the launcher a signal that its command handles.
func signalled(sig syscall.Signal) func(context.Context, *arena, launcher) error {
	return func(ctx context.Context, a *arena, l launcher) error {
		cmd := l.command(ctx, a, a.Self, "conformance-contract")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		ready := make([]byte, len(readyLine))
		_, err = io.ReadFull(out, ready)
		if err == nil {
			err = cmd.Process.Signal(sig)
		}
		said := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(out) // what came is compared
			said <- string(b)
		}()
		select {
		case got := <-said:
			if err == nil && got != sig.String()+"\n" {
				err = fmt.Errorf("the command says %q; want %q", got, sig)
			}
		case <-time.After(contractTime):
			err = errors.Join(err, errors.New("nothing arrived"))
			_ = cmd.Process.Kill()
			_ = cmd.Process.Release()
			return err
		}
		_ = cmd.Wait() // it said what counts
		return err
	}
}

const (
	readyLine = "ready\n"
	// contractTime bounds the wait for a signal.
	contractTime = 10 * time.Second
)

// contractMain says which signal reached it.
func contractMain([]string) int {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	fmt.Print(readyLine)
	select {
	case s := <-ch:
		fmt.Println(s)
		return 0
	case <-time.After(2 * contractTime):
		return 1
	}
}

// contractSession runs the contracts one after the other.
func contractSession(ctx context.Context, a *arena, l launcher, want func(check) bool) []outcome {
	var all []outcome
	for _, c := range contracts() {
		ch := check{"control", c.name, true}
		if want(ch) {
			ctx, cancel := context.WithTimeout(ctx, sessionTime)
			all = append(all, outcomeOf(ch, c.run(ctx, a, l)))
			cancel()
		}
	}
	return all
}
