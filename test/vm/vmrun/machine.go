package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// machine is a guest that runs. It ends with this process, whatever kills that.
type machine struct {
	// frames are what the guest says; closed when it has ended.
	frames chan frame

	cmd    *exec.Cmd
	done   chan struct{} // closed when QEMU has ended
	port   *os.File
	stderr bytes.Buffer // QEMU's; complete after done
}

type frame struct {
	t    frameType
	data []byte
}

// startMachine starts QEMU; tmp is for the changes to the guest's disk.
func startMachine(args []string, tmp string) (*machine, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "port")
	defer theirs.Close()
	m := &machine{frames: make(chan frame, 64), done: make(chan struct{}), port: os.NewFile(uintptr(pair[0]), "port")}
	m.cmd = exec.Command(qemu, args...)
	m.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	m.cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	m.cmd.Stdout, m.cmd.Stderr = &m.stderr, &m.stderr
	// In a group of its own a Ctrl-C reaches us first, and we end it.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		return nil, errors.Join(err, m.port.Close())
	}
	go func() {
		_ = m.cmd.Wait() // how it ended doesn't matter: what counts is what the guest said
		close(m.done)
	}()
	go m.read()
	return m, nil
}

// read passes frames on until there are no more.
func (m *machine) read() {
	defer close(m.frames)
	for {
		t, data, err := readFrame(m.port)
		if err != nil {
			return
		}
		select {
		case m.frames <- frame{t, data}:
			continue
		case <-m.done:
		}
		// QEMU is gone. What is here already is passed on while somebody listens.
		late := time.NewTimer(time.Second)
		select {
		case m.frames <- frame{t, data}:
			late.Stop()
		case <-late.C:
			return
		}
	}
}

// stop ends the guest at once. Its disk is thrown away anyway.
func (m *machine) stop() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.done
	_ = m.port.Close() // nothing was written
}
