package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// attempt is something that a promise forbids.
type attempt struct {
	promise policy.Promise
	what    string
	// do returns nil when it could be done, and errNotHere when this machine
	// has nothing to do it to.
	do func(s *scene, dir string) error
}

func (a attempt) name() string { return string(a.promise) + "-" + a.what }

var errNotHere = errors.New("nothing to try it on")

// outcome is what came of an attempt.
type outcome struct {
	Promise policy.Promise
	What    string
	Text    string        // the error; empty if it could be done
	Errno   syscall.Errno // in the error
	Skipped bool
}

// attemptMain makes all attempts, and prints what came of them.
func attemptMain(args []string) int {
	var s scene
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var outcomes []outcome
	for _, a := range attempts {
		o := outcome{Promise: a.promise, What: a.what}
		err := a.do(&s, s.folder(a))
		switch {
		case errors.Is(err, errNotHere):
			o.Skipped = true
		case err != nil:
			o.Text = err.Error()
			_ = errors.As(err, &o.Errno) // stays 0 if there is none, which is no refusal
		}
		outcomes = append(outcomes, o)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcomes); err != nil {
		return 2
	}
	return 0
}

// inTree is an attempt's folder in the worktree.
func (s *scene) inTree(a, name string) string { return filepath.Join(s.In, a, name) }

// leakedFD is open for writing when the attempts begin: a file outside, as a
// careless caller leaves one open.
const leakedFD = 4

var leakedDescriptor = attempt{policy.PromiseWrite, "leaked-descriptor", func(_ *scene, d string) error {
	var here, there unix.Stat_t
	if err := unix.Stat(d+"/file", &there); err != nil {
		return err
	}
	if err := unix.Fstat(leakedFD, &here); err != nil || here.Ino != there.Ino || here.Dev != there.Dev {
		return unix.EBADF // or the number is something else's by now
	}
	_, err := unix.Write(leakedFD, []byte("more"))
	return err
}}

// attempts are all there are. Control is the promise of what must work inside.
var attempts = []attempt{
	{policy.PromiseWrite, "create", func(_ *scene, d string) error { return openFor(d+"/new", os.O_WRONLY|os.O_CREATE) }},
	{policy.PromiseWrite, "open", func(_ *scene, d string) error { return openFor(d+"/file", os.O_WRONLY) }},
	{policy.PromiseWrite, "open-both", func(_ *scene, d string) error { return openFor(d+"/file", os.O_RDWR) }},
	{policy.PromiseWrite, "open-append", func(_ *scene, d string) error { return openFor(d+"/file", os.O_WRONLY|os.O_APPEND) }},
	{policy.PromiseWrite, "open-truncate", func(_ *scene, d string) error { return openFor(d+"/file", os.O_RDONLY|os.O_TRUNC) }},
	{policy.PromiseWrite, "truncate", func(_ *scene, d string) error { return unix.Truncate(d+"/file", 0) }},
	{policy.PromiseWrite, "unlink", func(_ *scene, d string) error { return unix.Unlink(d + "/file") }},
	{policy.PromiseWrite, "mkdir", func(_ *scene, d string) error { return unix.Mkdir(d+"/new", 0o755) }},
	{policy.PromiseWrite, "rmdir", func(_ *scene, d string) error { return unix.Rmdir(d + "/empty") }},
	{policy.PromiseWrite, "symlink", func(_ *scene, d string) error { return unix.Symlink("file", d+"/new") }},
	{policy.PromiseWrite, "fifo", func(_ *scene, d string) error { return unix.Mkfifo(d+"/new", 0o600) }},
	{policy.PromiseWrite, "socket", func(_ *scene, d string) error { return bindSocket(d + "/new") }},
	{policy.PromiseWrite, "rename", func(_ *scene, d string) error { return unix.Rename(d+"/file", d+"/new") }},
	{policy.PromiseWrite, "rename-in", func(s *scene, d string) error {
		return unix.Rename(d+"/file", s.inTree("write-rename-in", "new"))
	}},
	{policy.PromiseWrite, "rename-out", func(s *scene, d string) error {
		return moved(s.inTree("write-rename-out", "own"), d+"/new", unix.Rename)
	}},
	{policy.PromiseWrite, "link-in", func(s *scene, d string) error {
		return unix.Link(d+"/file", s.inTree("write-link-in", "new"))
	}},
	{policy.PromiseWrite, "link-out", func(s *scene, d string) error {
		return moved(s.inTree("write-link-out", "own"), d+"/new", unix.Link)
	}},
	{policy.PromiseWrite, "exchange", func(s *scene, d string) error {
		return moved(s.inTree("write-exchange", "own"), d+"/file", func(from, to string) error {
			return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		})
	}},
	{policy.PromiseWrite, "by-symlink", func(s *scene, d string) error {
		link := s.inTree("write-by-symlink", "link")
		return errors.Join(unix.Symlink(d+"/file", link), openFor(link, os.O_WRONLY))
	}},
	{policy.PromiseWrite, "by-descriptor", func(_ *scene, d string) error {
		if _, err := os.Stat("/proc/self"); err != nil {
			return errNotHere
		}
		f, err := os.Open(d + "/file")
		if err != nil {
			return err
		}
		defer f.Close()
		return openFor("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), os.O_WRONLY)
	}},
	{policy.PromiseWrite, "by-thread", func(_ *scene, d string) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with it
			done <- openFor(d+"/file", os.O_WRONLY)
		}()
		return <-done
	}},
	{policy.PromiseWrite, "by-child", func(_ *scene, d string) error {
		out, err := exec.Command("/bin/sh", "-c", `echo more >>"$1"`, "sh", d+"/file").CombinedOutput()
		said := strings.ToLower(string(out)) // all that a shell tells is a text
		for _, e := range refusals(policy.PromiseWrite) {
			if err != nil && strings.Contains(said, e.Error()) {
				return e
			}
		}
		if strings.Contains(said, "nonexistent") { // dash's word
			return unix.ENOENT
		}
		return err
	}},
	leakedDescriptor,

	{policy.PromiseRead, "open", func(_ *scene, d string) error { return openFor(d+"/file", os.O_RDONLY) }},
	{policy.PromiseRead, "list", func(_ *scene, d string) error {
		_, err := os.ReadDir(d)
		return err
	}},

	{policy.PromiseProtect, "hook", func(s *scene, _ string) error {
		return openFor(s.Common+"/hooks/post-commit", os.O_WRONLY|os.O_CREATE)
	}},
	{policy.PromiseProtect, "config", func(s *scene, _ string) error {
		return openFor(s.Common+"/config", os.O_WRONLY|os.O_APPEND)
	}},
	{policy.PromiseProtect, "hooks-away", func(s *scene, _ string) error {
		return thereAndBack(s.Common+"/hooks", s.Common+"/away")
	}},
	{policy.PromiseProtect, "pointer", func(s *scene, _ string) error {
		return openFor(s.Tree+"/.git", os.O_WRONLY)
	}},
	{policy.PromiseProtect, "pointer-away", func(s *scene, _ string) error {
		return thereAndBack(s.Tree+"/.git", s.Tree+"/away")
	}},
	{policy.PromiseProtect, "commondir", func(s *scene, _ string) error {
		return openFor(s.GitDir+"/commondir", os.O_WRONLY)
	}},

	{policy.PromiseMetadata, "chmod", func(_ *scene, d string) error { return unix.Chmod(d+"/file", 0o600) }},
	{policy.PromiseMetadata, "chown", func(_ *scene, d string) error { return unix.Chown(d+"/file", os.Getuid(), os.Getgid()) }},
	{policy.PromiseMetadata, "times", func(_ *scene, d string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, d+"/file", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	}},
	{policy.PromiseMetadata, "xattr", func(_ *scene, d string) error {
		err := unix.Setxattr(d+"/file", "user.test", []byte("x"), 0)
		if errors.Is(err, unix.ENOTSUP) {
			return errNotHere
		}
		return err
	}},

	{policy.PromiseDeviceIoctl, "device", func(*scene, string) error { return deviceIoctl() }},

	{policy.PromiseSignals, "kill", func(s *scene, _ string) error { return unix.Kill(s.Other.Pid, unix.SIGUSR1) }},
	{policy.PromiseSignals, "ask", func(s *scene, _ string) error { return unix.Kill(s.Other.Pid, 0) }},
	{policy.PromiseSignals, "tgkill", func(s *scene, _ string) error {
		return unix.Tgkill(s.Other.Pid, s.Other.Pid, unix.SIGUSR1)
	}},
	{policy.PromiseSignals, "pidfd", func(s *scene, _ string) error {
		fd, err := unix.PidfdOpen(s.Other.Pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0)
	}},

	{policy.PromiseAbstractSockets, "connect", func(s *scene, _ string) error {
		return dial(unix.SOCK_STREAM, "@"+s.Other.Abstract)
	}},
	{policy.PromiseAbstractSockets, "send", func(s *scene, _ string) error {
		return dial(unix.SOCK_DGRAM, "@"+s.Other.Abstract+"-datagrams")
	}},

	{policy.PromisePathSockets, "connect", func(s *scene, _ string) error { return dial(unix.SOCK_STREAM, s.Outside+"/socket") }},

	{networkTCP, "connect", func(s *scene, _ string) error { return connect(unix.SOCK_STREAM, 0, s.Other.TCP) }},
	{networkTCP, "bind", func(*scene, string) error { return bind(unix.SOCK_STREAM, 0) }},
	{networkTCP, "connect-mptcp", func(s *scene, _ string) error {
		return connect(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, s.Other.TCP)
	}},
	{networkUDP, "connect", func(s *scene, _ string) error { return connect(unix.SOCK_DGRAM, 0, s.Other.UDP) }},
	{networkUDP, "bind", func(*scene, string) error { return bind(unix.SOCK_DGRAM, 0) }},
	{networkUDP, "send", func(s *scene, _ string) error { return sendTo(s.Other.UDP) }},

	{control, "change", func(s *scene, _ string) error {
		f := s.inTree("control-change", "file")
		return errors.Join(os.WriteFile(f, nil, 0o644), openFor(f, os.O_RDWR|os.O_APPEND), unix.Unlink(f))
	}},
	{control, "truncate", func(s *scene, _ string) error {
		f := s.inTree("control-truncate", "file")
		return errors.Join(os.WriteFile(f, []byte("text"), 0o644), unix.Truncate(f, 1))
	}},
	{control, "move", func(s *scene, _ string) error {
		from, to := s.inTree("control-move", "file"), s.inTree("control-change", "moved")
		return errors.Join(os.WriteFile(from, nil, 0o644), unix.Link(from, to+"-link"), unix.Rename(from, to))
	}},
	{control, "special", func(s *scene, _ string) error {
		return errors.Join(unix.Mkfifo(s.inTree("control-special", "fifo"), 0o600), unix.Symlink("x", s.inTree("control-special", "link")))
	}},
	{control, "own-socket", func(s *scene, _ string) error { return ownSocket(s.inTree("control-own-socket", "s")) }},
	{control, "own-abstract-socket", func(s *scene, _ string) error { return ownSocket("@own-" + s.Other.Abstract) }},
	{control, "own-child", func(*scene, string) error { return killChild() }},
	{control, "null", func(*scene, string) error { return os.WriteFile("/dev/null", []byte("x"), 0) }},
	{control, "tmp", func(*scene, string) error {
		f, err := os.CreateTemp("", "record-")
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}},
	{control, "terminal", func(*scene, string) error { return openTerminal() }},
	{control, "listen", func(*scene, string) error { return bind(unix.SOCK_STREAM, 0) }},
}

// control is what every confinement leaves possible, unless a profile says
// otherwise. It and the two kinds of network are no promises of package policy.
const (
	control    policy.Promise = "control"
	networkTCP policy.Promise = "network-tcp"
	networkUDP policy.Promise = "network-udp"
)
