package runner

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Result is what is known of a command. Its facts are independent of each
// other: a command may have timed out and have exited with 0. While the command
// runs it says how things stand.
type Result struct {
	ID      string
	Label   string
	State   State
	Command string
	Dir     string
	// HandedOff says that the program has been executed. If not, nothing has
	// run.
	HandedOff bool
	// Pid is the command's, also when it has ended; 0 if it had none.
	Pid int

	// ExitCode is -1 as long as none was observed.
	ExitCode int
	// Signal is what ended the command, 0 if nothing was observed.
	Signal syscall.Signal
	Core   bool
	// PipeStatus are the exit codes of the stages of the last pipeline that bash
	// ran by itself, if [Request.PipeStatus] asked for them: a stage before the
	// last can fail without a trace in ExitCode. It is bash's word, and nil where
	// that said nothing: it was killed, replaced, or has a trap of its own.
	PipeStatus []int
	// TimedOut says that a timeout was the first cause of the end, Aborted
	// that the caller was. They exclude each other.
	TimedOut bool
	Aborted  bool
	// KilledBy is why it was ended; CauseNone if it ended by itself.
	KilledBy Cause
	// OOMKilled says that the kernel killed a process of it for memory; nil is
	// unknown.
	OOMKilled *bool

	// Queued is the time until the hand-off, Duration the time since: until
	// its end, or until now.
	Queued, Duration time.Duration
	// Timeout is the one that held, 0 for none.
	Timeout time.Duration

	// Stdout and Stderr are its output; of a command with one stream, Merged
	// is. Merged is nil otherwise.
	Stdout, Stderr, Merged *Output
	// OutputHeldOpen says that a process held the output open when it was no
	// longer waited for: there may have been more.
	OutputHeldOpen bool
	// AwaitingInput are processes of a command that runs which were seen to wait
	// for its input when the result was made; see [Execution.AwaitingInput].
	AwaitingInput []Survivor
	// Leftover are processes that the command left and that were killed.
	Leftover []Survivor
	// Survivors are processes that still lived when the result was made: those
	// that could not be killed, or were not to be.
	Survivors []Survivor
	Usage     *Usage
	// LimitsHit are the limits that the command ran into: memory, pids, cpus,
	// fsize.
	LimitsHit []string
	Sandbox   *Sandbox
	// Feedback are messages that the host gave meanwhile.
	Feedback []string
	Notes    []string
	// Err is why it failed, or what went wrong in collecting the facts.
	Err error
}

// Output is a stream of a command, as it is kept in memory.
type Output struct {
	// Head is the beginning, and all if nothing is omitted; Tail is the end.
	Head, Tail []byte
	// Omitted is how many bytes lie between them.
	Omitted, OmittedLines int64
	// Bytes and Lines are those of the whole stream.
	Bytes, Lines int64
	// Truncated says that Head and Tail aren't all.
	Truncated bool
	// Artifact names the whole stream in the store. It is empty if Head and
	// Tail are all (but for [Config.SaveAll]), without a store, and when it
	// could not be written, which ArtifactErr says.
	Artifact    string
	ArtifactErr error
}

// Text returns what is kept, with a line between the parts that says how much
// is omitted.
func (o *Output) Text() []byte {
	if o == nil {
		return nil
	}
	if o.Omitted == 0 {
		return o.Head
	}
	b := append([]byte(nil), o.Head...)
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	b = append(b, "[..."+strconv.FormatInt(o.Omitted, 10)+" bytes omitted...]\n"...)
	return append(b, o.Tail...)
}

// MarshalJSON writes the text as it is, or in base64 where it isn't UTF-8, as
// "encoding" says.
func (o *Output) MarshalJSON() ([]byte, error) {
	text := o.Text()
	v := struct {
		Text      string  `json:"text"`
		Encoding  string  `json:"encoding"`
		Bytes     int64   `json:"total_bytes"`
		Lines     int64   `json:"total_lines"`
		Truncated bool    `json:"truncated"`
		Omitted   int64   `json:"omitted_bytes"`
		Artifact  *string `json:"artifact"`
		Err       string  `json:"artifact_error,omitempty"`
	}{string(text), "utf-8", o.Bytes, o.Lines, o.Truncated, o.Omitted, nil, ""}
	if !utf8.Valid(text) {
		v.Text, v.Encoding = base64.StdEncoding.EncodeToString(text), "base64"
	}
	if o.Artifact != "" {
		v.Artifact = &o.Artifact
	}
	if o.ArtifactErr != nil {
		v.Err = o.ArtifactErr.Error()
	}
	return json.Marshal(v)
}

// MarshalJSON writes the result in its stable form: null is what wasn't
// observed, and fields may be added.
func (r *Result) MarshalJSON() ([]byte, error) {
	v := struct {
		ID             string     `json:"id"`
		Label          string     `json:"label"`
		State          State      `json:"state"`
		Dir            string     `json:"dir"`
		Pid            *int       `json:"pid"`
		HandedOff      bool       `json:"handed_off"`
		ExitCode       *int       `json:"exit_code"`
		Signal         *string    `json:"signal"`
		Core           bool       `json:"core"`
		Inferred       string     `json:"inferred_signal,omitempty"`
		PipeStatus     []int      `json:"pipe_status,omitempty"`
		TimedOut       bool       `json:"timed_out"`
		Aborted        bool       `json:"aborted"`
		KilledBy       *Cause     `json:"killed_by"`
		OOMKilled      *bool      `json:"oom_killed"`
		Queued         int64      `json:"queued_ms"`
		Duration       int64      `json:"duration_ms"`
		Timeout        *int64     `json:"timeout_ms"`
		Stdout         *Output    `json:"stdout"`
		Stderr         *Output    `json:"stderr"`
		Merged         *Output    `json:"merged"`
		OutputHeldOpen bool       `json:"output_held_open"`
		AwaitingInput  []Survivor `json:"awaiting_input,omitempty"`
		Leftover       []Survivor `json:"leftover"`
		Survivors      []Survivor `json:"survivors"`
		Usage          *Usage     `json:"usage"`
		LimitsHit      []string   `json:"limits_hit,omitempty"`
		Sandbox        *Sandbox   `json:"sandbox"`
		Feedback       []string   `json:"feedback,omitempty"`
		Notes          []string   `json:"notes,omitempty"`
		Error          string     `json:"error,omitempty"`
		Code           string     `json:"error_code,omitempty"`
		Hint           string     `json:"hint,omitempty"`
	}{
		ID: r.ID, Label: r.Label, State: r.State, Dir: r.Dir, HandedOff: r.HandedOff,
		Core: r.Core, PipeStatus: r.PipeStatus, TimedOut: r.TimedOut, Aborted: r.Aborted, OOMKilled: r.OOMKilled,
		Queued: r.Queued.Milliseconds(), Duration: r.Duration.Milliseconds(),
		Stdout: r.Stdout, Stderr: r.Stderr, Merged: r.Merged, OutputHeldOpen: r.OutputHeldOpen,
		AwaitingInput: r.AwaitingInput,
		Leftover:      orEmpty(r.Leftover), Survivors: orEmpty(r.Survivors), Usage: r.Usage, LimitsHit: r.LimitsHit, Sandbox: r.Sandbox,
		Feedback: r.Feedback, Notes: r.Notes,
		Inferred: r.Inferred(), Code: ErrorCode(r.Err), Hint: Hint(r.Err),
	}
	if r.Pid != 0 {
		v.Pid = &r.Pid
	}
	if r.ExitCode >= 0 {
		v.ExitCode = &r.ExitCode
	}
	if r.Signal != 0 {
		name := signalName(r.Signal)
		v.Signal = &name
	}
	if r.KilledBy != CauseNone {
		v.KilledBy = &r.KilledBy
	}
	if r.Timeout > 0 {
		ms := r.Timeout.Milliseconds()
		v.Timeout = &ms
	}
	if r.Err != nil {
		v.Error = r.Err.Error()
	}
	return json.Marshal(v)
}

// Inferred is the signal that an exit code above 128 stands for in a shell's
// manner, or "". It is no fact: a program may exit with such a code by itself.
func (r *Result) Inferred() string {
	if r.ExitCode <= 128 || r.ExitCode > 128+64 {
		return ""
	}
	return unix.SignalName(syscall.Signal(r.ExitCode - 128))
}

func orEmpty(s []Survivor) []Survivor {
	if s == nil {
		return []Survivor{}
	}
	return s
}

// signalName is a signal's name, as SIGTERM, or its number.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return strconv.Itoa(int(s))
}
