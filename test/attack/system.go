package attack

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// attackSystem tries what there is one of on a machine, and descriptors that
// the command should not have been given. Each path that should be refused has
// a neighbour that should not.
func attackSystem(s settings, report func(Result)) {
	for _, f := range []struct {
		name, path string
		flags      int
	}{
		{"sysctl", "/proc/sys/kernel/core_pattern", unix.O_WRONLY},
		{"sysctl-read", "/proc/sys/kernel/core_pattern", unix.O_RDONLY},
		{"sysrq", "/proc/sysrq-trigger", unix.O_WRONLY},
		{"memory-device", "/dev/mem", unix.O_RDWR},
		{"zero-device", "/dev/zero", unix.O_RDWR},
		{"sysfs", "/sys/kernel/mm/transparent_hugepage/enabled", unix.O_WRONLY},
		{"disk", disk(), unix.O_WRONLY},
		{"null-device", "/dev/null", unix.O_WRONLY},
	} {
		report(resultOf(f.name, "system", openOnly(f.path, f.flags)))
	}
	report(resultOf("acct", "system", do("acct", acct(s.out))))
	// Standard input is a file outside, open for reading.
	report(resultOf("stdin-reopen", "system", openOnly(fdPath(0), unix.O_RDWR)))
	report(resultOf("stdin-read", "system", openOnly(fdPath(0), unix.O_RDONLY)))
	if s.leakFile >= 0 {
		_, err := unix.Write(s.leakFile, []byte("leak"))
		report(resultOf("leaked-file", "system", do("write", err)))
	}
	if s.leakDir >= 0 {
		fd, err := unix.Openat(s.leakDir, "file", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd) // the harm is done
		}
		report(resultOf("leaked-dir", "system", do("openat", err)))
	}
}

// openOnly opens a file and does nothing with it.
func openOnly(path string, flags int) error {
	if _, err := os.Lstat(path); path == "" || err != nil {
		return skipError("there is no such file")
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return do("open", err)
	}
	return unix.Close(fd)
}

// disk is a block device of this machine, or "".
func disk() string {
	text, err := os.ReadFile("/proc/partitions")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		if _, err := os.Stat("/dev/" + f[3]); err == nil {
			return "/dev/" + f[3]
		}
	}
	return ""
}
