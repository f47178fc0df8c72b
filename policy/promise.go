package policy

// Promise is something that a policy holds, as far as the machine can.
type Promise string

const (
	// PromiseWrite: no content outside the grants is created, changed,
	// truncated, renamed or deleted.
	PromiseWrite Promise = "write"
	// PromiseRead: nothing outside the read list is read or executed.
	PromiseRead Promise = "read"
	// PromiseProtect: git's hooks, configuration and pointers stay unchanged.
	PromiseProtect Promise = "protect"
	// PromiseHide: hidden paths look empty.
	PromiseHide Promise = "hide"
	// PromisePrivateTmp: the temporary folders are the command's own.
	PromisePrivateTmp Promise = "private-tmp"
	// PromiseMetadata: mode, owner, times and attributes outside stay.
	PromiseMetadata Promise = "metadata"
	// PromiseDeviceIoctl: no ioctl on devices that are not granted.
	PromiseDeviceIoctl Promise = "device-ioctl"
	// PromiseSignals: no signal reaches a process outside.
	PromiseSignals Promise = "signals"
	// PromiseAbstractSockets: no connection to abstract sockets outside.
	PromiseAbstractSockets Promise = "abstract-sockets"
	// PromisePathSockets: no connection to sockets on the file system outside.
	PromisePathSockets Promise = "path-sockets"
	// PromiseNetwork: the network is limited as asked.
	PromiseNetwork Promise = "network"
	// PromiseLimits: resource limits hold.
	PromiseLimits Promise = "limits"
)

// State says how far a promise is held.
type State string

const (
	// Enforced: the kernel refuses what must not happen.
	Enforced State = "enforced"
	// VerifiedAfter: what must not happen is found and named afterwards.
	VerifiedAfter State = "verified-after"
	// Absent: nothing holds the promise.
	Absent State = "absent"
)

// Feature reports one promise for one run.
type Feature struct {
	Promise Promise `json:"promise"`
	State   State   `json:"state"`
	// By names the mechanism ("landlock", "mountns", "bwrap", "seccomp",
	// "cgroup"); empty when State is Absent.
	By string `json:"by,omitempty"`
	// Why says in words what is missing; empty when State is Enforced.
	Why string `json:"why,omitempty"`
	// Mend says what would hold the promise; may be empty.
	Mend string `json:"mend,omitempty"`
}
