package background

import (
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// An order and its answer are a line of JSON each. A connection has one order.
type order struct {
	Do verb `json:"do"`
	// Data and EOF are of doWrite, Data is doRun's text, too.
	Data []byte `json:"data,omitempty"`
	EOF  bool   `json:"eof,omitempty"`
	// Steps are of doKill; nil is the command's own way.
	Steps []step       `json:"steps,omitempty"`
	Now   bool         `json:"now,omitempty"`
	Size  *runner.Size `json:"size,omitempty"`
	// Dir, Timeout and Merge are of doRun.
	Dir     policy.Path   `json:"dir,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Merge   bool          `json:"merge,omitempty"`
}

type step struct {
	Signal int   `json:"signal"`
	Wait   int64 `json:"wait_ns"`
}

type verb string

const (
	doWait   verb = "wait"
	doKill   verb = "kill"
	doWrite  verb = "write"
	doResize verb = "resize"
	doLoad   verb = "load"
	doRun    verb = "run"
)

// maxOrder bounds a line. What is written comes in smaller pieces.
const maxOrder = 32 << 20

type answer struct {
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
	// Killed says that the command was ended by this order.
	Killed bool  `json:"killed,omitempty"`
	Load   *Load `json:"load,omitempty"`
	// Before the answer to doRun come those with what was printed.
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Ran is the answer to doRun.
	Ran json.RawMessage `json:"ran,omitempty"`
}

func (o *order) stop() []runner.StopStep {
	if o.Now {
		return runner.Immediate
	}
	var steps []runner.StopStep
	for _, s := range o.Steps {
		steps = append(steps, runner.StopStep{Signal: syscall.Signal(s.Signal), Wait: time.Duration(s.Wait)})
	}
	return steps
}

// err is the error that an answer tells.
func (a *answer) err() error {
	switch a.Code {
	case "":
		return nil
	case runner.ErrorCode(runner.ErrNoStdin):
		return runner.ErrNoStdin
	}
	return errors.New(a.Error)
}

func answerOf(err error) *answer {
	if err == nil {
		return &answer{}
	}
	return &answer{Error: err.Error(), Code: runner.ErrorCode(err)}
}

func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}
