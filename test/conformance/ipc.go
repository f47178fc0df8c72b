package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ipcObjects are the kernel's, by their numbers there or by name; −1 or empty
// where none could be made.
type ipcObjects struct {
	Shm, Sem, Queue int    // System V
	Key             int    // of the user's keyring, 0 for none
	PosixShm        string // file
	PosixQueue      string // name, without the slash
}

const privateKey = 0 // IPC_PRIVATE

// makeIPC makes what this machine has.
func makeIPC() (o ipcObjects, remove func()) {
	made := func(id int, err error) int {
		if err != nil {
			return -1
		}
		return id
	}
	o.Shm = made(unix.SysvShmGet(privateKey, 4096, unix.IPC_CREAT|0o600))
	o.Sem, o.Queue = made(semget(privateKey)), made(msgget(privateKey))
	name := fmt.Sprintf("conformance-%d", os.Getpid())
	if id, err := unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_USER_KEYRING); err == nil {
		// Whoever has the same uid may do everything with it.
		if unix.KeyctlSetperm(id, 0x3f3f0000) == nil {
			o.Key = id
		}
	}
	if f, err := os.OpenFile("/dev/shm/"+name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		o.PosixShm = f.Name()
		f.Close()
	}
	if openQueue(name, unix.O_CREAT|unix.O_RDWR) == nil {
		o.PosixQueue = name
	}
	return o, func() { // what of it fails, somebody inside did
		if o.Shm >= 0 {
			_, _ = unix.SysvShmCtl(o.Shm, unix.IPC_RMID, nil)
		}
		if o.Sem >= 0 {
			_ = semctl(o.Sem, unix.IPC_RMID, 0)
		}
		if o.Queue >= 0 {
			_ = msgctl(o.Queue, unix.IPC_RMID)
		}
		if o.Key != 0 {
			_, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, o.Key, unix.KEY_SPEC_USER_KEYRING, 0, 0)
		}
		if o.PosixShm != "" {
			_ = os.Remove(o.PosixShm)
		}
		if o.PosixQueue != "" {
			_ = unlinkQueue(o.PosixQueue)
		}
	}
}

// have returns an error where there is nothing to try it on.
func have(ok bool, what string) error {
	if ok {
		return nil
	}
	return skipError(what + " can't be made on this machine")
}

// ipcChecks are about objects that aren't on a file system.
var ipcChecks = []insideCheck{
	{check: check{"ipc", "sysv-memory", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.Shm >= 0, "System V memory"); err != nil {
			return err
		}
		b, err := unix.SysvShmAttach(a.Other.IPC.Shm, 0, 0)
		if err != nil {
			return err
		}
		b[0] = 1
		return unix.SysvShmDetach(b)
	}},
	{check: check{"ipc", "sysv-semaphore", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.Sem >= 0, "a System V semaphore"); err != nil {
			return err
		}
		return semctl(a.Other.IPC.Sem, semSetVal, 1)
	}},
	{check: check{"ipc", "sysv-message", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.Queue >= 0, "a System V queue"); err != nil {
			return err
		}
		return msgsnd(a.Other.IPC.Queue)
	}},
	{check: check{"ipc", "posix-memory", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.PosixShm != "", "POSIX memory"); err != nil {
			return err
		}
		return openFor(a.Other.IPC.PosixShm, os.O_RDWR)
	}},
	{check: check{"ipc", "posix-queue", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.PosixQueue != "", "a POSIX queue"); err != nil {
			return err
		}
		return openQueue(a.Other.IPC.PosixQueue, unix.O_RDWR)
	}},
	{check: check{"ipc", "key-read", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.Key != 0, "a key"); err != nil {
			return err
		}
		_, err := unix.KeyctlBuffer(unix.KEYCTL_READ, a.Other.IPC.Key, make([]byte, 16), 0)
		return err
	}},
	{check: check{"ipc", "key-change", false}, run: func(a *arena) error {
		if err := have(a.Other.IPC.Key != 0, "a key"); err != nil {
			return err
		}
		_, err := unix.KeyctlBuffer(unix.KEYCTL_UPDATE, a.Other.IPC.Key, []byte("other!"), 0)
		return err
	}},
	{check: check{"control", "own-sysv-memory", true}, run: func(*arena) error {
		id, err := unix.SysvShmGet(privateKey, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	}},
	{check: check{"control", "own-posix-memory", true}, run: func(*arena) error {
		f, err := os.CreateTemp("/dev/shm", "conformance-own-")
		if err != nil {
			return err
		}
		f.Close()
		return os.Remove(f.Name())
	}},
}
