package landlock

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// attempt is an operation and what it must end with.
type attempt struct {
	do   string
	args []string
	want syscall.Errno
}

// check runs the attempts under j and compares.
func check(t *testing.T, u testenv.User, k kernel, j job, attempts []attempt, files ...*os.File) report {
	t.Helper()
	for _, a := range attempts {
		j.Ops = append(j.Ops, op{a.do, a.args})
	}
	r := runConfined(t, u, k, j, files...)
	if r.Err != "" {
		t.Fatal(r.Err)
	}
	for i, a := range attempts {
		if got := r.Errno[i]; got != a.want {
			t.Errorf("%s %q = %d (%v); want %d (%v)", a.do, a.args, got, got, a.want, a.want)
		}
	}
	return r
}

// from returns e on a kernel with at least the given ABI, else success.
func (k kernel) from(abi int, e syscall.Errno) syscall.Errno {
	if k.abi >= abi {
		return e
	}
	return 0
}

// unsupported checks that nothing runs on k, and reports whether k is without
// Landlock.
func unsupported(t *testing.T, u testenv.User, k kernel) bool {
	t.Helper()
	if k.abi > 0 {
		return false
	}
	want := map[string]string{"0": "no Landlock", "off": "not switched on at boot"}[k.name]
	if r := runConfined(t, u, k, job{}); r.Err == "" || !strings.Contains(r.Err, want) {
		t.Errorf("on %+v: error = %q; want one with %q", k, r.Err, want)
	}
	return true
}

// tree is a folder that is granted, with one beside it that is not. Both hold
// the same.
type tree struct{ in, out string }

func newTree(t *testing.T, u testenv.User) tree {
	t.Helper()
	dir := u.Dir(t)
	tr := tree{filepath.Join(dir, "in"), filepath.Join(dir, "out")}
	for _, d := range []string{tr.in, tr.out} {
		for _, sub := range []string{"empty", "sub"} {
			if err := os.MkdirAll(filepath.Join(d, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"file", "gone", "moved", "linked", "x", "y", "sub/file"} {
			if err := os.WriteFile(filepath.Join(d, f), []byte("content\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	u.Own(t, dir)
	return tr
}

func TestEnforceWrite(t *testing.T) {
	eachKernel(t, func(t *testing.T, k kernel) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			if unsupported(t, u, k) {
				return
			}
			tr := newTree(t, u)
			in := func(names ...string) []string { return join(tr.in, names) }
			out := func(names ...string) []string { return join(tr.out, names) }
			const no = syscall.EACCES
			across := syscall.EXDEV // only from ABI 2 another folder can be named
			if k.abi >= 2 {
				across = 0
			}
			attempts := []attempt{
				{"open-r", out("file"), 0},
				{"readdir", out(""), 0},
				{"open-w", in("file"), 0},
				{"open-w", out("file"), no},
				{"open-rw", in("file"), 0},
				{"open-rw", out("file"), no},
				{"open-trunc", in("file"), 0},
				{"open-trunc", out("file"), no},
				{"open-creat", in("new-creat"), 0},
				{"open-creat", out("new-creat"), no},
				{"truncate", in("file"), 0},
				{"truncate", out("file"), k.from(3, no)},
				{"mknod-reg", in("new-reg"), 0},
				{"mknod-reg", out("new-reg"), no},
				{"mknod-fifo", in("new-fifo"), 0},
				{"mknod-fifo", out("new-fifo"), no},
				{"mknod-sock", in("new-sock"), 0},
				{"mknod-sock", out("new-sock"), no},
				{"mknod-char", in("new-char"), no},
				{"mknod-char", out("new-char"), no},
				{"mknod-block", in("new-block"), no},
				{"mknod-block", out("new-block"), no},
				{"mkdir", in("new-dir"), 0},
				{"mkdir", out("new-dir"), no},
				{"symlink", in("new-link"), 0},
				{"symlink", out("new-link"), no},
				{"link", in("linked", "new-hard"), 0},
				{"link", out("linked", "new-hard"), no},
				{"link", in("linked", "sub/new-hard"), across},
				{"link", []string{tr.out + "/linked", tr.in + "/new-hard-out"}, syscall.EXDEV},
				{"link", []string{tr.in + "/linked", tr.out + "/new-hard-in"}, no},
				{"rename", in("moved", "moved2"), 0},
				{"rename", in("moved2", "sub/moved"), across},
				{"rename", out("moved", "moved2"), no},
				{"rename", []string{tr.out + "/moved", tr.in + "/moved-out"}, no},
				{"rename", []string{tr.in + "/x", tr.out + "/moved-in"}, no},
				{"exchange", in("x", "y"), 0},
				{"exchange", in("x", "sub/file"), across},
				{"exchange", out("x", "y"), no},
				{"exchange", []string{tr.in + "/x", tr.out + "/x"}, no},
				{"unlink", in("gone"), 0},
				{"unlink", out("gone"), no},
				{"rmdir", in("empty"), 0},
				{"rmdir", out("empty"), no},
			}
			before := contents(t, tr.out)
			check(t, u, k, job{Grants: []policy.Grant{{Path: tr.in, Access: policy.Write}}}, attempts)
			if k.abi >= 3 {
				if after := contents(t, tr.out); after != before {
					t.Errorf("outside there is now\n%s\nand was\n%s", after, before)
				}
			}
		})
	})
}

func join(dir string, names []string) []string {
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = filepath.Join(dir, n)
	}
	return paths
}

// contents describes a folder and what is in its files.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		b.WriteString(p + " " + fi.Mode().String())
		if fi.Mode().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b.WriteString(" " + strconv.Quote(string(content)))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEnforceRead(t *testing.T) {
	eachKernel(t, func(t *testing.T, k kernel) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			if unsupported(t, u, k) {
				return
			}
			tr := newTree(t, u)
			exe, err := os.ReadFile("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{tr.in, tr.out} {
				if err := os.WriteFile(filepath.Join(d, "sh"), exe, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(d, "sh"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			grants := []policy.Grant{
				{Path: tr.in, Access: policy.Read},
				{Path: tr.out + "/sub", Access: policy.Write}, // what is writable is readable
				{Path: "/dev/null", Access: policy.Read | policy.Write},
			}
			for _, lib := range []string{"/lib", "/lib64", "/usr/lib", "/etc/ld.so.cache"} { // of sh
				grants = append(grants, policy.Grant{Path: lib, Access: policy.Read, Optional: true})
			}
			check(t, u, k, job{ReadList: true, Grants: grants}, []attempt{
				{"open-r", []string{tr.in + "/file"}, 0},
				{"open-r", []string{tr.out + "/file"}, syscall.EACCES},
				{"readdir", []string{tr.in}, 0},
				{"readdir", []string{tr.out}, syscall.EACCES},
				{"exec", []string{tr.in + "/sh"}, 0},
				{"exec", []string{tr.out + "/sh"}, syscall.EACCES},
				{"open-w", []string{tr.in + "/file"}, syscall.EACCES},
				{"readdir", []string{tr.out + "/sub"}, 0},
				{"open-rw", []string{tr.out + "/sub/file"}, 0},
				{"open-r", []string{"/etc/passwd"}, syscall.EACCES},
			})
		})
	})
}

func TestEnforceDevices(t *testing.T) {
	eachKernel(t, func(t *testing.T, k kernel) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			if unsupported(t, u, k) {
				return
			}
			grants := []policy.Grant{
				{Path: "/dev/null", Access: policy.Write | policy.Ioctl},
				{Path: "/dev/random", Access: policy.Write | policy.Ioctl},
			}
			check(t, u, k, job{Grants: grants}, []attempt{
				{"open-rw", []string{"/dev/null"}, 0},
				{"open-rw", []string{"/dev/zero"}, syscall.EACCES},
				{"entropy", []string{"/dev/random"}, 0},
				{"entropy", []string{"/dev/urandom"}, k.from(5, syscall.EACCES)},
			})
		})
	})
}

func TestEnforceIPC(t *testing.T) {
	testenv.NeedTool(t, "sleep")
	abstract := "@shofer-landlock-" + strconv.Itoa(os.Getpid())
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eachKernel(t, func(t *testing.T, k kernel) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			if unsupported(t, u, k) {
				return
			}
			// A process of the same user, outside.
			outside := u.Command(t, "sleep", "60")
			if err := outside.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = outside.Process.Kill()
				_ = outside.Wait()
			}()
			pid := strconv.Itoa(outside.Process.Pid)
			path := filepath.Join(u.Dir(t), "s")
			srv, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
			null := policy.Grant{Path: "/dev/null", Access: policy.Write} // for starting a child
			check(t, u, k, job{Grants: []policy.Grant{null}}, []attempt{
				{"signal", []string{pid}, k.from(6, syscall.EPERM)},
				{"signal-child", nil, 0},
				{"connect-unix", []string{abstract}, k.from(6, syscall.EPERM)},
				{"connect-own-abstract", nil, 0},
				{"connect-unix", []string{path}, k.from(9, syscall.EACCES)},
			})
			check(t, u, k, job{
				IPC:    policy.IPC{AllowSignals: true, AllowAbstract: true},
				Grants: []policy.Grant{{Path: path, Access: policy.Connect}},
			}, []attempt{
				{"signal", []string{pid}, 0},
				{"connect-unix", []string{abstract}, 0},
				{"connect-unix", []string{path}, 0},
			})
		})
	})
}

func TestEnforceNetwork(t *testing.T) {
	yes, no := listener(t), listener(t)
	port, err := strconv.ParseUint(yes, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	listed := []uint16{uint16(port)}
	eachKernel(t, func(t *testing.T, k kernel) {
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			if unsupported(t, u, k) {
				return
			}
			// One list says nothing about the other operations.
			check(t, u, k, job{Network: policy.Network{ConnectTCP: listed, ConnectUDP: listed}}, []attempt{
				{"connect-tcp", []string{yes}, 0},
				{"connect-tcp", []string{no}, k.from(4, syscall.EACCES)},
				{"bind-tcp", []string{"0"}, 0},
				{"connect-udp", []string{yes}, 0},
				{"connect-udp", []string{no}, k.from(10, syscall.EACCES)},
				{"bind-udp", []string{"0"}, 0},
			})
			check(t, u, k, job{Network: policy.Network{BindTCP: []uint16{0}, BindUDP: []uint16{0}}}, []attempt{
				{"bind-tcp", []string{"0"}, 0},
				{"bind-tcp", []string{no}, max(k.from(4, syscall.EACCES), k.before(4, syscall.EADDRINUSE))},
				{"connect-tcp", []string{no}, 0},
				{"bind-udp", []string{"0"}, 0},
				{"bind-udp", []string{no}, k.from(10, syscall.EACCES)},
				{"connect-udp", []string{no}, 0},
			})
			check(t, u, k, job{Network: policy.Network{ConnectTCP: []uint16{}}}, []attempt{
				{"connect-tcp", []string{yes}, k.from(4, syscall.EACCES)},
			})
		})
	})
}

// before returns e on a kernel with a lower ABI, else 0.
func (k kernel) before(abi int, e syscall.Errno) syscall.Errno {
	if k.abi < abi {
		return e
	}
	return 0
}

// TestGaps shows that each gap is one, so that the reports say the truth. Where
// a kernel has closed one, the table is to be mended.
func TestGaps(t *testing.T) {
	needABI(t, 4)
	if s := Probe(); s.ABI > Newest {
		testenv.Skip(t, "ABI %d is newer than what is known here", s.ABI)
	}
	k := kernel{abi: Probe().ABI}
	yes, no := listener(t), listener(t)
	port, err := strconv.ParseUint(yes, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	n := policy.Network{ConnectTCP: []uint16{uint16(port)}, BindTCP: []uint16{}}
	u := testenv.Ordinary()
	attempts := []attempt{
		{"connect-tcp", []string{no}, syscall.EACCES},
		{"bind-tcp", []string{"0"}, syscall.EACCES},
	}
	offers := func(proto int) bool {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, proto, func(int) error { return nil }) == nil
	}
	for _, g := range Gaps(Probe(), n) {
		switch g {
		case GapMPTCP:
			if offers(unix.IPPROTO_MPTCP) {
				attempts = append(attempts,
					attempt{"connect-mptcp", []string{no}, 0},
					attempt{"bind-mptcp", []string{"0"}, 0})
			}
		case GapFastOpen: // some kernels have closed it, and don't say so
		case GapListen:
			attempts = append(attempts, attempt{"listen-unbound", nil, 0})
		case GapSMC: // no machine with the module was at hand
		default:
			t.Errorf("the gap %s was not tried", g)
		}
	}
	check(t, u, k, job{Network: n}, attempts)
	r := runConfined(t, u, k, job{Network: n, Ops: []op{{"fast-open", []string{no}}}})
	if got := r.Errno[0]; got != 0 && got != syscall.EACCES {
		t.Errorf("fast-open = %v; want success or EACCES", got)
	}
}

func TestEnforceAddFD(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		needABI(t, 3)
		tr := newTree(t, u)
		k := kernel{abi: Probe().ABI}
		open := func(name string, flags int) *os.File {
			f, err := os.OpenFile(filepath.Join(tr.out, name), flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		mem, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		memfd := os.NewFile(uintptr(mem), "memfd")
		defer memfd.Close()
		if err := w.Chown(u.UID, u.GID); err != nil {
			t.Fatal(err)
		}
		files := []*os.File{
			open("file", os.O_WRONLY|os.O_APPEND), // 3
			open("x", os.O_RDONLY),                // 4
			open("sub", os.O_RDONLY),              // 5
			w, memfd,                              // 6, 7
		}
		rep := check(t, u, k, job{AddFDs: []int{3, 4, 5, 6, 7}}, []attempt{
			{"open-w", []string{"/proc/self/fd/3"}, 0},
			{"open-trunc", []string{"/proc/self/fd/3"}, 0},
			{"open-rw", []string{tr.out + "/file"}, 0},
			{"open-w", []string{"/proc/self/fd/4"}, syscall.EACCES},
			{"open-w", []string{tr.out + "/x"}, syscall.EACCES},
			{"open-w", []string{"/proc/self/fd/5/file"}, syscall.EACCES},
			{"mkdir", []string{tr.out + "/sub/new"}, syscall.EACCES},
			{"open-w", []string{"/proc/self/fd/6"}, 0}, // no rule is needed
			{"open-rw", []string{"/proc/self/fd/7"}, 0},
			{"unlink", []string{tr.out + "/file"}, syscall.EACCES},
		}, files...)
		if len(rep.Applied) != 1 || rep.Applied[0].Grant.Path != tr.out+"/file" || rep.Applied[0].Grant.Origin != policy.FromStdio {
			t.Errorf("applied = %+v; want %s alone", rep.Applied, tr.out+"/file")
		}
	})
}
