package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// debianPackage says which package of Debian's has a program.
var debianPackage = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"mmdebstrap":         "mmdebstrap",
	"mke2fs":             "e2fsprogs",
	"xz":                 "xz-utils",
	"zstd":               "zstd",
	"lz4":                "lz4",
	"fakeroot":           "fakeroot",
	"newuidmap":          "uidmap",
	"apt-get":            "apt",
	"apt-cache":          "apt",
	"dpkg":               "dpkg",
	"tar":                "tar",
}

// needTools returns an error that names the programs that are missing, and the
// packages that have them.
func needTools(names ...string) error {
	var missing, packages []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		missing = append(missing, name)
		if p := debianPackage[name]; p != "" && !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	if missing == nil {
		return nil
	}
	return hinted("apt-get install --no-install-recommends "+strings.Join(packages, " "),
		"not installed: %s", strings.Join(missing, ", "))
}

// output runs a program and returns what it prints; the error has what it said
// on standard error. dir "" is the current folder.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
