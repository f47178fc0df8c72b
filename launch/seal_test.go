package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"golang.org/x/sys/unix"
)

// lateMount starts a command under bubblewrap, mounts something outside, and has
// the command write there. It is in a mount namespace of its own, whose mounts
// are shared.
func lateMount(args []string) int {
	inside, outside := args[0], args[1]
	p := workspace(inside)
	p.NoCache = true
	s, err := launch.Prepare(p, launch.Options{Backend: launch.BackendBwrap})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = s.Close() }()
	c := s.Command("sh", "-c", `echo up; read -r _
		echo x >"$0/late"; ls "$0"
		chmod 600 /dev/null; touch -d 2001-01-01 /dev/zero; chmod 600 /dev/tty
		echo y >/dev/null && head -c 2 /dev/zero | wc -c && echo "devices work"`, outside)
	c.Dir, c.Stderr = inside, os.Stdout
	in, err := c.StdinPipe()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	out, err := c.StdoutPipe()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	fmt.Print(string(buf[:n]))
	if err := unix.Mount("tmpfs", outside, "tmpfs", 0, ""); err != nil {
		fmt.Println("mount:", err)
	}
	_ = in.Close()
	for err == nil {
		n, err = out.Read(buf)
		fmt.Print(string(buf[:n]))
	}
	_ = c.Wait()
	if _, err := os.Lstat(outside + "/late"); err == nil {
		fmt.Println("the late mount was written to")
	}
	return 0
}

// TestBoxSealed: under bubblewrap nothing of what is mounted outside later can be
// written to, and root can't change the machine's devices.
func TestBoxSealed(t *testing.T) {
	needLayer(t)
	inside, outside := places(t)
	_ = boxed(t, workspace(inside)) // skips
	if _, err := exec.LookPath("unshare"); err != nil || os.Getuid() != 0 {
		t.Log("only root can mount, and root's run has it")
		return
	}
	if err := os.WriteFile(outside+"/before", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	helper := testenv.Helper(t, "late mount")
	cmd := testenv.Command(t, "unshare", "--mount", "--propagation", "shared", helper.Path, inside, outside)
	for _, e := range helper.Env {
		if isHelper(e) {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	out := testenv.Output(t, cmd)
	wants(t, out, "up\n", "before\n", "'/dev/null': Read-only", "'/dev/zero': Read-only", "'/dev/tty': Read-only", "2\ndevices work")
	if strings.Contains(out, "mount:") || strings.Contains(out, "the late mount was written to") {
		t.Errorf("inside:\n%s", out)
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode().Perm() != 0o666 {
		_ = os.Chmod("/dev/null", 0o666)
		t.Errorf("the machine's /dev/null is %v, %v", st.Mode(), err)
	}
}

// TestBoxSealedFirst: no command is so fast that it comes before that.
func TestBoxSealedFirst(t *testing.T) {
	needLayer(t)
	inside, _ := places(t)
	s := boxed(t, workspace(inside))
	st, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	mode := fmt.Sprintf("%o", st.Mode().Perm()) // the same
	for range 20 {
		c := s.Command("chmod", mode, "/dev/null")
		c.Dir = inside
		if out, err := c.CombinedOutput(); err == nil {
			t.Fatalf("the mode of the machine's /dev/null was set: %s", out)
		}
	}
}
