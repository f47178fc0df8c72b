package launch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// innerOption begins the one argument of the inner stage; the number of the
// descriptor of its job follows. It isn't for users.
const innerOption = "--inner-fd="

// innerPrefix begins the name that the inner stage is executed by.
const innerPrefix = "/proc/self/fd/"

// Init lets this program start commands under [BackendBwrap]: bubblewrap
// executes the program again, inside the sandbox, and Init then does what is to
// be done there and ends the process. It must be called first in main, before
// the program does anything else; otherwise it returns at once. Without it such
// a start is a [*SetupError].
//
// That inner stage is the first process in its pid namespace: it checks what
// bubblewrap has made, starts the command confined further, hands signals on,
// reaps what is left to it, and reports.
func Init() {
	initialised.Store(true)
	if len(os.Args) != 2 || !strings.HasPrefix(os.Args[0], innerPrefix) {
		return
	}
	number, ok := strings.CutPrefix(os.Args[1], innerOption)
	if !ok {
		return
	}
	code := ExitSetup
	if fd, err := strconv.Atoi(number); err == nil && fd > 2 {
		code = inner(fd)
	}
	unix.Exit(code)
}

// initialised says that this program can be the inner stage.
var initialised atomic.Bool

// deaf are the signals that end a process that doesn't expect them. The inner
// stage ignores them: those that are for the command reach it another way, and
// what a terminal sends, it sends to both.
var deaf = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGVTALRM,
	syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXCPU, syscall.SIGXFSZ,
	syscall.SIGIO, syscall.SIGPWR, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGSTKFLT,
}

// inner is the inner stage. It returns the exit code.
func inner(fd int) int {
	signal.Ignore(deaf...)
	// With bubblewrap's end this process's comes, and by that all others'. One that
	// was before is seen at the socket.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	j, err := readJob(fd)
	if err != nil {
		_, _ = os.Stderr.WriteString("the job of the inner stage can't be read: " + err.Error() + "\n")
		return ExitSetup
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil { // before Linux 5.3
		self = -1
	}
	err = send(j.Socket, report{Event: reportReady}, self)
	if self >= 0 {
		_ = unix.Close(self)
	}
	if err != nil { // whoever wanted this is gone
		return ExitSetup
	}
	proc, err := j.start()
	if err != nil {
		_ = send(j.Socket, failure(err), -1)
		return ExitSetup
	}
	// Who waits for the end of a pipe waits for the command, not for us.
	for _, fd := range slices.Concat(j.Files, j.Join, []int{j.Cgroup}) {
		if fd > 2 {
			_ = unix.Close(fd) // one that is there twice is closed already
		}
	}
	if proc.Listener >= 0 {
		_ = send(j.Socket, report{Event: reportWitness}, proc.Listener)
		_ = unix.Close(proc.Listener)
	}
	if g := proc.Guarded; g != nil {
		proc.PidFD = childOf(proc.Pid, g.Pid)
	}
	_ = send(j.Socket, report{Event: reportStarted}, proc.PidFD)
	go handOn(j.Socket, proc)
	if proc.Guarded != nil {
		return awaitGuarded(j.Socket, proc.Guarded)
	}
	code := awaitCommand(j.Socket, proc.Pid)
	awaitRest(j.Linger)
	return code
}

// guard returns what ends all that the command has started where there is no pid
// namespace that ends with this process; nil where there is one, or can't be a guard.
func (j *job) guard() *spawn.Guard {
	if os.Getpid() == 1 || !spawn.CanGuard() || !SeesChildren() {
		return nil
	}
	return &spawn.Guard{Linger: j.Linger, InSession: !j.NewSession, Stops: true}
}

// start checks the sandbox and starts the command in it.
func (j *job) start() (*spawn.Process, error) {
	if err := bwrap.Check(j.Identities); err != nil {
		return nil, &SetupError{Stage: StageRules, Err: err}
	}
	seen := map[int]bool{}
	for _, fd := range j.Files {
		if fd < 0 || seen[fd] {
			continue
		}
		seen[fd] = true
		if err := bwrap.Reopen(fd); err != nil {
			return nil, &SetupError{Stage: StageRules, Err: err}
		}
	}
	p := &spawn.Plan{
		Path: string(j.Path), Argv: bytesOf(j.Args), Env: bytesOf(j.Env), Dir: string(j.Dir),
		Files: j.Files, NewSession: j.NewSession, NewGroup: j.NewGroup, ControllingTerminal: j.ControllingTerminal,
		Rlimits: j.Rlimits, CgroupFD: j.Cgroup, JoinFDs: j.Join,
		NoNewPrivs: true, Filters: j.Filters, Witness: j.Witness,
	}
	if j.KeepHUP {
		p.KeepIgnored = keptSignals
	}
	have, err := permittedCaps()
	if err != nil {
		return nil, &SetupError{Stage: StageCaps, Err: err}
	}
	if have != 0 { // less what is inheritable or ambient
		p.Caps = &have
	}
	d, err := j.ruleset().Create()
	if err != nil {
		return nil, &SetupError{Stage: StageRules, Err: err}
	}
	defer func() { _ = d.Close() }()
	if d.FD >= 0 {
		for _, fd := range regularFiles(j.Files) {
			if err := d.AddFD(fd, policy.Read|policy.Write); err != nil {
				return nil, &SetupError{Stage: StageRules, Err: err}
			}
		}
		p.RulesetFD = d.FD
	}
	if p.Guard = j.guard(); p.Guard != nil && !j.NewSession && !j.NewGroup {
		p.Group = unix.Getpgrp() // not the guard's
	}
	if !awaitPermit(j.Socket) {
		return nil, errAlone
	}
	// The command may not look into this process, which isn't confined as it
	// is, nor get at its program.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, &SetupError{Stage: StageConfine, Err: os.NewSyscallError("prctl", err)}
	}
	proc, err := spawn.Start(p)
	if err != nil {
		_ = os.Chdir(p.Dir) // where a relative path is to be looked at
		return nil, startError(err, string(j.Args[0]))
	}
	return proc, nil
}

// errAlone says that nobody is left who wanted the command.
var errAlone = errors.New("who started bubblewrap has ended")

// awaitPermit waits until who started bubblewrap has done what is to be done in the
// sandbox from outside: [Box.permit].
func awaitPermit(socket int) bool {
	var b [1]byte
	for {
		n, err := unix.Read(socket, b[:])
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}

// awaitCommand reaps what ends until the command has, and reports that. The
// result is an exit code like a shell's: 128+n for signal n.
func awaitCommand(socket, command int) int {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, &ru)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // can't happen: the command is a child
			return ExitSetup
		case pid != command:
		case ws.Stopped():
			_ = send(socket, report{Event: reportStopped}, -1)
		case ws.Signaled():
			_ = send(socket, report{Event: reportEnded, Status: uint32(ws), Rusage: ru}, -1)
			return 128 + int(ws.Signal())
		case ws.Exited():
			_ = send(socket, report{Event: reportEnded, Status: uint32(ws), Rusage: ru}, -1)
			return ws.ExitStatus()
		}
	}
}

// awaitGuarded is awaitCommand where there is a guard, which ends the rest.
func awaitGuarded(socket int, g *spawn.Guarded) int {
	for g.Stopped() {
		_ = send(socket, report{Event: reportStopped}, -1)
	}
	e, ok := g.Ending()
	if !ok { // the guard was killed, and the command with it
		e.Status = syscall.WaitStatus(syscall.SIGKILL)
	}
	_ = send(socket, report{Event: reportEnded, Status: uint32(e.Status), Rusage: e.Rusage}, -1)
	if e.Status.Signaled() {
		return 128 + int(e.Status.Signal())
	}
	return e.Status.ExitStatus()
}

// awaitRest waits until all that the command left have ended, but not for
// longer than linger. They come to this process, which adopts orphans then.
func awaitRest(linger time.Duration) {
	if linger <= 0 {
		return
	}
	none := make(chan struct{})
	go func() {
		defer close(none)
		for {
			if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
				return
			}
		}
	}()
	select {
	case <-none:
	case <-time.After(linger):
	}
}

// handOn sends the command the signals that come from the socket, a byte for each,
// and ends it, and this process, when nobody is left who could send one: bubblewrap
// has ended, or who started it. By a pid namespace, or the guard, that ends everything.
func handOn(socket int, command *spawn.Process) {
	kill := func(s syscall.Signal) {
		switch {
		case command.PidFD >= 0:
			_ = unix.PidfdSendSignal(command.PidFD, s, nil, 0) // it may have ended
		case command.Guarded == nil: // before Linux 5.3
			_ = unix.Kill(command.Pid, s)
		}
	}
	var b [1]byte
	for {
		n, err := unix.Read(socket, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n != 1:
			kill(syscall.SIGKILL)
			unix.Exit(128 + int(syscall.SIGKILL)) // nobody is left to tell
		default:
			kill(syscall.Signal(b[0]))
		}
	}
}

// send sends a report, with a descriptor unless that is -1. A reader that is gone
// ends the sandbox anyway: see handOn.
func send(socket int, r report, fd int) error {
	b, err := json.Marshal(r)
	if err != nil || len(b) > reportLimit {
		return fs.ErrInvalid
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	for {
		err := unix.Sendmsg(socket, b, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// bytesOf are the strings that travelled as paths.
func bytesOf(list []policy.Path) []string {
	s := make([]string, len(list))
	for i, p := range list {
		s[i] = string(p)
	}
	return s
}

// pathsOf are strings as they travel.
func pathsOf(list []string) []policy.Path {
	p := make([]policy.Path, len(list))
	for i, s := range list {
		p[i] = policy.Path(s)
	}
	return p
}
