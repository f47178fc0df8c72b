package main

import (
	"encoding/binary"
	"os"
	"strconv"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// newest is the newest ABI that can be simulated: nothing that came with it or
// before passes unseen.
const newest = 6

// known is what a kernel of one ABI knows, written down apart from the table of
// the code under test.
type known struct {
	fs, net, scoped uint64
	size            uint64 // of struct landlock_ruleset_attr
}

func knownTo(abi int) known {
	k := known{fs: 1<<13 - 1, size: 8}
	if abi >= 2 {
		k.fs |= ll.AccessFSRefer
	}
	if abi >= 3 {
		k.fs |= ll.AccessFSTruncate
	}
	if abi >= 4 {
		k.net, k.size = ll.AccessNetBindTCP|ll.AccessNetConnectTCP, 16
	}
	if abi >= 5 {
		k.fs |= ll.AccessFSIoctlDev
	}
	if abi >= 6 {
		k.scoped, k.size = ll.ScopeAbstractUnixSocket|ll.ScopeSignal, 24
	}
	return k
}

// answer is what the command's call returns. The zero value lets the call go on
// to the kernel.
type answer struct {
	val   int64
	errno syscall.Errno
	mine  bool
}

func value(v int64) answer           { return answer{val: v, mine: true} }
func failure(e syscall.Errno) answer { return answer{errno: e, mine: true} }

// decide answers one call. live is to be asked after the caller's memory was
// read: it fails if the caller was gone by then, and the pid another's.
func (s simulation) decide(n *notif, live func() error) answer {
	switch int(n.nr) {
	case unix.SYS_LANDLOCK_CREATE_RULESET:
		return s.create(n, live)
	case unix.SYS_LANDLOCK_ADD_RULE:
		if n.args[1] == ll.RuleTypeNetPort && knownTo(s.abi).net == 0 {
			return failure(syscall.EINVAL)
		}
	case unix.SYS_LANDLOCK_RESTRICT_SELF:
		if uint32(n.args[1]) != 0 {
			return failure(syscall.EINVAL)
		}
	}
	return answer{}
}

func (s simulation) create(n *notif, live func() error) answer {
	addr, size, flags := n.args[0], n.args[1], uint32(n.args[2])
	switch {
	case flags == unix.LANDLOCK_CREATE_RULESET_VERSION && addr == 0 && size == 0:
		return value(int64(s.abi))
	case flags != 0:
		return failure(syscall.EINVAL)
	case addr == 0 || size < 8 || size > 4096:
		return answer{} // the kernel says the same whatever its ABI
	}
	attr, err := readMemory(n.pid, addr, size)
	if err != nil || live() != nil {
		return failure(syscall.EFAULT)
	}
	k := knownTo(s.abi)
	for _, b := range attr[min(k.size, size):] {
		if b != 0 {
			return failure(syscall.E2BIG)
		}
	}
	word := func(off uint64) uint64 {
		if off+8 > size {
			return 0
		}
		return binary.LittleEndian.Uint64(attr[off:])
	}
	if word(0)&^k.fs != 0 || word(8)&^k.net != 0 || word(16)&^k.scoped != 0 {
		return failure(syscall.EINVAL)
	}
	return answer{}
}

// readMemory reads from the memory of a process.
func readMemory(pid uint32, addr, size uint64) ([]byte, error) {
	m, err := os.Open("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/mem")
	if err != nil {
		return nil, err
	}
	defer m.Close()
	b := make([]byte, size)
	_, err = m.ReadAt(b, int64(addr))
	return b, err
}
