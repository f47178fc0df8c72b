// Package escape_test runs commands that try to get out: to change what is not
// granted, and to reach the processes outside. What each attempt must end with
// is in tables, by errno; so is what the same attempt must be able to do inside.
//
// A backend is a function that confines a command; all of them are held against
// the same tables.
package escape_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

// attackVar names a prebuilt attack program, for machines without Go.
const attackVar = "SHOFER_TEST_ATTACK"

func TestMain(m *testing.M) {
	code := testenv.Main(m, testenv.Helpers{"host": hostMain})
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // nothing depends on it any more
	}
	os.Exit(code)
}

var buildDir string

// buildAttack builds the attacking program, once.
var buildAttack = sync.OnceValues(func() (string, error) {
	if exe := os.Getenv(attackVar); exe != "" {
		return exe, nil
	}
	dir, err := os.MkdirTemp("", "shofer-attack-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // for the ordinary user
		return "", err
	}
	exe := filepath.Join(dir, "attack")
	ctx, cancel := context.WithTimeout(context.Background(), testenv.CommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", exe, "./attack")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return exe, nil
})

// need returns the attacking program and the launcher. It skips t where writes
// can't be confined.
func need(t *testing.T) (attack, launcher string) {
	t.Helper()
	if s := landlock.Probe(); s.ABI < 3 {
		testenv.Skip(t, "needs Landlock ABI 3, this kernel has %d %s", s.ABI, s.Reason())
	}
	if os.Getenv(attackVar) == "" || os.Getenv(testenv.LauncherVar) == "" {
		testenv.NeedTool(t, "go")
	}
	attack, err := buildAttack()
	if err != nil {
		t.Fatal(err)
	}
	return attack, testenv.BuildLauncher(t)
}

// prepare makes, in dir, the folders that the attack wants, owned by u.
func prepare(t *testing.T, u testenv.User, dir string) (in, out string) {
	t.Helper()
	in, out = filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, out} {
		if err := attack.Prepare(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "leaked"), []byte("whole\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	u.Own(t, dir)
	return in, out
}

// TestEscape tries everything, from a command that the launcher confined, and
// from one that a Go program did.
func TestEscape(t *testing.T) {
	attack, launcher := need(t)
	for backend := range backends {
		t.Run(backend, func(t *testing.T) {
			testenv.EachUser(t, func(t *testing.T, u testenv.User) {
				escape(t, u, u.Dir(t), hostJob{Backend: backend, Launcher: launcher, Attack: attack})
			})
			// With all capabilities a command can get around mounts: what only
			// they hold is refused.
			if u := testenv.Self(); u.UID == 0 && backend != "mounts" {
				t.Run("root-all-caps", func(t *testing.T) {
					escape(t, u, u.Dir(t), hostJob{Backend: backend, Launcher: launcher, Attack: attack, Caps: []string{"all"}})
				})
			}
		})
	}
}

// TestEscapeBtrfs tries everything on a file system that has calls of its own.
func TestEscapeBtrfs(t *testing.T) {
	attack, launcher := need(t)
	if os.Getuid() != 0 {
		t.Log("only root can mount, and root's run has it")
		return
	}
	testenv.NeedTool(t, "mkfs.btrfs", "mount", "umount")
	dir := testenv.Dir(t)
	image, mnt := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	testenv.Output(t, testenv.Command(t, "mkfs.btrfs", "--quiet", image))
	if r := testenv.Run(t, testenv.Command(t, "mount", "-o", "loop", image, mnt)); r.Code != 0 {
		testenv.Skip(t, "no btrfs can be mounted: %v", r)
	}
	t.Cleanup(func() { testenv.Output(t, testenv.Command(t, "umount", mnt)) })
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		work := filepath.Join(mnt, u.String())
		if err := os.Mkdir(work, 0o755); err != nil {
			t.Fatal(err)
		}
		escape(t, u, work, hostJob{Backend: "launcher", Launcher: launcher, Attack: attack})
	})
}

// escape runs j, in dir, and holds what became of it against the tables.
func escape(t *testing.T, u testenv.User, dir string, j hostJob) {
	t.Helper()
	j.In, j.Out = prepare(t, u, dir)
	before := contents(t, j.Out)
	rep, results := runHost(t, u, j)
	abi, allCaps := landlock.Probe().ABI, j.Caps != nil
	tables := map[string]wants{
		"outside": outside(allCaps), "inside": inside(allCaps), "system": system(allCaps),
		"host": host(abi), "thread": host(abi), "child": child(abi),
	}
	if j.Backend == "bwrap" {
		boxed(tables, u.UID == 0)
	}
	seen := map[string]bool{}
	threads := map[int]bool{}
	for _, r := range results {
		what := r.Where + " " + r.Name
		seen[what] = true
		got := want{r.Op, syscall.Errno(r.Errno)}
		if r.TID != 0 {
			what += " " + strconv.Itoa(r.TID)
			threads[r.TID] = true
		}
		want, ok := tables[r.Where][r.Name]
		switch {
		case r.Skip != "":
			if strings.HasPrefix(r.Name, "userns-") || strings.HasPrefix(r.Name, "uring-") {
				t.Run(r.Name, func(t *testing.T) { testenv.Skip(t, "%s", r.Skip) })
			}
			t.Logf("%s: not tried: %s", what, r.Skip)
		case !ok:
			t.Errorf("%s: no table has it", what)
		case allCaps && r.Name == "proc-environ":
			// From about Linux 6.13 who has CAP_PERFMON may read it.
		case got != want:
			t.Errorf("%s = %s %d (%s); want %s %d", what, got.op, got.errno, r.Text, want.op, want.errno)
		}
	}
	for where, table := range tables {
		for name := range table {
			if where != "thread" && !seen[where+" "+name] {
				t.Errorf("%s %s was not tried", where, name)
			}
		}
	}
	if len(threads) < rep.Threads && j.Backend != "bwrap" {
		t.Errorf("%d threads of the host were attacked; it has at least %d", len(threads), rep.Threads)
	}
	if rep.Canary != "canary!!" {
		t.Errorf("the host's memory is now %q", rep.Canary)
	}
	if rep.Signals != 0 && abi >= 6 {
		t.Errorf("%d signals reached the host", rep.Signals)
	}
	if rep.Leaked != "whole\n" {
		t.Errorf("the file of a descriptor that should not have got through is now %q", rep.Leaked)
	}
	after := contents(t, j.Out)
	paths := map[string]bool{}
	for _, m := range []map[string]string{before, after} {
		for path := range m {
			paths[path] = true
		}
	}
	for path := range paths {
		if before[path] != after[path] {
			t.Errorf("%s was %q and is now %q", path, before[path], after[path])
		}
	}
}

// contents maps the paths in a folder to what is there.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		shut := errors.Is(err, fs.ErrPermission) // by an attack
		if err != nil && !shut {
			return err
		}
		all[p] = e.Type().String()
		if shut {
			all[p] += " shut"
		}
		if e.Type().IsRegular() {
			content, err := os.ReadFile(p)
			all[p] += " " + string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
