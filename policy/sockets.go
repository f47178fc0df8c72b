package policy

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Socket is a socket on the file system of a program outside.
type Socket struct {
	Path string
	// What listens there, in a word or two.
	What string
}

// Masked is a socket, or a folder in which such sockets are made, that a mount
// layer covers: whoever may connect can have the program behind it do anything.
type Masked struct {
	// Path is real. It need not exist any more.
	Path string
	What string
	// Folder says that it is one.
	Folder bool
	// Own says that the command gets a folder of its own in its place, which
	// it may use if it may write around it.
	Own bool
}

// cover says what of a well-known socket a mount layer covers.
type cover uint8

const (
	coverNone   cover = iota // nothing: it gives away less, or is a tool of the command's
	coverSocket              // the socket itself
	coverFolder              // the folder that it lies in, where others like it may appear
	coverOwn                 // the same, and the command makes such sockets too
)

// knownSockets are patterns of paths, in which a word in braces is a folder of
// the user's. Only the last part may have a wildcard.
var knownSockets = [...]struct {
	pattern, what string
	cover         cover
}{
	{"/run/docker.sock", "Docker", coverSocket},
	{"/var/run/docker.sock", "Docker", coverSocket},
	{"{run}/docker.sock", "Docker", coverSocket},
	{"{home}/.docker/run/docker.sock", "Docker", coverSocket},
	{"{home}/.docker/desktop/docker.sock", "Docker", coverSocket},
	{"/run/cri-dockerd.sock", "Docker", coverSocket},
	{"/run/podman/podman.sock", "Podman", coverFolder},
	{"{run}/podman/podman.sock", "Podman", coverFolder},
	{"/run/containerd/containerd.sock", "containerd", coverFolder},
	{"/run/k3s/containerd/containerd.sock", "containerd", coverFolder},
	{"{run}/containerd/containerd.sock", "containerd", coverFolder},
	{"/run/crio/crio.sock", "CRI-O", coverFolder},
	{"/run/buildkit/buildkitd.sock", "BuildKit", coverFolder},
	{"{run}/buildkit/buildkitd.sock", "BuildKit", coverFolder},
	{"/var/lib/lxd/unix.socket", "LXD", coverSocket},
	{"/var/snap/lxd/common/lxd/unix.socket", "LXD", coverSocket},
	{"/var/lib/incus/unix.socket", "Incus", coverSocket},
	{"/run/incus/unix.socket", "Incus", coverSocket},
	{"/run/libvirt/libvirt-sock", "libvirt", coverFolder},
	{"/run/libvirt/virtqemud-sock", "libvirt", coverFolder},
	{"{run}/libvirt/libvirt-sock", "libvirt", coverFolder},
	{"{run}/libvirt/virtqemud-sock", "libvirt", coverFolder},
	{"{run}/bus", "user bus", coverSocket},
	{"{run}/systemd/private", "user's systemd", coverFolder},
	{"/run/dbus/system_bus_socket", "system bus", coverSocket},
	{"/run/systemd/private", "systemd", coverSocket},
	{"/run/systemd/machine/io.systemd.Machine", "systemd-machined", coverSocket},
	{"/run/snapd.socket", "snapd", coverSocket},
	{"{tmux}/tmux-{uid}/*", "tmux", coverOwn},
	{"/run/screen/S-{user}/*", "screen", coverFolder},
	{"{run}/emacs/*", "Emacs", coverFolder},
	{"/tmp/emacs{uid}/*", "Emacs", coverOwn},
	{"{run}/gnupg/S.gpg-agent", "gpg agent", coverNone},
	{"{home}/.gnupg/S.gpg-agent", "gpg agent", coverNone},
	{"{run}/keyring/*", "keyring", coverNone},
	{"{run}/wayland-?", "Wayland", coverNone},
	{"/tmp/.X11-unix/X*", "X11", coverNone},
}

// namedSockets are variables that name one.
var namedSockets = [...]struct {
	name, what string
	cover      cover
}{
	{"DOCKER_HOST", "Docker", coverSocket},
	{"CONTAINER_HOST", "Podman", coverSocket},
	{"CONTAINERD_ADDRESS", "containerd", coverSocket},
	{"BUILDKIT_HOST", "BuildKit", coverSocket},
	{"DBUS_SESSION_BUS_ADDRESS", "user bus", coverSocket},
	{"DBUS_SYSTEM_BUS_ADDRESS", "system bus", coverSocket},
	{"SSH_AUTH_SOCK", "ssh agent", coverNone},
	{"TMUX", "tmux", coverSocket},
}

// Sockets lists the well-known sockets that this user may connect to, by the
// rights of the file and its folders. It connects to none: some start a service
// when somebody does. Environ is the caller's environment.
func Sockets(environ []string) (found []Socket) {
	seen := map[fileID]bool{}
	add := func(path, what string) {
		if id, ok := reachable(path); ok && !seen[id] {
			seen[id] = true
			found = append(found, Socket{path, what})
		}
	}
	for _, n := range namedSockets {
		add(socketIn(callerEnv(environ).get(n.name)), n.what)
	}
	places := newSocketPlaces(environ)
	for _, k := range knownSockets {
		path := places.path(k.pattern)
		if path == "" || !wild(path) {
			add(path, k.what)
			continue
		}
		for _, name := range listDir(parentDir(path)) {
			if ok, _ := filepath.Match(baseName(path), name); ok {
				add(join(parentDir(path), name), k.what)
			}
		}
	}
	return found
}

// MaskSockets sets r.Mask to what there is to cover: well-known sockets that
// this user may connect to, and folders in which they are made, less those that
// the policy grants. Sockets of agents, of keyrings and of displays are not in
// it.
func (r *Resolved) MaskSockets(environ []string) {
	m := masker{r: r, seen: map[fileID]bool{}}
	for _, n := range namedSockets {
		if n.cover != coverNone {
			m.socket(socketIn(callerEnv(environ).get(n.name)), n.what, n.cover)
		}
	}
	places := newSocketPlaces(environ)
	for _, k := range knownSockets {
		switch path := places.path(k.pattern); {
		case path == "" || k.cover == coverNone:
		case wild(path):
			m.folder(parentDir(path), k.what, k.cover)
		default:
			m.socket(path, k.what, k.cover)
		}
	}
	r.Mask = m.found
}

// DropSockets removes from r.Env the variables that name a socket which
// MaskSockets would cover, and returns their names. Those that the policy sets
// stay.
func (r *Resolved) DropSockets() (names []string) {
	m := masker{r: r}
	kept := r.Env[:0:0]
	for _, entry := range r.Env {
		name, value, _ := strings.Cut(entry, "=")
		if drops(name) && !r.Policy.Env.sets(name) {
			if path := socketIn(value); path != "" && !m.granted(realName(path)) {
				names = append(names, name)
				continue
			}
		}
		kept = append(kept, entry)
	}
	if names != nil {
		r.Env = kept
	}
	return names
}

// drops reports whether a variable names a socket that is covered.
func drops(name string) bool {
	for _, n := range namedSockets {
		if n.name == name {
			return n.cover != coverNone
		}
	}
	return false
}

// sets reports whether the policy sets a variable.
func (e *Env) sets(name string) bool {
	for _, entry := range e.Set {
		if len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			return true
		}
	}
	return false
}

// masker collects what is to be covered.
type masker struct {
	r     *Resolved
	seen  map[fileID]bool
	found []Masked
}

// socket covers a socket, or the folder that it lies in.
func (m *masker) socket(path, what string, c cover) {
	id, ok := reachable(path)
	if !ok || m.seen[id] {
		return
	}
	m.seen[id] = true
	if c != coverSocket {
		m.folder(parentDir(path), what, c)
		return
	}
	if real := realName(path); !m.granted(real) && maskable(real) {
		m.found = append(m.found, Masked{Path: real, What: what})
	}
}

// folder covers a folder.
func (m *masker) folder(path, what string, c cover) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR || m.seen[fileID{st.Dev, st.Ino}] {
		return
	}
	m.seen[fileID{st.Dev, st.Ino}] = true
	if syscall.Access(path, 1) != nil {
		return // nothing in it can be reached
	}
	if real := realName(path); !m.granted(real) && maskable(real) {
		m.found = append(m.found, Masked{Path: real, What: what, Folder: true, Own: c == coverOwn})
	}
}

// granted reports whether the policy opens a socket, or something in a folder,
// or works there.
func (m *masker) granted(path string) bool {
	for i := range m.r.Grants {
		g := &m.r.Grants[i]
		switch {
		case g.Access&Connect != 0:
			real := realName(g.Path)
			if beneath(path, real) || beneath(real, path) {
				return true
			}
		case g.Access&Write != 0 && beneath(g.Path, path):
			return true
		}
	}
	return false
}

// maskable reports whether a real path can be covered: what is in these places
// is the kernel's, or is made anew for the command.
func maskable(path string) bool {
	for _, dir := range [...]string{"/proc", "/sys", "/dev"} {
		if beneath(path, dir) {
			return false
		}
	}
	return path != "/" && path != "/tmp" && path != "/run"
}

// reachable reports whether path is a socket that this user may connect to.
func reachable(path string) (fileID, bool) {
	var st syscall.Stat_t
	if path == "" || syscall.Stat(path, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return fileID{}, false
	}
	const toWrite = 2
	return fileID{st.Dev, st.Ino}, syscall.Access(path, toWrite) == nil
}

// socketPlaces are what the words in patterns stand for; "" is nothing.
type socketPlaces struct{ run, home, tmux, uid, user string }

func newSocketPlaces(environ []string) socketPlaces {
	env := callerEnv(environ)
	p := socketPlaces{run: env.get("XDG_RUNTIME_DIR"), home: env.get("HOME"), tmux: env.get("TMUX_TMPDIR"), uid: strconv.Itoa(syscall.Geteuid()), user: env.get("USER")}
	if p.run == "" {
		p.run = "/run/user/" + p.uid
	}
	if mode(p.run) == 0 {
		p.run = "" // there is nothing in it
	}
	if p.tmux == "" {
		p.tmux = "/tmp"
	}
	return p
}

// path puts the user's folders into a pattern, and returns "" if there is none.
func (p *socketPlaces) path(pattern string) string {
	done := ""
	for {
		before, rest, found := strings.Cut(pattern, "{")
		if !found {
			return done + pattern
		}
		word, rest, _ := strings.Cut(rest, "}")
		folder := p.folder(word)
		if folder == "" {
			return ""
		}
		done, pattern = done+before+folder, rest
	}
}

// folder returns what a word in braces stands for.
func (p *socketPlaces) folder(word string) string {
	switch word {
	case "run":
		return p.run
	case "home":
		return p.home
	case "tmux":
		return p.tmux
	case "uid":
		return p.uid
	}
	return p.user
}

// wild reports whether the last part of a path is a pattern.
func wild(path string) bool { return strings.ContainsAny(baseName(path), "*?") }

// socketIn returns the path in a variable: a path, a unix: URL, the first
// address of a bus, or what tmux sets. It returns "" for anything else.
func socketIn(value string) string {
	value, _, _ = strings.Cut(value, ";")
	value, _, _ = strings.Cut(value, ",")
	for _, prefix := range [...]string{"unix://", "unix:path=", "unix:"} {
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
