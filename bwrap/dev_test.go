package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// builtinDevices are the grants that a policy has for them.
var builtinDevices = []policy.Grant{
	{Path: "/dev/null", Access: policy.Read | policy.Write | policy.Ioctl, Origin: policy.FromDevice, Optional: true},
	{Path: "/dev/ptmx", Access: policy.Read | policy.Write | policy.Ioctl, Origin: policy.FromDevice, Optional: true},
	{Path: "/dev/pts", Access: policy.Read | policy.Write | policy.Ioctl, Origin: policy.FromDevice, Optional: true},
	{Path: "/dev/shm", Access: policy.Read | policy.Write, Origin: policy.FromDevice, Optional: true},
}

func TestDevices(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		r.Grants = append(r.Grants, builtinDevices...)
		node, shm := filepath.Join(top, "wt", "node"), "/dev/shm/shofer-test-"+strconv.Itoa(os.Getpid())
		chmod := "EPERM" // where their owner isn't in the namespace
		if u.UID == 0 {
			chmod = "ok"
		}
		ops := []op{
			{"readwrite", []string{"/dev/null"}, "ok"},
			{"read", []string{"/dev/zero"}, "ok"},
			{"write", []string{"/dev/full"}, "ok"},
			{"read", []string{"/dev/urandom"}, "ok"},
			{"readwrite", []string{"/dev/tty"}, "ENXIO"}, // there is none, but one may ask
			{"pty", nil, "ok"},
			{"read", []string{"/dev/kmsg"}, "ENOENT"},
			{"read", []string{"/dev/mem"}, "ENOENT"},
			{"chmoddev", []string{"/dev/null"}, chmod},
			{"unlink", []string{"/dev/null"}, "EBUSY|EROFS"},
			{"create", []string{shm}, "ok"},
			{"unlink", []string{shm}, "ok"},
			{"read", []string{"/dev/fd/0"}, "ok"},
			{"mknod", []string{node}, "EPERM"},
		}
		if u.UID == 0 {
			// A device in a grant doesn't work.
			if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
				t.Fatal(err)
			}
			ops[len(ops)-1] = op{"write", []string{node}, "EACCES"}
		}
		newBox(t, u, r, Options{Init: true}).try(ops)
	})
}

// TestPrivateTmp has its worktree, and what is granted besides, in /tmp.
func TestPrivateTmp(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		top, err := os.MkdirTemp("/tmp", "shofer-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(top) })
		mkdir(t, top+"/deep/wt")
		write(t, top+"/deep/wt/file", "in\n")
		write(t, top+"/file", "out\n")
		if err := os.Symlink("deep/wt", top+"/link"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(top, 0o755); err != nil {
			t.Fatal(err)
		}
		u.Own(t, top)
		shm := fmt.Sprintf("/dev/shm/shofer-test-%d", os.Getpid())
		write(t, shm, "x")
		t.Cleanup(func() { os.Remove(shm) })

		own := fmt.Sprintf("/tmp/of my own %d", os.Getpid())
		r := &policy.Resolved{
			Policy: policy.Policy{Mode: policy.WorkspaceWrite},
			Env:    []string{"TMPDIR=" + own},
			Grants: append([]policy.Grant{
				{Path: top + "/link", Access: policy.Write, Origin: policy.FromUser},
				{Path: "/tmp", Access: policy.Read | policy.Write, Origin: policy.FromTmp, Optional: true},
			}, builtinDevices...),
		}
		shared := newBox(t, u, r, Options{Init: true})
		shared.try([]op{
			{"read", []string{top + "/file"}, "ok"},
			{"read", []string{shm}, "ok"},
			// One mount, so nothing is a border.
			{"rename", []string{top + "/deep/wt/file", top + "/moved"}, "ok"},
			{"rename", []string{top + "/moved", top + "/deep/wt/file"}, "ok"},
		})
		before := tree(t, top)
		b := newBox(t, u, r, Options{Init: true, PrivateTmp: true})
		b.try([]op{
			{"read", []string{top + "/file"}, "ENOENT"},
			{"read", []string{shm}, "ENOENT"},
			{"append", []string{top + "/deep/wt/file"}, "ok"},
			{"append", []string{top + "/link/file"}, "ok"},
			{"create", []string{"/tmp/shofer-test-none"}, "ok"},
			{"create", []string{"/dev/shm/x"}, "ok"},
			{"create", []string{own + "/x"}, "ok"},
			{"create", []string{top + "/deep/x"}, "ok"},
			{"pty", nil, "ok"},
		})
		if got := b.sh("stat -c %a /tmp /dev/shm"); got != "1777\n1777\n" && b.l.ModeOption {
			t.Errorf("the modes of private folders are %q", got)
		}
		if after := tree(t, top); after != before {
			t.Errorf("outside was changed to\n%s\nfrom\n%s", after, before)
		}
		if _, err := os.Lstat(own); err == nil {
			t.Error("the command's temporary folder was made outside")
		}
	})
}

func TestDevicePaths(t *testing.T) {
	usual := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
	for _, tt := range []struct {
		entries []Entry
		want    []string
	}{
		{nil, usual},
		{[]Entry{
			{Path: "/dev/kvm", Kind: Device},
			{Path: "/dev/null", Kind: Device},
			{Path: "/dev/shm", Kind: Device, Dir: true},
			{Path: "/dev/sda", Kind: Shown},
			{Path: "/srv/file", Kind: Device},
		}, append(usual[:6:6], "/dev/kvm")},
		{[]Entry{{Path: "/dev", Kind: Device, Dir: true}}, nil}, // as it is outside
		{[]Entry{{Path: "/", Kind: Device, Dir: true}}, nil},
	} {
		if got := (&Layout{Entries: tt.entries}).Devices(); !slices.Equal(got, tt.want) {
			t.Errorf("Devices with %+v = %q; want %q", tt.entries, got, tt.want)
		}
	}
}
