package record

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// scene is where attempts are made: a repository with a linked worktree beside
// it, a folder that no grant covers, and a process of the same user that isn't
// confined. The process that attempts gets it as JSON.
type scene struct {
	Tree    string // the worktree
	GitDir  string // its own part of the repository
	Common  string // the repository
	Outside string // has a folder for each attempt
	In      string // the same, in the worktree
	Other   bystander

	t        *testing.T
	user     testenv.User
	repo     *testenv.Repo // the worktree's
	launcher string
	base     string     // has the folders that Outside is one of
	rounds   int        // how many of them there are
	stop     func() int // ends the bystander, and returns how many signals it got
}

func newScene(t *testing.T, u testenv.User) *scene {
	t.Helper()
	main := u.NewRepo(t)
	s := &scene{
		t: t, user: u, launcher: testenv.BuildLauncher(t), repo: main.WorktreeBeside(),
		Common: filepath.Join(main.Dir, ".git"), base: u.Dir(t),
	}
	s.Tree = s.repo.Dir
	s.GitDir = s.repo.Git("rev-parse", "--absolute-git-dir")
	return s
}

// fresh returns the scene for t with new folders and a new bystander.
func (s *scene) fresh(t *testing.T) *scene {
	t.Helper()
	c := *s
	c.t = t
	// Names are short: a socket's has 107 bytes.
	c.Outside = filepath.Join(s.base, strconv.Itoa(s.rounds))
	c.In = filepath.Join(s.Tree, "in", strconv.Itoa(s.rounds))
	s.rounds++
	for _, a := range attempts {
		dir := c.folder(a)
		for _, d := range []string{filepath.Join(dir, "empty"), c.inTree(a.name(), "")} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("whole\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.user.Own(t, c.Outside)
	s.user.Own(t, s.Tree)
	c.startBystander()
	return &c
}

// folder is an attempt's own, outside.
func (s *scene) folder(a attempt) string { return filepath.Join(s.Outside, a.name()) }

// startBystander starts the process that isn't confined.
func (s *scene) startBystander() {
	s.t.Helper()
	cmd := s.user.Helper(s.t, "bystander", filepath.Join(s.Outside, "socket"))
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(out))
	ended := false
	s.stop = func() (signals int) {
		s.t.Helper()
		ended = true
		if err := in.Close(); err != nil {
			s.t.Error(err)
		}
		if err := lines.Decode(&signals); err != nil {
			s.t.Errorf("the bystander's last words: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("the bystander: %v", err)
		}
		return signals
	}
	s.t.Cleanup(func() {
		if !ended {
			s.stop()
		}
	})
	if err := lines.Decode(&s.Other); err != nil {
		s.t.Fatalf("the bystander: %v", err)
	}
}

// attempt runs the attempting process, by the launcher with the given options or,
// if they are nil, without. It returns how that ended and, of a run that began,
// what came of each attempt.
func (s *scene) attempt(options []string) (testenv.Result, record, []outcome) {
	s.t.Helper()
	arg, err := json.Marshal(s)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.user.Helper(s.t, "attempt", string(arg))
	rec := func() record { return record{} }
	if options != nil {
		rec = s.confine(cmd, options)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			s.t.Fatal(err)
		}
		defer null.Close()
		cmd.ExtraFiles = []*os.File{null} // as many as confine has
	}
	leak, err := os.OpenFile(filepath.Join(s.folder(leakedDescriptor), "file"), os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer leak.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, leak) // descriptor leakedFD
	s.environ(cmd)
	r := testenv.Run(s.t, cmd)
	var outcomes []outcome
	if r.Code == 0 {
		if err := json.Unmarshal([]byte(r.Stdout), &outcomes); err != nil {
			s.t.Fatalf("attempts: %v: %v", err, r)
		}
	}
	return r, rec(), outcomes
}

// environ gives cmd the scene's home, and drops what git would be led astray by.
func (s *scene) environ(cmd *exec.Cmd) {
	cmd.Dir = s.Tree
	cmd.Env = append(cmd.Env, testenv.GitEnv(s.repo.Home)...) // the last one of a name counts
}

// confine makes cmd run by the launcher, in the worktree. The returned function
// reads the status record afterwards.
func (s *scene) confine(cmd *exec.Cmd, options []string) func() record {
	s.t.Helper()
	f, err := os.CreateTemp(s.t.TempDir(), "status")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = f.Close() })
	cmd.ExtraFiles = []*os.File{f}
	args := append([]string{s.launcher, "--status-fd", "3"}, options...)
	args = append(args, s.Tree, "--", cmd.Path)
	cmd.Args, cmd.Path = append(args, cmd.Args[1:]...), s.launcher
	return func() record {
		s.t.Helper()
		b, err := os.ReadFile(f.Name())
		if err != nil {
			s.t.Fatal(err)
		}
		return readRecord(s.t, string(b))
	}
}

// explain asks the launcher what it would do, and returns its exit code too.
func (s *scene) explain(options ...string) (launch.Applied, int) {
	s.t.Helper()
	cmd := s.user.Command(s.t, s.launcher, append(append([]string{"--explain", "--json"}, options...), s.Tree)...)
	s.environ(cmd)
	r := testenv.Run(s.t, cmd)
	var a launch.Applied
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil {
		s.t.Fatalf("--explain %q: %v: %v", options, err, r)
	}
	return a, r.Code
}

// record is what the status record says.
type record struct {
	events  string // in order, separated by spaces
	applied launch.Applied
	failed  struct {
		Stage, Error, Hint string
		Code               int `json:"exit_code"`
	}
}

func readRecord(t *testing.T, text string) record {
	t.Helper()
	var r record
	var events []string
	for line := range strings.Lines(text) {
		var e struct{ Event string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("status record: %v: %s", err, line)
		}
		var err error
		switch e.Event {
		case "applied":
			r.applied = launch.Applied{} // the last one counts
			err = json.Unmarshal([]byte(line), &r.applied)
		case "setup-failed":
			err = json.Unmarshal([]byte(line), &r.failed)
		}
		if err != nil {
			t.Fatalf("status record: %v: %s", err, line)
		}
		events = append(events, e.Event)
	}
	r.events = strings.Join(events, " ")
	return r
}
