package main

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16 // its low half: both architectures are little-endian
)

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func ret(v uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func failWith(e syscall.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filter is the program that hands on or refuses the calls that sim and
// noUserns are about, and allows all others.
func filter(sim simulation, noUserns bool) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	// The numbers of another architecture's calls mean something else.
	p := []unix.SockFilter{load(offArch), jump(unix.BPF_JEQ, arch, 1, 0), ret(unix.SECCOMP_RET_ALLOW), load(offNr)}
	if sim != (simulation{}) {
		do := uint32(unix.SECCOMP_RET_USER_NOTIF)
		if sim.errno != 0 {
			do = failWith(sim.errno)
		}
		for _, nr := range []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF} {
			p = append(p, jump(unix.BPF_JEQ, nr, 0, 1), ret(do))
		}
	}
	if noUserns {
		p = append(
			p,
			// The flags of clone3 are out of a filter's sight. Callers fall
			// back to clone.
			jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(failWith(syscall.ENOSYS)),
			jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 1, 0),
			jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3),
			load(offArg0),
			jump(unix.BPF_JSET, unix.CLONE_NEWUSER, 0, 1), ret(failWith(syscall.EPERM)),
		)
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}
