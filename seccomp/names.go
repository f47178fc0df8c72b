package seccomp

import "sync"

// callNames are the names of the calls.
var callNames = [numCalls]string{
	callSocket:          "socket",
	callSocketpair:      "socketpair",
	callSocketcall:      "socketcall",
	callListen:          "listen",
	callSetsockopt:      "setsockopt",
	callSend:            "send",
	callSendto:          "sendto",
	callSendmsg:         "sendmsg",
	callSendmmsg:        "sendmmsg",
	callIoctl:           "ioctl",
	callTruncate:        "truncate",
	callTruncate64:      "truncate64",
	callOpen:            "open",
	callOpenat:          "openat",
	callOpenat2:         "openat2",
	callOpenByHandleAt:  "open_by_handle_at",
	callIOUringSetup:    "io_uring_setup",
	callIOUringEnter:    "io_uring_enter",
	callIOUringRegister: "io_uring_register",
	callFsopen:          "fsopen",
	callFsconfig:        "fsconfig",
	callFspick:          "fspick",
	callPrlimit:         "prlimit64",
	callClone3:          "clone3",
	callCreat:           "creat",
	callMkdir:           "mkdir",
	callMkdirat:         "mkdirat",
	callMknod:           "mknod",
	callMknodat:         "mknodat",
	callUnlink:          "unlink",
	callUnlinkat:        "unlinkat",
	callRmdir:           "rmdir",
	callRename:          "rename",
	callRenameat:        "renameat",
	callRenameat2:       "renameat2",
	callLink:            "link",
	callLinkat:          "linkat",
	callSymlink:         "symlink",
	callSymlinkat:       "symlinkat",
	callChmod:           "chmod",
	callFchmod:          "fchmod",
	callFchmodat:        "fchmodat",
	callFchmodat2:       "fchmodat2",
	callChown:           "chown",
	callChown32:         "chown32",
	callLchown:          "lchown",
	callLchown32:        "lchown32",
	callFchown:          "fchown",
	callFchown32:        "fchown32",
	callFchownat:        "fchownat",
	callUtime:           "utime",
	callUtimes:          "utimes",
	callFutimesat:       "futimesat",
	callUtimensat:       "utimensat",
	callUtimensatTime64: "utimensat_time64",
	callSetxattr:        "setxattr",
	callLsetxattr:       "lsetxattr",
	callFsetxattr:       "fsetxattr",
	callSetxattrat:      "setxattrat",
	callRemovexattr:     "removexattr",
	callLremovexattr:    "lremovexattr",
	callFremovexattr:    "fremovexattr",
	callRemovexattrat:   "removexattrat",
	callFileSetattr:     "file_setattr",
	callConnect:         "connect",
	callBind:            "bind",
}

// callIn returns what a number stands for in an interface, AUDIT_ARCH_….
func callIn(arch, nr uint32) (call, bool) {
	c, ok := byNumber()[[2]uint32{arch, nr}]
	return c, ok
}

// byNumber finds calls by their interface and number.
var byNumber = sync.OnceValue(func() map[[2]uint32]call {
	m := map[[2]uint32]call{}
	for _, doors := range []machine{amd64, arm64} {
		for i := range doors {
			for c, nr := range doors[i].nr {
				if nr != none {
					m[[2]uint32{doors[i].arch, nr}] = call(c)
				}
			}
		}
	}
	return m
})
