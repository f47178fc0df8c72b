package seccomp

import "golang.org/x/sys/unix"

// call is a system call that some rule is about.
type call uint8

const (
	callSocket call = iota
	callSocketpair
	callSocketcall
	callListen
	callSetsockopt
	callSend
	callSendto
	callSendmsg
	callSendmmsg
	callIoctl
	callTruncate
	callTruncate64
	callOpen
	callOpenat
	callOpenat2
	callOpenByHandleAt
	callIOUringSetup
	callIOUringEnter
	callIOUringRegister
	callFsopen
	callFsconfig
	callFspick
	callPrlimit
	callClone3
	numCalls
)

// none is the number of a call that an interface doesn't have.
const none = ^uint32(0)

// numbers holds the number of each call, or none.
type numbers [numCalls]uint32

// door is one system call interface of a machine.
type door struct {
	arch uint32 // what the kernel says that it is, AUDIT_ARCH_…
	x32  bool   // whether numbers from x32Bit on are another interface
	nr   *numbers
}

// x32Bit marks the numbers of x32, which share the architecture of amd64.
const x32Bit = 0x40000000

// machine is the interfaces of a machine, the usual one first.
type machine []door

var (
	amd64 = machine{
		{unix.AUDIT_ARCH_X86_64, true, &amd64Numbers},
		{unix.AUDIT_ARCH_I386, false, &i386Numbers},
	}
	arm64 = machine{
		{unix.AUDIT_ARCH_AARCH64, false, &arm64Numbers},
		{unix.AUDIT_ARCH_ARM, false, &armNumbers},
	}
)

// machineFor returns the machine that Go calls goarch.
func machineFor(goarch string) (machine, bool) {
	switch goarch {
	case "amd64":
		return amd64, true
	case "arm64":
		return arm64, true
	}
	return nil, false
}

var amd64Numbers = numbers{
	callSocket:          41,
	callSocketpair:      53,
	callSocketcall:      none,
	callListen:          50,
	callSetsockopt:      54,
	callSend:            none,
	callSendto:          44,
	callSendmsg:         46,
	callSendmmsg:        307,
	callIoctl:           16,
	callTruncate:        76,
	callTruncate64:      none,
	callOpen:            2,
	callOpenat:          257,
	callOpenat2:         437,
	callOpenByHandleAt:  304,
	callIOUringSetup:    425,
	callIOUringEnter:    426,
	callIOUringRegister: 427,
	callFsopen:          430,
	callFsconfig:        431,
	callFspick:          433,
	callPrlimit:         302,
	callClone3:          435,
}

var i386Numbers = numbers{
	callSocket:          359,
	callSocketpair:      360,
	callSocketcall:      102,
	callListen:          363,
	callSetsockopt:      366,
	callSend:            none,
	callSendto:          369,
	callSendmsg:         370,
	callSendmmsg:        345,
	callIoctl:           54,
	callTruncate:        92,
	callTruncate64:      193,
	callOpen:            5,
	callOpenat:          295,
	callOpenat2:         437,
	callOpenByHandleAt:  342,
	callIOUringSetup:    425,
	callIOUringEnter:    426,
	callIOUringRegister: 427,
	callFsopen:          430,
	callFsconfig:        431,
	callFspick:          433,
	callPrlimit:         340,
	callClone3:          435,
}

var arm64Numbers = numbers{
	callSocket:          198,
	callSocketpair:      199,
	callSocketcall:      none,
	callListen:          201,
	callSetsockopt:      208,
	callSend:            none,
	callSendto:          206,
	callSendmsg:         211,
	callSendmmsg:        269,
	callIoctl:           29,
	callTruncate:        45,
	callTruncate64:      none,
	callOpen:            none,
	callOpenat:          56,
	callOpenat2:         437,
	callOpenByHandleAt:  265,
	callIOUringSetup:    425,
	callIOUringEnter:    426,
	callIOUringRegister: 427,
	callFsopen:          430,
	callFsconfig:        431,
	callFspick:          433,
	callPrlimit:         261,
	callClone3:          435,
}

var armNumbers = numbers{
	callSocket:          281,
	callSocketpair:      288,
	callSocketcall:      none,
	callListen:          284,
	callSetsockopt:      294,
	callSend:            289,
	callSendto:          290,
	callSendmsg:         296,
	callSendmmsg:        374,
	callIoctl:           54,
	callTruncate:        92,
	callTruncate64:      193,
	callOpen:            5,
	callOpenat:          322,
	callOpenat2:         437,
	callOpenByHandleAt:  371,
	callIOUringSetup:    425,
	callIOUringEnter:    426,
	callIOUringRegister: 427,
	callFsopen:          430,
	callFsconfig:        431,
	callFspick:          433,
	callPrlimit:         369,
	callClone3:          435,
}
