package bwrap

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

const (
	// maxArgs is where bwrap stops: it counts the options in the --args file
	// and everything on its command line, the inner stage's arguments too.
	maxArgs = 9000
	// maxInner are the arguments that [Command] takes for the inner stage.
	maxInner = 96
	// lineArgs are the arguments that Command adds.
	lineArgs = 4
)

// TooManyError says that bwrap would refuse so many arguments.
type TooManyError struct {
	// Count are the arguments that it takes, of which Limit are possible.
	Count, Limit int
	// Mounts are those that need up to three arguments each.
	Mounts int
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("bwrap: %d mounts take %d arguments, and bubblewrap takes at most %d", e.Mounts, e.Count, e.Limit)
}

// Descriptors are what the options refer to, by the numbers that they have in
// bwrap. None of them may be close-on-exec there. bwrap closes them before it
// executes the inner stage.
type Descriptors struct {
	// Status is a pipe for what [StatusReader] reads. Zero is none.
	Status int
	// Empty are open empty files, [Layout.EmptyFiles] of them, each open on
	// its own.
	Empty []int
}

var errEmptyFiles = errors.New("bwrap: a descriptor of an empty file is needed for each hidden file")

// EmptyFiles returns how many descriptors of empty files [Layout.Args] needs:
// one for each file that is hidden.
func (l *Layout) EmptyFiles() (n int) {
	for _, s := range l.plan() {
		if s.empty {
			n++
		}
	}
	return n
}

// Args returns bwrap's options, for [ArgsFile]. It looks at nothing outside of
// l. Options that bwrap would take for too many are a [*TooManyError]. Paths
// may have any bytes but NUL.
//
// What is granted inside something granted adds nothing. A mount comes after
// that of what it lies in, so none hides a grant.
func (l *Layout) Args(fd Descriptors) ([]string, error) {
	steps := l.plan()
	args := make([]string, 0, 32+3*len(steps))
	for _, f := range []struct {
		on     bool
		option string
	}{
		{!l.Options.Watched, "--die-with-parent"},
		{l.NewUser, "--unshare-user"},
		{l.NewPid, "--unshare-pid"},
		{l.NewPid && l.Options.Init, "--as-pid-1"},
		{l.NewNet, "--unshare-net"},
		{l.Options.NewSession, "--new-session"},
	} {
		if f.on {
			args = append(args, f.option)
		}
	}
	args = append(args, l.capArgs()...)
	if fd.Status != 0 {
		args = append(args, "--json-status-fd", strconv.Itoa(fd.Status))
	}
	mounts := 0
	for _, s := range steps {
		args = append(args, s.option)
		mounts++
		if s.empty {
			if len(fd.Empty) == 0 {
				return nil, errEmptyFiles
			}
			s.args[0], fd.Empty = strconv.Itoa(fd.Empty[0]), fd.Empty[1:]
		}
		for _, a := range s.args {
			if a != "" {
				args = append(args, a)
			}
		}
	}
	dir := l.Options.Dir
	if dir == "" {
		dir = "/"
	}
	args = append(args, "--chdir", dir)
	if i := slices.IndexFunc(args, hasNUL); i >= 0 {
		return nil, fmt.Errorf("bwrap: %q contains a NUL byte", args[i])
	}
	if limit := maxArgs - maxInner - lineArgs; len(args) > limit {
		return nil, &TooManyError{Count: len(args), Limit: limit, Mounts: mounts}
	}
	return args, nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// capArgs keeps l.Caps and nothing else. Without it bwrap leaves root all
// capabilities, with which the command could undo the mounts.
func (l *Layout) capArgs() []string {
	if l.Caps == nil || l.KeepCaps {
		return nil
	}
	args := []string{"--cap-drop", "ALL"}
	for _, name := range policy.Capabilities() {
		if slices.Contains(l.Caps, name) {
			args = append(args, "--cap-add", "CAP_"+strings.ToUpper(name))
		}
	}
	return args
}

// Command returns the command line of bwrap, its path first. Args is the
// descriptor of the options ([ArgsFile]), inner one of the program to execute.
// Both must be open in bwrap, and not close-on-exec; inner stays open in the
// program. Arguments for it are few: what can be long, such as the command,
// reaches it by a descriptor, since bwrap counts them.
func Command(path string, args, inner int, arg ...string) ([]string, error) {
	if len(arg) > maxInner {
		return nil, &TooManyError{Count: len(arg), Limit: maxInner}
	}
	line := make([]string, 0, 1+lineArgs+len(arg))
	line = append(line, path, "--args", strconv.Itoa(args), "--", "/proc/self/fd/"+strconv.Itoa(inner))
	return append(line, arg...), nil
}
