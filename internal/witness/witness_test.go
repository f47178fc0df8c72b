package witness

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// itself looks at this process.
func itself(t *testing.T) *looker {
	t.Helper()
	l := &looker{act: &Act{call: &seccomp.Call{Thread: os.Getpid()}}, proc: "/proc/self/", root: -1}
	if err := l.enter(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// TestWalk: paths lead where the kernel says that they do.
func TestWalk(t *testing.T) {
	l := itself(t)
	top := testenv.Dir(t)
	for _, dir := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"f", "a/f", "a/b/f"} {
		if err := os.WriteFile(filepath.Join(top, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"up": "..", "a/up": "../d", "a/b/top": top, "down": "a/b/c", "d/file": "../a/f", "none": "a/none", "loop": "loop",
		"a/loop": "../loop2", "loop2": "a/loop", "d/chain": "../down/../../up/up", "slash": "a/b/", "self": "/proc/self/cwd", "d/root": "/",
		"a/b/none": "../../none",
	} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{
		"a", "b", "c", "d", "f", "up", "top", "down", "file", "none", "loop", "chain", "slash", "self", "root", "..", ".", "", "new", "loop2",
		strings.TrimPrefix(top, "/"),
	}
	r := rand.New(rand.NewPCG(1, 2))
	found, missing := 0, 0
	for range 20_000 {
		parts := make([]string, 1+r.IntN(6))
		for i := range parts {
			parts[i] = names[r.IntN(len(names))]
		}
		path, follow := strings.Join(parts, "/"), r.IntN(2) == 0
		start := top
		if r.IntN(2) == 0 {
			start = top + "/a/b"
		}
		dir, err := unix.Open(start, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		flags := unix.O_PATH | unix.O_CLOEXEC
		if !follow {
			flags |= unix.O_NOFOLLOW
		}
		if path == "" {
			path = "."
		}
		fd, err := unix.Openat(dir, path, flags, 0)
		got := l.walk(walk{top: "/", start: start, path: path, follow: follow})
		_ = unix.Close(dir)
		if errors.Is(err, unix.EACCES) {
			continue // who may go where is another question
		}
		if err != nil {
			missing++
			if got != nil && got.exists {
				t.Errorf("walk(%q, %q, %v) = %s; want %v", start, path, follow, got.real, err)
			}
			continue
		}
		found++
		want, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		var st unix.Stat_t
		if e := unix.Fstat(fd, &st); e != nil {
			err = e
		}
		_ = unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		if got == nil || !got.exists || got.real != want || got.st.Ino != st.Ino || got.st.Dev != st.Dev {
			t.Errorf("walk(%q, %q, %v) = %+v; want %s", start, path, follow, got, want)
		}
	}
	if found < 1000 || missing < 1000 {
		t.Errorf("%d paths led somewhere, %d nowhere; want more of both", found, missing)
	}
}

// A path isn't followed for as long as its links make it.
func TestWalkFar(t *testing.T) {
	l := itself(t)
	top := testenv.Dir(t)
	if err := os.WriteFile(top+"/0", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 39 {
		if err := os.Symlink(strings.Repeat("./", 2000)+strconv.Itoa(i), top+"/"+strconv.Itoa(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"0": true, "2": true, "3": false, "39": false} {
		if got := l.walk(walk{top: "/", start: top, path: name, follow: true}); (got != nil && got.exists) != want {
			t.Errorf("walk(%q) = %+v; want something: %v", name, got, want)
		}
	}
}

// TestReach: what isn't there can be made where its folder is.
func TestReach(t *testing.T) {
	l := itself(t)
	top := testenv.Dir(t)
	if err := errors.Join(os.Mkdir(top+"/d", 0o700), os.WriteFile(top+"/f", nil, 0o600), os.Symlink("d/new", top+"/l"), os.Symlink("none/new", top+"/m")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"new": true, "d/new": true, "d/../new": true, "new/": true, "l": true,
		"none/new": false, "f/new": false, "new/.": false, "new/..": false, "m": false,
	} {
		got := l.walk(walk{top: "/", start: top, path: path, follow: true})
		if got == nil || got.exists || got.reachable != want {
			t.Errorf("walk(%q) = %+v; want reachable %v", path, got, want)
		}
	}
	if err := os.Mkdir(top+"/gone", 0o700); err != nil {
		t.Fatal(err)
	}
	if got := l.walk(walk{top: "/", start: top + "/gone (deleted)", path: "new"}); got != nil {
		t.Errorf("in a folder that was removed: %+v", got)
	}
}

// TestText: strings end at the end of what is mapped, and not before.
func TestText(t *testing.T) {
	l := itself(t)
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := unix.Mprotect(mem[2*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x/", 2000)
	for _, text := range []string{"", "a", "/some/path", long, long + strings.Repeat("y", 94)} {
		at := 2*page - len(text) - 1
		copy(mem[at:], text+"\x00")
		if got, err := l.text(address(mem[at:])); got != text || err != nil {
			t.Errorf("text of %d bytes = %d bytes, %v", len(text), len(got), err)
		}
		b := make([]byte, len(text))
		if n, err := l.readFile(address(mem[at:]), b); len(text) > 0 && (n != len(text) || err != nil || string(b) != text) {
			t.Errorf("readFile of %d bytes = %d bytes, %v", len(text), n, err)
		}
	}
	for i := range mem[:2*page] {
		mem[i] = 'x'
	}
	for _, at := range []uint64{address(mem[2*page-9:]), address(mem[page:]), address(mem[:]), 8} {
		if got, err := l.text(at); !errors.Is(err, errNothing) {
			t.Errorf("text without an end = %d bytes, %v", len(got), err)
		}
	}
}

// TestPermits: what the mode lets whom do.
func TestPermits(t *testing.T) {
	const w = unix.W_OK
	override, fowner := uint64(1<<unix.CAP_DAC_OVERRIDE), uint64(1<<unix.CAP_FOWNER)
	for _, tt := range []struct {
		mode uint32
		who  status
		want bool
	}{
		{0o200, status{uid: 5}, true},
		{0o077, status{uid: 5}, false}, // the owner's bits count for the owner
		{0o020, status{uid: 6, gid: 7}, true},
		{0o020, status{uid: 6, groups: []uint32{1, 7}}, true},
		{0o202, status{uid: 6, gid: 7}, false},
		{0o002, status{uid: 6, gid: 6}, true},
		{0o220, status{uid: 6, gid: 6}, false},
		{0, status{uid: 0}, false},
		{0, status{uid: 0, caps: override}, true},
	} {
		st := unix.Stat_t{Uid: 5, Gid: 7, Mode: tt.mode}
		if got := tt.who.allows(&st, w); got != tt.want {
			t.Errorf("%+v writing to %#o of 5 and 7: %v; want %v", tt.who, tt.mode, got, tt.want)
		}
	}
	for _, tt := range []struct {
		who      status
		uid, gid int32
		want     bool
	}{
		{status{uid: 5}, -1, -1, true},
		{status{uid: 5}, 5, 7, true},
		{status{uid: 5}, 6, -1, false},
		{status{uid: 5}, -1, 8, false},
		{status{uid: 5, groups: []uint32{8}}, -1, 8, true},
		{status{uid: 6}, -1, -1, false},
		{status{uid: 6, caps: 1 << unix.CAP_CHOWN}, 9, 9, true},
	} {
		x := Access{File: unix.Stat_t{Uid: 5, Gid: 7}, owners: [2]int32{tt.uid, tt.gid}}
		if got := tt.who.chowns(&x); got != tt.want {
			t.Errorf("%+v giving 5's and 7's to %d, %d: %v; want %v", tt.who, tt.uid, tt.gid, got, tt.want)
		}
	}

	dir := testenv.Dir(t)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	owner := uint32(os.Getuid())
	x := Access{File: unix.Stat_t{Uid: owner + 1}, Op: policy.OpRemove}
	for _, tt := range []struct {
		who  status
		want bool
	}{
		{status{uid: owner}, true},
		{status{uid: owner + 1}, true},
		{status{uid: owner + 2}, false},
		{status{uid: owner + 2, caps: fowner}, true},
	} {
		if got := tt.who.unstuck(dir, &x); got != tt.want {
			t.Errorf("%+v removing another's from a shared folder: %v; want %v", tt.who, got, tt.want)
		}
	}
}

// TestStatus: this process is read as what it is.
func TestStatus(t *testing.T) {
	s, err := readStatus("/proc/self/status")
	if err != nil || s.tgid != os.Getpid() || int(s.uid) != os.Geteuid() || int(s.gid) != os.Getegid() || s.inside[0] == "" {
		t.Errorf("readStatus = %+v, %v", s, err)
	}
}

// TestLook: of calls with whatever arguments something is said, or nothing.
func TestLook(t *testing.T) {
	dir := testenv.Dir(t)
	t.Chdir(dir)
	l, err := net.Listen("unix", dir+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := errors.Join(os.Symlink("loop", "loop"), os.Symlink("sock", "link"), os.WriteFile("file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	socket := func(family uint16, path string) []byte {
		return append(binary.NativeEndian.AppendUint16(nil, family), path...)
	}
	for _, tt := range []struct {
		call string
		arg  []byte
		want string // op and name
	}{
		{"connect", socket(unix.AF_UNIX, "sock"), "connect sock"},
		{"connect", socket(unix.AF_UNIX, "./link\x00rest"), "connect sock"},
		{"connect", socket(unix.AF_UNIX, "loop"), ""},
		{"connect", socket(unix.AF_UNIX, "none"), ""},
		{"connect", socket(unix.AF_UNIX, "file"), ""},
		{"connect", socket(unix.AF_UNIX, ""), ""},
		{"connect", socket(unix.AF_UNIX, "\x00sock"), ""},
		{"connect", socket(unix.AF_UNIX, strings.Repeat("x", 200)), ""},
		{"connect", socket(unix.AF_INET, "sock"), ""},
		{"connect", []byte{1}, ""},
		{"bind", socket(unix.AF_UNIX, "new"), "create new"},
		{"bind", socket(unix.AF_UNIX, "sock"), ""},
		{"bind", socket(unix.AF_UNIX, "loop"), ""},
		{"bind", socket(unix.AF_UNIX, "loop/x"), ""},
		{"chmod", []byte("file\x00"), "write file"},
		{"chmod", []byte("none\x00"), ""},
		{"chmod", []byte("loop\x00"), ""},
		{"lchown", []byte("loop\x00"), "write loop"},
		{"unlink", []byte("loop\x00"), "remove loop"},
		{"unlink", []byte("loop/\x00"), ""},
		{"unlink", []byte(".\x00"), ""},
		{"rmdir", []byte("..\x00"), ""},
		{"truncate", []byte("loop\x00"), ""},
		{"mkdir", []byte("new/\x00"), "mkdir new"},
		{"mkdir", []byte("new/.\x00"), ""},
		{"mkdir", []byte("/\x00"), ""},
		{"creat", []byte("new/\x00"), ""},
		{"setxattr", []byte("link\x00"), "write sock"},
		{"fchmod", nil, ""},
		{"fsetxattr", nil, ""},
		{"getpid", nil, ""},
	} {
		clear(mem) // which doesn't move
		copy(mem, tt.arg)
		c := seccomp.Call{Thread: unix.Gettid(), Name: tt.call}
		switch tt.call {
		case "connect", "bind":
			c.Args[1], c.Args[2] = address(mem), uint64(len(tt.arg))
		case "fchmod", "fsetxattr":
			c.Args[0] = 999
		default:
			c.Args[0] = address(mem)
		}
		a, err := Look(&c)
		if err != nil {
			t.Errorf("%s %q: %v", tt.call, tt.arg, err)
			continue
		}
		got := ""
		for _, x := range a.Accesses {
			got += string(x.Op) + " " + strings.TrimPrefix(x.Real, dir+"/")
		}
		if got != tt.want {
			t.Errorf("%s %q: %q; want %q", tt.call, tt.arg, got, tt.want)
		}
	}
	if a, err := Look(&seccomp.Call{Thread: unix.Gettid(), Name: "io_uring_setup"}); err != nil || !a.Ring {
		t.Errorf("io_uring_setup: %+v, %v", a, err)
	}
	var blind *BlindError
	if _, err := Look(&seccomp.Call{Name: "mkdir"}); !errors.As(err, &blind) {
		t.Errorf("a process without a number: %v", err)
	}
	if _, err := Look(&seccomp.Call{Thread: 1 << 22, Name: "mkdir"}); err == nil {
		t.Error("a process that isn't there is no error")
	}
}
