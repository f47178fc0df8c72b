package landlock

import (
	"slices"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Gap is a way round a promise that Landlock doesn't see. Each one can be shut
// by a seccomp filter that looks at the call's arguments, as far as these are
// not behind a pointer.
type Gap string

const (
	// GapOverlay: fsconfig(2), in a user namespace, makes an overlay without a
	// check, though it can't be mounted then. On the way the kernel removes
	// what is in the folder called work of the overlay's working directory,
	// wherever that is. Refuse fsopen and fsconfig: nothing made by them is of
	// use in a domain.
	GapOverlay Gap = "overlay"
	// GapBtrfs: the ioctls of btrfs make subvolumes and snapshots in any folder
	// that the user may write to, and, where the file system is mounted with
	// user_subvol_rm_allowed or the command has CAP_SYS_ADMIN, delete them with
	// all that is in them. Refuse BTRFS_IOC_SUBVOL_CREATE, SNAP_CREATE and
	// SNAP_DESTROY, and the second version of each.
	GapBtrfs Gap = "btrfs"
	// GapPrlimit: prlimit(2) sets limits of other processes of the same user.
	// With one on its cpu time the kernel kills the process. Refuse it unless
	// its process is 0.
	GapPrlimit Gap = "prlimit"
	// GapMPTCP: a socket made with IPPROTO_MPTCP falls back to plain TCP with a
	// peer that knows nothing else, and connects and binds anywhere.
	GapMPTCP Gap = "mptcp"
	// GapSMC: a socket of family AF_SMC, or made with IPPROTO_SMC, does the
	// same where the kernel has the module.
	GapSMC Gap = "smc"
	// GapFastOpen: sendto(2) and sendmsg(2) with MSG_FASTOPEN connect without
	// a check. Some kernels have it closed (6.12.117 and 7.3.4; 6.18.44 has
	// not), and no erratum tells.
	GapFastOpen Gap = "tcp-fast-open"
	// GapListen: listen(2) on a socket that was not bound binds it, to a port
	// that the kernel chooses, without a check. A list with port 0 allows that.
	GapListen Gap = "listen"
)

// Gaps lists the ways around the TCP lists of n on a kernel as s; none when n
// has no such list. While one is open the network is not limited, and [Features]
// says so. Whether the kernel was built with MPTCP or SMC is not asked: a module
// can be loaded at any time.
//
// Kernels without the fix for erratum 1 hold MPTCP and SMC sockets to the rules
// for TCP.
//
// Sources: security/landlock/net.c, and the issues 15, 41 and 54 of
// https://github.com/landlock-lsm/linux. All but GapSMC were tried, with
// success, on Linux 6.18.
func Gaps(s Support, n policy.Network) []Gap {
	if n.ConnectTCP == nil && n.BindTCP == nil {
		return nil
	}
	var gaps []Gap
	if s.Fixed(1) {
		gaps = append(gaps, GapMPTCP, GapSMC)
	}
	if n.ConnectTCP != nil {
		gaps = append(gaps, GapFastOpen)
	}
	if n.BindTCP != nil && !slices.Contains(n.BindTCP, 0) {
		gaps = append(gaps, GapListen)
	}
	return gaps
}

// GapsIn lists the ways around any other promise. [Features] leaves them to a
// filter and doesn't count them: each needs something that a machine may not
// have, or does harm of one kind only.
//
// All were tried, with success, as root and as an ordinary user, on Linux 6.18.
func GapsIn(promise policy.Promise) []Gap {
	switch promise {
	case policy.PromiseWrite, policy.PromiseProtect:
		return []Gap{GapOverlay, GapBtrfs}
	case policy.PromiseSignals:
		return []Gap{GapPrlimit}
	}
	return nil
}
