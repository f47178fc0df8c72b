package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/proctree"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// input tells a command's standard input from other files; the zero value is
// none that anybody could wait for.
type input struct {
	dev, ino uint64
	terminal uint64 // its device, 0 for a pipe
}

func inputOf(f *os.File) (in input) {
	_ = withFD(f, func(fd int) {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			return
		}
		in = input{dev: st.Dev, ino: st.Ino}
		if st.Mode&unix.S_IFMT == unix.S_IFCHR {
			in.terminal = st.Rdev
		}
	})
	return in
}

// awaiting lists the processes of a command that have a thread in a call that
// reads the input and hasn't come back. Who waits by poll(2) or epoll(7) isn't
// seen, and neither is who can't be traced by this process.
func awaiting(p runner.Process, in input) (waiting []runner.Survivor) {
	if in.ino == 0 {
		return nil
	}
	for _, s := range p.Remaining() {
		if !in.awaitedBy(s.Pid) {
			continue
		}
		if now, ok := proctree.Find(s.Pid, ""); ok { // it may have executed something meanwhile
			s.Name = now.Name
			waiting = append(waiting, s)
		}
	}
	return waiting
}

func (in input) awaitedBy(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	threads, err := filepath.Glob(dir + "/task/*/syscall")
	if err != nil {
		return false
	}
	for _, thread := range threads {
		line, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended, or isn't ours to look at
		}
		if fd, ok := readFrom(string(line)); ok && in.is(dir, fd) {
			return true
		}
	}
	return false
}

// readFrom returns the descriptor that a thread waits to read from; see
// proc_pid_syscall(5).
func readFrom(line string) (fd int, ok bool) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return 0, false // it runs
	}
	call, err := strconv.Atoi(f[0])
	arg, argErr := strconv.ParseUint(f[1], 0, 64)
	if err != nil || argErr != nil {
		return 0, false
	}
	switch call {
	case unix.SYS_READ, unix.SYS_READV:
		return int(int32(arg)), true
	case unix.SYS_PSELECT6: // for descriptor 0 alone, as line editors do
		return 0, arg == 1 && f[2] != "0x0"
	}
	return 0, false
}

// is reports whether a process has the input as one of its descriptors.
func (in input) is(dir string, fd int) bool {
	var st unix.Stat_t
	if unix.Stat(filepath.Join(dir, "fd", strconv.Itoa(fd)), &st) != nil {
		return false
	}
	switch {
	case st.Dev == in.dev && st.Ino == in.ino:
		return true
	case in.terminal == 0 || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(5, 0):
		return false
	}
	return terminalOf(dir) == in.terminal // by its other name, /dev/tty
}

// terminalOf returns the device of a process's controlling terminal, 0 if it has
// none: the seventh field of proc_pid_stat(5).
func terminalOf(dir string) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	line := string(b)
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(f) < 5 {
		return 0
	}
	n, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		return 0
	}
	return uint64(uint32(n))
}
