package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// touches counts what touch did, so that each time is a new one.
var touches atomic.Int64

// testDir returns a new folder by its real path, readable by its owner only.
func testDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// gitEnv is an environment in which git reads no configuration of the
// machine's.
func gitEnv() []string {
	env := []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
		"GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main",
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// git runs the real git in dir and returns what it printed, less the last
// line end.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	testenv.NeedTool(t, "git")
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = gitEnv()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s%s", args, dir, err, out, &stderr)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// newRepo makes a repository with one commit.
func newRepo(t testing.TB, dir string) string {
	t.Helper()
	mkdir(t, dir)
	git(t, dir, "init", "-q")
	write(t, dir+"/file", "one\n")
	git(t, dir, "add", "file")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir
}

func mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// codes returns the codes of notes, in order.
func codes(notes []Note) string {
	var out []string
	for _, note := range notes {
		out = append(out, note.Code)
	}
	return strings.Join(out, " ")
}
