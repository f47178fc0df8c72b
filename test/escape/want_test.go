package escape_test

import (
	"strings"
	"syscall"
)

// want is what an attack must end with: the call that fails, and how. The zero
// value is success.
type want struct {
	op    string
	errno syscall.Errno
}

// wants is a table by the names of attacks.
type wants map[string]want

// add adds names, separated by spaces.
func (w wants) add(op string, errno syscall.Errno, names string) wants {
	for name := range strings.FieldsSeq(names) {
		w[name] = want{op, errno}
	}
	return w
}

// outside is how attacks on files end there.
func outside(allCaps bool) wants {
	w := wants{}.
		add("open", syscall.EACCES, `open-wronly open-rdwr open-append open-trunc open-rdonly-trunc
			open-creat open-creat-new open-creat-rdonly tmpfile ftruncate-reopened
			symlink-through symlink-through-creat
			proc-self-fd proc-self-fd-path proc-self-root proc-self-cwd relative dot-dot
			child child-session own-ruleset proc-child-root proc-child-cwd
			userns-write userns-chroot`).
		add("openat2", syscall.EACCES, "openat2").
		add("creat", syscall.EACCES, "creat").
		add("truncate", syscall.EACCES, "truncate").
		add("linkat", syscall.EACCES, "tmpfile-linkat").
		add("rename", syscall.EACCES, `rename rename-over rename-dir rename-away rename-dir-away rename-here
			exchange exchange-own exchange-dir`).
		add("link", syscall.EACCES, "link link-here").
		add("link", syscall.EXDEV, "link-away"). // the source has fewer rights than the copy would
		add("symlink", syscall.EACCES, "symlink").
		add("unlink", syscall.EACCES, "unlink symlink-through-dir").
		add("mkdir", syscall.EACCES, "mkdir").
		add("rmdir", syscall.EACCES, "rmdir").
		add("mknod", syscall.EACCES, "mknod-regular mknod-fifo mknod-socket mknod-char mknod-block").
		add("bind", syscall.EACCES, "bind-socket").
		add("openat", syscall.EACCES, `uring-openat uring-openat-async uring-openat-creat
			dir-descriptor dir-descriptor-path userns-tree`).
		add("two paths", syscall.EACCES, "uring-renameat uring-linkat").
		add("symlinkat", syscall.EACCES, "uring-symlinkat").
		add("unlinkat", syscall.EACCES, "uring-unlinkat").
		add("mkdirat", syscall.EACCES, "uring-mkdirat").
		add("core", syscall.EACCES, "core-dump").
		add("mount", syscall.EPERM, "userns-bind userns-overlay").
		// Landlock sees none of these; a filter does.
		add("fsopen", syscall.EPERM, "userns-overlay-detached userns-overlay-workdir").
		add("ioctl", syscall.EACCES, "btrfs-subvolume").
		add("ioctl subvolume", syscall.EACCES, "btrfs-snapshot").
		add("move_mount", syscall.EPERM, "userns-tree-move").
		add("pivot_root", syscall.EPERM, "userns-pivot-root").
		add("open_by_handle_at", syscall.EPERM, "open-by-handle userns-handle").
		// Opening for writing was refused; with a descriptor that only reads
		// these are what they always are.
		add("pwrite", syscall.EBADF, "pwrite").
		add("fallocate", syscall.EBADF, "fallocate").
		add("copy_file_range", syscall.EBADF, "copy-file-range").
		add("sendfile", syscall.EBADF, "sendfile").
		add("splice", syscall.EBADF, "splice").
		add("ftruncate", syscall.EINVAL, "ftruncate").
		add("mmap", syscall.EACCES, "mmap-shared").
		add("mprotect", syscall.EACCES, "mmap-mprotect")
	if allCaps {
		w.add("open_by_handle_at", syscall.EACCES, "open-by-handle")
	}
	return w
}

// inside is how the same attacks end there: well, but for a few that no
// confined command can do anywhere.
func inside(allCaps bool) wants {
	w := wants{}
	for name := range outside(allCaps) {
		w[name] = want{}
	}
	w.add("mknod", syscall.EACCES, "mknod-char mknod-block").
		add("open_by_handle_at", syscall.EPERM, "open-by-handle userns-handle").
		add("mount", syscall.EPERM, "userns-bind userns-overlay").
		add("fsopen", syscall.EPERM, "userns-overlay-detached userns-overlay-workdir").
		add("ioctl", syscall.EACCES, "btrfs-subvolume").
		add("ioctl subvolume", syscall.EACCES, "btrfs-snapshot").
		add("openat", syscall.EACCES, "userns-tree").
		add("move_mount", syscall.EPERM, "userns-tree-move").
		add("pivot_root", syscall.EPERM, "userns-pivot-root")
	if allCaps {
		w["open-by-handle"] = want{}
	}
	return w
}

// system is how attacks on what there is one of end.
func system(allCaps bool) wants {
	w := wants{}.
		add("open", syscall.EACCES, "sysctl sysrq memory-device sysfs disk stdin-reopen").
		add("", 0, "sysctl-read zero-device null-device stdin-read").
		add("acct", syscall.EPERM, "acct").
		add("write", syscall.EBADF, "leaked-file").
		add("openat", syscall.EBADF, "leaked-dir")
	if allCaps {
		w.add("acct", syscall.EACCES, "acct")
	}
	return w
}

// signals are the attacks that the scope for signals stops, from ABI 6.
const signals = "pidfd-send-signal kill kill-continue kill-group sigqueue tkill tgkill tgsigqueue"

// host is how attacks on a process outside end.
func host(abi int) wants {
	w := wants{}.
		add("process_vm_writev", syscall.EPERM, "process-vm-writev").
		add("process_vm_readv", syscall.EPERM, "process-vm-readv").
		add("ptrace", syscall.EPERM, "ptrace-attach ptrace-seize").
		add("open", syscall.EACCES, "proc-mem proc-mem-read proc-root proc-cwd proc-fd proc-environ proc-namespace").
		add("pidfd_getfd", syscall.EPERM, "pidfd-getfd").
		add("pidfd_send_signal", syscall.EPERM, "pidfd-send-signal").
		add("kill", syscall.EPERM, "kill kill-continue kill-group").
		add("rt_sigqueueinfo", syscall.EPERM, "sigqueue").
		add("tkill", syscall.EPERM, "tkill").
		add("tgkill", syscall.EPERM, "tgkill").
		add("rt_tgsigqueueinfo", syscall.EPERM, "tgsigqueue").
		add("prlimit", syscall.EPERM, "prlimit").
		// The call is about a pipe of its own; that nothing arrives is seen in
		// the host.
		add("", 0, "async-io").
		// Which descriptors there are can be seen, not what they are.
		add("", 0, "proc-fd-list")
	if abi < 6 {
		w.add("", 0, signals)
	}
	return w
}

// child is how the same attacks on a child of the command's own end.
func child(abi int) wants {
	w := wants{}
	for name := range host(abi) {
		w[name] = want{}
	}
	// The filter can't tell a child from a stranger.
	w.add("prlimit", syscall.EPERM, "prlimit")
	// The file is not granted, like all of /proc; see proc-mem-read.
	return w.add("open", syscall.EACCES, "proc-mem")
}

// boxed changes tables to how the same attacks end under bubblewrap: what is
// outside is on read-only mounts, an inside one is a border, and of the processes
// outside there is none.
func boxed(tables map[string]wants, root bool) {
	for _, where := range []string{"outside", "system"} {
		for name, w := range tables[where] {
			if w.errno == syscall.EACCES && !stillRefused[name] {
				tables[where][name] = want{w.op, syscall.EROFS}
			}
		}
	}
	tables["outside"].add("rename", syscall.EXDEV, "rename-here rename-away rename-dir-away exchange-own exchange-dir")
	tables["child"].add("open", syscall.EROFS, "proc-mem")
	host := tables["host"]
	for name, w := range host {
		switch w.op {
		case "open", "": // in /proc
			host[name] = want{w.op, syscall.ENOENT}
		default:
			host[name] = want{w.op, syscall.ESRCH}
		}
	}
	host.add("pidfd_open", syscall.ESRCH, "pidfd-send-signal pidfd-getfd").
		add("getpgid", syscall.ESRCH, "kill-group").
		add("fcntl", syscall.ESRCH, "async-io").
		add("readdir", syscall.ENOENT, "proc-fd-list threads")
	if !root { // the files are root's
		tables["system"].add("open", syscall.EACCES, "sysctl sysfs")
	}
}

// stillRefused are attacks that something else stops before a mount does.
var stillRefused = map[string]bool{
	"core-dump": true, "mmap-shared": true, "mmap-mprotect": true, "btrfs-subvolume": true, "btrfs-snapshot": true, "link-away": true,
}
