package attack

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// victim is a process, or one of its threads, that is attacked.
type victim struct {
	pid, tid int
	// addr can be written to; fd is open for writing.
	addr uint64
	fd   int
	// file is granted to us.
	file string
}

// proc is a path in the victim's folder.
func (v victim) proc(name string) string {
	return filepath.Join("/proc", itoa(v.pid), "task", itoa(v.tid), name)
}

// processAttack is a way to get at a process. No signal is sent that would end
// one.
type processAttack struct {
	name string
	run  func(victim) error
	// once leaves the threads out: what it does isn't about them.
	once bool
	// signals says that it would send a signal.
	signals bool
}

var processAttacks = []processAttack{
	{"process-vm-writev", func(v victim) error {
		local := []unix.Iovec{{Base: &[]byte("evil")[0], Len: 4}}
		_, err := unix.ProcessVMWritev(v.tid, local, remote(uintptr(v.addr)), 0)
		return do("process_vm_writev", err)
	}, false, false},
	{"process-vm-readv", func(v victim) error {
		local := []unix.Iovec{{Base: &make([]byte, 4)[0], Len: 4}}
		_, err := unix.ProcessVMReadv(v.tid, local, remote(uintptr(v.addr)), 0)
		return do("process_vm_readv", err)
	}, false, false},
	{"ptrace-attach", func(v victim) error {
		if err := unix.PtraceAttach(v.tid); err != nil {
			return do("ptrace", err)
		}
		return detach(v)
	}, false, false},
	{"ptrace-seize", func(v victim) error {
		if err := unix.PtraceSeize(v.tid); err != nil {
			return do("ptrace", err)
		}
		if err := unix.PtraceInterrupt(v.tid); err != nil {
			return do("ptrace interrupt", err)
		}
		return detach(v)
	}, false, false},
	{"proc-mem", func(v victim) error {
		fd, err := unix.Open(v.proc("mem"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("open", err)
		}
		defer unix.Close(fd)
		_, err = unix.Pwrite(fd, []byte("evil"), int64(v.addr))
		return do("pwrite", err)
	}, false, false},
	{"proc-mem-read", func(v victim) error { return opens(v.proc("mem"), unix.O_RDONLY) }, false, false},
	{"proc-root", func(v victim) error { return openWrite(v.proc("root")+v.file, unix.O_WRONLY) }, false, false},
	{"proc-cwd", func(v victim) error { return opens(v.proc("cwd"), unix.O_RDONLY|unix.O_DIRECTORY) }, false, false},
	{"proc-fd", func(v victim) error { return opens(v.proc("fd/"+itoa(v.fd)), unix.O_WRONLY) }, false, false},
	{"proc-fd-list", func(v victim) error {
		_, err := os.ReadDir(v.proc("fd"))
		return do("readdir", err)
	}, false, false},
	{"proc-environ", func(v victim) error { return opens(v.proc("environ"), unix.O_RDONLY) }, false, false},
	{"proc-namespace", func(v victim) error { return opens(v.proc("ns/mnt"), unix.O_RDONLY) }, false, false},
	{"pidfd-getfd", func(v victim) error {
		return withPidfd(v, func(pidfd int) error {
			fd, err := unix.PidfdGetfd(pidfd, v.fd, 0)
			if err != nil {
				return do("pidfd_getfd", err)
			}
			return unix.Close(fd)
		})
	}, true, false},
	{"pidfd-send-signal", func(v victim) error {
		return withPidfd(v, func(pidfd int) error {
			return do("pidfd_send_signal", unix.PidfdSendSignal(pidfd, 0, nil, 0))
		})
	}, true, true},
	{"kill", func(v victim) error { return do("kill", unix.Kill(v.pid, 0)) }, true, true},
	// Within a session SIGCONT goes where other signals don't.
	{"kill-continue", func(v victim) error { return do("kill", unix.Kill(v.pid, unix.SIGCONT)) }, true, true},
	{"kill-group", func(v victim) error {
		pgid, err := unix.Getpgid(v.pid)
		if err != nil {
			return do("getpgid", err)
		}
		return do("kill", unix.Kill(-pgid, 0))
	}, true, true},
	{"sigqueue", func(v victim) error { return do("rt_sigqueueinfo", queue(v.pid, 0, unix.SIGCONT)) }, true, true},
	{"tkill", func(v victim) error {
		_, _, e := syscall.Syscall(unix.SYS_TKILL, uintptr(v.tid), 0, 0)
		if e != 0 {
			return do("tkill", e)
		}
		return nil
	}, false, true},
	{"tgkill", func(v victim) error { return do("tgkill", unix.Tgkill(v.pid, v.tid, 0)) }, false, true},
	{"tgsigqueue", func(v victim) error {
		return do("rt_tgsigqueueinfo", queue(v.pid, v.tid, unix.SIGCONT))
	}, false, true},
	{"async-io", asyncIO, true, true},
	{"prlimit", func(v victim) error {
		var old unix.Rlimit
		if err := unix.Prlimit(v.pid, unix.RLIMIT_CORE, nil, &old); err != nil {
			return do("prlimit", err)
		}
		return do("prlimit", unix.Prlimit(v.pid, unix.RLIMIT_CORE, &old, nil))
	}, true, false},
}

// opens opens a file, or a folder, and closes it.
func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open", err)
	}
	return unix.Close(fd)
}

// detach lets a traced victim go on.
func detach(v victim) error {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(v.tid, &ws, unix.WALL, nil); err != nil {
		return do("wait", err)
	}
	return do("ptrace detach", unix.PtraceDetach(v.tid))
}

func withPidfd(v victim, f func(pidfd int) error) error {
	pidfd, err := unix.PidfdOpen(v.pid, 0)
	if err != nil {
		return do("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	return f(pidfd)
}

// asyncIO asks the kernel to signal the victim about a pipe of ours, and makes
// it readable. The call succeeds whatever comes of it: the victim counts.
func asyncIO(v victim) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return do("pipe", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for _, c := range []struct{ cmd, arg int }{
		{unix.F_SETSIG, int(unix.SIGUSR1)}, {unix.F_SETOWN, v.pid}, {unix.F_SETFL, unix.O_ASYNC},
	} {
		if _, err := unix.FcntlInt(uintptr(pipe[0]), c.cmd, c.arg); err != nil {
			return do("fcntl", err)
		}
	}
	_, err := unix.Write(pipe[1], []byte("x"))
	return do("write", err)
}

// attackProcesses tries each attack on the host, each of its threads, and a
// child of ours, which should be in reach.
func attackProcesses(s settings, report func(Result)) {
	own := filepath.Join(s.in, "own-process")
	if err := os.WriteFile(own, []byte("own\n"), 0o600); err != nil {
		report(resultOf("own-process", "inside", err))
		return
	}
	host := victim{pid: s.host, tid: s.host, addr: s.hostAddr, fd: s.hostFD, file: own}
	for _, a := range processAttacks {
		report(resultOf(a.name, "host", a.run(host)))
	}
	// Who the threads are is no secret.
	tasks, err := os.ReadDir(filepath.Join("/proc", itoa(s.host), "task"))
	if err != nil { // it isn't to be seen from here
		report(resultOf("threads", "host", do("readdir", err)))
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil || tid == s.host {
			continue
		}
		for _, a := range processAttacks {
			if a.once {
				continue
			}
			thread := host
			thread.tid = tid
			r := resultOf(a.name, "thread", a.run(thread))
			r.TID = tid
			// A runtime's thread may have ended by now.
			if r.Errno != int(syscall.ESRCH) && r.Errno != int(syscall.ENOENT) {
				report(r)
			}
		}
	}
	for _, a := range processAttacks {
		report(resultOf(a.name, "child", withChild(func(pid int) error {
			return a.run(victim{pid: pid, tid: pid, addr: uint64(canaryAddr()), fd: 1, file: own})
		})))
	}
}
