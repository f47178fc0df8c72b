package background

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

// Status is what is known of a command, as it stands on disk.
type Status struct {
	ID string `json:"id"`
	// Name is what its user calls it; may be empty.
	Name  string      `json:"name,omitempty"`
	Label string      `json:"label"`
	Dir   policy.Path `json:"dir"`
	// Session says that it is a shell that runs commands: see [Command.Run].
	Session bool `json:"session,omitempty"`
	// State is that of the command, or [Lost].
	State   runner.State `json:"state"`
	Started time.Time    `json:"started"`
	// Ended is zero as long as it runs, and for one that is lost.
	Ended time.Time `json:"ended,omitzero"`
	// Pid is the command's, Supervisor the process that looks after it.
	Pid        int `json:"pid"`
	Supervisor int `json:"supervisor_pid"`
	// Born is when the supervisor was started, in ticks since boot: with its
	// number this names it for good.
	Born uint64 `json:"supervisor_start"`
	// Output names the artifacts with what it printed, by stream: stdout and
	// stderr, or output for both. A stream that printed nothing has none.
	Output map[string]capture.ID `json:"output"`
	// Streams are the names of its streams.
	Streams []string `json:"streams"`

	// Exit is what a program that ran it in the foreground would exit with,
	// Outcome how it went, in words, and Remarks are what else to know. They
	// are there at the end.
	Exit    *int     `json:"exit,omitempty"`
	Outcome string   `json:"outcome,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
	// Result is a [runner.Result], at the end.
	Result json.RawMessage `json:"result,omitempty"`
}

// Lost is the state of a command whose supervisor was killed, and the command
// with it.
const Lost runner.State = "lost"

// Final reports whether a command has ended.
func (s *Status) Final() bool { return s.State == Lost || s.State.Final() }

// write puts the status where others read it, whole at any time.
func (s *Status) write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, statusName)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// maxStatus bounds a status: a result has twice the output that is kept in
// memory, escaped.
const maxStatus = 256 << 20

// readStatus reads the status in a folder. A command is lost if its supervisor
// is gone and it has no end.
func readStatus(dir string) (*Status, error) {
	// First: one that ends in between says so before it goes.
	alive := isLocked(filepath.Join(dir, lockName))
	f, err := os.OpenFile(filepath.Join(dir, statusName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return nil, err
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if !isID(s.ID) {
		return nil, errors.New("the status has no id")
	}
	if !s.State.Final() && !alive {
		s.State = Lost
		s.Outcome = "lost: its supervisor was killed, and the command with it"
	}
	return &s, nil
}
