package seccomp

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestNoNewFilesystems(t *testing.T) {
	expect(t, setup{Filter: Filter{NoNewFilesystems: true}}, []expectation{
		{do("fsopen", "tmpfs"), []syscall.Errno{0, syscall.EPERM}, syscall.EPERM},
		{do("raw", unix.SYS_FSOPEN, 0, 0), []syscall.Errno{syscall.EFAULT, syscall.EPERM}, syscall.EPERM},
		{do("raw", unix.SYS_FSCONFIG, -1, unix.FSCONFIG_CMD_CREATE, 0, 0, 0), []syscall.Errno{syscall.EBADF, syscall.EINVAL}, syscall.EPERM},
		{do("raw", unix.SYS_FSPICK, unix.AT_FDCWD, 0, 0), []syscall.Errno{syscall.EFAULT, syscall.EPERM}, syscall.EPERM},
		{do("raw", unix.SYS_MOUNT, 0, 0, 0, unix.MS_REMOUNT), []syscall.Errno{syscall.EFAULT}, syscall.EFAULT},
		{do("io-uring"), ok, 0},
	})
}

// TestNoSubvolumes makes the ioctls on a folder of a file system that doesn't
// know them.
func TestNoSubvolumes(t *testing.T) {
	enotty := []syscall.Errno{syscall.ENOTTY, syscall.EINVAL, syscall.EFAULT, syscall.EPERM, syscall.EACCES}
	var es []expectation
	for _, cmd := range []uint64{
		btrfsSnapCreate, btrfsSubvolCreate, btrfsSnapDestroy, btrfsSnapCreateV2, btrfsSubvolCreateV2, btrfsSnapDestroyV2,
		0x4020bc11, 0x4030bc1e,
	} {
		es = append(es,
			expectation{do("folder-ioctl", fmt.Sprintf("0x%x", cmd)), enotty, syscall.EACCES},
			expectation{do("folder-ioctl", fmt.Sprintf("0x%x", 1<<32|cmd)), enotty, syscall.EACCES})
	}
	es = append(es,
		expectation{do("folder-ioctl", fmt.Sprintf("0x%x", 0x9408)), nil, syscall.ENOTTY}, // BTRFS_IOC_SYNC
		expectation{do("ioctl", unix.TCGETS, 0), ok, 0},
		expectation{do("io-uring"), ok, 0})
	expect(t, setup{Filter: Filter{NoSubvolumes: true}}, es)
}

// TestNoForeignGroups: programs see a kernel without clone3, and start others
// all the same.
func TestNoForeignGroups(t *testing.T) {
	expect(t, setup{Filter: Filter{NoForeignGroups: true}}, []expectation{
		{do("raw", unix.SYS_CLONE3, 0, 0), []syscall.Errno{syscall.EINVAL, syscall.EFAULT}, syscall.ENOSYS},
		{do("io-uring"), ok, 0},
	})
	for _, tt := range []struct {
		tool, out string
		args      []string
	}{
		{"bash", "5", []string{"-c", "echo $(echo 2 | cat) | sed s/2/5/ & wait"}},
		{"python3", "3 4 5 hello", []string{"-c", pythonLocal}},
		{"node", "worker 42\nchild hello", []string{"-e", nodeLocal}},
		{"go", "go version", []string{"version"}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			u := testenv.Self()
			tool := needSystemTool(t, u, tt.tool)
			cmd := u.Helper(t, "filtered", append([]string{`{"Filter":{"NoForeignGroups":true}}`, tool}, tt.args...)...)
			cmd.Dir = u.Dir(t)
			cmd.Env = append(cmd.Env, "HOME="+cmd.Dir, "TMPDIR="+cmd.Dir)
			if r := testenv.Run(t, cmd); r.Code != 0 || !strings.Contains(r.Stdout, tt.out) {
				t.Errorf("%v; want %q", r, tt.out)
			}
		})
	}
}

// TestNoForeignLimits sets limits of this process, from the filtered one. What
// they are set to is what they are.
func TestNoForeignLimits(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		other := []syscall.Errno{0}
		if u.UID != os.Getuid() {
			other = []syscall.Errno{syscall.EPERM}
		}
		expectAs(t, u, setup{Filter: Filter{NoForeignLimits: true}}, []expectation{
			{do("set-limit", 0), ok, 0},
			{do("get-limit", 0), ok, 0},
			{do("set-limit", os.Getpid()), other, syscall.EPERM},
			{do("set-limit", fmt.Sprintf("0x%x", 1<<32|os.Getpid())), other, syscall.EPERM},
			{do("set-limit-at-zero", os.Getpid()), other, syscall.EPERM},
			{do("set-limit", fmt.Sprintf("0x%x", uint64(1)<<32)), ok, 0},
			{do("get-limit", os.Getpid()), other, other[0]},
		})
	})
}
