package launch_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// asked is a command that does what it is asked, line by line.
type asked struct {
	t   *testing.T
	c   *launch.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// ask starts a shell in a sandbox.
func ask(t *testing.T, s *launch.Sandbox, dir string) *asked {
	t.Helper()
	c := s.Command("sh", "-c", `while read -r line; do ( eval "$line" ) 2>&1 | tr '\n' ';'; echo; done`)
	c.Dir, c.Env = dir, append(c.Environ(), "LC_ALL=C")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &asked{t, c, in, bufio.NewReader(out)}
}

// do runs one line of shell and returns what it wrote.
func (a *asked) do(line string) string {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, line); err != nil {
		a.t.Fatal(err)
	}
	text, err := a.out.ReadString('\n')
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// until asks until the answer has what is wanted.
func (a *asked) until(line, want string) {
	a.t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if got = a.do(line); strings.Contains(got, want) {
			return
		}
	}
	a.t.Fatalf("%s: %q; want %q in it", line, got, want)
}

func (a *asked) end() {
	a.t.Helper()
	_ = a.in.Close()
	if err := a.c.Wait(); err != nil {
		a.t.Error(err)
	}
}

// TestReplacedOutside: what the user's own git config replaces is covered again,
// each time, and in each command that runs.
func TestReplacedOutside(t *testing.T) {
	for _, backend := range []launch.Backend{launch.BackendMountns, launch.BackendBwrap} {
		t.Run(string(backend), func(t *testing.T) {
			needLayer(t)
			if backend == launch.BackendBwrap {
				if s := bwrap.Probe(t.Context(), ""); !s.Usable() {
					testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
				}
			}
			testenv.CheckFDs(t)
			repo := testenv.Self().NewRepo(t)
			wt := repo.WorktreeBeside()
			config := filepath.Join(repo.Dir, ".git", "config")
			p := workspace(wt.Dir)
			p.NoCache = true
			s, err := launch.Prepare(p, launch.Options{Backend: backend, Environ: testenv.GitEnv(repo.Home)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			commands := []*asked{ask(t, s, wt.Dir), ask(t, s, wt.Dir)}
			mounts := "grep -c ' " + config + " ' /proc/self/mountinfo"
			refused := func(what string) {
				t.Helper()
				for _, a := range commands {
					a.until(mounts, "1;")
					for _, try := range []string{
						"echo x >> " + config, "git config core.fsmonitor ./evil", "rm " + config,
						"echo x > evil && mv -f evil " + config, "ln -sf /dev/null " + config,
					} {
						if got := a.do(try + " && echo done"); strings.Contains(got, "done") {
							t.Errorf("%s: %s: %s", what, try, got)
						}
					}
				}
			}
			refused("at the start")
			for i := range 3 {
				repo.Git("config", "x.y", fmt.Sprint(i))
				refused("after git config")
			}
			// As some editors write: away, and new.
			text, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(config, config+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, text, 0o644); err != nil {
				t.Fatal(err)
			}
			refused("after an editor")
			if err := os.Rename(filepath.Join(repo.Dir, ".git", "hooks"), filepath.Join(repo.Dir, "old hooks")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(repo.Dir, ".git", "hooks"), 0o755); err != nil {
				t.Fatal(err)
			}
			commands[0].until("echo x > "+repo.Dir+"/.git/hooks/post-commit", "Read-only")
			if got := commands[1].do("echo a >> file && git add file && git commit -qm a && echo done"); !strings.Contains(got, "done") {
				t.Errorf("git commit: %s", got)
			}
			for _, a := range commands {
				a.end()
			}
		})
	}
}

// TestNothingMountedHere: a command that ends at once leaves no mount in the
// host's own namespace.
func TestNothingMountedHere(t *testing.T) {
	needLayer(t)
	repo := testenv.Self().NewRepo(t)
	for _, backend := range []launch.Backend{launch.BackendMountns, launch.BackendBwrap} {
		if backend == launch.BackendBwrap && !bwrap.Probe(t.Context(), "").Usable() {
			testenv.Skip(t, "needs bubblewrap")
		}
		p := workspace(repo.Dir)
		p.NoCache = true
		s, err := launch.Prepare(p, launch.Options{Backend: backend, Environ: testenv.GitEnv(repo.Home)})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := s.Command("true").Run(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), repo.Dir) {
			t.Fatalf("%s: mounted here, %v:\n%s", backend, err, b)
		}
	}
}
