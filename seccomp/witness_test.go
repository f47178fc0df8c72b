package seccomp

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestWitnessShows: what may change something is shown, in every interface that
// is known, and nothing else is refused or shown.
func TestWitnessShows(t *testing.T) {
	const always, metadata, connecting = 1, 2, 4
	shows := map[string]int{}
	for kind, names := range map[int]string{
		always: `openat2 creat truncate truncate64 mkdir mkdirat mknod mknodat unlink unlinkat rmdir rename renameat
			renameat2 link linkat symlink symlinkat bind io_uring_setup`,
		metadata: `chmod fchmod fchmodat fchmodat2 chown chown32 lchown lchown32 fchown fchown32 fchownat utime utimes
			futimesat utimensat utimensat_time64 setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr
			fremovexattr removexattrat file_setattr`,
		connecting: `connect`,
	} {
		for _, name := range strings.Fields(names) {
			shows[name] = kind
		}
	}
	for _, m := range []machine{amd64, arm64} {
		for kinds, w := range map[int]Witness{
			always: {}, always | metadata: {Metadata: true}, always | connecting: {Connect: true},
			always | metadata | connecting: {true, true},
		} {
			v := witnessVM(t, w, m)
			for _, d := range m {
				for c, nr := range d.nr {
					if nr == none {
						continue
					}
					name := callNames[c]
					want := shows[name]&kinds != 0
					for _, flags := range []uint64{0, 1, 2, 3, 0o100, 0o1000, 0o2000, 0o2000000, 0x410000, 0x404000, 1 << 32} {
						switch name {
						case "open", "openat":
							want = uint32(flags)&(3|0o100|0o1000|0x400000) != 0
						}
						in := data{nr: nr, arch: d.arch, args: [6]uint64{0, flags, flags}}
						if name == "open" {
							in.args = [6]uint64{0, flags}
						}
						if got := shownBy(t, v, in); got != want {
							t.Errorf("%+v on %#x: %s with %#x is shown: %v; want %v", w, d.arch, name, flags, got, want)
						}
					}
				}
			}
			for _, in := range []data{
				{nr: 1, arch: 12345},
				{nr: x32Bit | 257, arch: unix.AUDIT_ARCH_X86_64, args: [6]uint64{0, 0, 0o101}},
				{nr: 0xffffffff, arch: m[0].arch},
			} {
				if shownBy(t, v, in) {
					t.Errorf("%+v is shown", in)
				}
			}
		}
	}
}

func witnessVM(t *testing.T, w Witness, m machine) *bpf.VM {
	t.Helper()
	code, err := compile(m, w.rules(), false)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]bpf.RawInstruction, len(code))
	for i, c := range code {
		raw[i] = bpf.RawInstruction{Op: c.Code, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	insts, _ := bpf.Disassemble(raw)
	v, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shownBy runs a program on d.
func shownBy(t *testing.T, v *bpf.VM, d data) bool {
	t.Helper()
	got := evaluate(t, v, d)
	switch got {
	case unix.SECCOMP_RET_ALLOW:
		return false
	case unix.SECCOMP_RET_USER_NOTIF:
		return true
	}
	t.Fatalf("%+v ends in %#x", d, got)
	return false
}

// watched starts a program with a witness.
func watched(t *testing.T, argv ...string) (*spawn.Process, *Listener) {
	t.Helper()
	needFilters(t)
	if err := ProbeWitness(); err != nil {
		testenv.Skip(t, "%v", err)
	}
	w, err := Witness{}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	p, err := spawn.Start(&spawn.Plan{
		Path: argv[0], Argv: argv, Env: os.Environ(), Files: []int{0, 1, 2}, NoNewPrivs: true, Witness: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(p.PidFD)
	l := NewListener(p.Listener)
	t.Cleanup(func() { _ = l.Close() })
	return p, l
}

func reap(t *testing.T, p *spawn.Process) (ws unix.WaitStatus) {
	t.Helper()
	for {
		_, err := unix.Wait4(p.Pid, &ws, 0, nil)
		if err == nil {
			return ws
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

// TestListener: calls are shown with who makes them, and carried out after that.
func TestListener(t *testing.T) {
	testenv.CheckFDs(t)
	dir := testenv.Dir(t)
	p, l := watched(t, "/bin/sh", "-c", `: >"$0/a"; mkdir "$0/b"; read x <"$0/a"; exit 7`, dir)
	var names []string
	for {
		c, err := l.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Thread == p.Pid { // sh opens by one or by the other
			c.Name = strings.TrimSuffix(c.Name, "at")
			if _, err := os.Stat(filepath.Join(dir, "a")); len(names) == 0 && err == nil {
				t.Error("the file is there before its caller goes on")
			}
		}
		names = append(names, strings.TrimSuffix(c.Name, "at"))
		if !l.Waits(c) {
			t.Errorf("%s doesn't wait", c.Name)
		}
		l.Continue(c)
		if l.Waits(c) {
			t.Errorf("%s waits still", c.Name)
		}
		if len(names) == 2 { // the end is seen only when all is reaped
			if ws := reap(t, p); ws.ExitStatus() != 7 {
				t.Errorf("the program ended with %#x; want 7", ws)
			}
		}
	}
	if want := []string{"open", "mkdir"}; !slices.Equal(names, want) {
		t.Errorf("shown were %q; want %q", names, want)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestListenerKilled: who is killed while it waits doesn't wait any more, so that
// its number can't be taken for another's.
func TestListenerKilled(t *testing.T) {
	p, l := watched(t, "/bin/sh", "-c", `: >"$0/a"`, testenv.Dir(t))
	c, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(p.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	reap(t, p)
	if l.Waits(c) {
		t.Error("a call of who was killed waits")
	}
	l.Continue(c)
	if _, err := l.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() = %v; want the end", err)
	}
}

// TestListenerGone: who shows calls that nobody looks at any more gets ENOSYS.
func TestListenerGone(t *testing.T) {
	p, l := watched(t, "/bin/sh", "-c", `: 2>/dev/null >"$0/a" || exit 9`, testenv.Dir(t))
	c, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	l.Continue(c)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.fd = -1
	if ws := reap(t, p); ws.ExitStatus() == 0 {
		t.Errorf("ended with %#x; want a failure", ws)
	}
}
