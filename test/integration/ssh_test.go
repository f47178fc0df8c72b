package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/mountns"
)

// sshServer starts an ssh server of the ordinary user's, and returns the host
// to connect to, and the command to do it by, which s's user can use.
func sshServer(t *testing.T, s *stage) (host, command string) {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	for _, name := range []string{sshd, "ssh", "ssh-keygen"} { // which know no --version
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "needs an ssh server and client: %v", err)
		}
	}
	who := testenv.Ordinary()
	account, err := user.LookupId(strconv.Itoa(who.UID))
	if err != nil {
		testenv.Skip(t, "the ordinary user has no account: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = l.Close() // the server takes it
	dir := who.Dir(t)
	for _, key := range []string{"host", "client"} {
		testenv.Output(t, who.Command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/"+key))
	}
	config := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/client.pub\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\n", port, dir, dir)
	if err := os.WriteFile(dir+"/config", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	server := who.Command(t, sshd, "-D", "-e", "-f", dir+"/config")
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the ssh server doesn't listen: %v", err)
		}
	}
	// The client insists that the key is its user's own.
	key, err := os.ReadFile(dir + "/client")
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.home+"/key", string(key), 0o600)
	return account.Username + "@127.0.0.1", fmt.Sprintf("ssh -p %s -i %s/key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
		port, s.home)
}

// TestSSH: git reaches a server by ssh, with the system's configuration of ssh,
// whatever confines.
func TestSSH(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		host, command := sshServer(t, s)
		remote := testenv.Ordinary().NewRepo(t)
		head := strings.TrimSpace(remote.Git("rev-parse", "HEAD"))
		repo := u.NewRepo(t)
		s.tree = repo.Dir
		s.env = append(s.env, "GIT_SSH_COMMAND="+command)
		url := "ssh://" + host + remote.Dir
		for _, backend := range []string{"landlock", "landlock+mountns", "bwrap"} {
			switch {
			case backend == "bwrap" && !bwrap.Probe(t.Context(), "").Usable(),
				backend == "landlock+mountns" && mountns.Probe(os.Getuid() == 0) != nil:
				testenv.Skip(t, "no %s here", backend)
			}
			for _, line := range []string{
				"git ls-remote '" + url + "' HEAD",
				"git fetch -q '" + url + "' HEAD && git rev-parse FETCH_HEAD",
				command + " -G " + host + " >config && wc -l <config >/dev/null && echo " + head,
			} {
				r := testenv.Run(t, s.launch("--backend", backend, ".", "--", "sh", "-c", line))
				if r.Code != 0 || !strings.Contains(r.Stdout, head) {
					t.Errorf("%s: %s: %v; want %s", backend, line, r, head)
				}
			}
		}
	})
}
