package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// bystander is a process of the same user that isn't confined. It offers what
// one may have to offer: sockets, memory, and objects of the kernel's.
type bystander struct {
	Pid      int
	Addr     uint64 // of memory that can be written to
	FD       int    // open for writing, on the file Out/leaked
	Path     string // socket that gives a descriptor of Out/by-path
	Datagram string // another one
	Abstract string // the same, of Out/by-abstract; and the name with "-datagram"
	Loopback string // a TCP address
	IPC      ipcObjects
}

// lastWords are what a bystander says at its end.
type lastWords struct {
	Signals int32  // how many SIGUSR1 reached it
	Memory  string // what is at Addr now
}

const memory = "canary!!"

var canary = []byte(memory)

// startBystander starts one.
func (a *arena) startBystander(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, a.Self, "conformance-bystander", a.Base)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // nobody inside is in its group
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := json.NewDecoder(bufio.NewReader(out))
	a.stop = func() (w lastWords, err error) {
		a.stop = nil
		_ = in.Close()
		err = lines.Decode(&w)
		return w, errors.Join(err, cmd.Wait())
	}
	if err := lines.Decode(&a.Other); err != nil {
		return fmt.Errorf("the bystander: %w", err)
	}
	return nil
}

// bystanderMain is the process.
func bystanderMain(args []string) int {
	if err := stand(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "bystander:", err)
		return 1
	}
	return 0
}

func stand(base string) error {
	var signals atomic.Int32
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, unix.SIGUSR1, unix.SIGCONT)
	counted := make(chan struct{})
	go func() {
		for s := range ch {
			if s == unix.SIGUSR1 {
				signals.Add(1)
			}
		}
		close(counted)
	}()
	// Threads that stay: goroutines that are locked to one and wait in a call.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	for range 2 {
		go func() {
			runtime.LockOSThread()
			_, _ = unix.Read(pipe[0], make([]byte, 1)) // until this process ends
		}()
	}
	leaked, err := os.OpenFile(base+"/out/leaked", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer leaked.Close()
	b := bystander{
		Pid: os.Getpid(), Addr: addrOf(canary), FD: int(leaked.Fd()),
		Path: base + "/s", Datagram: base + "/d", Abstract: fmt.Sprintf("conformance-%d", os.Getpid()),
	}
	if err := b.listen(base); err != nil {
		return err
	}
	var remove func()
	b.IPC, remove = makeIPC()
	defer remove()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(b); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	signal.Stop(ch)
	close(ch)
	<-counted
	return out.Encode(lastWords{signals.Load(), string(canary)})
}

// listen opens the sockets.
func (b *bystander) listen(base string) error {
	for name, file := range map[string]string{b.Path: "by-path", "@" + b.Abstract: "by-abstract"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			return err
		}
		go give(l, filepath.Join(base, "out", file))
	}
	for _, name := range []string{b.Datagram, "@" + b.Abstract + "-datagram"} {
		if _, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.Loopback = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return nil
}

// give gives whoever connects a descriptor of a file, open for writing.
func give(l *net.UnixListener, path string) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _, _ = c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil) // who asked sees it
			f.Close()
		}
		_ = c.Close()
	}
}
