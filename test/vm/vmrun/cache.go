package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// cache is the folder that kernels and images are kept in.
type cache struct{ dir string }

// openCache finds the cache, and doesn't make it: the given folder, else
// $VMRUN_CACHE, else one in the user's cache folder.
func openCache(dir string) (cache, error) {
	if dir == "" {
		dir = os.Getenv("VMRUN_CACHE")
	}
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return cache{}, hinted("set VMRUN_CACHE, XDG_CACHE_HOME or HOME", "no folder to keep kernels in: %w", err)
		}
		// Not beneath the launcher's own cache: confined commands write there.
		dir = filepath.Join(base, "shofer-sandbox-vm")
	}
	abs, err := filepath.Abs(dir)
	return cache{abs}, err
}

func (c cache) kernelDir(name string) string { return filepath.Join(c.dir, "kernel", name) }

func (c cache) image(suite string) string {
	return filepath.Join(c.dir, "image-"+suite+"-v"+imageVersion+".ext4")
}

func (c cache) hasKernel(name string) bool {
	_, err := os.Stat(filepath.Join(c.kernelDir(name), readyFile))
	return err == nil
}

func (c cache) hasImage(suite string) bool {
	_, err := os.Stat(c.image(suite))
	return err == nil
}

// lock makes the cache, and keeps other processes from changing it until unlock
// is called.
func (c cache) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, hinted("set VMRUN_CACHE to a folder that can be written to", "%w", err)
	}
	f, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, hinted("set VMRUN_CACHE to a folder that can be written to", "%w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written
}

// tools are the programs that prepare needs, and QEMU, so that what is missing
// is said at once.
func (c cache) tools(suite string, names []string) []string {
	tools := []string{qemu}
	for _, name := range names {
		if !c.hasKernel(name) {
			tools = append(tools, "apt-get", "apt-cache", "dpkg", "xz", "zstd", "lz4")
			break
		}
	}
	if !c.hasImage(suite) {
		tools = append(tools, "apt-get", "mmdebstrap", "mke2fs", "tar")
		if os.Geteuid() != 0 {
			tools = append(tools, "fakeroot", "newuidmap")
		}
	}
	return tools
}

// prepare fetches the kernels and builds the image, where they aren't there.
func (c cache) prepare(suite string, names []string) error {
	if err := needTools(c.tools(suite, names)...); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, name := range names {
		k, err := findKernel(name)
		if err == nil {
			err = c.fetch(k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel %s: %w", name, err))
		}
	}
	if err := c.buildImage(suite); err != nil {
		errs = append(errs, fmt.Errorf("image %s: %w", suite, err))
	}
	return errors.Join(errs...)
}
