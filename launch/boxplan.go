package launch

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// boxFiles are open for as long as bubblewrap is being started.
type boxFiles struct {
	list []int // by their numbers in bubblewrap
	own  []int
}

// add gives bubblewrap a descriptor, and returns its number there.
func (f *boxFiles) add(fd int) int {
	f.list = append(f.list, fd)
	return len(f.list) - 1
}

// open is like add, for one that is closed afterwards.
func (f *boxFiles) open(fd int) int {
	f.own = append(f.own, fd)
	return f.add(fd)
}

func (f *boxFiles) close() {
	for _, fd := range f.own {
		_ = unix.Close(fd)
	}
	f.own = nil
}

// boxEnds are this process's ends of what connects it with a sandbox.
type boxEnds struct {
	socket        int
	words, status *os.File
}

func (e *boxEnds) close() {
	_ = unix.Close(e.socket)
	_ = e.words.Close()
	_ = e.status.Close()
}

// boxPlan returns the plan by which bubblewrap is started, for the command
// that p is the plan of.
func (v *variant) boxPlan(p *spawn.Plan, linger time.Duration, files *boxFiles) (plan *spawn.Plan, ends boxEnds, err error) {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, ends, startFailure(&os.PathError{Op: "open", Path: os.DevNull, Err: err})
	}
	files.open(null)
	files.add(null)
	var words, status, socket [2]int
	if err := unix.Pipe2(words[:], unix.O_CLOEXEC); err != nil {
		return nil, ends, startFailure(os.NewSyscallError("pipe2", err))
	}
	files.open(words[1])
	ends.words = os.NewFile(uintptr(words[0]), "words")
	ends.socket = -1
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		_ = ends.words.Close()
		return nil, ends, startFailure(os.NewSyscallError("pipe2", err))
	}
	statusFD := files.open(status[1])
	// bubblewrap has the other end too: if this process were gone, it would else
	// fail to write, and leave a child that waits for it.
	files.add(status[0])
	ends.status = os.NewFile(uintptr(status[0]), "status")
	defer func() {
		if err != nil {
			ends.close()
		}
	}()
	if socket, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, ends, startFailure(os.NewSyscallError("socketpair", err))
	}
	ends.socket = socket[0]
	socketFD := files.open(socket[1])
	program, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, ends, startFailure(&os.PathError{Op: "open", Path: "/proc/self/exe", Err: err})
	}
	programFD := files.open(program)

	layout := *v.layout
	layout.Options.Terminal = terminalOf(p.Files)
	layout.Options.Watched = true
	fd := bwrap.Descriptors{Status: statusFD}
	for range layout.EmptyFiles() {
		empty, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, ends, startFailure(&os.PathError{Op: "open", Path: os.DevNull, Err: err})
		}
		fd.Empty = append(fd.Empty, files.open(empty))
	}
	options, err := layout.Args(fd)
	if err != nil {
		return nil, ends, &SetupError{Stage: StageConfine, Err: err}
	}
	args, err := bwrap.ArgsFile(options)
	if err != nil {
		return nil, ends, startFailure(err)
	}
	defer func() { _ = args.Close() }()
	argsFD, err := dupOf(args, files)
	if err != nil {
		return nil, ends, startFailure(err)
	}

	j := &job{
		Path: pathsOf([]string{p.Path})[0], Args: pathsOf(p.Argv), Env: pathsOf(p.Env), Dir: pathsOf([]string{p.Dir})[0],
		NewSession: p.NewSession, NewGroup: p.NewGroup, ControllingTerminal: p.ControllingTerminal, KeepHUP: signal.Ignored(syscall.SIGHUP),
		Linger: linger, Rlimits: p.Rlimits,
		Socket: socketFD, Identities: layout.Identities(), Filters: p.Filters, Witness: p.Witness,
	}
	j.setRules(v.ruleset)
	for i, given := range p.Files {
		j.setFile(i, given, files)
	}
	for _, given := range p.Inherit {
		j.setFile(given, given, files)
	}
	if p.CgroupFD != 0 {
		j.Cgroup = files.add(p.CgroupFD)
	}
	for _, fd := range p.JoinFDs {
		j.Join = append(j.Join, files.add(fd))
	}
	file, err := j.file()
	if err != nil {
		return nil, ends, startFailure(err)
	}
	defer func() { _ = file.Close() }()
	jobFD, err := dupOf(file, files)
	if err != nil {
		return nil, ends, startFailure(err)
	}
	line, err := bwrap.Command(v.bwrap.Path, argsFD, programFD, innerOption+strconv.Itoa(jobFD))
	if err != nil {
		return nil, ends, &SetupError{Stage: StageConfine, Err: err}
	}
	return &spawn.Plan{
		Path: line[0], Argv: line, Env: []string{"LC_ALL=C"}, Dir: "/", Files: files.list, Ignore: unmoved,
		Group: p.Group,                            // the command inherits it: from inside there is no such group
		Nice:  p.Nice, OOMScoreAdj: p.OOMScoreAdj, // inside, /proc can't be written to
	}, ends, nil
}

// setFile makes given the command's descriptor i.
func (j *job) setFile(i, given int, files *boxFiles) {
	for len(j.Files) <= i {
		j.Files = append(j.Files, -1)
	}
	if given >= 0 {
		j.Files[i] = files.add(given)
	}
}

// dupOf gives bubblewrap a copy of a file's descriptor.
func dupOf(f *os.File, files *boxFiles) (int, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, os.NewSyscallError("fcntl", err)
	}
	return files.open(fd), nil
}

func startFailure(err error) error { return &SetupError{Stage: StageStart, Err: err} }

// terminalOf returns the device of the terminal among the standard streams, ""
// if there is none.
func terminalOf(files []int) string {
	for _, fd := range files[:min(3, len(files))] {
		if fd < 0 {
			continue
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			continue
		}
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && strings.HasPrefix(name, "/dev/") {
			return name
		}
	}
	return ""
}
