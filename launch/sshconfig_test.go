package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// In a user namespace root's files look like nobody's, which ssh refuses: the
// launcher lays copies that belong to the user over them.
func TestSSHConfig(t *testing.T) {
	needLayer(t)
	if os.Getuid() != 0 {
		return // root tests it for an ordinary user, in a mount namespace
	}
	testenv.NeedTool(t, "ssh", "unshare", "setpriv")
	if _, err := os.Stat("/etc/ssh/ssh_config.d"); err != nil {
		testenv.Skip(t, "ssh has no folder for parts of its configuration: %v", err)
	}
	parts := testenv.Dir(t)
	part := filepath.Join(parts, "10-test.conf")
	u := testenv.Ordinary()
	repo := u.NewRepo(t)
	wt := repo.WorktreeBeside()
	for _, port := range []string{"4242", "4343"} { // a change is seen, too
		if err := os.WriteFile(part, []byte("Host trap\n  Port "+port+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, "unshare", "-m", "sh", "-c",
			`mount --bind "$1" /etc/ssh/ssh_config.d && shift && exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME="$0" "$@"`,
			repo.Home, parts, testenv.BuildLauncher(t), wt.Dir, "--", "ssh", "-G", "trap")
		res := testenv.Run(t, cmd)
		if res.Code != 0 || !strings.Contains(res.Stdout, "\nport "+port+"\n") {
			t.Errorf("port %s: code %d\n%s%.300s", port, res.Code, res.Stderr, res.Stdout)
		}
	}
}
