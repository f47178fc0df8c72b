package seccomp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// rule refuses a call with an errno when all of the conditions hold. The first
// rule of a call that holds counts.
type rule struct {
	call  call
	errno syscall.Errno
	when  []condition
}

// condition holds when the low half of an argument (or, with high, the other
// one), of which only the bits in mask count, is val; or, with not, when it
// isn't. Every argument that a rule is about is an int or an unsigned int to the
// kernel, which drops the upper half: a program that compared all 64 bits would
// let a call pass that has something there. Pointers are the exception.
type condition struct {
	arg  uint8
	mask uint32
	val  uint32
	not  bool
	high bool
}

// sameArgument reports whether c and d look at the same bits.
func (c *condition) sameArgument(d *condition) bool {
	return c.arg == d.arg && c.high == d.high && c.mask == d.mask
}

const (
	whole = ^uint32(0)

	tcpULP = 31 // option of SOL_TCP

	btrfsSnapCreate     = 0x50009401
	btrfsSubvolCreate   = 0x5000940e
	btrfsSnapDestroy    = 0x5000940f
	btrfsSnapCreateV2   = 0x50009417
	btrfsSubvolCreateV2 = 0x50009418
	btrfsSnapDestroyV2  = 0x5000943f
	// Type and number of bcachefs's, without the size of what they take.
	ioctlKind              = 0xffff
	bcachefsSubvolDestroy  = 0xbc11
	bcachefsSubvolDestroy2 = 0xbc1e

	// The flags of open(2) that say whether it truncates what it doesn't open
	// for writing. Access mode 3 opens for neither reading nor writing, and
	// truncates.
	openBits   = unix.O_TRUNC | unix.O_ACCMODE
	truncRead  = unix.O_TRUNC | unix.O_RDONLY
	truncNever = unix.O_TRUNC | unix.O_ACCMODE
)

var (
	terminalRules = []rule{
		{callIoctl, syscall.EIO, []condition{{arg: 1, mask: whole, val: unix.TIOCSTI}}},
		{callIoctl, syscall.EPERM, []condition{{arg: 1, mask: whole, val: unix.TIOCLINUX}}},
	}

	// EPERM would read better, but useradd(8) and others that write to the audit
	// log go on without it only where EAFNOSUPPORT says that there is none, and
	// node(1) tries IPv4 after IPv6.
	networkRules = []rule{
		{callSocket, syscall.EAFNOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_UNIX, not: true}}},
		{callSocketpair, syscall.EAFNOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_UNIX, not: true}}},
	}

	tcpRules = []rule{
		{callSocket, syscall.EAFNOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_SMC}}},
		{callSocket, syscall.EPROTONOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_INET}, {arg: 2, mask: whole, val: unix.IPPROTO_MPTCP}}},
		{callSocket, syscall.EPROTONOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_INET6}, {arg: 2, mask: whole, val: unix.IPPROTO_MPTCP}}},
		{callSocket, syscall.EPROTONOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_INET}, {arg: 2, mask: whole, val: unix.IPPROTO_SMC}}},
		{callSocket, syscall.EPROTONOSUPPORT, []condition{{arg: 0, mask: whole, val: unix.AF_INET6}, {arg: 2, mask: whole, val: unix.IPPROTO_SMC}}},
		// The name of the upper layer lies in memory; one of them is SMC.
		{callSetsockopt, syscall.ENOENT, []condition{{arg: 1, mask: whole, val: unix.SOL_TCP}, {arg: 2, mask: whole, val: tcpULP}}},
		{callSend, syscall.EOPNOTSUPP, []condition{{arg: 3, mask: unix.MSG_FASTOPEN, val: unix.MSG_FASTOPEN}}},
		{callSendto, syscall.EOPNOTSUPP, []condition{{arg: 3, mask: unix.MSG_FASTOPEN, val: unix.MSG_FASTOPEN}}},
		{callSendmsg, syscall.EOPNOTSUPP, []condition{{arg: 2, mask: unix.MSG_FASTOPEN, val: unix.MSG_FASTOPEN}}},
		{callSendmmsg, syscall.EOPNOTSUPP, []condition{{arg: 3, mask: unix.MSG_FASTOPEN, val: unix.MSG_FASTOPEN}}},
	}

	listenRules = []rule{
		{callListen, syscall.EACCES, nil},
	}

	truncateRules = []rule{
		{callTruncate, syscall.EACCES, nil},
		{callTruncate64, syscall.EACCES, nil},
		{callOpen, syscall.EACCES, []condition{{arg: 1, mask: openBits, val: truncRead}}},
		{callOpen, syscall.EACCES, []condition{{arg: 1, mask: openBits, val: truncNever}}},
		{callOpenat, syscall.EACCES, []condition{{arg: 2, mask: openBits, val: truncRead}}},
		{callOpenat, syscall.EACCES, []condition{{arg: 2, mask: openBits, val: truncNever}}},
		{callOpenByHandleAt, syscall.EACCES, []condition{{arg: 2, mask: openBits, val: truncRead}}},
		{callOpenByHandleAt, syscall.EACCES, []condition{{arg: 2, mask: openBits, val: truncNever}}},
		{callOpenat2, syscall.ENOSYS, nil}, // its flags lie in memory
	}

	filesystemRules = []rule{
		{callFsopen, syscall.EPERM, nil},
		{callFsconfig, syscall.EPERM, nil},
		{callFspick, syscall.EPERM, nil},
	}

	subvolumeRules = []rule{
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSnapCreate}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSubvolCreate}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSnapDestroy}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSnapCreateV2}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSubvolCreateV2}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: whole, val: btrfsSnapDestroyV2}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: ioctlKind, val: bcachefsSubvolDestroy}}},
		{callIoctl, syscall.EACCES, []condition{{arg: 1, mask: ioctlKind, val: bcachefsSubvolDestroy2}}},
	}

	// A limit is set where there is a pointer to a new one, whose lower half may
	// be all zero.
	limitRules = []rule{
		{callPrlimit, syscall.EPERM, []condition{{arg: 0, mask: whole, val: 0, not: true}, {arg: 2, mask: whole, val: 0, not: true}}},
		{callPrlimit, syscall.EPERM, []condition{{arg: 0, mask: whole, val: 0, not: true}, {arg: 2, mask: whole, val: 0, not: true, high: true}}},
	}

	groupRules = []rule{
		{callClone3, syscall.ENOSYS, nil},
	}

	socketcallRules = []rule{
		{callSocketcall, syscall.ENOSYS, nil},
	}

	ioUringRules = []rule{
		{callIOUringSetup, syscall.ENOSYS, nil},
		{callIOUringEnter, syscall.ENOSYS, nil},
		{callIOUringRegister, syscall.ENOSYS, nil},
	}
)

// rules returns the rules of f.
func (f Filter) rules() [][]rule {
	all := make([][]rule, 0, 11)
	sockets := f.NoNetwork || f.PlainTCP || f.NoListen
	for _, part := range [...]struct {
		on    bool
		rules []rule
	}{
		{f.NoTerminalInjection, terminalRules},
		{f.NoNetwork, networkRules},
		{f.PlainTCP, tcpRules},
		{f.NoListen, listenRules},
		{f.NoTruncate, truncateRules},
		{f.NoNewFilesystems, filesystemRules},
		{f.NoSubvolumes, subvolumeRules},
		{f.NoForeignLimits, limitRules},
		{f.NoForeignGroups, groupRules},
		{sockets, socketcallRules},
		{sockets || f.NoTruncate, ioUringRules},
	} {
		if part.on {
			all = append(all, part.rules)
		}
	}
	return all
}
