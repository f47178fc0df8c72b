package bwrap

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestReopen has files of outside as standard input, through which a command
// could write to them although they are on read-only mounts.
func TestReopen(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		private := u.Dir(t)
		write(t, private+"/file", "x")
		u.Own(t, private)
		run := func(stdin *os.File, plain bool, argv ...string) testenv.Result {
			b := newBox(t, u, r, Options{Init: true, Hide: []string{private}})
			b.plain = plain
			cmd := b.command(argv...)
			cmd.Stdin = stdin
			return testenv.Run(t, cmd)
		}
		open := func(path string, flags int) *os.File {
			f, err := os.OpenFile(path, flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		rewrite := []string{"/bin/sh", "-c", "echo changed >/proc/self/fd/0"}

		// Without Reopen the door is open, or this test shows nothing.
		if got := run(open(top+"/file", os.O_RDONLY), true, rewrite...); got.Code != 0 || read(t, top+"/file") != "changed\n" {
			t.Errorf("a file that is open outside can't be written to: %v", got)
		}
		write(t, top+"/file", "outside\n")
		f := open(top+"/file", os.O_RDONLY)
		if got := run(f, false, rewrite...); got.Code == 0 || !strings.Contains(got.Stderr, "Read-only file system") || read(t, top+"/file") != "outside\n" {
			t.Errorf("standard input was rewritten: %v", got)
		}
		if _, err := f.Seek(3, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if got := run(f, false, "/bin/cat"); got.Stdout != "side\n" {
			t.Errorf("standard input reads %q from where it stood; want %q", got.Stdout, "side\n")
		}
		if got := run(open(top+"/wt/file", os.O_RDONLY), false, rewrite...); got.Code != 0 || read(t, top+"/wt/file") != "changed\n" {
			t.Errorf("a granted file as standard input: %v", got)
		}
		if got := run(open(top+"/out/file", os.O_RDWR), false, rewrite...); got.Code != 0 {
			t.Errorf("a file that is open for writing anyway: %v", got)
		}
		create := []string{"/bin/sh", "-c", "echo x >/proc/self/fd/0/created"}
		if got := run(open(top+"/out", os.O_RDONLY), true, create...); got.Code != 0 {
			t.Errorf("a folder that is open outside can't be written to: %v", got)
		}
		if got := run(open(top, os.O_RDONLY), false, create...); got.Code == 0 {
			t.Errorf("a file was created in a folder that is open outside: %v", got)
		}
		if got := run(open(private+"/file", os.O_RDONLY), false, "/bin/cat"); got.Code != 99 || !strings.Contains(got.Stderr, "descriptor 0 is open on "+private) {
			t.Errorf("a file that is hidden inside: %v; want the inner stage to refuse", got)
		}
		unlinked := open(private+"/file", os.O_RDONLY)
		if err := os.Remove(private + "/file"); err != nil {
			t.Fatal(err)
		}
		if got := run(unlinked, false, "/bin/cat"); got.Stdout != "x" {
			t.Errorf("a file without a name: %v", got)
		}
	})
}

func TestReopenHere(t *testing.T) {
	testenv.CheckFDs(t)
	dir := t.TempDir()
	write(t, dir+"/a", "text")
	for _, tt := range []struct {
		name  string
		flags int
	}{
		{"/a", os.O_RDONLY | syscall.O_APPEND}, {"/a", os.O_RDWR}, {"", os.O_RDONLY}, {"/a", 0x200000}, {"", 0x200000},
	} {
		fd, err := syscall.Open(dir+tt.name, tt.flags|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Reopen(fd); err != nil {
			t.Errorf("Reopen(%q, %#x) = %v", tt.name, tt.flags, err)
		}
		for _, want := range []struct {
			cmd  uintptr
			bits uintptr
		}{{syscall.F_GETFD, syscall.FD_CLOEXEC}, {syscall.F_GETFL, uintptr(tt.flags)}} {
			got, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), want.cmd, 0)
			if e != 0 || got&want.bits != want.bits {
				t.Errorf("after Reopen(%q, %#x) fcntl %d is %#x, %v; want %#x", tt.name, tt.flags, want.cmd, got, e, want.bits)
			}
		}
		syscall.Close(fd)
	}

	// Another file has its name now.
	fd, err := syscall.Open(dir+"/a", os.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/c", "other")
	if err := os.Rename(dir+"/c", dir+"/a"); err != nil {
		t.Fatal(err)
	}
	var leak *LeakError
	if err := Reopen(fd); !errors.As(err, &leak) || leak.FD != fd {
		t.Errorf("Reopen of a file whose name is another's = %v; want a LeakError", err)
	}
	if err := Reopen(99999); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Reopen(99999) = %v; want EBADF", err)
	}
}
