package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

const qemu = "qemu-system-x86_64"

// bootLine is the guest's kernel command line, before that of -append. Tests of
// the kernel's ciphers and its defences against other guests cost time only.
const bootLine = "console=ttyS0 panic=-1 quiet loglevel=4 cryptomgr.notests=1 mitigations=off random.trust_cpu=on " +
	"systemd.show_status=0 systemd.firstboot=off "

// files are where the parts of a machine lie.
type files struct {
	kernel  string // folder
	initrd  string
	payload string // "" without
	console string
}

// qemuArgs returns the machine as QEMU's arguments. Its port to the host is
// descriptor 3.
func (o *options) qemuArgs(f files) []string {
	kernel := filepath.Join(f.kernel, "vmlinux")
	if _, err := os.Stat(kernel); err != nil || o.compressed {
		kernel = filepath.Join(f.kernel, "bzImage")
	}
	accel := o.accel
	if accel == "tcg" {
		accel = "tcg,thread=multi"
	}
	args := []string{
		"-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
		"-M", "pc", "-accel", accel, "-cpu", o.cpu, "-m", strconv.Itoa(o.mem), "-smp", strconv.Itoa(o.smp),
		"-kernel", kernel, "-initrd", f.initrd, "-append", bootLine + o.append,
		"-drive", "file=" + o.cache.image(o.suite) + ",if=none,id=root,format=raw,snapshot=on,cache=unsafe",
		"-device", "virtio-blk-pci,drive=root",
		"-chardev", "socket,id=port,fd=3", "-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=port,name=" + portName,
		"-chardev", "file,id=console,path=" + f.console, "-serial", "chardev:console",
	}
	if f.payload != "" {
		args = append(args, "-drive", "file="+f.payload+",if=none,id=in,format=raw,readonly=on", "-device", "virtio-blk-pci,drive=in")
	}
	return args
}

var virtualizes = regexp.MustCompile(`(?m)^flags\s*:.*\b(svm|vmx)\b`)

// kvmUsable reports whether a stock kernel runs by /dev/kvm. That it opens says
// little: nested hosts have one whose processor can't virtualize again.
func kvmUsable() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && virtualizes.Match(info)
}
