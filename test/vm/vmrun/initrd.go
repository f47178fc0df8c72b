package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cpio builds an archive in the kernel's form for an initramfs, "newc".
type cpio struct {
	b   bytes.Buffer
	ino int
}

// add adds a file with its whole mode; major and minor are a device's.
func (c *cpio) add(name string, mode uint32, major, minor int, data []byte) {
	c.ino++
	fmt.Fprintf(&c.b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.b.WriteString(name)
	c.b.WriteByte(0)
	c.pad(4)
	c.b.Write(data)
	c.pad(4)
}

func (c *cpio) pad(to int) {
	for c.b.Len()%to != 0 {
		c.b.WriteByte(0)
	}
}

// bytes ends the archive and returns it.
func (c *cpio) bytes() []byte {
	c.add("TRAILER!!!", 0, 0, 0, nil)
	c.pad(512)
	return c.b.Bytes()
}

// buildInitrd returns the initramfs: this program, the kernel's modules and the
// job, whose Modules it fills.
func buildInitrd(kernelDir string, j *job) ([]byte, error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	if err := checkStatic(self); err != nil {
		return nil, err
	}
	order, err := os.ReadFile(filepath.Join(kernelDir, "mod.order"))
	if err != nil {
		return nil, err
	}
	const folder, device, file, program = 0o40755, 0o20600, 0o100644, 0o100755
	c := &cpio{}
	for _, d := range []string{"dev", "proc", "sys", "newroot", "vmrun", "vmrun/mod"} {
		c.add(d, folder, 0, 0, nil)
	}
	c.add("dev/console", device, 5, 1, nil)
	c.add("init", program, 0, 0, self)
	for _, m := range strings.Fields(string(order)) {
		b, err := os.ReadFile(filepath.Join(kernelDir, "mod", m))
		if err != nil {
			return nil, err
		}
		j.Modules = append(j.Modules, m)
		c.add(strings.TrimPrefix(moduleDir, "/")+"/"+m, file, 0, 0, b)
	}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	c.add(strings.TrimPrefix(jobFile, "/"), file, 0, 0, b)
	return c.bytes(), nil
}

// checkStatic returns an error unless a program runs without libraries.
func checkStatic(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return hinted("build it with CGO_ENABLED=0", "%w", errors.New("this vmrun needs libraries, which the guest's start hasn't got"))
		}
	}
	return nil
}
