package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// job is what the inner stage of a sandbox of bubblewrap's has to do. It
// reaches it in a file, since bwrap counts arguments, and as JSON. Strings that
// may have any bytes are paths: these have a form in JSON.
type job struct {
	Path policy.Path   `json:"path"`
	Args []policy.Path `json:"args"`
	Env  []policy.Path `json:"env"`
	Dir  policy.Path   `json:"dir"`
	// Files are the inner stage's descriptors that become the command's 0, 1,
	// 2 and so on; -1 leaves one closed.
	Files      []int `json:"files"`
	NewSession bool  `json:"new_session,omitempty"`
	NewGroup   bool  `json:"new_group,omitempty"`
	// ControllingTerminal makes the command's descriptor 0 that.
	ControllingTerminal bool `json:"controlling_terminal,omitempty"`
	// Linger is how long what the command leaves may go on.
	Linger time.Duration `json:"linger,omitempty"`
	// KeepHUP leaves SIGHUP ignored.
	KeepHUP bool `json:"keep_hup,omitempty"`
	// Socket is where reports go, and where signals come from.
	Socket int `json:"socket"`

	// Cgroup is the descriptor of the control group that the command starts in,
	// 0 for none, and Join are those that it joins.
	Cgroup  int            `json:"cgroup,omitempty"`
	Join    []int          `json:"join,omitempty"`
	Rlimits []spawn.Rlimit `json:"rlimits,omitempty"`

	// Identities are what the mounts must show.
	Identities []bwrap.Identity `json:"identities"`
	// Rules are Landlock's, without its paths. Nil is no Landlock.
	Rules   *landlock.Ruleset   `json:"rules,omitempty"`
	Paths   []jobRule           `json:"paths,omitempty"`
	Filters [][]unix.SockFilter `json:"filters,omitempty"`
	Witness []unix.SockFilter   `json:"witness,omitempty"`
}

// jobRule is a [landlock.PathRule].
type jobRule struct {
	Path       policy.Path       `json:"path"`
	Access     policy.Access     `json:"access"`
	Optional   bool              `json:"optional,omitempty"`
	NoSymlinks bool              `json:"no_symlinks,omitempty"`
	Rights     landlock.FSRights `json:"rights"`
}

// setRules adds a ruleset, unless it is empty.
func (j *job) setRules(rs landlock.Ruleset) {
	if rs.Empty() {
		return
	}
	for _, p := range rs.Paths {
		j.Paths = append(j.Paths, jobRule{policy.Path(p.Grant.Path), p.Grant.Access, p.Grant.Optional, p.Grant.NoSymlinks, p.Rights})
	}
	rs.Paths = nil
	j.Rules = &rs
}

// ruleset is what setRules was given.
func (j *job) ruleset() landlock.Ruleset {
	if j.Rules == nil {
		return landlock.Ruleset{}
	}
	rs := *j.Rules
	for _, p := range j.Paths {
		rs.Paths = append(rs.Paths, landlock.PathRule{
			Grant:  policy.Grant{Path: string(p.Path), Access: p.Access, Optional: p.Optional, NoSymlinks: p.NoSymlinks},
			Rights: p.Rights,
		})
	}
	return rs
}

// file returns an open file with the job in it.
func (j *job) file() (*os.File, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	return bwrap.ArgsFile([]string{string(b)})
}

// readJob reads what file wrote.
func readJob(fd int) (*job, error) {
	f := os.NewFile(uintptr(fd), "job")
	if f == nil {
		return nil, fs.ErrInvalid
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	b := make([]byte, st.Size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	var j job
	if err := json.Unmarshal(bytes.TrimRight(b, "\x00"), &j); err != nil {
		return nil, err
	}
	if len(j.Args) == 0 {
		return nil, fs.ErrInvalid
	}
	return &j, nil
}

// reportEvent says what a report is about.
type reportEvent string

const (
	reportReady   reportEvent = "ready"   // the inner stage runs
	reportWitness reportEvent = "witness" // with the listener of what is traced
	reportStarted reportEvent = "started" // the exec has succeeded
	reportFailed  reportEvent = "failed"  // nothing runs
	reportStopped reportEvent = "stopped"
	reportEnded   reportEvent = "ended"
)

// report is what the inner stage says, one by one packet.
type report struct {
	Event reportEvent `json:"event"`
	// Status and Rusage are how the command ended.
	Status uint32         `json:"status,omitempty"`
	Rusage syscall.Rusage `json:"rusage,omitzero"`

	// Exec says that it is an [ExecError] that kept the command from running;
	// else it is a [SetupError].
	Exec        bool          `json:"exec,omitempty"`
	Interpreter bool          `json:"interpreter,omitempty"`
	Stage       string        `json:"stage,omitempty"`
	Text        policy.Path   `json:"text,omitempty"`
	Hint        policy.Path   `json:"hint,omitempty"`
	Path        policy.Path   `json:"path,omitempty"`
	Errno       syscall.Errno `json:"errno,omitempty"`
}

// reportLimit bounds a packet, in bytes.
const reportLimit = 64 << 10

// parseReport reads what send sent.
func parseReport(packet []byte) (r report, err error) {
	err = json.Unmarshal(packet, &r)
	return r, err
}

// failure makes a report of an error.
func failure(err error) report {
	r := report{Event: reportFailed}
	_ = errors.As(err, &r.Errno)
	var exec *ExecError
	if errors.As(err, &exec) {
		var interp *InterpreterError
		r.Exec, r.Interpreter = true, errors.As(err, &interp)
		r.Path, r.Text, r.Hint = policy.Path(exec.Path), policy.Path(exec.Why), policy.Path(exec.Mend)
		return r
	}
	var setup *SetupError
	r.Stage = StageConfine
	if errors.As(err, &setup) {
		r.Stage = setup.Stage
	}
	r.Path, r.Text, r.Hint = pathOf(err), policy.Path(err.Error()), policy.Path(Hint(err))
	return r
}

// err makes an error of a report, about the command called name.
func (r *report) err(name string) error {
	if !r.Exec {
		return &SetupError{Stage: r.Stage, Err: &InsideError{
			Text: string(r.Text), Mend: string(r.Hint), Path: string(r.Path), Errno: r.Errno,
		}}
	}
	path := string(r.Path)
	e := &ExecError{Name: name, Path: path, Why: string(r.Text), Mend: string(r.Hint)}
	e.Err = &fs.PathError{Op: "exec", Path: path, Err: r.Errno}
	if r.Interpreter {
		e.Err = &InterpreterError{Path: path}
	}
	return e
}

// InsideError is an error that the inner stage of a sandbox found, where it
// had another type. It wraps the errno, if there was one.
type InsideError struct {
	Text, Mend string
	// Path is what it is about; may be empty.
	Path  string
	Errno syscall.Errno
}

func (e *InsideError) Error() string { return e.Text }

// Unwrap returns the errno, or nil.
func (e *InsideError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
