package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

func openFor(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// moved makes a file and moves it by f.
func moved(own, to string, f func(from, to string) error) error {
	if err := os.WriteFile(own, []byte("own\n"), 0o644); err != nil {
		return err
	}
	return f(own, to)
}

// thereAndBack renames something twice: later attempts need it.
func thereAndBack(path, away string) error {
	if err := unix.Rename(path, away); err != nil {
		return err
	}
	return unix.Rename(away, path)
}

// socket runs f with a socket.
func socket(family, kind, protocol int, f func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// bindSocket makes a socket file.
func bindSocket(path string) error {
	return socket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error {
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	})
}

// dial connects to a Unix socket; "@" stands for an abstract one.
func dial(kind int, name string) error {
	return socket(unix.AF_UNIX, kind, 0, func(fd int) error {
		return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	})
}

// ownSocket connects to a socket of this process's own.
func ownSocket(name string) error {
	return socket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error {
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return err
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		return dial(unix.SOCK_STREAM, name)
	})
}

var localhost = [4]byte{127, 0, 0, 1}

func connect(kind, protocol, port int) error {
	return socket(unix.AF_INET, kind, protocol, func(fd int) error {
		return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: localhost})
	})
}

func bind(kind, protocol int) error {
	return socket(unix.AF_INET, kind, protocol, func(fd int) error {
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: localhost})
	})
}

func sendTo(port int) error {
	return socket(unix.AF_INET, unix.SOCK_DGRAM, 0, func(fd int) error {
		return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: port, Addr: localhost})
	})
}

// grantedDevices are those whose ioctls are allowed.
var grantedDevices = map[string]bool{
	"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "ptmx": true,
}

// deviceIoctl asks a device that isn't granted something that it doesn't
// understand. If the question reaches the driver it says on standard error which.
func deviceIoctl() error {
	names, err := filepath.Glob("/dev/*")
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := os.Lstat(name) // a link may lead to what this process was given
		if err != nil || st.Mode()&os.ModeDevice == 0 || grantedDevices[filepath.Base(name)] {
			continue
		}
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		_, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		_ = unix.Close(fd)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return &os.PathError{Op: "ioctl", Path: name, Err: err}
		}
		fmt.Fprintf(os.Stderr, "%s answers an ioctl: %v\n", name, err)
		return nil
	}
	return errNotHere
}

// killChild signals a process in the same confinement.
func killChild() error {
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	err := cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return nil
	}
	return err
}

// openTerminal makes a pseudo-terminal.
func openTerminal() error {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	return openFor(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY)
}

// bystander is a process of the same user that isn't confined.
type bystander struct {
	Pid      int
	Abstract string // a socket's name; with "-datagrams", another's
	TCP, UDP int    // ports on the loopback
}

// bystanderMain listens everywhere, prints where, and at the end of its input
// the number of signals that reached it.
func bystanderMain(args []string) int {
	b := bystander{Pid: os.Getpid(), Abstract: fmt.Sprintf("record-%d", os.Getpid())}
	if err := b.listen(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "bystander:", err)
		return 1
	}
	var signals atomic.Int32
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, unix.SIGUSR1)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(b); err != nil {
		return 1
	}
	done := make(chan struct{})
	go func() {
		for range ch {
			signals.Add(1)
		}
		close(done)
	}()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	signal.Stop(ch)
	close(ch)
	<-done
	if err := out.Encode(signals.Load()); err != nil {
		return 1
	}
	return 0
}

func (b *bystander) listen(path string) error {
	for _, name := range []string{path, "@" + b.Abstract} {
		l, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		go accept(l)
	}
	if _, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + b.Abstract + "-datagrams", Net: "unixgram"}); err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go accept(tcp)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.TCP, b.UDP = tcp.Addr().(*net.TCPAddr).Port, udp.LocalAddr().(*net.UDPAddr).Port
	return nil
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// writeMain makes and removes a file in each folder, and opens each file, that it
// is given, and exits with 1 if one can't be written to.
func writeMain(args []string) int {
	code := 0
	for _, path := range args {
		st, err := os.Stat(path)
		switch {
		case err == nil && st.IsDir():
			var f *os.File
			if f, err = os.CreateTemp(path, "record-"); err == nil {
				err = errors.Join(f.Close(), os.Remove(f.Name()))
			}
		case err == nil:
			err = openFor(path, os.O_WRONLY|unix.O_NOCTTY)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
