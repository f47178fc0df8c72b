package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// TestLayers stacks rulesets until the kernel refuses, and works inside and
// outside at every depth.
func TestLayers(t *testing.T) {
	eachKernel(t, func(t *testing.T, k kernel) {
		if k.abi < 2 {
			return
		}
		testenv.EachUser(t, func(t *testing.T, u testenv.User) {
			tr := newTree(t, u)
			got := testenv.Run(t, k.under(t, u.Helper(t, "layers", tr.in, tr.out)))
			if got.Code != 0 {
				t.Error(got)
			}
		})
	})
}

func layersMain(args []string) int {
	runtime.LockOSThread()
	in, out := args[0], args[1]
	fail := func(format string, a ...any) int {
		fmt.Printf(format+"\n", a...)
		return 1
	}
	grants := []policy.Grant{{Path: in, Access: policy.Write}}
	for layer := 1; layer <= MaxLayers; layer++ {
		if _, err := confine(job{Grants: grants}); err != nil {
			return fail("layer %d: %v", layer, err)
		}
		for _, a := range []attempt{
			{"open-rw", []string{in + "/file"}, 0},
			{"rename", []string{in + "/x", in + "/sub/x"}, 0},
			{"rename", []string{in + "/sub/x", in + "/x"}, 0},
			{"open-rw", []string{out + "/file"}, syscall.EACCES},
		} {
			if got := (op{a.do, a.args}).run(); got != a.want {
				return fail("layer %d: %s %q = %v; want %v", layer, a.do, a.args, got, a.want)
			}
		}
	}
	_, err := confine(job{Grants: grants})
	if !errors.Is(err, ErrTooManyLayers) || !errors.Is(err, syscall.E2BIG) {
		return fail("layer %d: error = %v; want ErrTooManyLayers, and E2BIG", MaxLayers+1, err)
	}
	return 0
}

// TestRestrictThread holds that Restrict concerns one thread, and says what it
// did to it.
func TestRestrictThread(t *testing.T) {
	needABI(t, 1)
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		file := filepath.Join(newTree(t, u).out, "file")
		if got := testenv.Run(t, kernel{}.under(t, u.Helper(t, "thread", file))); got.Code != 0 {
			t.Error(got)
		}
	})
}

func threadMain(args []string) int {
	file := args[0]
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		_, err := confine(job{})
		if err == nil {
			if got := open(file, unix.O_WRONLY); !errors.Is(got, syscall.EACCES) {
				err = fmt.Errorf("on the thread: open = %v; want EACCES", got)
			}
		}
		if nnp, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && nnp != 1 {
			err = errors.New("no_new_privs is not set")
		}
		done <- err
	}()
	err := <-done
	if err == nil {
		err = open(file, unix.O_WRONLY) // on another thread
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestRestrictErrors(t *testing.T) {
	needABI(t, 1)
	// A descriptor that is no ruleset enforces nothing, so that the test's own
	// process may ask, on a thread that then ends: it has no_new_privs.
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tt := range []struct {
		fd    int
		flags uint32
		want  syscall.Errno
	}{
		{-1, 0, syscall.EBADF},
		{int(f.Fd()), 0, syscall.EBADFD},
		{int(f.Fd()), 1 << 31, syscall.EINVAL},
	} {
		errs := make(chan error)
		go func() {
			runtime.LockOSThread()
			errs <- Restrict(tt.fd, tt.flags)
		}()
		if err := <-errs; !errors.Is(err, tt.want) || !strings.Contains(err.Error(), "landlock_restrict_self") {
			t.Errorf("Restrict(%d, %#x) = %v; want %v of landlock_restrict_self", tt.fd, tt.flags, err, tt.want)
		}
	}
}
