package launch_test

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openAddress opens the path at an address.
func openAddress(at unsafe.Pointer, flags int) (int, error) {
	here := unix.AT_FDCWD
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(here), uintptr(at), uintptr(flags), 0o600, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// badAddress opens a path at an address that isn't there.
func badAddress() error {
	here := unix.AT_FDCWD
	if _, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(here), 8, write, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// racing writes to a path that another thread changes all the while from one in
// a granted folder to one outside, and back: in memory, and as a symbolic link.
// It prints how often it was let and how often not.
func racing(args []string) int {
	good, bad := args[0]+"/x/file\x00", args[1]+"/file\x00"
	// One letter tells them apart, which is changed in one step.
	path := []byte(good)
	other := 0
	for i := range min(len(good), len(bad)) {
		if good[i] != bad[i] {
			other = i
			break
		}
	}
	if len(good) != len(bad) || good[other+1:] != bad[other+1:] {
		fmt.Println("the paths differ in more than a letter:", good, bad)
		return 1
	}
	var stop atomic.Bool
	changed := make(chan struct{})
	word := (*byte)(unsafe.Pointer(&path[other]))
	go func() {
		defer close(changed)
		for i := 0; !stop.Load(); i++ {
			*word = good[other]
			*word = bad[other]
			to := args[0] + "/x/file"
			if i%2 == 0 {
				to = args[1] + "/file"
			}
			if i%16 < 2 {
				_ = os.Remove("racing.new")
				_ = os.Symlink(to, "racing.new")
				_ = os.Rename("racing.new", "racing")
			}
		}
	}()
	let, refused := 0, 0
	for range 300 {
		for _, at := range []unsafe.Pointer{unsafe.Pointer(&path[0]), unsafe.Pointer(unsafe.StringData("racing\x00"))} {
			fd, err := openAddress(at, unix.O_WRONLY|unix.O_TRUNC)
			switch {
			case err == nil:
				_, _ = unix.Write(fd, []byte("evil"))
				_ = unix.Close(fd)
				let++
			case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS):
				refused++
			}
		}
	}
	stop.Store(true)
	<-changed
	fmt.Println(let, refused)
	return 0
}
