package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Helpers{
		"contain": func(args []string) int {
			code, err := run(args)
			fmt.Fprintln(os.Stderr, err)
			return code
		},
		"look": lookMain,
	}))
}

// inside is what a command finds: how calls end, and what there is.
type inside struct {
	UID       int
	Caps      uint32
	Unshare   syscall.Errno // of a user namespace
	Mount     syscall.Errno
	Clone3    syscall.Errno
	AddKey    syscall.Errno
	Landlock  syscall.Errno
	Netlink   syscall.Errno // a socket of the audit
	Root, Tmp syscall.Errno // making a file
	Proc, Sys bool
}

func lookMain([]string) int {
	no := func(err error) (e syscall.Errno) {
		_ = errors.As(err, &e) // stays 0 if there is none
		return e
	}
	made := func(dir string) syscall.Errno {
		f, err := os.CreateTemp(dir, "contain-")
		if err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
		return no(err)
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return 1
	}
	in := inside{UID: os.Getuid(), Caps: caps[0].Permitted | caps[1].Permitted, Landlock: no(landlock.Probe().Err)}
	_, err := unix.AddKey("user", "contain", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	in.AddKey = no(err)
	_, _, in.Clone3 = syscall.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	in.Netlink = no(err)
	in.Mount = no(unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""))
	in.Root, in.Tmp = made("/"), made("/tmp")
	in.Proc, in.Sys = there("/proc/self"), there("/sys/kernel")
	in.Unshare = no(unix.Unshare(unix.CLONE_NEWUTS)) // one for users takes a single thread
	if err := json.NewEncoder(os.Stdout).Encode(in); err != nil {
		return 1
	}
	return 0
}

func TestContain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can make a container, and root's run has it")
		return
	}
	var abi syscall.Errno
	_ = errors.As(landlock.Probe().Err, &abi) // 0 where there is Landlock
	for _, tt := range []struct {
		name string
		args []string
		want inside
	}{
		{"docker", nil, inside{
			Unshare: unix.EPERM, Mount: unix.EPERM, Clone3: unix.ENOSYS, AddKey: unix.EPERM,
			Landlock: abi, Proc: true, Sys: true,
		}},
		{"docker as a user, read-only", []string{"-uid", "1000", "-read-only", "-write", "/tmp"}, inside{
			UID: 1000, Unshare: unix.EPERM, Mount: unix.EPERM, Clone3: unix.ENOSYS, AddKey: unix.EPERM,
			Landlock: abi, Root: unix.EROFS, Proc: true, Sys: true,
		}},
		{"docker without Landlock and /proc", []string{"-deny", "landlock_create_ruleset", "-no-proc", "-no-sys"}, inside{
			Unshare: unix.EPERM, Mount: unix.EPERM, Clone3: unix.ENOSYS, AddKey: unix.EPERM, Landlock: unix.EPERM,
		}},
		{"podman", []string{"-profile", "podman"}, inside{
			Unshare: unix.EPERM, Mount: unix.EPERM, Clone3: unix.EINVAL, AddKey: unix.ENOSYS, Landlock: abi, Netlink: unix.EINVAL, Proc: true, Sys: true,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			look := testenv.Helper(t, "look")
			cmd := testenv.Helper(t, "contain", append(append(tt.args, "--", "/usr/bin/env"), append(helperEnv(look.Env), look.Path)...)...)
			var got inside
			if err := json.Unmarshal([]byte(testenv.Output(t, cmd)), &got); err != nil {
				t.Fatal(err)
			}
			if tt.want.Root == 0 {
				got.Root = 0 // as this machine's is
			}
			if got != tt.want {
				t.Errorf("inside: %+v\nwant    %+v", got, tt.want)
			}
		})
	}
}

// helperEnv is what makes a test binary a helper.
func helperEnv(env []string) []string { return env[len(env)-2:] }

func TestCompile(t *testing.T) {
	if len(calls) == 0 {
		t.Skip("for amd64 only")
	}
	for _, name := range []string{"docker", "podman"} {
		p, err := readProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := p.compile(nil)
		if err != nil || len(prog) < 400 || len(prog) > 4096 {
			t.Errorf("%s: %d instructions, %v; want 400 to 4096", name, len(prog), err)
		}
	}
	if _, err := readProfile("rkt"); err == nil {
		t.Error("there is a profile of rkt")
	}
	if _, err := (profile{DefaultAction: "SCMP_ACT_TRAP"}).compile(nil); err == nil {
		t.Error("an action that isn't known was compiled")
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
	}{
		{nil, 2}, {[]string{"-uid", "x", "--", "true"}, 2}, {[]string{"-profile", "rkt", "--", "true"}, 2}, {[]string{"--", "/nonexistent"}, 127},
	} {
		if code, err := run(tt.args); code != tt.code || err == nil {
			t.Errorf("run(%q) = %d, %v; want %d", tt.args, code, err, tt.code)
		}
	}
}
