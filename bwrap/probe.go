package bwrap

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// probeTime bounds all of a [Probe].
	probeTime = 10 * time.Second
	// drainTime bounds the wait for output that a child outside of the group
	// holds open.
	drainTime = 500 * time.Millisecond
)

// Probe finds bwrap as [Find] does and runs it, to make a sandbox as it will be
// used, in which it prints its version. If that fails, it tries with less, and
// says what is missing: [Support.Reason] if nothing works.
//
// It takes a few milliseconds where all is well and ends in any case within ten
// seconds or so. Starting a command tells the same: a caller that wants speed
// probes after a start that failed.
func Probe(ctx context.Context, path string) Support {
	s := Find(path)
	if !s.Usable() {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	p := prober{ctx: ctx, path: s.Path}
	// As root a user namespace is made only where it doesn't work without.
	users := []bool{s.UserNS}
	if s.Root && !s.UserNS {
		users = append(users, true)
	}
	for _, user := range users {
		for _, with := range []struct{ pid, net bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
			v, err := p.sandbox(s.Root && user, with.pid, with.net)
			if err != nil {
				continue
			}
			s.Version, s.UserNS, s.PidNS, s.NetNS, s.Tried = v, user, with.pid, with.net, true
			if v.less(oldest) {
				return p.failed(s, TooOld)
			}
			return s
		}
	}
	return p.why(s)
}

// prober runs one bwrap.
type prober struct {
	ctx  context.Context //nolint:containedctx // it lives for one call
	path string
	// first are the words of the first failure, which was about the most.
	first string
}

var errVersion = errors.New("it doesn't say its version")

// sandbox runs bwrap in a sandbox of its own making.
func (p *prober) sandbox(user, pid, net bool) (Version, error) {
	l := Layout{NewUser: user, NewPid: pid, NewNet: net, Options: Options{Watched: true}} // it ends by itself
	args, err := l.Args(Descriptors{})
	if err != nil {
		return Version{}, err
	}
	return p.version(append(args, "--", p.path, "--version")...)
}

// version runs bwrap, which is to print its version and nothing else.
func (p *prober) version(args ...string) (Version, error) {
	out, words, err := p.run(args...)
	if err != nil {
		if p.first == "" {
			p.first = words
		}
		return Version{}, err
	}
	v, ok := ParseVersion(out)
	if !ok {
		return Version{}, errVersion
	}
	return v, nil
}

// why finds out why nothing worked.
func (p *prober) why(s Support) Support {
	words := p.first
	v, err := p.version("--version")
	switch {
	case p.ctx.Err() != nil:
		s.Detail = words
		return p.failed(s, TimedOut)
	case err != nil:
		s.Detail = err.Error()
		return p.failed(s, Broken)
	case v.less(oldest):
		s.Version = v
		return p.failed(s, TooOld)
	}
	s.Version, s.Detail = v, words
	return p.failed(s, collect(s, p.tryUserNS).cause())
}

func (p *prober) failed(s Support, c Cause) Support {
	s.Cause = c
	s.UserNS, s.PidNS, s.NetNS, s.Tried = false, false, false, true
	return s
}

// tryUserNS makes a user namespace for a program that does nothing in it, and
// returns what the kernel says.
func (p *prober) tryUserNS() error {
	cmd := p.command("--version")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = cmd.Wait() // it was made; how the program gets along in it is another matter
	return nil
}

func (p *prober) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.ctx, p.path, args...)
	cmd.Env, cmd.Dir = []string{"LC_ALL=C"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = drainTime
	return cmd
}

// run runs bwrap to its end and returns its output, and its last words if it
// failed. What it leaves behind in its process group is killed.
func (p *prober) run(args ...string) (out, words string, err error) {
	cmd := p.command(args...)
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return "", err.Error(), err
	}
	// Until it is reaped the number of its group can't be another's.
	if awaitExit(cmd.Process.Pid) == nil {
		_ = killGroup(cmd.Process)
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has succeeded; what it said is there, whoever else could say something
	}
	if err != nil {
		words = lastLine(stderr.b.String())
		if words == "" {
			words = err.Error()
		}
	}
	return stdout.b.String(), words, err
}

// awaitExit waits for a child to exit, and doesn't reap it.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// limited keeps the beginning of what is written to it.
type limited struct{ b bytes.Buffer }

// wordsLimit bounds what is kept of bwrap's output.
const wordsLimit = 4 << 10

func (l *limited) Write(p []byte) (int, error) {
	if room := wordsLimit - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// lastLine returns the last line of a text, without what can't be printed.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, text)
}
