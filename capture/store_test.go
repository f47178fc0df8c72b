package capture

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// openStore returns a new store that is closed when t ends. Without a limit of
// free space, so that it works anywhere.
func openStore(t testing.TB, l Limits) *Store {
	t.Helper()
	if l.Free == 0 {
		l.Free = -1
	}
	s, err := OpenStore(filepath.Join(t.TempDir(), "store"), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// spilled makes an artifact of n bytes and returns its id. It is complete, and
// was written at the given time.
func spilled(t testing.TB, s *Store, n int, at time.Time) ID {
	t.Helper()
	c := New(Options{Store: s, Stdout: Window{Head: 1}, Label: "command"})
	_, _ = c.Stdout.Write(bytes.Repeat([]byte("x"), n))
	c.End()
	shot := c.Stdout.Snapshot()
	if err := errors.Join(c.Close(), shot.SpillErr); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(s.Path(), string(shot.Artifact)), at, at); err != nil {
		t.Fatal(err)
	}
	return shot.Artifact
}

// ids returns the ids of the store's artifacts, the oldest first.
func ids(t testing.TB, s *Store) (list []ID) {
	t.Helper()
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		list = append(list, i.ID)
	}
	return list
}

func TestOpenStore(t *testing.T) {
	dir := t.TempDir()
	mk := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(dir, "file")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(mk("target", 0o700), link)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		want error // nil: it opens
	}{
		{filepath.Join(dir, "new"), nil},
		{filepath.Join(dir, "several", "new"), nil},
		{mk("private", 0o700), nil},
		{mk("searchable", 0o711), ErrNotPrivate},
		{mk("group", 0o770), ErrNotPrivate},
		{mk("sticky", 0o777|fs.ModeSticky), ErrNotPrivate},
		{link, syscall.ENOTDIR},
		{file, syscall.ENOTDIR},
	} {
		s, err := OpenStore(tc.path, Limits{})
		if !errors.Is(err, tc.want) {
			t.Errorf("OpenStore(%s) = %v; want %v", tc.path, err, tc.want)
		}
		if err != nil {
			continue
		}
		if st, err := os.Stat(tc.path); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", tc.path, st, err)
		}
		s.Close()
	}
	if os.Getuid() == 0 {
		other := mk("other", 0o700)
		if err := os.Chown(other, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(other, Limits{}); !errors.Is(err, ErrNotPrivate) {
			t.Errorf("OpenStore(somebody else's) = %v", err)
		}
	}
}

// TestModes: what is in the store is its user's alone, whatever the umask.
func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s := openStore(t, Limits{})
	s.shape = shape{Head: 1, Tail: 1, Step: 1}
	spilled(t, s, 100, time.Now())
	names, err := os.ReadDir(s.Path())
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for _, n := range names {
		if st, err := n.Info(); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", n.Name(), st.Mode(), err)
		}
	}
}

func TestOpenArtifact(t *testing.T) {
	s := openStore(t, Limits{})
	id := spilled(t, s, 100, time.Now())
	in := func(name string) string { return filepath.Join(s.Path(), name) }
	const secret = "outside"
	outside := filepath.Join(t.TempDir(), "cmd-7.txt")
	if err := errors.Join(
		os.WriteFile(outside, []byte(secret), 0o600),
		os.WriteFile(in("cmd-1.txt"), []byte("somebody's"), 0o600),
		os.Symlink(outside, in("cmd-2.txt")),
		os.Symlink(string(id), in("cmd-3.txt")),
		syscall.Mkfifo(in("cmd-4.txt"), 0o600),
		os.Mkdir(in("cmd-5.txt"), 0o700),
		os.WriteFile(in("unrelated"), nil, 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAV"), nil, 0o600),      // without an entry
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAW.json"), nil, 0o600), // an entry of nothing
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAX"), nil, 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAX.json"), []byte("{}{\n"), 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAY"), nil, 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAY.json"), []byte(`{"label":"half`), 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAZ"), []byte("bytes"), 0o600),
		os.WriteFile(in("01ARZ3NDEKTSV4RRFFQ69G5FAZ.json"), []byte("{\"created\":\"2026-01-02T03:04:05Z\"}\n{\"ended\":\"20"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		id   ID
		want error
	}{
		{id, nil},
		{"cmd-1.txt", nil},
		{"cmd-2.txt", syscall.ELOOP},
		{"cmd-3.txt", syscall.ELOOP},
		{"cmd-4.txt", fs.ErrInvalid},
		{"cmd-5.txt", fs.ErrInvalid},
		{"cmd-6.txt", fs.ErrNotExist},
		{"unrelated", ErrBadID},
		{"../cmd-7.txt", ErrBadID},
		{ID(outside), ErrBadID},
		{"", ErrBadID},
		{".", ErrBadID},
		{id + entrySuffix, ErrBadID},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", fs.ErrNotExist},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAW", fs.ErrNotExist},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAX", errBadEntry},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAY", fs.ErrNotExist},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAZ", nil},
	} {
		a, err := s.Open(tc.id)
		if !errors.Is(err, tc.want) {
			t.Errorf("Open(%q) = %v; want %v", tc.id, err, tc.want)
		}
		if err == nil {
			a.Close()
		}
	}
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if len(infos) != 3 || infos[0].ID != "01ARZ3NDEKTSV4RRFFQ69G5FAZ" || infos[1].ID != id || infos[2].ID != "cmd-1.txt" {
		t.Fatalf("List() = %+v", infos)
	}
	for n, i := range infos {
		if i.State != []State{Abandoned, Complete, Complete}[n] || i.Created.IsZero() || i.Written.IsZero() || i.Size == 0 {
			t.Errorf("%+v", i)
		}
	}
	if i := infos[1]; i.Label != "command" || i.Stream != "stdout" || i.Lines != 1 || i.Disk < i.Size {
		t.Errorf("%+v", i)
	}
	if _, err := os.Lstat(in("01ARZ3NDEKTSV4RRFFQ69G5FAW.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an entry of nothing stays: %v", err)
	}
	// Clear leaves what is none of the store's, and follows no link.
	if _, err := s.Clear(id); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != secret {
		t.Errorf("outside: %q, %v", got, err)
	}
	if got := ids(t, s); !slices.Equal(got, []ID{id}) {
		t.Errorf("after Clear: %v", got)
	}
	for _, name := range []string{"unrelated", "cmd-2.txt", "cmd-4.txt", "cmd-5.txt"} {
		if _, err := os.Lstat(in(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestLabel(t *testing.T) {
	s := openStore(t, Limits{})
	c := New(Options{Store: s, Stdout: Window{Head: 1}, Label: "make \xff\n" + strings.Repeat("x", 5000)})
	_, _ = c.Stderr.Write([]byte("xx"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	infos, err := s.List()
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	if l := infos[0].Label; !strings.HasPrefix(l, "make \ufffd\nxxx") || len(l) != maxLabel+2 || infos[0].Stream != "stderr" {
		t.Errorf("%d bytes: %.20q, stream %q", len(l), l, infos[0].Stream)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(filepath.Join(dir, "a", "store"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	if err := errors.Join(
		os.Mkdir(in("b"), 0o700),
		os.Symlink(in("a"), in("link")),
		os.Symlink(in("a", "store"), in("b", "link")),
		os.WriteFile(in("a", "store", "file"), nil, 0o600),
		os.WriteFile(in("a", "file"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		grant string
		bad   bool
	}{
		{in("a", "store"), true},
		{in("a"), true},
		{"/", true},
		{in("link"), true},
		{in("link", "store"), true},
		{in("b", "link"), true},
		{in("a", "store", "file"), true},
		{in("a", "store", "not", "there"), true},
		{in("link", "store", "not-there"), true},
		{in("a", ".", "..", "a"), true},
		{in("b"), false},
		{in("a", "file"), false},
		{in("a", "sto"), false},
		{in("a", "store2"), false},
		{in("b", "not", "there"), false},
		{"/dev/null", false},
	} {
		err := s.Check(in("b"), tc.grant)
		grant := &GrantError{}
		if errors.As(err, &grant) != tc.bad || err != nil && (grant.Grant != filepath.Clean(tc.grant) || grant.Store != s.Path()) {
			t.Errorf("Check(%s) = %v; want an error %v", tc.grant, err, tc.bad)
		}
	}
}

func TestPrune(t *testing.T) {
	now := time.Now()
	hours := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	for _, tc := range []struct {
		name   string
		limits Limits
		want   []int // indices of what is left
	}{
		{"nothing to do", Limits{}, []int{0, 1, 2, 3}},
		{"age", Limits{Age: 150 * time.Minute}, []int{2, 3}},
		{"no limits", Limits{Age: -1, Total: -1, Artifact: -1}, []int{0, 1, 2, 3}},
		{"quota", Limits{Total: 210_000}, []int{2, 3}},
		{"quota for one", Limits{Total: 150_000}, []int{3}},
		{"quota for none", Limits{Total: 1}, nil},
		{"free space", Limits{Free: 1 << 60}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := openStore(t, Limits{Age: -1})
			var all []ID
			for i := range 4 {
				all = append(all, spilled(t, s, 100_000, hours(4-i)))
			}
			c := New(Options{Store: s, Stdout: Window{Head: 1}})
			_, _ = c.Stdout.Write(make([]byte, 10))
			live := c.Stdout.Snapshot().Artifact
			if err := os.Chtimes(filepath.Join(s.Path(), string(live)), hours(9), hours(9)); err != nil {
				t.Fatal(err)
			}
			if tc.limits.Free == 0 {
				tc.limits.Free = -1
			}
			s.limits = tc.limits.filled()
			p, err := s.Prune()
			if err != nil {
				t.Fatal(err)
			}
			want := []ID{live}
			for _, i := range tc.want {
				want = append(want, all[i])
			}
			if got := ids(t, s); !slices.Equal(got, want) {
				t.Errorf("left: %v; want %v", got, want)
			}
			if n := len(all) - len(tc.want); len(p.IDs) != n || !slices.Equal(p.IDs, all[:n]) || p.Bytes < int64(n)*100_000 {
				t.Errorf("Prune() = %+v; want the first %d of %v", p, n, all)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNoRoom: where nothing old is left to remove a spill is given up, at its
// beginning or later.
func TestNoRoom(t *testing.T) {
	s := openStore(t, Limits{Total: 20 << 20})
	old := spilled(t, s, 1<<20, time.Now().Add(-time.Hour))
	c := New(Options{Store: s})
	chunk := make([]byte, 1<<20)
	for i := range 64 {
		_, _ = c.Stdout.Write(chunk)
		shot := c.Stdout.Snapshot()
		if (shot.Artifact == "") != errors.Is(shot.SpillErr, ErrNoRoom) || i < 15 && shot.Artifact == "" || i > 40 && shot.Artifact != "" {
			t.Fatalf("after %d MiB: artifact %q, %v", i+1, shot.Artifact, shot.SpillErr)
		}
	}
	if _, err := s.Open(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old artifact: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	s.limits.Free = 1 << 60
	c = New(Options{Store: s})
	_, _ = c.Stdout.Write(chunk)
	if shot := c.Stdout.Snapshot(); !errors.Is(shot.SpillErr, ErrNoRoom) || shot.Artifact != "" {
		t.Errorf("with no space left: artifact %q, %v", shot.Artifact, shot.SpillErr)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRemove(t *testing.T) {
	s := openStore(t, Limits{})
	c := New(Options{Store: s, Stdout: Window{Head: 1}})
	_, _ = c.Stdout.Write([]byte("bytes"))
	id := c.Stdout.Snapshot().Artifact
	for _, tc := range []struct {
		id   ID
		want error
	}{
		{id, ErrLive},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", fs.ErrNotExist},
		{"../x", ErrBadID},
	} {
		if err := s.Remove(tc.id); !errors.Is(err, tc.want) {
			t.Errorf("Remove(%s) = %v; want %v", tc.id, err, tc.want)
		}
	}
	c.End()
	if err := s.Remove(id); err != nil {
		t.Error(err)
	}
	if shot := c.Stdout.Snapshot(); shot.Artifact != "" || !errors.Is(shot.SpillErr, ErrGone) {
		t.Errorf("after removal: artifact %q, %v", shot.Artifact, shot.SpillErr)
	}
	p := make([]byte, 5)
	if n, err := c.Stdout.ReadAt(p, 0); n != 5 || err != nil || string(p) != "bytes" {
		t.Errorf("ReadAt() = %q, %v", p[:n], err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n, err := c.Stdout.ReadAt(p, 0); n != 1 || !errors.As(err, new(*GapError)) {
		t.Errorf("ReadAt() after Close = %q, %v", p[:n], err)
	}
}

// TestSharedStore: processes that write to a store, and remove what is too much
// of each other's, don't harm each other.
func TestSharedStore(t *testing.T) {
	const quota = 4 << 20
	store := openStore(t, Limits{Total: quota})
	done := make(chan error)
	var kill []func() error
	for i := range 3 {
		cmd := testenv.Helper(t, "writer", store.Path(), strconv.Itoa(i*100_000), strconv.Itoa(quota))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = append(kill, cmd.Process.Kill)
		go func() {
			_, err := io.Copy(io.Discard, out)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != -1 {
				err = errors.Join(err, errors.New("a writer gave up with exit code "+strconv.Itoa(code)))
			}
			done <- err
		}()
	}
	// They are let go on until most of what was seen is gone again.
	seen := map[ID]bool{}
	for left := 0; len(seen) == 0 || len(seen) < 3*left; {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		infos, err := store.List()
		if err != nil {
			t.Fatal(err)
		}
		disk := int64(0)
		for _, i := range infos {
			disk += i.Disk
			seen[i.ID] = true
		}
		if disk > 2*quota {
			t.Errorf("%d artifacts take %d bytes", len(infos), disk)
		}
		left = len(infos)
	}
	for _, f := range kill {
		if err := f(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	infos, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if err := checkWritten(store, i); err != nil {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

// With All everything has an artifact, and only what was written.
func TestAll(t *testing.T) {
	s := openStore(t, Limits{})
	c := New(Options{Store: s, All: true})
	_, _ = c.Stdout.Write([]byte("a"))
	a, err := s.Open(c.Stdout.Snapshot().Artifact)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, _ = c.Stdout.Write([]byte("b"))
	got, err := io.ReadAll(io.NewSectionReader(a, 0, 10))
	if err != nil || string(got) != "ab" {
		t.Errorf("the artifact has %q, %v; want \"ab\"", got, err)
	}
	c.End()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if list := ids(t, s); len(list) != 1 {
		t.Errorf("artifacts %v; want one", list)
	}
}
