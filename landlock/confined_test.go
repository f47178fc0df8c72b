package landlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// job is what the helper "confined" does: it confines itself as asked, does
// each operation, and reports.
type job struct {
	ReadList bool
	Network  policy.Network
	IPC      policy.IPC
	Grants   []policy.Grant
	AddFDs   []int
	Ops      []op
}

// op is one operation on the system.
type op struct {
	Do   string
	Args []string
}

// report is what became of a job.
type report struct {
	// Err is why nothing was enforced.
	Err string
	// Errno is what each operation ended with, 0 for success.
	Errno   []syscall.Errno
	Applied []PathRule
}

// runConfined runs j in a process of u on k.
func runConfined(t *testing.T, u testenv.User, k kernel, j job, files ...*os.File) report {
	t.Helper()
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := k.under(t, u.Helper(t, "confined", string(in)))
	cmd.ExtraFiles = files
	var r report
	if err := json.Unmarshal([]byte(testenv.Output(t, cmd)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Err == "" && len(r.Errno) != len(j.Ops) {
		t.Fatalf("%d operations gave %d results", len(j.Ops), len(r.Errno))
	}
	return r
}

func confinedMain(args []string) int {
	runtime.LockOSThread()
	var j job
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	applied, err := confine(j)
	r := report{Applied: applied}
	if err != nil {
		r.Err = err.Error()
	} else {
		for _, o := range j.Ops {
			r.Errno = append(r.Errno, o.run())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// confine enforces j on the calling thread.
func confine(j job) ([]PathRule, error) {
	p := policy.Policy{Mode: policy.WorkspaceWrite, Network: j.Network, IPC: j.IPC}
	if j.ReadList {
		p.Read = []policy.Path{}
	}
	rs, err := Compile(Probe(), &policy.Resolved{Policy: p, Grants: j.Grants})
	if err != nil {
		return nil, err
	}
	d, err := rs.Create()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, fd := range j.AddFDs {
		if err := d.AddFD(fd, policy.Write); err != nil {
			return nil, err
		}
	}
	return d.Applied, Restrict(d.FD, 0)
}

// operations are all named by what they do, and take paths, ports or pids.
var operations = map[string]func(a []string) error{
	"open-w":     func(a []string) error { return open(a[0], unix.O_WRONLY) },
	"open-rw":    func(a []string) error { return open(a[0], unix.O_RDWR) },
	"open-r":     func(a []string) error { return open(a[0], unix.O_RDONLY) },
	"open-trunc": func(a []string) error { return open(a[0], unix.O_WRONLY|unix.O_TRUNC) },
	"open-creat": func(a []string) error { return open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"truncate":   func(a []string) error { return unix.Truncate(a[0], 0) },
	"unlink":     func(a []string) error { return unix.Unlink(a[0]) },
	"rmdir":      func(a []string) error { return unix.Rmdir(a[0]) },
	"mkdir":      func(a []string) error { return unix.Mkdir(a[0], 0o755) },
	"symlink":    func(a []string) error { return unix.Symlink("target", a[0]) },
	"link":       func(a []string) error { return unix.Link(a[0], a[1]) },
	"rename":     func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"mknod-reg":   func(a []string) error { return unix.Mknod(a[0], unix.S_IFREG|0o644, 0) },
	"mknod-fifo":  func(a []string) error { return unix.Mknod(a[0], unix.S_IFIFO|0o644, 0) },
	"mknod-sock":  func(a []string) error { return unix.Mknod(a[0], unix.S_IFSOCK|0o644, 0) },
	"mknod-char":  func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) },
	"mknod-block": func(a []string) error { return unix.Mknod(a[0], unix.S_IFBLK|0o644, int(unix.Mkdev(7, 200))) },
	"readdir": func(a []string) error {
		_, err := os.ReadDir(a[0])
		return err
	},
	"exec": func(a []string) error {
		return (&exec.Cmd{Path: a[0], Args: []string{"sh", "-c", "exit 0"}}).Run()
	},
	"entropy": func(a []string) error { // an ioctl of the random devices, harmless
		fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.IoctlGetUint32(fd, unix.RNDGETENTCNT)
		return err
	},
	"signal": func(a []string) error { return unix.Kill(number(a[0]), 0) },
	"signal-child": func([]string) error {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			return err
		}
		err := cmd.Process.Kill()
		_ = cmd.Wait() // killed
		return err
	},
	"connect-unix": func(a []string) error {
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.Connect(fd, &unix.SockaddrUnix{Name: a[0]})
		})
	},
	"connect-own-abstract": func([]string) error {
		name := "@shofer-landlock-own-" + strconv.Itoa(os.Getpid())
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(srv int) error {
			if err := errors.Join(unix.Bind(srv, &unix.SockaddrUnix{Name: name}), unix.Listen(srv, 1)); err != nil {
				return err
			}
			return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error {
				return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
			})
		})
	},
	"connect-tcp":   func(a []string) error { return connect(unix.SOCK_STREAM, 0, a[0]) },
	"connect-mptcp": func(a []string) error { return connect(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, a[0]) },
	"connect-udp":   func(a []string) error { return connect(unix.SOCK_DGRAM, 0, a[0]) },
	"bind-tcp":      func(a []string) error { return bind(unix.SOCK_STREAM, 0, a[0]) },
	"bind-mptcp":    func(a []string) error { return bind(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, a[0]) },
	"bind-udp":      func(a []string) error { return bind(unix.SOCK_DGRAM, 0, a[0]) },
	"fast-open": func(a []string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, loopback(a[0]))
		})
	},
	"listen-unbound": func([]string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Listen(fd, 1) })
	},
}

func (o op) run() syscall.Errno {
	f, ok := operations[o.Do]
	if !ok {
		panic("no operation is called " + o.Do)
	}
	err := f(o.Args)
	if err == nil {
		return 0
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		panic(fmt.Sprintf("%s %q: %v", o.Do, o.Args, err))
	}
	return e
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func loopback(port string) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: number(port), Addr: [4]byte{127, 0, 0, 1}}
}

func withSocket(family, kind, proto int, f func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func connect(kind, proto int, port string) error {
	return withSocket(unix.AF_INET, kind, proto, func(fd int) error { return unix.Connect(fd, loopback(port)) })
}

func bind(kind, proto int, port string) error {
	return withSocket(unix.AF_INET, kind, proto, func(fd int) error { return unix.Bind(fd, loopback(port)) })
}

// listener listens on a port of the loopback, in the test's process, and
// returns the port.
func listener(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c) // until the other side is gone
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
