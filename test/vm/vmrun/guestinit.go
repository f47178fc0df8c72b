package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// say writes to the guest's console.
func say(format string, args ...any) { fmt.Printf("vmrun: "+format+"\n", args...) }

// initMain is the guest's first process, in the initramfs: it makes the disk the
// root, and becomes systemd, or stays as an init that starts the agent. It never
// returns.
func initMain() {
	err := guestInit()
	say("fatal: %v", err)
	report(err)
	powerOff()
}

// report tells the host, where that can be done, and leaves it time to listen.
func report(err error) {
	port, e := openPort(time.Second)
	if e != nil {
		return
	}
	w := &frameWriter{w: port}
	if w.send(frameFail, []byte(err.Error())) == nil && w.send(frameExit, []byte("125")) == nil {
		<-time.After(2 * time.Second)
	}
}

func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // if it fails, the host ends the guest
	rest()
}

// rest waits for the host to end the guest.
func rest() {
	for {
		_ = unix.Pause() // always EINTR
	}
}

const newRoot = "/newroot"

// guestInit returns only after a failure.
func guestInit() error {
	if err := os.Setenv("PATH", strings.TrimPrefix(guestPath, "PATH=")); err != nil {
		return err
	}
	for _, fs := range []mount{
		{"devtmpfs", "/dev", 0, ""}, {"proc", "/proc", 0, ""}, {"sysfs", "/sys", 0, ""},
	} {
		if err := fs.do(); err != nil {
			return err
		}
	}
	j, err := readJob(jobFile)
	if err != nil {
		return err
	}
	for _, name := range j.Modules {
		if err := loadModule(filepath.Join(moduleDir, name)); err != nil {
			say("module %s: %v", name, err) // what needs it says more
		}
	}
	if err := enterRoot(j); err != nil {
		return err
	}
	if j.Init == initSystemd {
		return unix.Exec("/lib/systemd/systemd", []string{"/sbin/init"}, []string{guestPath, "TERM=dumb", "container="})
	}
	if err := setUp(j); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(filepath.Join(agentDir, agentName), []string{agentName}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	for { // reap whatever ends
		if p, err := syscall.Wait4(-1, nil, 0, nil); err == nil && p == pid {
			return errors.New("the agent has ended")
		}
	}
}

// readJob reads what is to be done.
func readJob(file string) (*job, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var j job
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &j, nil
}

func loadModule(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := unix.InitModule(b, ""); err != nil && !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("init_module", err)
	}
	return nil
}

// enterRoot makes the disk the root folder, with the payload and the agent in it.
func enterRoot(j *job) error {
	if err := waitFor("/dev/vda"); err != nil {
		return err
	}
	if err := publicDir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount("/dev/vda", newRoot, "ext4", unix.MS_NOATIME, ""); err != nil {
		return os.NewSyscallError("mount /dev/vda", err)
	}
	if err := (mount{"tmpfs", newRoot + "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"}).do(); err != nil {
		return err
	}
	if err := copyAgent(); err != nil {
		return err
	}
	if j.Payload {
		if err := waitFor("/dev/vdb"); err != nil {
			return err
		}
		if err := unpackPayload("/dev/vdb", newRoot, j.As != asRoot); err != nil {
			return fmt.Errorf("payload: %w", err)
		}
	}
	if j.Init == initSystemd {
		if err := writeUnit(newRoot); err != nil {
			return err
		}
	}
	for _, d := range []string{"/dev", "/proc", "/sys"} {
		if err := unix.Mount(d, newRoot+d, "", unix.MS_MOVE, ""); err != nil {
			return os.NewSyscallError("moving "+d, err)
		}
	}
	// What is left of the initramfs costs memory.
	if err := errors.Join(os.RemoveAll("/vmrun"), os.Remove("/init")); err != nil {
		return err
	}
	if err := unix.Chdir(newRoot); err != nil {
		return os.NewSyscallError("chdir", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return os.NewSyscallError("moving the root", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir("/"))
}

// copyAgent copies this program and the job to where the agent finds them.
func copyAgent() error {
	dir := newRoot + agentDir
	if err := publicDir(dir); err != nil {
		return err
	}
	for from, to := range map[string]string{"/init": agentName, jobFile: filepath.Base(agentJobFile)} {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := publicFile(filepath.Join(dir, to), b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// waitFor waits for a device.
func waitFor(path string) error {
	late := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("%s did not appear", path)
		}
	}
}
