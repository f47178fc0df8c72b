package session

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxSyntaxText bounds what is kept of what bash says about a command.
const maxSyntaxText = 4 << 10

// check lets bash parse a command without running it. What the command itself
// would change about parsing, aliases and options, isn't known: patterns of
// extglob are taken.
func (c *Config) check(ctx context.Context, text string) error {
	if simple(text) {
		return nil
	}
	script, err := memfile(text)
	if err != nil {
		return &StartError{Err: err}
	}
	defer script.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	said, exit, err := c.capture(ctx, maxSyntaxText, []string{c.Shell, "--noprofile", "--norc", "-O", "extglob", "-n"}, script, 2)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &StartError{Err: errors.New("the syntax can't be checked in time")}
	case err != nil:
		return &StartError{Err: err}
	case exit.Signal == 0 && exit.Code == 0:
		return nil // warnings are for the command's own standard error
	}
	return &SyntaxError{Text: strings.TrimSpace(strings.ReplaceAll(string(said), c.Shell+": ", "bash: "))}
}

// keywords are words that mean something to the parser by themselves.
var keywords = []string{
	"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select", "function", "time", "coproc",
}

// simple reports whether a command is so plain that it parses.
func simple(text string) bool {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(" _@%+=:,./-", r)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return false
	}
	return !slices.ContainsFunc(strings.Fields(text), func(word string) bool { return slices.Contains(keywords, word) })
}

// memfile is a file without a name.
func memfile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	if _, err := io.WriteString(f, text); err != nil {
		_ = f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// capture runs a program to its end, and returns what it writes to one
// descriptor, at most limit bytes. Its other ones, but for standard input, are
// the null device. When ctx is done the program is killed.
func (c *Config) capture(ctx context.Context, limit int64, args []string, stdin *os.File, fd int) ([]byte, Exit, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, Exit{}, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, Exit{}, err
	}
	defer r.Close()
	files := []*os.File{null, null, null}
	if stdin != nil {
		files[0] = stdin
	}
	if fd < len(files) {
		files[fd] = w
	} else {
		files = append(files, w)
	}
	proc, err := c.Starter.StartProgram(ctx, Program{Args: args, Env: withoutStartup(c.Env), Dir: c.Dir, Files: files})
	_ = w.Close()
	if err != nil {
		return nil, Exit{}, err
	}
	type outcome struct {
		exit Exit
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		exit, err := proc.Wait()
		ended <- outcome{exit, err}
	}()
	read := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(r, limit)) // closed below
		_, _ = io.Copy(io.Discard, r)
		read <- b
	}()
	var o outcome
	select {
	case o = <-ended:
	case <-ctx.Done():
		_ = proc.Kill() // it was asked for nothing that lasts
		_ = r.Close()
		return nil, Exit{}, ctx.Err()
	}
	_ = r.SetReadDeadline(deadline(ctx)) // somebody may hold it open
	return <-read, o.exit, o.err
}

// deadline is when output of a program that has ended isn't waited for any
// longer.
func deadline(ctx context.Context) time.Time {
	at := time.Now().Add(drainMax)
	if d, ok := ctx.Deadline(); ok && d.Before(at) {
		return d
	}
	return at
}
