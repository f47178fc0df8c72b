package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// machine looks at what makes commands fail, or a mechanism be missing.
func (e *examiner) machine() {
	e.userNamespaces()
	e.proc()
	e.temporary()
	e.cacheFolder()
	e.ssh()
	e.surroundings()
}

// userNamespaces tries one, and names the settings that are about it.
func (e *examiner) userNamespaces() {
	var set []string
	for _, name := range []string{
		"user.max_user_namespaces", "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns",
	} {
		if v := readLine("/proc/sys/" + strings.ReplaceAll(name, ".", "/")); v != "" {
			set = append(set, name+" = "+v)
		}
	}
	settings := ""
	if len(set) > 0 {
		settings = "; " + strings.Join(set, ", ")
	}
	switch err := mountns.Probe(false); {
	case err == nil:
		e.add("user-namespaces", OK, "can be made"+settings, "")
	case e.layer == nil:
		e.add("user-namespaces", Info, "not needed, since this user may mount: "+err.Error()+settings, "")
	default:
		e.add("user-namespaces", Fault, err.Error()+settings, e.layerMend())
	}
}

// readLine returns the first line of a small file, "" if there is none.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func (e *examiner) proc() {
	var st unix.Statfs_t
	if unix.Statfs("/proc", &st) == nil && st.Type == unix.PROC_SUPER_MAGIC {
		e.add("proc", OK, "/proc is mounted", "")
		return
	}
	e.add("proc", Fault, "/proc is not mounted: no user can be mapped in a namespace, and many tools fail", "mount -t proc proc /proc")
}

// temporary looks at the folder in which tools build and execute.
func (e *examiner) temporary() {
	dir := lookUp(e.environ, "TMPDIR")
	if dir == "" {
		dir = "/tmp"
	}
	shown := policy.Path(dir).String()
	var st unix.Statfs_t
	switch err := unix.Statfs(dir, &st); {
	case err != nil:
		e.add("tmp", Fault, shown+": "+err.Error(), "set TMPDIR to a folder that is there")
	case unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil:
		e.add("tmp", Fault, shown+" can't be written to", "set TMPDIR to a folder that can")
	case st.Flags&unix.ST_NOEXEC != 0:
		e.add("tmp", Fault, shown+" is mounted noexec: what tools build there to run it doesn't run",
			"set TMPDIR, and GOTMPDIR for Go, to a folder on a file system that executes programs")
	default:
		e.add("tmp", OK, shown+" can be written to and executed from", "")
	}
}

// cacheFolder looks whether the tools' caches can be redirected.
func (e *examiner) cacheFolder() {
	for _, n := range e.usual.Notes {
		if n.Code == "cache-off" {
			e.add("cache", Fault, n.Text, n.Hint)
			return
		}
	}
	path := string(e.usual.Cache)
	if path == "" {
		return
	}
	base := filepath.Dir(path) // of one worktree's
	for at := path; ; at = filepath.Dir(at) {
		err := unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		switch {
		case err == nil:
			e.add("cache", OK, policy.Path(base).String()+" can be used", "")
			return
		case err != unix.ENOENT || at == "/":
			e.add("cache", Fault, policy.Path(at).String()+": "+err.Error(), "set XDG_CACHE_HOME to a folder that can be written to")
			return
		}
	}
}

// ssh looks for files that ssh refuses in a user namespace, in which root's
// look like nobody's.
func (e *examiner) ssh() {
	if !e.userns || os.Geteuid() == 0 {
		e.add("ssh", OK, "its files keep their owner", "")
		return
	}
	files, err := filepath.Glob("/etc/ssh/ssh_config.d/*.conf")
	if err != nil || len(files) == 0 {
		e.add("ssh", OK, "there are no files in /etc/ssh/ssh_config.d", "")
		return
	}
	if len(sshConfig(e.environ)) > 0 {
		e.add("ssh", OK, "copies of the files in /etc/ssh/ssh_config.d, which ssh would refuse in a user namespace, are laid over them", "")
		return
	}
	e.add("ssh", Fault, "in a user namespace root's files look like nobody's, and ssh refuses "+files[0]+
		" (Bad owner or permissions): git fetch over ssh fails, since there is no cache folder for copies",
		"set HOME or XDG_CACHE_HOME to a folder that you can write to")
}

// surroundings says what this process is in already.
func (e *examiner) surroundings() {
	if name := container(e.environ); name != "" {
		e.add("container", Info, "this is a container ("+name+")", "what is missing may have to be allowed where it is started: seccomp and AppArmor profiles, or user namespaces")
	}
	if c := wsl(e.report.Kernel.Release); c.Name != "" {
		e.add(c.Name, c.Grade, c.Text, c.Mend)
	}
	if in := confinedBy(); len(in) > 0 {
		e.add("confined", Info, "this process is under "+strings.Join(in, " and ")+" already", "")
	}
}

// wsl tells a kernel of Windows by its release; zero is another one.
func wsl(release string) Check {
	release = strings.ToLower(release)
	switch {
	case !strings.Contains(release, "microsoft"):
		return Check{}
	case strings.Contains(release, "wsl2"), strings.Contains(release, "standard"):
		return Check{
			"wsl", Info, "this is WSL 2",
			"wsl --update brings a newer kernel; its boot parameters, such as lsm=, are kernelCommandLine in .wslconfig",
		}
	}
	return Check{"wsl", Fault, "this is WSL 1, which has no Linux kernel", "wsl --set-version DISTRIBUTION 2"}
}

// confinedBy names what this process is under already.
func confinedBy() (in []string) {
	for name, value := range statusFields("/proc/self/status") {
		switch {
		case name == "NoNewPrivs" && value == "1":
			in = append(in, "no_new_privs")
		case name == "Seccomp" && value == "2":
			in = append(in, "a seccomp filter")
		}
	}
	return in
}

// statusFields yields the fields of a file such as /proc/self/status.
func statusFields(path string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		b, _ := os.ReadFile(path) // without it there are none
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			if !yield(name, strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// container names the kind of container that this is, "" if it is none.
func container(environ []string) string {
	for _, f := range []struct{ path, name string }{{"/.dockerenv", "Docker"}, {"/run/.containerenv", "Podman"}} {
		if _, err := os.Lstat(f.path); err == nil {
			return f.name
		}
	}
	if name := lookUp(environ, "container"); name != "" {
		return strconv.Quote(name)
	}
	if name := readLine("/run/systemd/container"); name != "" {
		return strconv.Quote(name)
	}
	if lookUp(environ, "KUBERNETES_SERVICE_HOST") != "" {
		return "Kubernetes"
	}
	b, _ := os.ReadFile("/proc/1/cgroup") // without it nothing is known
	for _, name := range []string{"docker", "kubepods", "lxc", "libpod", "containerd"} {
		if strings.Contains(string(b), "/"+name) {
			return name
		}
	}
	return ""
}
