package bwrap

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// starterMain starts a bwrap, whose command line it gets, as the launcher does,
// and waits for it.
func starterMain(args []string) int {
	runtime.LockOSThread() // what bwrap takes for its parent
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), helperEnv+"inner")
	for fd := 3; fd < 8; fd++ {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), ""))
	}
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

// TestKilled kills who started bwrap, then bwrap itself, in the middle of a
// command, and looks for what is left: processes (which every command of
// testenv is looked through for), files, mounts.
func TestKilled(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, starter := range []bool{true, false} {
			r, top := wt(t, u)
			write(t, top+"/wt/.env", "x")
			u.Own(t, top)
			r.Grants = append(r.Grants,
				policy.Grant{Path: top + "/missing", Access: policy.Write, Optional: true},
				policy.Grant{Path: top + "/wt/missing", Access: policy.Write, Optional: true})
			b := newBox(t, u, r, Options{Init: true, Hide: []string{top + "/wt/.env", top + "/wt/.nothing", top + "/out"}})
			before, mounts := tree(t, top), read(t, "/proc/self/mountinfo")

			cmd := b.command("/bin/sh", "-c", "trap '' INT TERM HUP; sleep 60 & setsid sleep 60 & echo started; wait")
			if starter {
				files := cmd.ExtraFiles
				line := cmd.Args
				cmd = u.Helper(t, "starter", line...)
				cmd.ExtraFiles = files
			}
			out, end, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout, cmd.Stderr = end, os.Stderr
			err = cmd.Start()
			end.Close()
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 8)
			if _, err := io.ReadFull(out, buf); err != nil || string(buf) != "started\n" {
				t.Errorf("the command printed %q, %v", buf, err)
			}
			cmd.Process.Kill()
			// The command holds the pipe, so this is its end. It takes no time,
			// and ends by itself in a minute.
			if err := out.SetReadDeadline(time.Now().Add(45 * time.Second)); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
				t.Errorf("after the kill of the starter (%v), what holds the command's output: %q, %v", starter, rest, err)
			}
			out.Close()
			cmd.Wait()
			if after := tree(t, top); after != before {
				t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
			}
			for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
				others := strings.Contains(line, "/shofer-test-") && !strings.Contains(line, top)
				if !others && !strings.Contains(mounts, line) { // a test of another package may mount, too
					t.Errorf("there is now the mount %sbefore there were\n%s", line, mounts)
				}
			}
		}
	})
}
