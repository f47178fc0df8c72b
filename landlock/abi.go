package landlock

import (
	"strconv"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// FSRights are rights on files and folders, LANDLOCK_ACCESS_FS_* of
// linux/landlock.h.
type FSRights uint64

// NetRights are rights on ports, LANDLOCK_ACCESS_NET_*.
type NetRights uint64

// Scopes are the ways to reach processes outside, LANDLOCK_SCOPE_*.
type Scopes uint64

const (
	// readRights are what a read list gives back.
	readRights FSRights = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir

	// makeNode are the rights to make device nodes. They are taken away and
	// never given back.
	makeNode FSRights = ll.AccessFSMakeChar | ll.AccessFSMakeBlock

	// changeRights are the rights that change content.
	changeRights FSRights = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym |
		makeNode

	// fileRights are the rights that a rule on something other than a folder
	// may have. The kernel refuses any other with EINVAL.
	fileRights FSRights = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile |
		ll.AccessFSTruncate | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
)

// ABI says what one version of Landlock holds.
type ABI struct {
	// Version is what the kernel answers when it is asked.
	Version int
	// Kernel is the first release of Linux with this version.
	Kernel string
	// FS, Net and Scopes are everything that can be handled.
	FS     FSRights
	Net    NetRights
	Scopes Scopes
	// RestrictFlags are the flags that landlock_restrict_self(2) accepts.
	RestrictFlags uint32
	// Promises are those that this version is the first to hold; limits of
	// the network for TCP here, for UDP from version 10. See [Gaps], too.
	Promises []policy.Promise
}

// The versions that first have the rights for ports.
const (
	ABITCP = 4
	ABIUDP = 10
)

// Newest is the newest version that [ABIs] knows. A kernel with a newer one is
// treated as this one: versions only add.
const Newest = 11

// ABIs is indexed by version, from 0, which holds nothing, to [Newest].
//
// Sources: include/uapi/linux/landlock.h and security/landlock/limits.h of each
// release of Linux named here, and landlock(7), which has the releases.
var ABIs = [Newest + 1]ABI{
	{},
	{Version: 1, Kernel: "5.13", FS: 1<<13 - 1, Promises: []policy.Promise{policy.PromiseRead}},
	{Version: 2, Kernel: "5.19", FS: 1<<14 - 1},
	{Version: 3, Kernel: "6.2", FS: 1<<15 - 1, Promises: []policy.Promise{policy.PromiseWrite}},
	{Version: 4, Kernel: "6.7", FS: 1<<15 - 1, Net: 1<<2 - 1, Promises: []policy.Promise{policy.PromiseNetwork}},
	{Version: 5, Kernel: "6.10", FS: 1<<16 - 1, Net: 1<<2 - 1, Promises: []policy.Promise{policy.PromiseDeviceIoctl}},
	{Version: 6, Kernel: "6.12", FS: 1<<16 - 1, Net: 1<<2 - 1, Scopes: 1<<2 - 1, Promises: []policy.Promise{policy.PromiseSignals, policy.PromiseAbstractSockets}},
	{Version: 7, Kernel: "6.15", FS: 1<<16 - 1, Net: 1<<2 - 1, Scopes: 1<<2 - 1, RestrictFlags: 1<<3 - 1},
	{Version: 8, Kernel: "7.0", FS: 1<<16 - 1, Net: 1<<2 - 1, Scopes: 1<<2 - 1, RestrictFlags: 1<<4 - 1},
	{Version: 9, Kernel: "7.1", FS: 1<<17 - 1, Net: 1<<2 - 1, Scopes: 1<<2 - 1, RestrictFlags: 1<<4 - 1, Promises: []policy.Promise{policy.PromisePathSockets}},
	{Version: 10, Kernel: "7.2", FS: 1<<17 - 1, Net: 1<<4 - 1, Scopes: 1<<2 - 1, RestrictFlags: 1<<4 - 1},
	{Version: 11, Kernel: "7.3", FS: 1<<17 - 1, Net: 1<<4 - 1, Scopes: 1<<2 - 1, RestrictFlags: 1<<5 - 1},
}

// Erratum is a flaw of Landlock that some kernels have. A kernel sets bit
// Number−1 of its errata when it has the fix.
type Erratum struct {
	Number int
	// ABI is the version that brought the flaw.
	ABI int
	// Name is the title in the kernel's documentation.
	Name string
	// Unfixed says what a kernel without the fix does.
	Unfixed string
}

// Errata are the flaws known, in the order of their numbers.
//
// Source: security/landlock/errata/abi-*.h of Linux.
var Errata = [...]Erratum{
	{1, 4, "TCP socket identification", "the rights for TCP apply to MPTCP, SMC and SCTP sockets too"},
	{2, 6, "scoped signal handling", "threads of one process that are in different domains can't signal each other"},
	{3, 1, "disconnected directory handling", "a folder that was moved out of a bind mount can gain rights by a rename or link"},
	{4, 1, "creation of whiteout objects", "making an overlay's whiteout counts as making a character device"},
}

// Fixed reports whether the kernel says that it has the fix for erratum number.
// Kernels before 6.15 say nothing, except where the fix was backported.
func (s Support) Fixed(number int) bool {
	return number > 0 && number <= 32 && s.Errata&(1<<(number-1)) != 0
}

// abi is the row of [ABIs] that counts for s.
func (s Support) abi() *ABI {
	return &ABIs[max(0, min(s.ABI, Newest))]
}

var (
	fsNames = [...]string{
		"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file",
		"make_char", "make_dir", "make_reg", "make_sock", "make_fifo", "make_block", "make_sym",
		"refer", "truncate", "ioctl_dev", "resolve_unix",
	}
	netNames   = [...]string{"bind_tcp", "connect_tcp", "bind_udp", "connect_send_udp"}
	scopeNames = [...]string{"abstract_unix_socket", "signal"}
)

// String lists the rights by the kernel's names in lower case, in the order of
// their bits, separated by commas; "none" for zero.
func (r FSRights) String() string { return bitNames(uint64(r), fsNames[:]) }

// String lists the rights as [FSRights.String] does.
func (r NetRights) String() string { return bitNames(uint64(r), netNames[:]) }

// String lists the scopes as [FSRights.String] does.
func (s Scopes) String() string { return bitNames(uint64(s), scopeNames[:]) }

func bitNames(bits uint64, names []string) string {
	if bits == 0 {
		return "none"
	}
	var b strings.Builder
	for i := range 64 {
		if bits&(1<<i) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		if i < len(names) {
			b.WriteString(names[i])
		} else {
			b.WriteString("bit" + strconv.Itoa(i))
		}
	}
	return b.String()
}
