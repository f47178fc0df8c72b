package runner

import (
	"io"
	"syscall"
	"time"
)

// Request asks for a command. The zero value of each field, but Command and
// Argv, stands for the runner's own choice; [Runner.Resolve] fills it in.
type Request struct {
	// Command is a shell command. White space around it is removed, what lies
	// inside is left alone.
	Command string
	// Argv is a program and its arguments, run without a shell. One of Command
	// and Argv must be given.
	Argv []string
	// Label is a name for people; zero is the beginning of the command.
	Label string
	// Owner groups commands, as those of one session; see [Config.MaxPerOwner].
	Owner string

	// Dir is the working directory. A relative one is relative to
	// [Config.Dir].
	Dir string
	// Shell is the shell with its options, which gets "-c" and the command, as
	// {"/bin/bash", "-o", "pipefail"}. Zero is [Config.Shell].
	Shell []string
	// PipeStatus asks for the exit codes of all stages of the last pipeline that
	// the shell ran: see [Result.PipeStatus]. It takes bash, which then stays
	// until the end where it would have executed its last command in its place.
	PipeStatus bool
	// Transport is how the command gets to the shell; zero is
	// [TransportAuto].
	Transport Transport

	// Env sets variables, NAME=VALUE. They win over the ambient environment
	// and over what makes commands unattended, except where that protects the
	// host. Names that begin with "SHOFER_" are refused.
	Env []string
	// Unset removes variables, by name.
	Unset []string
	// Managed sets variables of the managed namespace. Their names begin with
	// "SHOFER_"; others are refused.
	Managed []string

	// Stdin is written to standard input, which is then closed. Nil leaves it
	// the null device.
	Stdin []byte
	// OpenStdin leaves standard input open: [Execution.Write] writes to it,
	// after Stdin. The command may wait for it for ever.
	OpenStdin bool
	// Terminal gives the command a terminal. Its output is then one stream.
	Terminal *Size

	// Timeout ends the command. [None] is no timeout, where the runner allows
	// that; zero is its default. Both are capped.
	Timeout time.Duration
	// SoftTimeout is after which time [Runner.Run] returns and leaves the
	// command running. It begins at the hand-off. [None] is none.
	SoftTimeout time.Duration
	// IdleTimeout ends the command when it has printed nothing for so long.
	// [None] is none.
	IdleTimeout time.Duration
	// Stop is how the command is ended; nil is the runner's way.
	Stop []StopStep
	// Leftover is what happens to processes that the command leaves.
	Leftover Leftover

	// Merge makes standard output and standard error one stream.
	Merge bool
	// Stdout and Stderr, if not nil, get what the command prints as it comes;
	// where it has one stream, Stdout gets that. As with a pipe, a command waits
	// for those who are slow, and gets SIGPIPE when one has returned an error.
	// Its end is waited for until they have taken all.
	Stdout, Stderr io.Writer
	// Keep is which part of long output is kept in memory; zero is the
	// runner's.
	Keep Keep
	// Budget is how many bytes of a stream are kept in memory; zero is the
	// runner's.
	Budget int
}

// None is no timeout.
const None time.Duration = -1

// Size is that of a terminal, in cells.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Transport is how a command gets to its shell.
type Transport string

const (
	// TransportAuto passes a command as an argument, and one that is too long
	// for that (128 KiB) by a descriptor.
	TransportAuto Transport = "auto"
	// TransportArgv passes it as an argument. Everybody can see it in the list
	// of processes, and so can pkill -f inside it.
	TransportArgv Transport = "argv"
	// TransportFD passes it by a descriptor. $0 and the shell's messages then
	// name that.
	TransportFD Transport = "fd"
)

// StopStep is a step in ending a command: a signal to all its processes and
// the time that they then have. After the last step, all are killed.
type StopStep struct {
	Signal syscall.Signal
	Wait   time.Duration
}

// Leftover is what happens to processes that a command leaves when it ends by
// itself. When it is ended from outside, they always end too.
type Leftover string

const (
	// LeftoverKill kills them.
	LeftoverKill Leftover = "kill"
	// LeftoverReport leaves them alone and lists them.
	LeftoverReport Leftover = "report"
	// LeftoverAdopt leaves them to the execution, which stays: it is done when
	// they have ended.
	LeftoverAdopt Leftover = "adopt"
)

// Keep is which part of output that is longer than the budget stays in memory.
type Keep string

const (
	// KeepBoth keeps the beginning and the end, half of the budget each.
	KeepBoth Keep = "head+tail"
	// KeepHead keeps the beginning.
	KeepHead Keep = "head"
	// KeepTail keeps the end.
	KeepTail Keep = "tail"
)

// Budgets by name, in bytes.
const (
	Small  = 5 << 10
	Medium = 10 << 10
	Large  = 20 << 10
)

// Streams are the ends of a command's standard streams that its caller holds.
type Streams struct {
	// Stdin is nil unless the spec opens it.
	Stdin io.WriteCloser
	// Stdout and Stderr are read to their ends. Stderr is nil if the two are
	// one stream. Where one isn't at its end when [Process.Finish] is to be
	// called, an [*os.File] or a [*capture.Pipe] is read empty before; anything
	// else goes on to give what it has, and ends then.
	Stdout, Stderr io.Reader
}
