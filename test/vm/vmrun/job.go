package main

// job is what the guest is to do. It travels in the initramfs, as jobFile.
type job struct {
	Argv     []string `json:"argv"`
	Env      []string `json:"env"`
	Cwd      string   `json:"cwd"`
	As       string   `json:"as"`
	Init     string   `json:"init"`
	Cgroup   string   `json:"cgroup"`
	Delegate bool     `json:"delegate"`
	Pre      []string `json:"pre"`
	Out      []string `json:"out"`
	Modules  []string `json:"modules"`
	// Payload says that there is a disk with files to copy in.
	Payload bool `json:"payload"`
}

// Values of job.As and job.Init.
const (
	asRoot     = "root"
	asUser     = "user"
	asSession  = "session"
	asUserUnit = "userunit"

	initDirect  = "direct"
	initSystemd = "systemd"
)

// Where things are in the initramfs, and in the guest once its root is there.
const (
	jobFile   = "/vmrun/job.json"
	moduleDir = "/vmrun/mod"

	agentName    = "vmrun-agent"
	agentDir     = "/run/vmrun"
	agentJobFile = agentDir + "/job.json"
)

// The guest's ordinary user, called dev.
const (
	guestUID = 1000
	guestGID = 1000
)

// guestPath is the search path of all that runs in the guest.
const guestPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
