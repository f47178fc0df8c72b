package seccomp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ruleset makes the Landlock ruleset of s and returns its descriptor, 0 for
// none. Its TCP rights are those of the lists in s.Ports.
func (s setup) ruleset() (int, error) {
	attr := struct{ fs, net uint64 }{fs: s.FileRights} // struct landlock_ruleset_attr of ABI 4
	if s.Ports.BindTCP != nil {
		attr.net |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if s.Ports.ConnectTCP != nil {
		attr.net |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if attr.fs == 0 && attr.net == 0 {
		return 0, nil
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return 0, e
	}
	for _, l := range []struct {
		right uint64
		ports []uint16
	}{
		{unix.LANDLOCK_ACCESS_NET_BIND_TCP, s.Ports.BindTCP},
		{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, s.Ports.ConnectTCP},
	} {
		for _, p := range l.ports {
			rule := [2]uint64{l.right, uint64(p)} // struct landlock_net_port_attr
			if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, 2, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
				return 0, e
			}
		}
	}
	return int(fd), nil
}
