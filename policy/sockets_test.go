package policy

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestSocketIn(t *testing.T) {
	for value, want := range map[string]string{
		"":                                 "",
		"unix:///run/user/1/docker.sock":   "/run/user/1/docker.sock",
		"tcp://127.0.0.1:2375":             "",
		"ssh://host":                       "",
		"unix:path=/run/user/1/bus,guid=0": "/run/user/1/bus",
		"unix:path=/a;unix:path=/b":        "/a",
		"unix:abstract=/tmp/dbus-x":        "",
		"/tmp/tmux-1/default,123,0":        "/tmp/tmux-1/default",
		"relative":                         "",
	} {
		if got := socketIn(value); got != want {
			t.Errorf("socketIn(%q) = %q; want %q", value, got, want)
		}
	}
}

func TestSocketPlaces(t *testing.T) {
	p := newSocketPlaces([]string{"XDG_RUNTIME_DIR=" + os.TempDir(), "TMUX_TMPDIR=/t{run}"})
	for pattern, want := range map[string]string{
		"/run/docker.sock":    "/run/docker.sock",
		"{run}/bus":           os.TempDir() + "/bus",
		"{tmux}/tmux-{uid}/*": "/t{run}/tmux-" + strconv.Itoa(os.Getuid()) + "/*",
		"{home}/.docker/sock": "", // no HOME
	} {
		if got := p.path(pattern); got != want {
			t.Errorf("path(%q) = %q; want %q", pattern, got, want)
		}
	}
}

// socketScene makes sockets, and returns their folder and the environment that
// names it.
func socketScene(t *testing.T, names ...string) (dir string, env []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(testenv.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := dir + "/" + name
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	return dir, []string{"HOME=" + dir + "/home", "XDG_RUNTIME_DIR=" + dir, "TMUX_TMPDIR=" + dir}
}

func TestMaskSockets(t *testing.T) {
	tmux := "tmux-" + strconv.Itoa(os.Getuid())
	dir, env := socketScene(t, "docker.sock", "bus", "podman/podman.sock", tmux+"/default", "elsewhere", "closed", "gnupg/S.gpg-agent")
	if err := os.Symlink(dir+"/elsewhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	env = append(env, "DOCKER_HOST=unix://"+dir+"/link", "SSH_AUTH_SOCK="+dir+"/closed",
		"DBUS_SESSION_BUS_ADDRESS=unix:path="+dir+"/bus,guid=0")
	work := testenv.Dir(t)
	all := []Masked{
		{Path: dir + "/elsewhere", What: "Docker"},
		{Path: dir + "/bus", What: "user bus"},
		{Path: dir + "/docker.sock", What: "Docker"},
		{Path: dir + "/podman", What: "Podman", Folder: true},
		{Path: dir + "/" + tmux, What: "tmux", Folder: true, Own: true},
	}
	for _, tt := range []struct {
		p    Policy
		less []string // what isn't masked
	}{
		{Policy{}, nil},
		{Policy{Unix: []Path{Path(dir + "/link")}}, []string{dir + "/elsewhere"}},
		{Policy{Unix: []Path{Path(dir + "/podman/podman.sock")}}, []string{dir + "/podman"}},
		{Policy{Unix: []Path{Path(dir)}}, []string{all[0].Path, all[1].Path, all[2].Path, all[3].Path, all[4].Path}},
		{Policy{Mode: WorkspaceWrite, Worktree: Path(work), NoCache: true, Write: []Path{Path(dir + "/" + tmux)}}, []string{dir + "/" + tmux}},
	} {
		r, err := Resolve(tt.p, Options{Environ: env})
		if err != nil {
			t.Fatal(err)
		}
		r.MaskSockets(env)
		got := slices.DeleteFunc(r.Mask, func(m Masked) bool { return !beneath(m.Path, dir) }) // this machine's own
		want := slices.DeleteFunc(slices.Clone(all), func(m Masked) bool { return slices.Contains(tt.less, m.Path) })
		if !slices.Equal(got, want) {
			t.Errorf("MaskSockets with %+v: %+v; want %+v", tt.p, got, want)
		}
	}
}

func TestDropSockets(t *testing.T) {
	dir, env := socketScene(t, "docker.sock", "bus")
	docker, bus := "DOCKER_HOST=unix://"+dir+"/docker.sock", "DBUS_SESSION_BUS_ADDRESS=unix:path="+dir+"/bus"
	env = append(env, docker, bus, "SSH_AUTH_SOCK="+dir+"/agent", "CONTAINER_HOST=ssh://elsewhere")
	for _, tt := range []struct {
		p    Policy
		less []string // of docker and bus
	}{
		{Policy{}, []string{docker, bus}},
		{Policy{Unix: []Path{Path(dir + "/docker.sock")}}, []string{bus}},
		{Policy{Env: Env{Set: []string{docker}}}, []string{bus}},
		{Policy{Env: Env{Set: []string{docker, bus}}}, nil},
	} {
		r, err := Resolve(tt.p, Options{Environ: env})
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(r.Env), func(e string) bool { return slices.Contains(tt.less, e) })
		if names := r.DropSockets(); len(names) != len(tt.less) || !slices.Equal(r.Env, want) {
			t.Errorf("DropSockets with %+v = %v, which leaves %q; want %q", tt.p, names, r.Env, want)
		}
	}
}
