package background

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A confined command may connect to any socket that its user may, on kernels
// whose Landlock has no say in that. It must not use a supervisor as its way
// out. What is confined can't shed no_new_privs, nor the filters that came with
// it: that tells it from the user's own programs.

// errPeer is why a peer isn't answered.
var errPeer = errors.New("the supervisor answers its user's programs only, and no confined ones")

// checkPeer refuses a peer of another user, and one that is confined further
// than this process.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	pidfd := -1
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			pidfd = n // from Linux 6.5 on
		}
	}); err != nil {
		return err
	}
	if credErr != nil {
		return os.NewSyscallError("getsockopt", credErr)
	}
	if pidfd >= 0 {
		defer func() { _ = unix.Close(pidfd) }()
	}
	if int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return errPeer
	}
	theirs, err := restrictionsOf(strconv.Itoa(int(cred.Pid)))
	if err != nil {
		return fmt.Errorf("%w: %w", errPeer, err)
	}
	// The number was the peer's all the time only if it still lives.
	if pidfd >= 0 && unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil {
		return errPeer
	}
	ours, err := restrictionsOf("self")
	if err != nil {
		return err
	}
	if theirs.noNewPrivs > ours.noNewPrivs || theirs.filters > ours.filters {
		return errPeer
	}
	return nil
}

// restrictions are what a process can only get more of.
type restrictions struct{ noNewPrivs, filters int }

func restrictionsOf(pid string) (r restrictions, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return r, err
	}
	for _, f := range []struct {
		name string
		to   *int
	}{{"NoNewPrivs:", &r.noNewPrivs}, {"Seccomp_filters:", &r.filters}} {
		_, rest, ok := bytes.Cut(text, []byte("\n"+f.name))
		if !ok {
			continue // of a kernel before 5.9, which can't count filters
		}
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		if *f.to, err = strconv.Atoi(string(bytes.TrimSpace(line))); err != nil {
			return r, fmt.Errorf("%s %w", f.name, syscall.EINVAL)
		}
	}
	return r, nil
}
