package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
)

// The x86 boot protocol's header: where the compressed kernel lies in a bzImage.
const (
	bootSetupSects    = 0x1f1
	bootMagic         = 0x202 // "HdrS"
	bootVersion       = 0x206
	bootPayloadOffset = 0x248
	bootPayloadLength = 0x24c
	bootHeaderEnd     = 0x260
	bootPayload       = 0x208 // the version that has the two fields of it
)

// compressors are the programs that unpack a kernel, by what it begins with.
var compressors = []struct{ magic, tool string }{
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\x02\x21\x4c\x18", "lz4"},
	{"\xfd7zXZ\x00", "xz"},
	{"\x1f\x8b", "gzip"},
}

// unpackVmlinux returns the ELF file in a bzImage.
func unpackVmlinux(ctx context.Context, image []byte) ([]byte, error) {
	payload, err := kernelPayload(image)
	if err != nil {
		return nil, err
	}
	tool := ""
	for _, c := range compressors {
		if bytes.HasPrefix(payload, []byte(c.magic)) {
			tool = c.tool
			break
		}
	}
	if tool == "" {
		return nil, fmt.Errorf("the kernel is compressed in an unknown way: % x", payload[:min(6, len(payload))])
	}
	cmd := exec.CommandContext(ctx, tool, "-dc")
	cmd.Stdin = bytes.NewReader(payload)
	out, runErr := cmd.Output()
	// The program complains of the size that follows the data; so what tells is
	// whether the file is whole.
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpacking the kernel: %w", err), runErr)
	}
	for _, p := range f.Progs {
		if p.Off+p.Filesz > uint64(len(out)) {
			return nil, errors.Join(errors.New("unpacking the kernel: it is cut short"), runErr)
		}
	}
	return out, nil
}

func kernelPayload(image []byte) ([]byte, error) {
	if len(image) < bootHeaderEnd || string(image[bootMagic:bootMagic+4]) != "HdrS" ||
		binary.LittleEndian.Uint16(image[bootVersion:]) < bootPayload {
		return nil, errors.New("the kernel has no boot header of version 2.08 or newer")
	}
	setup := int(image[bootSetupSects])
	if setup == 0 {
		setup = 4
	}
	from := (setup+1)*512 + int(binary.LittleEndian.Uint32(image[bootPayloadOffset:]))
	to := from + int(binary.LittleEndian.Uint32(image[bootPayloadLength:]))
	if to > len(image) {
		return nil, errors.New("the kernel's boot header points behind its end")
	}
	return image[from:to], nil
}
