// Package denial finds out what a sandbox refused, from what a failed command
// printed: it costs nothing while the command runs.
//
// A line counts if it has one of the usual forms in which coreutils, shells,
// git, compilers, archivers and the runtimes of Go, Python, Node, Rust, Java and
// others report a file error, with an error that a refusal has; if the sandbox
// refuses the path in it; and if by its own permissions the path could have been
// used. All else is no denial: nothing is guessed.
//
// # Limitations
//
// A command that succeeds although something was refused, or that prints no
// path, or one relative to a folder that it has changed to, isn't understood.
// A program that prints such a line about a path that is refused, without having
// touched it, is believed.
package denial

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

const (
	// lines bounds how many lines of a stream are looked at, the last ones.
	lines = 200
	// most bounds how many denials are named.
	most = 8
	// lineBytes bounds what is kept of a line, longLine what is looked at.
	lineBytes = 512
	longLine  = 8192
)

// Command is a command that failed.
type Command struct {
	// Text is the shell command, if it is one.
	Text string
	// Dir is where it started: relative paths are taken to be there.
	Dir string
	// Code is its exit code; that of a signal is of no matter.
	Code int
	// Stderr and Stdout are what it printed last. On standard output only the
	// errors of runtimes count, as reports of failed tests have them.
	Stderr, Stdout []byte
}

// Denial is something that was refused.
type Denial struct {
	// Answer says what the sandbox thinks of the path.
	*launch.Answer
	// Line is the line of output that tells of it.
	Line string
}

// Find returns what a failed command was refused, each path once. Ask says what
// the sandbox lets a command do with an absolute path, as
// [launch.Sandbox.Why] does.
func Find(c *Command, ask func(path string, op policy.Op) *launch.Answer) (denials []Denial) {
	f := finder{c: c, ask: ask}
	f.stream(c.Stderr, true)
	f.stream(c.Stdout, false)
	return f.found
}

type finder struct {
	c     *Command
	ask   func(path string, op policy.Op) *launch.Answer
	found []Denial
}

// stream looks at one stream: for every form that is known, or for those of
// runtimes.
func (f *finder) stream(output []byte, all bool) {
	split := bytes.Split(bytes.TrimRight(output, "\n"), []byte("\n"))
	split = split[max(0, len(split)-lines):]
	text := make([]string, len(split))
	for i, line := range split {
		text[i] = clean(line)
	}
	for i := range text {
		for _, m := range mentions(text, i, all) {
			if len(f.found) == most {
				return
			}
			if f.judge(m, text[i]) {
				break
			}
		}
	}
}

// judge reports whether a mention is of something that was refused.
func (f *finder) judge(m mention, line string) bool {
	path := m.path
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.c.Dir, path)
	}
	path = filepath.Clean(path)
	if slices.ContainsFunc(f.found, func(d Denial) bool { return string(d.Path) == path }) {
		return true
	}
	if m.execute && f.executing(path) || !folderThere(path, m.op) {
		return false
	}
	a := f.ask(path, m.op)
	if a == nil || a.Allowed || ofKernel(a) || !a.Permitted || !fits(m.kind, a) {
		return false
	}
	if len(line) > lineBytes {
		line = strings.ToValidUTF8(line[:lineBytes], "")
	}
	f.found = append(f.found, Denial{Answer: a, Line: line})
	return true
}

// fits reports whether a refusal has such an error: only a mount makes something
// read-only, or busy.
func fits(k kind, a *launch.Answer) bool {
	switch k {
	case busy:
		return a.Reason == policy.ReasonProtected
	case denied:
		return a.Reason != policy.ReasonProtected
	}
	return true
}

// ofKernel reports whether a path is one of the kernel's, which refuses much by
// itself.
func ofKernel(a *launch.Answer) bool {
	for _, path := range []policy.Path{a.Path, a.Real} {
		if strings.HasPrefix(string(path), "/proc/") || strings.HasPrefix(string(path), "/sys/") {
			return true
		}
	}
	return false
}

// executing reports whether a path can't be executed, and that was meant, as far
// as can be told.
func (f *finder) executing(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFREG &&
		unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil {
		return false
	}
	const cannotExecute = 126
	return f.c.Code == cannotExecute || !strings.Contains(f.c.Text, ">")
}

// folderThere reports whether a path's folder exists, so that the path may have
// been meant. Making a folder makes its parents, but not right below the root.
func folderThere(path string, op policy.Op) bool {
	dir := filepath.Dir(path)
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	for op == policy.OpMkdir && errors.Is(err, unix.ENOENT) && filepath.Dir(dir) != "/" {
		dir = filepath.Dir(dir)
		err = unix.Stat(dir, &st)
	}
	return err == nil
}

// colours are what a program writes for a terminal.
var colours = lazily("\x1b\\[[0-9;?]*[A-Za-z]")

func clean(line []byte) string {
	if len(line) > longLine {
		return ""
	}
	if bytes.IndexByte(line, '\x1b') >= 0 {
		line = colours().ReplaceAll(line, nil)
	}
	return strings.TrimRight(string(line), " \t\r")
}

// lazily compiles an expression when it is first wanted: most commands succeed.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
