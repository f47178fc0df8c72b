package launch

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// sshConfigDir holds parts of ssh's configuration. ssh insists that they belong
// to root or to its user.
const sshConfigDir = "/etc/ssh/ssh_config.d"

// sshConfig returns mounts that let ssh read the system's configuration in a
// user namespace, where root's files look like nobody's and ssh refuses them:
// copies that belong to the caller, in its cache folder, where the command
// can't write. Without such files, or without a cache folder, there is none.
func sshConfig(environ []string) []spawn.Mount {
	names := sshConfigFiles(sshConfigDir)
	if len(names) == 0 {
		return nil
	}
	cache, _ := lookEnv(environ, "XDG_CACHE_HOME")
	if home, _ := lookEnv(environ, "HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return nil
	}
	dir := filepath.Join(cache, "shofer-sandbox", ".ssh_config.d")
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	for _, name := range names {
		if copyIfNewer(filepath.Join(sshConfigDir, name), filepath.Join(dir, name)) != nil {
			return nil
		}
	}
	for _, name := range sshConfigFiles(dir) {
		if _, err := os.Lstat(filepath.Join(sshConfigDir, name)); err != nil {
			_ = os.Remove(filepath.Join(dir, name)) // it was removed there, too
		}
	}
	return []spawn.Mount{
		{Op: spawn.MountNew, Source: dir, Target: sshConfigDir, Flags: unix.MS_BIND},
		{Op: spawn.MountAttr, Target: sshConfigDir, Set: unix.MOUNT_ATTR_RDONLY},
	}
}

// sshConfigFiles lists what ssh_config(5) of most systems includes.
func sshConfigFiles(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".conf") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// copyIfNewer makes to a copy of from, with the same time, unless it is one
// already.
func copyIfNewer(from, to string) error {
	src, err := os.Stat(from)
	if err != nil {
		return err
	}
	if dst, err := os.Lstat(to); err == nil && dst.Mode().IsRegular() && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chtimes(tmp.Name(), src.ModTime(), src.ModTime())
	}
	if err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
