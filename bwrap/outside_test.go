package bwrap

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if network == "unix" && address[0] == '/' {
		if err := os.Chmod(address, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return l.Addr().String()
}

func TestProcessesAndSockets(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		path := listen(t, "unix", top+"/socket")
		name := fmt.Sprintf("shofer-test-%d-%s", os.Getpid(), u)
		listen(t, "unix", "@"+name)
		tcp := listen(t, "tcp", "127.0.0.1:0")
		victim := u.Command(t, "sleep", "60")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			victim.Process.Kill()
			victim.Wait()
		})
		pid := strconv.Itoa(victim.Process.Pid)

		b := newBox(t, u, r, Options{Init: true})
		b.try([]op{
			{"kill", []string{pid}, "ESRCH"},
			{"pidfd", []string{pid}, "ESRCH|EINVAL"},
			{"ptrace", []string{pid}, "ESRCH"},
			{"read", []string{"/proc/" + pid + "/status"}, "ENOENT"},
			{"unix", []string{path}, "ok"},
			{"abstract", []string{name}, "ok"},
			{"tcp", []string{tcp}, "ok"},
		})
		r.Policy.Network.Mode = policy.NetworkNone
		newBox(t, u, r, Options{Init: true}).try([]op{
			{"unix", []string{path}, "ok"}, {"abstract", []string{name}, "ECONNREFUSED"}, {"tcp", []string{tcp}, "ECONNREFUSED"},
		})
		// A user namespace alone holds the door that is most dangerous.
		if b = newBox(t, u, r, Options{Init: true}); b.s.UserNS {
			b.l.NewPid = false
			b.try([]op{
				{"kill", []string{pid}, "ok"},
				{"ptrace", []string{pid}, "EPERM"},
				{"list", []string{"/proc/" + pid + "/root"}, "EACCES"},
				{"setns", []string{"/proc/" + pid + "/ns/mnt"}, "EACCES"},
			})
		}
	})
}

// TestUndo tries to undo the mounts from inside.
func TestUndo(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		out, in := top+"/out", top+"/wt"
		ops := []op{
			{"umount", []string{"/"}, "EPERM"},
			{"umount", []string{in}, "EPERM"},
			{"umount", []string{"/dev"}, "EPERM"},
			{"umount", []string{"/proc"}, "EPERM"},
			{"remount", []string{"/"}, "EPERM"},
			{"remount", []string{"/proc"}, "EPERM"},
			{"remount", []string{"/dev"}, "EPERM"},
			{"mountattr", []string{"/"}, "EPERM"},
			{"opentree", []string{"/"}, "EPERM"},
			{"tmpfs", []string{in}, "EPERM"},
			{"bind", []string{out, in}, "EPERM"},
			{"mknod", []string{in + "/node"}, "EPERM"},
			{"write", []string{"/proc/1/root" + out + "/file"}, "EROFS|EACCES"},
			{"write", []string{"/proc/self/root" + out + "/file"}, "EROFS"},
			{"write", []string{"/proc/self/cwd/" + out + "/file"}, "EROFS"},
			{"write", []string{"/proc/self/uid_map"}, "EROFS|EACCES"},
		}
		b := newBox(t, u, r, Options{Init: true})
		b.try(ops)
		// With all capabilities in a user namespace of its own, the mounts are
		// still those of another one.
		b.nested = true
		b.try([]op{
			{"umount", []string{in}, "EINVAL|EPERM"},
			{"remount", []string{"/"}, "EPERM"},
			{"mountattr", []string{"/"}, "EPERM"},
			{"write", []string{out + "/file"}, "EROFS|EACCES"},
		})
		if got := read(t, out+"/file"); got != "outside\n" {
			t.Errorf("outside was changed to %q", got)
		}
	})
}

// nestedMain runs its arguments in a user and mount namespace, with every
// capability in it.
func nestedMain(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), helperEnv+"ops")
	var all []uintptr
	for i := range policy.Capabilities() {
		all = append(all, uintptr(i))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, AmbientCaps: all}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "nested:", err)
		return 96
	}
	return 0
}
