package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// guestModules are what the guest loads, where it isn't built in: its disks, its
// port to the host, its file system, and what systemd, bwrap and tests use.
var guestModules = []string{"virtio_pci", "virtio_blk", "virtio_console", "ext4", "overlay", "fuse", "autofs4", "loop"}

// copyModules copies the modules of the guest and those that they need from a
// kernel's tree to a new folder, uncompressed, and returns their file names in
// the order of loading.
func copyModules(ctx context.Context, from, to string) ([]string, error) {
	m := modules{files: map[string]string{}, seen: map[string]bool{}, to: to}
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name, _, ok := strings.Cut(filepath.Base(p), ".ko"); ok {
			m.files[moduleName(name)] = p
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	for _, name := range guestModules {
		if err := m.add(ctx, name); err != nil {
			return nil, err
		}
	}
	return m.order, nil
}

// moduleName is a module's name as the kernel spells it.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// modules collects modules in the order of loading.
type modules struct {
	files map[string]string // of the kernel, by name
	seen  map[string]bool
	order []string
	to    string
}

// add adds a module after those that it needs. One without a file is built in,
// or this kernel hasn't got it.
func (m *modules) add(ctx context.Context, name string) error {
	name = moduleName(name)
	file, ok := m.files[name]
	if m.seen[name] || !ok {
		return nil
	}
	m.seen[name] = true
	b, err := readModule(ctx, file)
	if err != nil {
		return err
	}
	needs, err := moduleNeeds(b)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, n := range needs {
		if err := m.add(ctx, n); err != nil {
			return err
		}
	}
	m.order = append(m.order, name+".ko")
	return os.WriteFile(filepath.Join(m.to, name+".ko"), b, 0o600)
}

func readModule(ctx context.Context, file string) ([]byte, error) {
	for suffix, tool := range map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"} {
		if strings.HasSuffix(file, suffix) {
			return output(ctx, "", tool, "-dc", file)
		}
	}
	return os.ReadFile(file)
}

// moduleNeeds reads which modules a module needs.
func moduleNeeds(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for kv := range strings.SplitSeq(string(info), "\x00") {
		if v, ok := strings.CutPrefix(kv, "depends="); ok && v != "" {
			return strings.Split(v, ","), nil
		}
	}
	return nil, nil
}
