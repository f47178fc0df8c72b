package seccomp

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
)

// writeRights are the rights of Landlock's ABI 2 by which something is written:
// all but truncation, which it doesn't know.
const writeRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
	unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
	unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
	unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM

// TestNoTruncate tries each way to empty a file under the rights of an old ABI,
// with and without the filter, and looks at the file.
func TestNoTruncate(t *testing.T) {
	if s := landlock.Probe(); s.ABI < 1 {
		testenv.Skip(t, "needs Landlock: %s", s.Reason())
	}
	const accessNone = 3
	high := func(n int) string { return fmt.Sprintf("0x%x", 1<<32|n) }
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		file := filepath.Join(u.Dir(t), "file")
		for _, tt := range []struct {
			op      op
			empties bool // without the filter
			with    syscall.Errno
		}{
			{do("truncate", file), true, syscall.EACCES},
			{do("open", file, unix.O_TRUNC), true, syscall.EACCES},
			{do("open", file, unix.O_TRUNC|accessNone), true, syscall.EACCES},
			{do("open", file, high(unix.O_TRUNC)), true, syscall.EACCES},
			{do("open2", file, unix.O_TRUNC), true, syscall.ENOSYS},
			{do("open2", file, unix.O_TRUNC|accessNone), true, syscall.ENOSYS},

			{do("open", file, unix.O_TRUNC|unix.O_WRONLY), false, syscall.EACCES}, // Landlock's
			{do("open", file, unix.O_TRUNC|unix.O_RDWR), false, syscall.EACCES},
			{do("ftruncate", file), false, syscall.EACCES},
			{do("open", file, unix.O_RDONLY), false, 0},
			{do("open", file, accessNone), false, 0},
			{do("open2", file, unix.O_RDONLY), false, syscall.ENOSYS},
		} {
			for _, f := range []Filter{{}, {NoTruncate: true}} {
				if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
					t.Fatal(err)
				}
				u.Own(t, file)
				got := runOps(t, u, setup{Filter: f, FileRights: writeRights}, []op{tt.op})[0]
				if f.NoTruncate && got != tt.with {
					t.Errorf("%v under %v: %v; want %v", tt.op, f, got, tt.with)
				}
				st, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				if empty := st.Size() == 0; empty != (tt.empties && !f.NoTruncate) {
					t.Errorf("%v under %v: %v, and the file has %d bytes", tt.op, f, got, st.Size())
				}
			}
		}
	})
}

// TestNoTruncateInside: what stays possible in a folder where one may write.
func TestNoTruncateInside(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		file := filepath.Join(u.Dir(t), "file")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		u.Own(t, file)
		expectAs(t, u, setup{Filter: Filter{NoTruncate: true}}, []expectation{
			{do("open", file, unix.O_TRUNC|unix.O_WRONLY), ok, 0},
			{do("open", file, unix.O_TRUNC|unix.O_RDWR), ok, 0},
			{do("open", file+"2", unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY), ok, 0},
			{do("ftruncate", file), ok, 0},
			{do("truncate", file), ok, syscall.EACCES},
			{do("io-uring"), ok, syscall.ENOSYS},
		})
	})
}

// TestNoTruncateByHandle: root may open files by handle, nobody else.
func TestNoTruncateByHandle(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		file := filepath.Join(u.Dir(t), "file")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		u.Own(t, file)
		if _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, file, 0); err != nil {
			testenv.Skip(t, "%s has no handles: %v", file, err)
		}
		opened := syscall.Errno(0)
		if u.UID != 0 {
			opened = syscall.EPERM
		}
		expectAs(t, u, setup{Filter: Filter{NoTruncate: true}}, []expectation{
			{do("open-handle", file, unix.O_RDONLY), []syscall.Errno{opened}, opened},
			{do("open-handle", file, unix.O_TRUNC), []syscall.Errno{opened}, syscall.EACCES},
			{do("open-handle", file, unix.O_TRUNC|3), []syscall.Errno{opened}, syscall.EACCES},
			{do("open-handle", file, unix.O_TRUNC|unix.O_RDWR), []syscall.Errno{opened}, opened},
		})
	})
}
