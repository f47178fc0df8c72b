package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	code := testenv.Main(m, testenv.Helpers{"race host": raceHost})
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir) // nothing runs any more
	}
	os.Exit(code)
}

// programs are those of this module that tests use, besides the launcher.
var programs struct {
	sync.Mutex
	dir string
}

// buildProgram returns the binary of a package of this module, built once.
// Every user may execute it.
func buildProgram(t *testing.T, pkg string) string {
	t.Helper()
	exe := filepath.Join(programDir(t), filepath.Base(pkg))
	programs.Lock()
	defer programs.Unlock()
	if _, err := os.Stat(exe); err == nil {
		return exe
	}
	cmd := testenv.Command(t, "go", "build", "-buildvcs=false", "-o", exe, pkg)
	cmd.Dir = testenv.ModuleRoot(t)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	testenv.Output(t, cmd)
	return exe
}

// programDir returns a folder that every user can read and that lives until
// the last test ends.
func programDir(t *testing.T) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.dir != "" {
		return programs.dir
	}
	dir, err := os.MkdirTemp("", "shofer-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	programs.dir = dir
	return dir
}

// stage is where a test plays: a user, with a home folder of its own, a folder
// to work in, and one that no grant covers. All lie outside /tmp.
type stage struct {
	t        testing.TB
	user     testenv.User
	launcher string
	base     string // holds the others
	home     string // HOME
	tree     string // where commands start, and the launcher's worktree
	outside  string
	env      []string // more variables; the last one of a name counts
}

func newStage(t testing.TB, u testenv.User) *stage {
	t.Helper()
	base := u.Dir(t)
	s := &stage{
		t: t, user: u, launcher: testenv.BuildLauncher(t), base: base,
		home: base + "/home", tree: base + "/tree", outside: base + "/outside",
	}
	for _, dir := range []string{s.home, s.tree, s.outside} {
		s.mkdir(dir)
	}
	return s
}

// toolPath is a PATH with nothing of one user's home folder, where version
// managers keep what others can't run, and with the go that runs this test.
func toolPath() string {
	var list []string
	if path, err := exec.LookPath("go"); err == nil {
		list = append(list, filepath.Dir(path))
	}
	home, _ := os.UserHomeDir()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && (home == "" || !strings.HasPrefix(dir+"/", home+"/")) {
			list = append(list, dir)
		}
	}
	return strings.Join(list, ":")
}

// keptEnv are the variables of this process that commands of a stage get: how
// to reach the network, and what the test's own start decided.
var keptEnv = []string{
	"TMPDIR", "GOPROXY", "GOSUMDB", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_INDEX_URL",
	"NPM_CONFIG_REGISTRY", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}

// command returns a command of the stage's user that isn't confined.
func (s *stage) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	if path := s.find(name); path != "" && !strings.Contains(name, "/") {
		name = path
	}
	cmd := testenv.Command(s.t, name, args...)
	cookie := cmd.Env[len(cmd.Env)-1]
	s.user.Apply(cmd)
	cmd.Env = []string{
		cookie, "HOME=" + s.home, "PATH=" + toolPath(), "LC_ALL=C.UTF-8", "TERM=dumb",
		"USER=" + s.user.String(), "LOGNAME=" + s.user.String(),
	}
	for _, name := range keptEnv {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = s.tree
	return cmd
}

// launch returns a run of the launcher.
func (s *stage) launch(args ...string) *exec.Cmd {
	s.t.Helper()
	return s.command(s.launcher, args...)
}

// inside runs a command by the launcher in the stage's tree.
func (s *stage) inside(args ...string) testenv.Result {
	s.t.Helper()
	return testenv.Run(s.t, s.launch(append([]string{".", "--"}, args...)...))
}

// mustInside is inside for a command that has to succeed. It returns stdout.
func (s *stage) mustInside(args ...string) string {
	s.t.Helper()
	r := s.inside(args...)
	if r.Code != 0 {
		s.t.Fatalf("inside: %q: %v", args, r)
	}
	return r.Stdout
}

// must runs a command that isn't confined and has to succeed. It returns
// stdout.
func (s *stage) must(name string, args ...string) string {
	s.t.Helper()
	return testenv.Output(s.t, s.command(name, args...))
}

// need skips the test unless the stage's user can run the named programs.
func (s *stage) need(names ...string) {
	s.t.Helper()
	for _, name := range names {
		path := s.find(name)
		if path == "" {
			testenv.Skip(s.t, "needs %s in %s", name, toolPath())
		}
		switch name {
		case "go", "sh": // asked in a way of their own
			path = name
		}
		s.user.NeedTool(s.t, path)
	}
}

func (s *stage) find(name string) string {
	for _, dir := range filepath.SplitList(toolPath()) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func (s *stage) mkdir(path string) {
	s.t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.chown(path)
}

// write makes a file of the stage's user.
func (s *stage) write(path, content string, mode fs.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // less no umask
		s.t.Fatal(err)
	}
	s.chown(path)
}

func (s *stage) chown(path string) {
	s.t.Helper()
	if s.user == testenv.Self() {
		return
	}
	if err := os.Lchown(path, s.user.UID, s.user.GID); err != nil {
		s.t.Fatal(err)
	}
}

// status gives cmd a new file as descriptor 3, for --status-fd. The returned
// function reads the record.
func (s *stage) status(cmd *exec.Cmd) func() []event {
	s.t.Helper()
	f, err := os.CreateTemp(s.t.TempDir(), "status")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = f.Close() })
	cmd.ExtraFiles = []*os.File{f}
	return func() []event {
		s.t.Helper()
		b, err := os.ReadFile(f.Name())
		if err != nil {
			s.t.Fatal(err)
		}
		return events(s.t, b)
	}
}

// event is a line of a status record.
type event map[string]any

// events takes a record apart.
func events(t testing.TB, record []byte) (list []event) {
	t.Helper()
	if len(record) > 0 && record[len(record)-1] != '\n' {
		t.Errorf("the status record ends within a line: %q", record)
	}
	for line := range bytes.Lines(record) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("status record: %v: %s", err, line)
		}
		list = append(list, e)
	}
	return list
}

// names are the values of the key event.
func names(list []event) string {
	var s []string
	for _, e := range list {
		s = append(s, fmt.Sprint(e["event"]))
	}
	return strings.Join(s, " ")
}

// tree is what lies beneath some folder: for each path all that a write would
// change.
type tree map[string]string

// snapshot describes everything beneath the given paths, which may be missing.
func snapshot(t testing.TB, paths ...string) tree {
	t.Helper()
	all := tree{}
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				if path == root {
					return filepath.SkipAll // missing
				}
				return err
			}
			st, err := e.Info()
			if err != nil {
				return err
			}
			what := fmt.Sprint(st.Mode(), " ", st.ModTime().UnixNano())
			switch {
			case st.Mode().IsRegular():
				sum, err := hash(path)
				if err != nil {
					return err
				}
				what += fmt.Sprintf(" %d %x", st.Size(), sum)
			case st.Mode()&fs.ModeSymlink != 0:
				to, err := os.Readlink(path)
				if err != nil {
					return err
				}
				what += " " + to
			}
			all[path] = what
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func hash(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil)[:8], err
}

// same fails t for each path that isn't as it was.
func (before tree) same(t testing.TB, after tree) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if after[path] != before[path] {
			t.Errorf("%s changed: %s; was %s", path, after[path], before[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is new: %s", path, after[path])
		}
	}
}
