package policy

import (
	"strconv"
	"syscall"
)

// systemReads is what the preset [ReadSystem] stands for: programs, libraries,
// the machine's configuration, and what the kernel shows. Of /run only what
// name look-ups and NixOS need, since the sockets and secrets of users lie
// there; of /dev only the built-in devices, since root could read whole disks.
// Folders in PATH that lie elsewhere are not in it.
var systemReads = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc", "/opt", "/proc", "/sys", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr",
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
	"/run/nscd", "/run/current-system", "/run/opengl-driver",
	"/nix/store", "/gnu/store", "/snap", "/var/lib/ca-certificates",
	"/var/lib/snapd",
}

// grantReads opens what a read list names, and what the rest of the policy
// makes no sense without: the worktree, its repository, and the caches.
func (r *resolver) grantReads() error {
	if r.p.Read == nil {
		return nil
	}
	if r.p.Mode != WorkspaceWrite && r.out.Worktree != "" {
		r.read(r.out.Worktree, FromWorktree)
	}
	if repo := r.out.Repo; repo != nil && repo.Trusted {
		if !beneath(repo.CommonDir, r.out.Worktree) {
			r.grant(Grant{Path: repo.CommonDir, Access: Read, Origin: FromGit, NoSymlinks: true})
		}
		if !beneath(repo.GitDir, r.out.Worktree) && !beneath(repo.GitDir, repo.CommonDir) {
			r.grant(Grant{Path: repo.GitDir, Access: Read, Origin: FromGit, NoSymlinks: true})
		}
	}
	for _, path := range r.reads {
		r.read(path, FromCache)
	}
	for i, path := range r.p.Read {
		if path == ReadSystem {
			for _, path := range systemReads {
				r.read(path, FromSystem)
			}
			continue
		}
		var st syscall.Stat_t
		if err := syscall.Stat(string(path), &st); err != nil {
			return pathError("read["+strconv.Itoa(i)+"]", string(path), err)
		}
		r.grant(Grant{Path: string(path), Access: Read, Origin: FromUser})
	}
	return nil
}

func (r *resolver) read(path string, origin Origin) {
	r.grant(Grant{Path: path, Access: Read, Origin: origin, Optional: true})
}

// grantUnix opens the sockets that the policy names.
func (r *resolver) grantUnix() error {
	for i, path := range r.p.Unix {
		switch path {
		case UnixSSHAgent:
			socket := r.caller.get("SSH_AUTH_SOCK")
			if socket == "" || socket[0] != '/' {
				r.note("unix-agent", "ssh-agent is granted, but SSH_AUTH_SOCK names none", "start an agent first")
				continue
			}
			r.grant(Grant{Path: socket, Access: Connect, Origin: FromUser, Optional: true})
		case UnixGPGAgent:
			r.grantGPG()
		default:
			var st syscall.Stat_t
			if err := syscall.Stat(string(path), &st); err != nil {
				return pathError("unix["+strconv.Itoa(i)+"]", string(path), err)
			}
			r.grant(Grant{Path: string(path), Access: Connect, Origin: FromUser})
		}
	}
	return nil
}

// grantGPG opens the folders in which GnuPG keeps the sockets of its agents.
func (r *resolver) grantGPG() {
	dirs := []string{"/run/user/" + strconv.Itoa(syscall.Getuid()) + "/gnupg"}
	if home := r.caller.get("GNUPGHOME"); home != "" && home[0] == '/' {
		dirs = append(dirs, home)
	} else if r.home != "" {
		dirs = append(dirs, r.home+"/.gnupg")
	}
	for _, dir := range dirs {
		r.grant(Grant{Path: dir, Access: Connect, Origin: FromUser, Optional: true})
	}
}
