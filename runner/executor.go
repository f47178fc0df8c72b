package runner

import (
	"context"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Executor runs commands somewhere, within an authority that is fixed when it
// is made: on this machine, confined or not, in a container, on another host.
// A [Runner] does all the rest. Its methods may be called by several
// goroutines at once.
//
// Package runner/executortest holds an executor to what is said here.
type Executor interface {
	// Authority says what the executor may do.
	Authority() Authority
	// Environ returns the environment that commands start from, before the
	// runner changes it.
	Environ() []string
	// Start starts the command of a spec and returns when its program has been
	// executed: that is the hand-off, and happens once. The context bounds the
	// start alone.
	//
	// After an error nothing runs and nothing has: [*SandboxError] when it
	// could not be confined, [*StartError] when it could not be executed, the
	// context's when that ended first. When it can't be known whether
	// something has run, the error matches [ErrUncertain].
	Start(ctx context.Context, s *Spec) (Process, error)
	// Close releases the executor. What runs goes on.
	Close() error
}

// Authority is what an executor may do, for people and for the record.
type Authority struct {
	// Name is the kind of executor, as "local".
	Name string `json:"name"`
	// Dir is what relative working directories are relative to, unless the
	// runner is told otherwise. It isn't a jail.
	Dir string `json:"dir,omitempty"`
	// Shell runs commands where the runner isn't told otherwise.
	Shell []string `json:"shell,omitempty"`
	// Sandbox is under what commands are to run; nil if it doesn't confine.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Writable lists what commands can write to, where they are confined: the
	// output of commands may not be kept there.
	Writable []string `json:"-"`
	// EndsAll says that killing reaches every process of a command, whatever it
	// does. Otherwise what has got away may be left.
	EndsAll bool `json:"ends_all"`
	// SurvivesHost is what becomes of commands when this process is killed:
	// false says that they end.
	SurvivesHost bool `json:"survives_host"`
	// OnlyKill says that what a command leaves is always killed.
	OnlyKill bool `json:"only_kill,omitempty"`
}

// Process is a command that an executor has started. Its methods may be called
// by several goroutines at once, but for Finish.
type Process interface {
	// Pid is the process of the command on this machine, 0 if it has none.
	Pid() int
	// Streams returns the caller's ends of the standard streams. Finish closes
	// those that are open.
	Streams() Streams
	// Ended is closed when the command's first process has ended; what it has
	// started may go on.
	Ended() <-chan struct{}
	// Signal sends a signal to every process of the command. SIGKILL must not
	// miss one that it could reach.
	Signal(s syscall.Signal) error
	// Remaining lists the processes of the command that live, its first one
	// included. It counts until Finish is called.
	Remaining() []Survivor
	// Resize sets the terminal's size; it fails with [ErrNoTerminal] if there
	// is none.
	Resize(s Size) error
	// Finish is called once, when the command has ended or been given up: it
	// releases what belongs to the process and says how it ended. An error
	// leaves the exit's facts standing.
	Finish() (Exit, error)
}

// Exit is how a command ended, as far as it was seen.
type Exit struct {
	// Code is the exit code, -1 if there is none: it was killed by a signal,
	// or nobody saw its end.
	Code int
	// Signal is the signal that ended it, 0 if none was seen; Core says that
	// the kernel wrote a core file.
	Signal syscall.Signal
	Core   bool
	// PipeStatus is what the spec's file says; nil if that is nothing.
	PipeStatus []int
	// Usage is what it used; nil if unknown.
	Usage *Usage
	// LimitsHit are the limits that it ran into: memory, pids, cpus, fsize.
	LimitsHit []string
	// Sandbox is under what it ran; nil if not confined by the executor.
	Sandbox *Sandbox
}

// Usage is what a command used.
type Usage struct {
	// Source is "cgroup" when all its processes are counted, or "rusage" when
	// only those are that were waited for.
	Source string `json:"source"`
	// FromRusage names the numbers, as in JSON, that are counted as with "rusage"
	// although Source is "cgroup", since its group doesn't have them.
	FromRusage []string `json:"from_rusage,omitempty"`

	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	// MemoryPeak is in bytes: of all processes together, or by rusage of the
	// largest one. The latter is never less than what the host itself, or what
	// else has started the command, had in memory then: the kernel counts from
	// before the command's exec.
	MemoryPeak int64 `json:"memory_peak_bytes,omitempty"`
	// IORead and IOWrite are bytes transferred from and to block devices.
	IORead  *int64 `json:"io_read_bytes,omitempty"`
	IOWrite *int64 `json:"io_write_bytes,omitempty"`
	// The rest is known of a control group only; nil is unknown.
	SwapPeak  *int64         `json:"swap_peak_bytes,omitempty"`
	PidsPeak  *int64         `json:"pids_peak,omitempty"`
	Throttled *time.Duration `json:"throttled_ns,omitempty"`
	// OOMKills is how many processes the kernel killed for memory (version 2 of
	// control groups counts the first one of a group twice), and OOMGroup says
	// that all of them went then.
	OOMKills *int64 `json:"oom_kills,omitempty"`
	OOMGroup bool   `json:"oom_group,omitempty"`
	// PidsLimited says that a process was not made because there were too many.
	PidsLimited *bool `json:"pids_limited,omitempty"`
	// CPUPressure, MemoryPressure and IOPressure are for how long something of it
	// waited for these.
	CPUPressure    *time.Duration `json:"cpu_pressure_ns,omitempty"`
	MemoryPressure *time.Duration `json:"memory_pressure_ns,omitempty"`
	IOPressure     *time.Duration `json:"io_pressure_ns,omitempty"`
}

// Sandbox is under what a command ran, or is to run.
type Sandbox struct {
	Mode policy.Mode `json:"mode"`
	// Enforcement is full, partial or none.
	Enforcement string `json:"enforcement"`
	Backend     string `json:"backend"`
	// Features has an entry for each promise of the policy.
	Features []policy.Feature `json:"features,omitempty"`
	// Denied says that something was refused, as far as there is evidence for
	// it: Denials is that.
	Denied  bool     `json:"denied"`
	Denials []Denial `json:"denials,omitempty"`
	// Traced says that the command's changes were watched: Denials are then what
	// was seen, whether or not the command has failed. Untraced are programs of
	// which not everything was.
	Traced   bool       `json:"traced,omitempty"`
	Untraced []Untraced `json:"untraced,omitempty"`
	// Tampered are protected paths that changed meanwhile.
	Tampered []Tampered `json:"tampered,omitempty"`
	// Restored says what was put back of that, and what could not be, where the
	// executor does so.
	Restored []string `json:"restored,omitempty"`
	// RunnerFailed says that the sandbox failed, so that the command didn't
	// run.
	RunnerFailed bool `json:"runner_failed"`
}

// DenialSource is what tells of a refusal.
type DenialSource string

const (
	// SourceOutput: the command's output says so of a path that isn't granted,
	// and that by its own permissions could have been used. A program that only
	// pretends is believed.
	SourceOutput DenialSource = "output"
	// SourceTrace: it was seen when it was tried.
	SourceTrace DenialSource = "trace"
)

// Denial is something that the sandbox refused.
type Denial struct {
	Source DenialSource `json:"source"`
	Path   policy.Path  `json:"path"`
	// Op is what was to be done, as far as the source says: by the output, write
	// stands for every change.
	Op policy.Op `json:"op"`
	// Reason is why it was refused, and Text says so in words.
	Reason policy.Reason `json:"reason"`
	Text   string        `json:"text"`
	// Line is the line of output that tells of it, by that source.
	Line string `json:"line,omitempty"`
	// Program, of which the first had the number Pid, tried it by the system call
	// Call as often as Count says; by a trace.
	Program string `json:"program,omitempty"`
	Pid     int    `json:"pid,omitempty"`
	Call    string `json:"call,omitempty"`
	Count   int    `json:"count,omitempty"`
	// Missing is the path for which there is no rule; empty if there can't be
	// one. Flag is that rule as options of shofer-sandbox, quoted for a shell.
	Missing policy.Path `json:"missing,omitempty"`
	Flag    string      `json:"flag,omitempty"`
	// Hint says what would let it happen, or why nothing does.
	Hint string `json:"hint,omitempty"`
}

// String says what was refused, and why; Hint goes on.
func (d *Denial) String() string {
	s := d.Path.String()
	if d.Op != "" {
		s = string(d.Op) + " " + s
	}
	if d.Text != "" {
		s += ": " + d.Text
	}
	return s
}

// Untraced is a program of which a trace doesn't see everything.
type Untraced struct {
	Program string `json:"program"`
	Why     string `json:"why"`
	// Count is how many system calls that is about.
	Count int `json:"count"`
}

// Tampered is a protected path that isn't as it was before the command.
type Tampered struct {
	Path policy.Path `json:"path"`
	What string      `json:"what"`
	Why  string      `json:"why"`
}

// Survivor is a process that is left of a command.
type Survivor struct {
	Pid  int    `json:"pid"`
	Name string `json:"name"`
	// Why says how it is known to belong to the command.
	Why string `json:"why"`
}

// DirChecker is what an executor also has that can tell whether a folder can be
// worked in. Its errors become a [*DirError].
type DirChecker interface {
	CheckDir(dir string) error
}

// InputWaiter is what a [Process] also is that can tell who waits for input.
type InputWaiter interface {
	// AwaitingInput lists the processes of the command that wait, at this
	// moment, for its standard input or its terminal: those that were seen to
	// do so, and none by guessing from silence.
	AwaitingInput() []Survivor
}

// Denier is what an executor also has that can tell refusals of its sandbox
// from other failures.
type Denier interface {
	// Denials looks for them in what a command printed last, when it has
	// failed. It names nothing without evidence. Where the streams are one, as
	// on a terminal, stdout is nil and stderr has both.
	Denials(s *Spec, e Exit, stderr, stdout []byte) []Denial
}
