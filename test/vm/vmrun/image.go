package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// imageVersion is part of an image's name: it changes with what is in it.
const imageVersion = "7"

// defaultSuite is the release that the image is made of unless another one is
// asked for.
const defaultSuite = "bookworm"

// imagePackages are what the guest has beside the release's minimum.
var imagePackages = []string{
	"systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "login", "passwd", "uidmap",
	"bubblewrap", "git", "python3-minimal", "python3",
	"procps", "iproute2", "util-linux", "strace", "acl", "attr",
}

// customize is the shell script that is run on the root folder, its first
// argument, before that becomes an image.
//
//go:embed customize.sh
var customize string

// makeImage makes the image of a tar of the root folder: arguments are the
// folder that it is in, and the image.
const makeImage = `set -e
mkdir "$1/root"
tar -C "$1/root" --numeric-owner -xpf "$1/root.tar"
rm -f "$2"
truncate -s 1500M "$2"
mke2fs -q -F -t ext4 -O ^has_journal,^metadata_csum -E lazy_itable_init=1,nodiscard -L vmrun -d "$1/root" "$2"`

// buildImage builds a suite's image, unless it is there. Without root it is
// built in a user namespace.
func (c cache) buildImage(suite string) error {
	if c.hasImage(suite) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	start := time.Now()
	mode := "root"
	if os.Geteuid() != 0 {
		mode = "unshare"
	}
	from, err := findArchives(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(c.dir, "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := output(ctx, "", "mmdebstrap", "--quiet", "--variant=minbase", "--mode="+mode, "--format=tar",
		"--include="+strings.Join(imagePackages, ","), `--aptopt=Apt::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--customize-hook="+customize, "--keyring="+keyring, suite, filepath.Join(tmp, "root.tar"),
		"deb "+from.main+" "+suite+" main", "deb "+from.security+" "+suite+"-security main"); err != nil {
		return err
	}
	image := c.image(suite)
	part := image + ".part"
	args := []string{"sh", "-c", makeImage, "sh", tmp, part}
	if mode != "root" {
		args = append([]string{"fakeroot"}, args...)
	}
	if _, err := output(ctx, "", args[0], args[1:]...); err != nil {
		return err
	}
	if err := os.Rename(part, image); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "vmrun: image %s is built (%.1fs)\n", suite, time.Since(start).Seconds())
	return nil
}
