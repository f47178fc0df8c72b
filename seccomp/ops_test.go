package seccomp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// op is one operation on the system.
type op struct {
	Do   string
	Args []string
}

func do(name string, args ...any) op {
	o := op{Do: name}
	for _, a := range args {
		o.Args = append(o.Args, fmt.Sprint(a))
	}
	return o
}

func (o op) String() string { return fmt.Sprintf("%s%q", o.Do, o.Args) }

// opsMain carries the operations out and prints the errno of each, 0 for
// success.
func opsMain(in string) int {
	runtime.LockOSThread()
	var ops []op
	if err := json.Unmarshal([]byte(in), &ops); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var got []syscall.Errno
	for _, o := range ops {
		got = append(got, o.run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
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
		panic(fmt.Sprintf("%v: %v", o, err))
	}
	return e
}

var operations = map[string]func(args []string) error{
	// raw NUMBER ARGUMENT… makes a system call. A result that is a descriptor
	// is not closed.
	"raw": func(a []string) error {
		var n [7]uintptr
		for i := range a {
			n[i] = uintptr(number(a[i]))
		}
		_, _, e := unix.RawSyscall6(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
		return errnoErr(e)
	},
	// repeat N NUMBER ARGUMENT… makes a system call N times, to measure it.
	"repeat": func(a []string) error {
		var n [4]uintptr
		for i, s := range a[1:] {
			n[i] = uintptr(number(s))
		}
		for range number(a[0]) {
			if _, _, e := unix.RawSyscall(n[0], n[1], n[2], n[3]); e != 0 {
				return e
			}
		}
		return nil
	},
	"socket": func(a []string) error {
		return withSocket(int(number(a[0])), int(number(a[1])), int(number(a[2])), func(int) error { return nil })
	},
	"socketpair": func(a []string) error {
		fds, err := unix.Socketpair(int(number(a[0])), int(number(a[1])), int(number(a[2])))
		if err != nil {
			return err
		}
		return errors.Join(unix.Close(fds[0]), unix.Close(fds[1]))
	},
	// unix-echo speaks to itself through a local socket on the file system.
	"unix-echo": func(a []string) error {
		name := filepath.Join(a[0], "socket")
		defer os.Remove(name)
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(srv int) error {
			addr := &unix.SockaddrUnix{Name: name}
			if err := errors.Join(unix.Bind(srv, addr), unix.Listen(srv, 1)); err != nil {
				return err
			}
			return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error {
				if err := unix.Connect(fd, addr); err != nil {
					return err
				}
				return unix.Sendto(fd, []byte("hello"), 0, nil)
			})
		})
	},
	"io-uring": func([]string) error { return ioUring() },

	// ioctl COMMAND BYTE makes an ioctl on a terminal that is the controlling
	// one, with a pointer to the byte.
	"ioctl": func(a []string) error { return onTerminal(uintptr(number(a[0])), byte(number(a[1]))) },

	"connect": func(a []string) error {
		return withSocket(int(number(a[0])), unix.SOCK_STREAM, int(number(a[1])), func(fd int) error {
			return unix.Connect(fd, loopback(int(number(a[0])), a[2]))
		})
	},
	"connect-deferred": func(a []string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
				return err
			}
			return unix.Connect(fd, loopback(unix.AF_INET, a[0]))
		})
	},
	// send CALL FLAGS FLAGS-IN-MESSAGE PORT sends to a port without connecting.
	"send": func(a []string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return send(fd, a[0], uintptr(number(a[1])), int32(number(a[2])), int(number(a[3])))
		})
	},
	"ulp": func(a []string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.SetsockoptString(fd, unix.SOL_TCP, tcpULP, a[0])
		})
	},
	"nodelay": func([]string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1)
		})
	},
	"go-listen": func([]string) error {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return l.Close()
	},
	"listen-unbound": func([]string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Listen(fd, 1) })
	},
	"listen-bound": func([]string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return errors.Join(unix.Bind(fd, loopback(unix.AF_INET, "0")), unix.Listen(fd, 1))
		})
	},

	"truncate": func(a []string) error { return unix.Truncate(a[0], 0) },
	"ftruncate": func(a []string) error {
		return withFile(a[0], unix.O_WRONLY, func(fd int) error { return unix.Ftruncate(fd, 0) })
	},
	"open": func(a []string) error { return withFile(a[0], int(number(a[1])), func(int) error { return nil }) },
	"open2": func(a []string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, a[0], &unix.OpenHow{Flags: number(a[1]) | unix.O_CLOEXEC})
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"open-handle": func(a []string) error {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
		if err != nil {
			return err
		}
		return withFile(filepath.Dir(a[0]), unix.O_RDONLY, func(dir int) error {
			fd, err := unix.OpenByHandleAt(dir, h, int(number(a[1]))|unix.O_CLOEXEC)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		})
	},
}

func errnoErr(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func number(s string) uint64 {
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return uint64(i)
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func loopback(family int, port string) unix.Sockaddr {
	if family == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: int(number(port)), Addr: [16]byte{15: 1}}
	}
	return &unix.SockaddrInet4{Port: int(number(port)), Addr: [4]byte{127, 0, 0, 1}}
}

func withSocket(family, kind, proto int, f func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func withFile(path string, flags int, f func(fd int) error) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}
