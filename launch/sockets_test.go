package launch_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
)

// connectAll prints whether it can connect to each socket.
func connectAll(paths []string) int {
	for _, path := range paths {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		}
		fmt.Println(filepath.Base(path), err == nil)
	}
	fmt.Println("docker host", os.Getenv("DOCKER_HOST") != "")
	own := os.Getenv("TMUX_TMPDIR") + "/tmux-" + strconv.Itoa(os.Getuid())
	l, err := net.Listen("unix", own+"/own")
	if err == nil {
		_ = l.Close()
	}
	fmt.Println("own tmux", err == nil)
	return 0
}

// TestPathSockets: with a mount layer sockets of other programs are covered,
// without one it is said that they aren't.
func TestPathSockets(t *testing.T) {
	needLandlock(t)
	if landlock.Probe().ABI >= 9 {
		t.Log("Landlock refuses all of them here")
		return
	}
	inside, run := places(t)
	tmp, err := os.MkdirTemp("/tmp", "launch-test-") // writable, as tmux's usual place
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	tmux := tmp + "/tmux-" + strconv.Itoa(os.Getuid())
	paths := []string{run + "/docker.sock", run + "/podman/podman.sock", tmux + "/default", run + "/agent", inside + "/inside"}
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	environ := append(os.Environ(), "XDG_RUNTIME_DIR="+run, "TMUX_TMPDIR="+tmp, "TMUX=", "SSH_AUTH_SOCK="+run+"/agent",
		"DOCKER_HOST=unix://"+run+"/docker.sock")
	const some = "docker.sock false\npodman.sock false\ndefault false\nagent true\ninside true\ndocker host true\nown tmux true\n"
	for _, tt := range []struct {
		backend launch.Backend
		unix    []policy.Path
		want    string
		masked  int
	}{
		{launch.BackendLandlock, nil, strings.ReplaceAll(strings.ReplaceAll(some, "false", "true"), "host true", "host false"), 0},
		{launch.BackendMountns, nil, some, 3},
		{launch.BackendMountns, []policy.Path{policy.Path(run + "/podman")}, strings.Replace(some, "podman.sock false", "podman.sock true", 1), 2},
		{launch.BackendBwrap, nil, some, 3},
	} {
		t.Run(string(tt.backend), func(t *testing.T) {
			switch tt.backend {
			case launch.BackendMountns:
				needLayer(t)
			case launch.BackendBwrap:
				if s := bwrap.Probe(t.Context(), ""); !s.Usable() {
					testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
				}
			}
			p := workspace(inside)
			p.NoCache, p.Unix = true, tt.unix
			traced := seccomp.ProbeWitness() == nil
			s, err := launch.Prepare(p, launch.Options{Backend: tt.backend, Environ: environ, TraceDenials: traced})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			helper := testenv.Helper(t, "connect")
			c := s.Command(helper.Path, paths...)
			c.Env = append(c.Environ(), helper.Env[slices.IndexFunc(helper.Env, isHelper)])
			c.Dir = inside
			out, err := c.CombinedOutput()
			if err != nil || string(out) != tt.want {
				t.Errorf("inside:\n%s%v; want\n%s", out, err, tt.want)
			}
			if traced {
				var got []string
				for _, r := range c.Trace().Refused {
					got = append(got, r.Call+" "+string(r.Reason)+" "+string(r.Path))
				}
				var want []string
				for i, line := range strings.Split(tt.want, "\n")[:len(paths)] {
					if strings.HasSuffix(line, "false") {
						want = append(want, "connect masked "+paths[i])
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("traced: %q; want %q", got, want)
				}
			}
			f := held(t, s, policy.PromisePathSockets)
			if n := strings.Count(f.Why, run) + strings.Count(f.Why, tmp); f.State != policy.Absent || n != tt.masked {
				t.Errorf("path-sockets is %s: %s; want %d masked", f.State, f.Why, tt.masked)
			}
			if s.Applied().Backend != tt.backend {
				t.Errorf("the backend is %s", s.Applied().Backend)
			}
		})
	}
	p := workspace(inside)
	p.Require = []policy.Promise{policy.PromisePathSockets}
	var unmet *launch.UnmetError
	if _, err := launch.Prepare(p, launch.Options{Backend: launch.BackendMountns, Environ: environ}); !errors.As(err, &unmet) {
		t.Errorf("Prepare with path-sockets required = %v; want an UnmetError: a list is no promise", err)
	}
}

func isHelper(entry string) bool { return strings.HasPrefix(entry, "SHOFER_TEST_HELPER=") }
