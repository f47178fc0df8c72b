package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// publicDir makes a folder, and those above, that every user of the guest enters.
func publicDir(dir string) error {
	return os.MkdirAll(dir, 0o755)
}

// publicFile writes a file that every user of the guest reads.
func publicFile(file string, data []byte, mode os.FileMode) error {
	return os.WriteFile(file, data, mode)
}

// mount is a file system without a device.
type mount struct {
	kind, dir string
	flags     uintptr
	data      string
}

// do mounts it, and makes the folder.
func (m mount) do() error {
	if err := publicDir(m.dir); err != nil {
		return err
	}
	if err := unix.Mount(m.kind, m.dir, m.kind, m.flags, m.data); err != nil {
		return &os.PathError{Op: "mount " + m.kind, Path: m.dir, Err: err}
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

// setUp does what systemd would do.
func setUp(j *job) error {
	for _, m := range []mount{
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"securityfs", "/sys/kernel/security", 0, ""},
		{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+to, "/dev/"+name); err != nil {
			return err
		}
	}
	runtimeDir := fmt.Sprintf("/run/user/%d", guestUID)
	if err := os.MkdirAll(runtimeDir, 0o700); err != nil {
		return err
	}
	if err := os.Chown(runtimeDir, guestUID, guestGID); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("vmrun")); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	if err := mountCgroups(j.Cgroup); err != nil {
		return err
	}
	if j.Delegate {
		return delegate()
	}
	return nil
}

// loopbackUp brings the loopback up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("setting lo up", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

// mountCgroups mounts them in one of the ways that distributions do.
func mountCgroups(way string) error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	switch way {
	case "none":
		return nil
	case "v2":
		return mount{"cgroup2", cgroupRoot, safe, "nsdelegate"}.do()
	}
	if err := (mount{"tmpfs", cgroupRoot, safe, "mode=755"}).do(); err != nil {
		return err
	}
	for _, c := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"} {
		if err := (mount{"cgroup", filepath.Join(cgroupRoot, c), safe, c}).do(); err != nil {
			say("%v", err) // newer kernels have fewer
		}
	}
	if way == "hybrid" {
		return mount{"cgroup2", cgroupRoot + "/unified", safe, "nsdelegate"}.do()
	}
	return nil
}

// delegatedCgroup is the group that the command of a -delegate starts in, below
// one that belongs to the user and has every controller.
const delegatedCgroup = cgroupRoot + "/dev/run"

// delegate makes that group.
func delegate() error {
	controllers, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+c), 0); err != nil {
			return err
		}
	}
	for _, dir := range []string{filepath.Dir(delegatedCgroup), delegatedCgroup} {
		if err := publicDir(dir); err != nil {
			return err
		}
		// What a manager hands over: the folder and these files, not the limits.
		for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, f), guestUID, guestGID); err != nil {
				return err
			}
		}
	}
	return nil
}

// unit starts the agent once a user can log in.
const unit = `[Unit]
Description=vmrun's agent
After=dbus.service systemd-logind.service systemd-user-sessions.service user@1000.service
Wants=dbus.service systemd-logind.service user@1000.service

[Service]
Type=exec
ExecStart=` + agentDir + "/" + agentName + `
StandardInput=null
StandardOutput=null
StandardError=null
KillMode=process
TasksMax=infinity
`

// writeUnit makes systemd start the agent.
func writeUnit(root string) error {
	dir := root + "/run/systemd/system"
	if err := publicDir(dir + "/multi-user.target.wants"); err != nil {
		return err
	}
	if err := publicFile(dir+"/"+agentName+".service", []byte(unit), 0o644); err != nil {
		return err
	}
	return os.Symlink("../"+agentName+".service", dir+"/multi-user.target.wants/"+agentName+".service")
}
