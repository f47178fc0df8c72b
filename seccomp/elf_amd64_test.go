package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// Where a program of i386Program lies in memory.
const (
	elfBase = 0x08048000
	elfCode = 0x100
	elfData = 0x800
	// dataAt is the address of a program's data.
	dataAt = elfBase + elfData
)

// i386Call is a system call by int 0x80: the number and up to six arguments.
type i386Call []uint32

// i386Program returns an executable that makes calls and exits with the errno
// of the last one, or with 0. It is a 32-bit or a 64-bit program; the kernel
// takes int 0x80 from both, and the bytes mean the same in both.
func i386Program(bits int, data []byte, calls ...i386Call) []byte {
	var code []byte
	for _, c := range calls {
		// mov to eax, ebx, ecx, edx, esi, edi, ebp
		for i, op := range []byte{0xb8, 0xbb, 0xb9, 0xba, 0xbe, 0xbf, 0xbd} {
			if i < len(c) {
				code = binary.LittleEndian.AppendUint32(append(code, op), c[i])
			}
		}
		code = append(code, 0xcd, 0x80) // int 0x80
	}
	code = append(code,
		0x85, 0xc0, // test eax, eax
		0x78, 0x02, // js +2
		0x31, 0xc0, // xor eax, eax
		0xf7, 0xd8, // neg eax
		0x89, 0xc3, // mov ebx, eax
		0xb8, 1, 0, 0, 0, // mov eax, exit
		0xcd, 0x80)

	const size = 0x1000
	const rwx, load, executable, current = 7, 1, 2, 1
	var b bytes.Buffer
	put := func(fields ...any) {
		for _, f := range fields {
			_ = binary.Write(&b, binary.LittleEndian, f) // a buffer takes everything
		}
	}
	if bits == 32 {
		put([]byte("\x7fELF\x01\x01\x01"), [9]byte{}, uint16(executable), uint16(3), uint32(current), uint32(elfBase+elfCode), uint32(52), uint32(0), uint32(0), uint16(52), uint16(32), uint16(1), [3]uint16{})
		put(uint32(load), uint32(0), uint32(elfBase), uint32(elfBase), uint32(size), uint32(size), uint32(rwx), uint32(size))
	} else {
		put([]byte("\x7fELF\x02\x01\x01"), [9]byte{}, uint16(executable), uint16(62), uint32(current), uint64(elfBase+elfCode), uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), [3]uint16{})
		put(uint32(load), uint32(rwx), uint64(0), uint64(elfBase), uint64(elfBase), uint64(size), uint64(size), uint64(size))
	}
	file := make([]byte, size)
	copy(file, b.Bytes())
	if copy(file[elfCode:elfData], code) < len(code) || copy(file[elfData:], data) < len(data) {
		panic("the program is too long")
	}
	return file
}

// words returns what an array of numbers is in memory.
func words(w ...uint32) []byte {
	var b []byte
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// TestI386 makes the calls of 32-bit programs.
func TestI386(t *testing.T) {
	const (
		write, socketcall, socket, socketpair, listen, setsockopt, sendto, sendmsg, sendmmsg = 4, 102, 359, 360, 363, 366, 369, 370, 345
		ioctl, truncate, truncate64, open, openat, openat2, openByHandle, getpid             = 54, 92, 193, 5, 295, 437, 342, 20
		sysSocket, sysSocketpair                                                             = 1, 8
		cwd                                                                                  = 0xffffff9c             // AT_FDCWD
		whatever                                                                             = syscall.Errno(1 << 12) // it doesn't matter
		fast                                                                                 = unix.MSG_FASTOPEN
	)
	needI386(t)
	inet := i386Call{socket, unix.AF_INET, unix.SOCK_STREAM, 0}
	// A message with an address: struct sockaddr_in behind struct msghdr.
	message := append(words(dataAt+64, 16, 0, 0, 0, 0, 0, 0), make([]byte, 32)...)
	message = append(message, 2, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
	path := []byte("/nonexistent\x00")

	for _, tt := range []struct {
		name          string
		f             Filter
		data          []byte
		calls         []i386Call
		without, with syscall.Errno
	}{
		{"runs", Filter{NoTerminalInjection: true}, []byte("hello"), []i386Call{{write, 1, dataAt, 5}}, 0, 0},
		{"runs", filterOf(allFields), []byte("hello"), []i386Call{{write, 1, dataAt, 5}}, 0, 0},
		{"TIOCSTI", Filter{NoTerminalInjection: true}, nil, []i386Call{{ioctl, 0, unix.TIOCSTI, dataAt}}, syscall.ENOTTY, syscall.EIO},
		{"TIOCLINUX", Filter{NoTerminalInjection: true}, nil, []i386Call{{ioctl, 0, unix.TIOCLINUX, dataAt}}, syscall.ENOTTY, syscall.EPERM},
		{"TCGETS", Filter{NoTerminalInjection: true}, nil, []i386Call{{ioctl, 0, unix.TCGETS, dataAt}}, syscall.ENOTTY, syscall.ENOTTY},
		{"socket", Filter{NoTerminalInjection: true}, nil, []i386Call{inet}, 0, 0},
		{"socketcall", Filter{NoTerminalInjection: true}, words(unix.AF_INET, unix.SOCK_STREAM, 0), []i386Call{{socketcall, sysSocket, dataAt}}, 0, 0},

		{"socket", Filter{NoNetwork: true}, nil, []i386Call{inet}, 0, syscall.EAFNOSUPPORT},
		{"socket netlink", Filter{NoNetwork: true}, nil, []i386Call{{socket, unix.AF_NETLINK, unix.SOCK_RAW, 0}}, 0, syscall.EAFNOSUPPORT},
		{"socket unix", Filter{NoNetwork: true}, nil, []i386Call{{socket, unix.AF_UNIX, unix.SOCK_STREAM, 0}}, 0, 0},
		{"socketpair unix", Filter{NoNetwork: true}, nil, []i386Call{{socketpair, unix.AF_UNIX, unix.SOCK_STREAM, 0, dataAt}}, 0, 0},
		{"socketpair tipc", Filter{NoNetwork: true}, nil, []i386Call{{socketpair, unix.AF_TIPC, unix.SOCK_STREAM, 0, dataAt}}, whatever, syscall.EAFNOSUPPORT},
		{"socketcall", Filter{NoNetwork: true}, words(unix.AF_INET, unix.SOCK_STREAM, 0), []i386Call{{socketcall, sysSocket, dataAt}}, 0, syscall.ENOSYS},
		{"socketcall pair", Filter{NoNetwork: true}, words(unix.AF_UNIX, unix.SOCK_STREAM, 0, dataAt+32), []i386Call{{socketcall, sysSocketpair, dataAt}}, 0, syscall.ENOSYS},
		{"io_uring_setup", Filter{NoNetwork: true}, nil, []i386Call{{unix.SYS_IO_URING_SETUP, 1, dataAt}}, whatever, syscall.ENOSYS},
		{"io_uring_enter", Filter{NoNetwork: true}, nil, []i386Call{{unix.SYS_IO_URING_ENTER, 0xffffffff, 0, 0, 0, 0, 0}}, whatever, syscall.ENOSYS},

		{"socket", Filter{PlainTCP: true}, nil, []i386Call{inet}, 0, 0},
		{"mptcp", Filter{PlainTCP: true}, nil, []i386Call{{socket, unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}}, whatever, syscall.EPROTONOSUPPORT},
		{"smc", Filter{PlainTCP: true}, nil, []i386Call{{socket, unix.AF_SMC, unix.SOCK_STREAM, 0}}, whatever, syscall.EAFNOSUPPORT},
		{"ulp", Filter{PlainTCP: true}, []byte("tls\x00"), []i386Call{inet, {setsockopt, 3, unix.SOL_TCP, tcpULP, dataAt, 4}}, whatever, syscall.ENOENT},
		{"nodelay", Filter{PlainTCP: true}, words(1), []i386Call{inet, {setsockopt, 3, unix.SOL_TCP, unix.TCP_NODELAY, dataAt, 4}}, 0, 0},
		{"sendto", Filter{PlainTCP: true}, message, []i386Call{inet, {sendto, 3, dataAt, 1, fast, dataAt + 64, 16}}, whatever, syscall.EOPNOTSUPP},
		{"sendmsg", Filter{PlainTCP: true}, message, []i386Call{inet, {sendmsg, 3, dataAt, fast}}, whatever, syscall.EOPNOTSUPP},
		{"sendmmsg", Filter{PlainTCP: true}, message, []i386Call{inet, {sendmmsg, 3, dataAt, 1, fast}}, whatever, syscall.EOPNOTSUPP},
		{"sendto plain", Filter{PlainTCP: true}, message, []i386Call{inet, {sendto, 3, dataAt, 1, unix.MSG_NOSIGNAL, 0, 0}}, syscall.EPIPE, syscall.EPIPE},
		{"socketcall", Filter{PlainTCP: true}, words(unix.AF_INET, unix.SOCK_STREAM, 0), []i386Call{{socketcall, sysSocket, dataAt}}, 0, syscall.ENOSYS},

		{"listen", Filter{NoListen: true}, nil, []i386Call{inet, {listen, 3, 1}}, 0, syscall.EACCES},

		{"truncate", Filter{NoTruncate: true}, path, []i386Call{{truncate, dataAt, 0}}, syscall.ENOENT, syscall.EACCES},
		{"truncate64", Filter{NoTruncate: true}, path, []i386Call{{truncate64, dataAt, 0, 0}}, syscall.ENOENT, syscall.EACCES},
		{"open trunc", Filter{NoTruncate: true}, path, []i386Call{{open, dataAt, unix.O_TRUNC}}, syscall.ENOENT, syscall.EACCES},
		{"open trunc 3", Filter{NoTruncate: true}, path, []i386Call{{open, dataAt, unix.O_TRUNC | 3}}, syscall.ENOENT, syscall.EACCES},
		{"open", Filter{NoTruncate: true}, path, []i386Call{{open, dataAt, unix.O_TRUNC | unix.O_RDWR}}, syscall.ENOENT, syscall.ENOENT},
		{"openat trunc", Filter{NoTruncate: true}, path, []i386Call{{openat, cwd, dataAt, unix.O_TRUNC}}, syscall.ENOENT, syscall.EACCES},
		{"openat", Filter{NoTruncate: true}, path, []i386Call{{openat, cwd, dataAt, unix.O_RDONLY}}, syscall.ENOENT, syscall.ENOENT},
		{"openat2", Filter{NoTruncate: true}, path, []i386Call{{openat2, cwd, dataAt, dataAt + 16, 24}}, syscall.ENOENT, syscall.ENOSYS},
		{"open by handle", Filter{NoTruncate: true}, nil, []i386Call{{openByHandle, cwd, dataAt, unix.O_TRUNC}}, whatever, syscall.EACCES},
		{"getpid", filterOf(allFields), nil, []i386Call{{getpid}}, 0, 0},
	} {
		for _, bits := range []int{32, 64} {
			t.Run(fmt.Sprintf("%d/%s/%s", bits, tt.f, tt.name), func(t *testing.T) {
				u := testenv.Ordinary()
				exe := filepath.Join(u.Dir(t), "program")
				if err := os.WriteFile(exe, i386Program(bits, tt.data, tt.calls...), 0o755); err != nil {
					t.Fatal(err)
				}
				if r := run(t, u, setup{}, exe); tt.without != whatever && r.Code != int(tt.without) {
					t.Errorf("without a filter: %v; want %d (%v)", r, tt.without, tt.without)
				}
				if r := run(t, u, setup{Filter: tt.f}, exe); r.Code != int(tt.with) {
					t.Errorf("with it: %v; want %d (%v)", r, tt.with, tt.with)
				}
			})
		}
	}
}

// needI386 skips t where the kernel runs no 32-bit programs.
func needI386(t *testing.T) {
	t.Helper()
	u := testenv.Ordinary()
	exe := filepath.Join(u.Dir(t), "exit")
	if err := os.WriteFile(exe, i386Program(32, nil, i386Call{20}), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := run(t, u, setup{}, exe); r.Code == 125 && strings.Contains(r.Stderr, syscall.ENOEXEC.Error()) {
		testenv.Skip(t, "this kernel runs no 32-bit programs")
	}
}

// TestX32: where a kernel has x32, the filter says what one without says.
func TestX32(t *testing.T) {
	const x32Ioctl = x32Bit + 514
	for _, f := range all[1:] {
		expect(t, setup{Filter: f}, []expectation{
			{do("raw", x32Bit|unix.SYS_GETPID), nil, syscall.ENOSYS},
			{do("raw", x32Bit|unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0), nil, syscall.ENOSYS},
			{do("raw", x32Ioctl, 0, unix.TIOCSTI, 0), nil, syscall.ENOSYS},
			{do("raw", unix.SYS_GETPID), ok, 0},
		})
	}
}

// TestListenerI386: calls of 32-bit programs are shown by their names, and those
// of the other interface with the same number aren't taken for them.
func TestListenerI386(t *testing.T) {
	needI386(t)
	const open, mkdir, getpid, openat = 5, 39, 20, 295
	dir := testenv.Dir(t)
	program := filepath.Join(dir, "program")
	path := []byte(dir + "/new\x00")
	code := i386Program(32, path, i386Call{open, dataAt, unix.O_RDONLY}, i386Call{open, dataAt, unix.O_WRONLY | unix.O_CREAT, 0o600},
		i386Call{getpid}, i386Call{mkdir, dataAt, 0o700}, i386Call{openat, 0xffffff9c, dataAt, unix.O_RDWR})
	if err := os.WriteFile(program, code, 0o700); err != nil {
		t.Fatal(err)
	}
	p, l := watched(t, program)
	var names []string
	for len(names) < 3 {
		c, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, c.Name)
		l.Continue(c)
	}
	reap(t, p)
	if want := []string{"open", "mkdir", "openat"}; !slices.Equal(names, want) {
		t.Errorf("shown were %q; want %q", names, want)
	}
}
