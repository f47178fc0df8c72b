package integration

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/mountns"
)

// sshServer starts an ssh server of the ordinary user's, and returns the host
// to connect to, and the command to do it by, which s's user can use. Stop waits
// until all that it was asked is answered.
func sshServer(t *testing.T, s *stage) (host, command string, stop func()) {
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
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dir := who.Dir(t)
	for _, key := range []string{"host", "client"} {
		testenv.Output(t, who.Command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/"+key))
	}
	config := fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s/client.pub\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\n", dir, dir)
	if err := os.WriteFile(dir+"/config", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	// The port stays this process's, which starts a server for each connection.
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { serveSSH(t, who.Command(t, sshd, "-i", "-e", "-f", dir+"/config"), c) })
		}
	})
	stop = func() {
		_ = l.Close()
		served.Wait()
	}
	// The client insists that the key is its user's own.
	key, err := os.ReadFile(dir + "/client")
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.home+"/key", string(key), 0o600)
	return account.Username + "@127.0.0.1", fmt.Sprintf("ssh -p %s -i %s/key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
		port, s.home), stop
}

// serveSSH runs a server for one connection.
func serveSSH(t *testing.T, server *exec.Cmd, c net.Conn) {
	defer func() { _ = c.Close() }()
	conn, ok := c.(*net.TCPConn)
	if !ok {
		t.Errorf("a %T", c)
		return
	}
	f, err := conn.File()
	if err != nil {
		t.Error(err)
		return
	}
	var log bytes.Buffer
	server.Dir, server.Stdin, server.Stdout, server.Stderr = "/", f, f, &log
	err = server.Start()
	_, _ = f.Close(), c.Close() // or the client wouldn't see its end
	if err != nil {
		t.Error(err)
		return
	}
	_ = server.Wait() // it ends with an error where the client goes first
	if t.Failed() {
		t.Logf("the ssh server: %s", log.String())
	}
}

// TestSSH: git reaches a server by ssh, with the system's configuration of ssh,
// whatever confines.
func TestSSH(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		host, command, stop := sshServer(t, s)
		defer stop()
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
