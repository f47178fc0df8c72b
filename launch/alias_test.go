package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// aliased runs a script confined to a worktree, under a backend.
func aliased(args []string) int {
	p := workspace(args[1])
	p.NoCache = true
	p.Write = []policy.Path{policy.Path(args[2])}
	s, err := launch.Prepare(p, launch.Options{Backend: launch.Backend(args[0])})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = s.Close() }()
	c := s.Command("sh", append([]string{"-c"}, args[3:]...)...)
	c.Dir = args[1]
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	if err := c.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestAlias: what is protected is so where a second mount shows it, too.
func TestAlias(t *testing.T) {
	needLayer(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		testenv.Skip(t, "needs unshare: %v", err)
	}
	for _, backend := range []launch.Backend{launch.BackendMountns, launch.BackendBwrap} {
		t.Run(string(backend), func(t *testing.T) {
			if backend == launch.BackendBwrap && os.Getuid() != 0 {
				t.Log("bubblewrap has no namespace of its own to nest in")
				return
			}
			repo := testenv.Self().NewRepo(t)
			wt := repo.WorktreeBeside()
			dir := testenv.Dir(t) // granted, so that bubblewrap opens it too
			alias, hooks := dir+"/the alias", dir+"/hooks"
			for _, d := range []string{alias, hooks, repo.Dir + "/.git/hooks/sub"} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			const attack = `cd "$0"
				for f in "$1/.git/config" "$1/.git/hooks/post-commit" "$1"/.git/worktrees/*/gitdir "$2/post-commit"; do
					echo x >>"$f" && echo "wrote $f"
				done
				mv "$1/.git/config" "$1/.git/old" && echo "moved the configuration"
				ln -f "$1/.git/config" link && echo "linked the configuration"
				echo y >"$1/new" && echo "the rest is open"
				echo z >file && git add file && git commit -qm x && echo "git works"`
			helper := testenv.Helper(t, "aliased")
			args := []string{"--mount"}
			if os.Getuid() != 0 {
				args = append(args, "--user", "--map-root-user")
			}
			args = append(args, "sh", "-c", `mount --rbind "$1" "$2" && mount --bind "$1/.git/hooks/sub" "$3" && shift 3 && exec "$0" "$@"`,
				helper.Path, repo.Dir, alias, hooks, string(backend), wt.Dir, dir, attack, wt.Dir, alias, hooks)
			cmd := testenv.Command(t, "unshare", args...)
			for _, e := range helper.Env {
				if isHelper(e) {
					cmd.Env = append(cmd.Env, e)
				}
			}
			cmd.Env = append(cmd.Env, "LC_ALL=C", "HOME="+repo.Home)
			out := testenv.Output(t, cmd)
			if strings.Contains(out, "wrote") || strings.Contains(out, "moved") || strings.Contains(out, "linked") {
				t.Errorf("inside:\n%s", out)
			}
			wants(t, out, "the rest is open", "git works")
		})
	}
}
