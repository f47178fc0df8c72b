package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// knownSockets are sockets of programs that do what they are told by whoever
// may connect: patterns, in which a word in braces is a folder of the user's.
var knownSockets = [...]struct{ pattern, what string }{
	{"/run/docker.sock", "Docker"},
	{"/var/run/docker.sock", "Docker"},
	{"{run}/docker.sock", "Docker"},
	{"{home}/.docker/run/docker.sock", "Docker"},
	{"{home}/.docker/desktop/docker.sock", "Docker"},
	{"/run/podman/podman.sock", "Podman"},
	{"{run}/podman/podman.sock", "Podman"},
	{"/run/containerd/containerd.sock", "containerd"},
	{"/run/k3s/containerd/containerd.sock", "containerd"},
	{"{run}/containerd/containerd.sock", "containerd"},
	{"/run/crio/crio.sock", "CRI-O"},
	{"/run/buildkit/buildkitd.sock", "BuildKit"},
	{"/var/lib/lxd/unix.socket", "LXD"},
	{"/var/snap/lxd/common/lxd/unix.socket", "LXD"},
	{"/var/lib/incus/unix.socket", "Incus"},
	{"/run/libvirt/libvirt-sock", "libvirt"},
	{"/run/libvirt/virtqemud-sock", "libvirt"},
	{"{run}/libvirt/libvirt-sock", "libvirt"},
	{"{run}/libvirt/virtqemud-sock", "libvirt"},
	{"{run}/bus", "user bus"},
	{"{run}/systemd/private", "user's systemd"},
	{"/run/dbus/system_bus_socket", "system bus"},
	{"/run/systemd/private", "systemd"},
	{"/run/snapd.socket", "snapd"},
	{"{tmux}/tmux-{uid}/*", "tmux"},
	{"/run/screen/S-{user}/*", "screen"},
	{"{run}/gnupg/S.gpg-agent", "gpg agent"},
	{"{home}/.gnupg/S.gpg-agent", "gpg agent"},
	{"{run}/keyring/*", "keyring"},
	{"{run}/wayland-?", "Wayland"},
	{"/tmp/.X11-unix/X*", "X11"},
}

// namedSockets are variables that name one.
var namedSockets = [...]struct{ name, what string }{
	{"DOCKER_HOST", "Docker"},
	{"CONTAINER_HOST", "Podman"},
	{"DBUS_SESSION_BUS_ADDRESS", "user bus"},
	{"SSH_AUTH_SOCK", "ssh agent"},
	{"TMUX", "tmux"},
}

// sockets lists the ones that this user may connect to, by the rights of the
// file and its folders. It connects to none: some start a service when somebody
// does.
func (e *examiner) sockets() {
	e.report.Sockets = []Socket{}
	seen := map[fileID]bool{}
	add := func(path, what string) {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || seen[fileID{st.Dev, st.Ino}] {
			return
		}
		if unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) != nil {
			return
		}
		seen[fileID{st.Dev, st.Ino}] = true
		e.report.Sockets = append(e.report.Sockets, Socket{policy.Path(path), what})
	}
	for _, n := range namedSockets {
		if path := socketIn(lookUp(e.environ, n.name)); path != "" {
			add(path, n.what)
		}
	}
	for _, k := range knownSockets {
		pattern := e.socketPattern(k.pattern)
		if pattern == "" {
			continue
		}
		paths, err := filepath.Glob(pattern)
		if err != nil { // what a folder's name has in it is taken for a pattern
			continue
		}
		for _, path := range paths {
			add(path, k.what)
		}
	}
}

// socketPattern puts the user's folders in, and returns "" if there is none.
func (e *examiner) socketPattern(pattern string) string {
	uid := strconv.Itoa(os.Geteuid())
	run := lookUp(e.environ, "XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + uid
	}
	tmux := lookUp(e.environ, "TMUX_TMPDIR")
	if tmux == "" {
		tmux = "/tmp"
	}
	for _, f := range []struct{ word, folder string }{
		{"{run}", run}, {"{home}", lookUp(e.environ, "HOME")}, {"{tmux}", tmux}, {"{uid}", uid}, {"{user}", lookUp(e.environ, "USER")},
	} {
		if strings.Contains(pattern, f.word) {
			if f.folder == "" {
				return ""
			}
			pattern = strings.ReplaceAll(pattern, f.word, f.folder)
		}
	}
	return pattern
}

// socketIn returns the path in a variable: a path, a unix: URL, the first
// address of a bus, or what tmux sets.
func socketIn(value string) string {
	value, _, _ = strings.Cut(value, ";")
	value, _, _ = strings.Cut(value, ",")
	for _, prefix := range []string{"unix://", "unix:path=", "unix:"} {
		if rest, ok := strings.CutPrefix(value, prefix); ok {
			value = rest
			break
		}
	}
	if !strings.HasPrefix(value, "/") {
		return ""
	}
	return value
}
