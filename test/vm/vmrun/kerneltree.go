package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// reduceKernel turns an unpacked kernel package into what a guest needs:
// bzImage, vmlinux (which boots faster, where it can be had), config, and in mod
// the modules, whose order is in mod.order.
func reduceKernel(ctx context.Context, tree string) error {
	file := firstMatch(tree, "boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz*", "lib/modules/*/vmlinuz*")
	if file == "" {
		return errors.New("no vmlinuz in the package")
	}
	image, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "bzImage"), image, 0o600); err != nil {
		return err
	}
	if vmlinux, err := unpackVmlinux(ctx, image); err != nil {
		fmt.Fprintf(os.Stderr, "vmrun: only the compressed image can be used: %v\n", err)
	} else if err := os.WriteFile(filepath.Join(tree, "vmlinux"), vmlinux, 0o600); err != nil {
		return err
	}
	modules := firstMatch(tree, "usr/lib/modules/*/kernel", "lib/modules/*/kernel")
	if modules == "" {
		return errors.New("no modules in the package")
	}
	order, err := copyModules(ctx, modules, filepath.Join(tree, "mod"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "mod.order"), []byte(strings.Join(order, "\n")), 0o600); err != nil {
		return err
	}
	if config := firstMatch(tree, "boot/config-*", "usr/lib/modules/*/config"); config != "" {
		if err := os.Rename(config, filepath.Join(tree, "config")); err != nil {
			return err
		}
	}
	for _, d := range []string{"boot", "lib", "usr"} {
		if err := os.RemoveAll(filepath.Join(tree, d)); err != nil {
			return err
		}
	}
	return nil
}

// firstMatch returns the first file below dir that matches a pattern, or "".
func firstMatch(dir string, patterns ...string) string {
	for _, p := range patterns {
		if l, _ := filepath.Glob(filepath.Join(dir, p)); len(l) > 0 { // only a bad pattern is an error
			return l[0]
		}
	}
	return ""
}
