package launcher_test

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// A supervised command moves and links files between folders as any other.
func TestSuperviseMoves(t *testing.T) {
	testenv.NeedTool(t, "python3")
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, how := range []string{"", "--backend landlock", "--no-protect", "--mode unconfined", "--backend bwrap"} {
			if s := bwrap.Probe(t.Context(), ""); strings.HasSuffix(how, "bwrap") && !s.Usable() {
				testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
			}
			args := append([]string{"--supervise", "--no-cache"}, strings.Fields(how)...)
			cmd := u.Command(t, testenv.BuildLauncher(t), append(args, ".", "--", "python3", "-c", `
import os
os.mkdir("a"); os.mkdir("b"); open("a/x", "w").close()
os.rename("a/x", "b/x"); os.link("b/x", "a/y"); print("moved")`)...)
			cmd.Dir = u.Dir(t)
			if got := testenv.Output(t, cmd); got != "moved\n" && got != "moved" {
				t.Errorf("%s: %q", how, got)
			}
		}
	})
}
