package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Args[0] == inside { // the program again, in the namespace
		main()
	}
	os.Exit(testenv.Main(m, testenv.Helpers{
		"nouserns": func([]string) int {
			main()
			return 0
		},
		"unshare": unshareMain,
	}))
}

// unshareMain tries to make a user namespace and says who it is.
func unshareMain([]string) int {
	err := exec.Command("/bin/true").Run()
	if err == nil {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		err = cmd.Run()
	}
	caps := ""
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps = strings.TrimSpace(v)
		}
	}
	fmt.Printf("uid=%d gid=%d caps=%s err=%v\n", os.Getuid(), os.Getgid(), caps, err)
	return 3
}

func TestNoNamespace(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		inner := u.Helper(t, "unshare")
		// Without it a namespace can be made, or there is nothing to see.
		if r := testenv.Run(t, inner); !strings.Contains(r.Stdout, "err=<nil>") {
			testenv.Skip(t, "no user namespace can be made here: %v", r)
		}
		cmd := u.Helper(t, "nouserns", "--", "/usr/bin/env", inner.Env[len(inner.Env)-1], inner.Path)
		for _, kv := range inner.Env {
			if strings.HasPrefix(kv, "SHOFER_TEST_HELPER=") {
				cmd.Args[3] = kv
			}
		}
		r := testenv.Run(t, cmd)
		want := fmt.Sprintf("uid=%d gid=%d caps=", u.UID, u.GID)
		if r.Code != 3 || !strings.HasPrefix(r.Stdout, want) || !strings.Contains(r.Stdout, "no space left on device") {
			t.Errorf("nouserns = %v; want exit 3, %q and ENOSPC", r, want)
		}
		if u.UID != 0 && !strings.Contains(r.Stdout, "caps=0000000000000000 ") {
			t.Errorf("the command has capabilities: %s", r.Stdout)
		}
	})
}

func TestAsAnother(t *testing.T) {
	if os.Getuid() != 0 {
		r := testenv.Run(t, testenv.Helper(t, "nouserns", "-uid", fmt.Sprint(os.Getuid()+1), "--", "true"))
		if r.Code != 2 || !strings.Contains(r.Stderr, "only root") {
			t.Errorf("nouserns of another user = %v; want exit 2", r)
		}
		return
	}
	r := testenv.Run(t, testenv.Helper(t, "nouserns", "-uid", "1000", "--", "sh", "-c", "id -u; id -G; stat -c %u /"))
	if r.Code != 0 || r.Stdout != "1000\n1000\n0\n" {
		t.Errorf("nouserns -uid 1000 = %v; want uid and groups 1000, and / of root", r)
	}
}

func TestExitCodes(t *testing.T) {
	noexec := filepath.Join(testenv.Dir(t), "file")
	if err := os.WriteFile(noexec, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"--", "sh", "-c", "exit 7"}, 7},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 128 + 15},
		{[]string{"--", "no-such-program"}, 127},
		{[]string{"--", noexec}, 126},
		{nil, 2},
		{[]string{"-uid", "70000", "--", "true"}, 2},
	} {
		if r := testenv.Run(t, testenv.Helper(t, "nouserns", tt.args...)); r.Code != tt.code {
			t.Errorf("nouserns %q = %v; want exit %d", tt.args, r, tt.code)
		}
	}
}
