package landlock

import (
	"slices"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Gap is a way to speak TCP that the rights for TCP don't see. Each one can be
// shut by a seccomp filter on the call's arguments.
type Gap string

const (
	// GapMPTCP: a socket made with IPPROTO_MPTCP falls back to plain TCP with a
	// peer that knows nothing else, and connects and binds anywhere.
	GapMPTCP Gap = "mptcp"
	// GapSMC: a socket of family AF_SMC, or made with IPPROTO_SMC, does the
	// same where the kernel has the module.
	GapSMC Gap = "smc"
	// GapFastOpen: sendto(2) and sendmsg(2) with MSG_FASTOPEN connect without
	// a check.
	GapFastOpen Gap = "tcp-fast-open"
	// GapListen: listen(2) on a socket that was not bound binds it, to a port
	// that the kernel chooses, without a check. A list with port 0 allows that.
	GapListen Gap = "listen"
)

// Gaps lists the ways around the TCP lists of n on a kernel as s; none when n
// has no such list. Whether the kernel was built with MPTCP or SMC is not
// asked: a module can be loaded at any time.
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
