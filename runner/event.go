package runner

import "time"

// Event is a step in the life of a command. Its JSON form is stable: fields
// may be added, and are left out when they say nothing.
type Event struct {
	// Seq counts the events of a runner, from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// ID is the command's.
	ID   string    `json:"id"`
	Kind EventKind `json:"kind"`

	// Pid is there from the hand-off on.
	Pid int `json:"pid,omitempty"`
	// Label is the command's, in "queued".
	Label string `json:"label,omitempty"`
	// Stdout and Stderr are the bytes so far, in "output" and "drained".
	Stdout int64 `json:"stdout_bytes,omitempty"`
	Stderr int64 `json:"stderr_bytes,omitempty"`
	// Cause is why the command is ended, in "stopping".
	Cause Cause `json:"cause,omitempty"`
	// Signal is what was sent, in "signalled".
	Signal string `json:"signal,omitempty"`
	// Text is the message of "feedback", or the reason of "failed".
	Text string `json:"text,omitempty"`
	// Result is there in "settled".
	Result *Result `json:"result,omitempty"`
}

// EventKind is what happened.
type EventKind string

// The events. A command has "queued" first and "settled" or "failed" last.
const (
	// EventQueued: it waits for its approval and its start.
	EventQueued EventKind = "queued"
	// EventHandedOff: its program has been executed, exactly once. From here
	// on it isn't known what it has done.
	EventHandedOff EventKind = "handed_off"
	// EventOutput: there is more output. It is told when there was none
	// before, and then at most ten times a second, while it comes; the last of
	// it is told by "drained".
	EventOutput EventKind = "output"
	// EventFeedback: the host gave a message for whoever waits.
	EventFeedback EventKind = "feedback"
	// EventBackgrounded: nobody waits for it any more; it goes on.
	EventBackgrounded EventKind = "backgrounded"
	// EventStopping: it is being ended, for a cause.
	EventStopping EventKind = "stopping"
	// EventSignalled: a signal was sent to all its processes.
	EventSignalled EventKind = "signalled"
	// EventExited: its first process has ended.
	EventExited EventKind = "exited"
	// EventDrained: its output is complete, or isn't waited for any longer.
	EventDrained EventKind = "drained"
	// EventSettled: everything is known.
	EventSettled EventKind = "settled"
	// EventFailed: it has not run.
	EventFailed EventKind = "failed"
)

// Cause is why a command was ended from outside.
type Cause string

// The causes.
const (
	// CauseNone: it ended by itself.
	CauseNone Cause = ""
	// CauseTimeout: its time was over.
	CauseTimeout Cause = "timeout"
	// CauseIdle: it had printed nothing for too long.
	CauseIdle Cause = "idle"
	// CauseAborted: the context of its caller ended.
	CauseAborted Cause = "abort"
	// CauseKilled: [Execution.Kill] was called.
	CauseKilled Cause = "kill"
	// CauseClosed: the runner was closed.
	CauseClosed Cause = "close"
	// CauseMemory: the kernel killed it for memory.
	CauseMemory Cause = "memory"
	// CauseUnknown: a signal ended it that neither the runner nor, as far as
	// is known, the kernel sent for a limit. It may have been its own.
	CauseUnknown Cause = "unknown"
)

// State is where in its life a command is.
type State string

// The states. The last three are final.
const (
	StateQueued       State = "queued"
	StateRunning      State = "running"
	StateBackgrounded State = "backgrounded"
	StateExited       State = "exited"
	StateKilled       State = "killed"
	StateFailed       State = "failed"
)

// Final reports whether a state is the last one.
func (s State) Final() bool {
	return s == StateExited || s == StateKilled || s == StateFailed
}
