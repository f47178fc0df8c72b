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

	// What only a witness is shown.
	callCreat
	callMkdir
	callMkdirat
	callMknod
	callMknodat
	callUnlink
	callUnlinkat
	callRmdir
	callRename
	callRenameat
	callRenameat2
	callLink
	callLinkat
	callSymlink
	callSymlinkat
	callChmod
	callFchmod
	callFchmodat
	callFchmodat2
	callChown
	callChown32
	callLchown
	callLchown32
	callFchown
	callFchown32
	callFchownat
	callUtime
	callUtimes
	callFutimesat
	callUtimensat
	callUtimensatTime64
	callSetxattr
	callLsetxattr
	callFsetxattr
	callSetxattrat
	callRemovexattr
	callLremovexattr
	callFremovexattr
	callRemovexattrat
	callFileSetattr
	callConnect
	callBind
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

	callCreat:           85,
	callMkdir:           83,
	callMkdirat:         258,
	callMknod:           133,
	callMknodat:         259,
	callUnlink:          87,
	callUnlinkat:        263,
	callRmdir:           84,
	callRename:          82,
	callRenameat:        264,
	callRenameat2:       316,
	callLink:            86,
	callLinkat:          265,
	callSymlink:         88,
	callSymlinkat:       266,
	callChmod:           90,
	callFchmod:          91,
	callFchmodat:        268,
	callFchmodat2:       452,
	callChown:           92,
	callChown32:         none,
	callLchown:          94,
	callLchown32:        none,
	callFchown:          93,
	callFchown32:        none,
	callFchownat:        260,
	callUtime:           132,
	callUtimes:          235,
	callFutimesat:       261,
	callUtimensat:       280,
	callUtimensatTime64: none,
	callSetxattr:        188,
	callLsetxattr:       189,
	callFsetxattr:       190,
	callSetxattrat:      463,
	callRemovexattr:     197,
	callLremovexattr:    198,
	callFremovexattr:    199,
	callRemovexattrat:   466,
	callFileSetattr:     469,
	callConnect:         42,
	callBind:            49,
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

	callCreat:           8,
	callMkdir:           39,
	callMkdirat:         296,
	callMknod:           14,
	callMknodat:         297,
	callUnlink:          10,
	callUnlinkat:        301,
	callRmdir:           40,
	callRename:          38,
	callRenameat:        302,
	callRenameat2:       353,
	callLink:            9,
	callLinkat:          303,
	callSymlink:         83,
	callSymlinkat:       304,
	callChmod:           15,
	callFchmod:          94,
	callFchmodat:        306,
	callFchmodat2:       452,
	callChown:           182,
	callChown32:         212,
	callLchown:          16,
	callLchown32:        198,
	callFchown:          95,
	callFchown32:        207,
	callFchownat:        298,
	callUtime:           30,
	callUtimes:          271,
	callFutimesat:       299,
	callUtimensat:       320,
	callUtimensatTime64: 412,
	callSetxattr:        226,
	callLsetxattr:       227,
	callFsetxattr:       228,
	callSetxattrat:      463,
	callRemovexattr:     235,
	callLremovexattr:    236,
	callFremovexattr:    237,
	callRemovexattrat:   466,
	callFileSetattr:     469,
	callConnect:         362,
	callBind:            361,
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

	callCreat:           none,
	callMkdir:           none,
	callMkdirat:         34,
	callMknod:           none,
	callMknodat:         33,
	callUnlink:          none,
	callUnlinkat:        35,
	callRmdir:           none,
	callRename:          none,
	callRenameat:        38,
	callRenameat2:       276,
	callLink:            none,
	callLinkat:          37,
	callSymlink:         none,
	callSymlinkat:       36,
	callChmod:           none,
	callFchmod:          52,
	callFchmodat:        53,
	callFchmodat2:       452,
	callChown:           none,
	callChown32:         none,
	callLchown:          none,
	callLchown32:        none,
	callFchown:          55,
	callFchown32:        none,
	callFchownat:        54,
	callUtime:           none,
	callUtimes:          none,
	callFutimesat:       none,
	callUtimensat:       88,
	callUtimensatTime64: none,
	callSetxattr:        5,
	callLsetxattr:       6,
	callFsetxattr:       7,
	callSetxattrat:      463,
	callRemovexattr:     14,
	callLremovexattr:    15,
	callFremovexattr:    16,
	callRemovexattrat:   466,
	callFileSetattr:     469,
	callConnect:         203,
	callBind:            200,
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

	callCreat:           8,
	callMkdir:           39,
	callMkdirat:         323,
	callMknod:           14,
	callMknodat:         324,
	callUnlink:          10,
	callUnlinkat:        328,
	callRmdir:           40,
	callRename:          38,
	callRenameat:        329,
	callRenameat2:       382,
	callLink:            9,
	callLinkat:          330,
	callSymlink:         83,
	callSymlinkat:       331,
	callChmod:           15,
	callFchmod:          94,
	callFchmodat:        333,
	callFchmodat2:       452,
	callChown:           182,
	callChown32:         212,
	callLchown:          16,
	callLchown32:        198,
	callFchown:          95,
	callFchown32:        207,
	callFchownat:        325,
	callUtime:           none,
	callUtimes:          269,
	callFutimesat:       326,
	callUtimensat:       348,
	callUtimensatTime64: 412,
	callSetxattr:        226,
	callLsetxattr:       227,
	callFsetxattr:       228,
	callSetxattrat:      463,
	callRemovexattr:     235,
	callLremovexattr:    236,
	callFremovexattr:    237,
	callRemovexattrat:   466,
	callFileSetattr:     469,
	callConnect:         283,
	callBind:            282,
}
