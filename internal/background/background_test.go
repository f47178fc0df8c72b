package background

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

func openDir(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "commands"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// put makes the folder of a command that has ended, unless it has no end.
func put(t *testing.T, d *Dir, id, name string, ended time.Time) {
	t.Helper()
	s := Status{ID: id, Name: name, State: runner.StateRunning, Started: ended}
	if !ended.IsZero() {
		s.State, s.Ended = runner.StateExited, ended
	}
	dir := filepath.Join(d.path, id)
	if err := errors.Join(os.Mkdir(dir, 0o700), s.write(dir)); err != nil {
		t.Fatal(err)
	}
}

const (
	idA = "01AAAAAAAAAAAAAAAAAAAAAAA1"
	idB = "01AAAAAAAAAAAAAAAAAAAAAAB2"
	idC = "01CCCCCCCCCCCCCCCCCCCCCCB2"
)

func TestFind(t *testing.T) {
	d, now := openDir(t), time.Now()
	put(t, d, idA, "web", now)
	put(t, d, idB, "web", now)
	put(t, d, idC, "", now)
	for what, want := range map[string]string{
		idA: idA, "web": idB, "AAA1": idA, "aaa1": idA, "01CC": idC, "AAB2": idB, "CB2": "", "01AA": "", "": "", "nosuch": "", "../" + idA: "",
		"01ZZZZZZZZZZZZZZZZZZZZZZZZ": "",
	} {
		c, err := d.Find(what)
		got := ""
		if err == nil {
			got = c.ID
		}
		var missing *FindError
		if got != want || err != nil && !errors.As(err, &missing) {
			t.Errorf("Find(%q) = %q, %v; want %q", what, got, err, want)
		}
		if want == "" && what != "01AA" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Find(%q) = %v; want it to match ErrNotExist", what, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "web-1.x_y": true, "": false, ".a": false, "-a": false, "a b": false, "a/b": false, "é": false,
		strings.Repeat("a", 48): true, strings.Repeat("a", 49): false, idA: false,
	} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("checkName(%q) = %v; want ok %v", name, err, ok)
		}
	}
}

// A command without an end whose supervisor holds no lock is lost.
func TestLost(t *testing.T) {
	d := openDir(t)
	put(t, d, idA, "", time.Time{})
	c, err := d.Find(idA)
	if err != nil || c.State != Lost || !c.Final() {
		t.Errorf("Find() = %+v, %v; want it lost", c, err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Errorf("Wait() = %v; want nil at once", err)
	}
	if killed, err := c.Kill(t.Context(), nil); killed || err != nil {
		t.Errorf("Kill() = %v, %v", killed, err)
	}
}

func TestSweep(t *testing.T) {
	d, now := openDir(t), time.Now()
	put(t, d, idA, "", now.Add(-time.Hour))
	put(t, d, idB, "", now)
	put(t, d, idC, "", now)
	half := filepath.Join(d.path, newPrefix+"x")
	if err := errors.Join(os.Mkdir(half, 0o700), os.Chtimes(half, now.Add(-time.Hour), now.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(Keep{Age: time.Minute}); n != 1 || err != nil {
		t.Errorf("Sweep(age) = %d, %v; want 1", n, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a killed supervisor left behind is still there")
	}
	if n, err := d.Sweep(Keep{Count: 1}); n != 1 || err != nil {
		t.Errorf("Sweep(count) = %d, %v; want 1", n, err)
	}
	if all, err := d.List(); err != nil || len(all) != 1 || all[0].ID != idC {
		t.Errorf("List() = %v, %v; want the last one", all, err)
	}
}

func TestForeign(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"open":   func(p string) error { return errors.Join(os.Mkdir(p, 0o755), os.Chmod(p, 0o755)) },
		"link":   func(p string) error { return os.Symlink(dir, p) },
		"writes": func(p string) error { return errors.Join(os.Mkdir(p, 0o720), os.Chmod(p, 0o720)) },
	} {
		path := filepath.Join(dir, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: Open() = %v; want ErrForeign", name, err)
		}
	}
}
