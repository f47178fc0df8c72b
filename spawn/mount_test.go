package spawn_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// namespaces returns the flags of a mount namespace that this user can make.
func namespaces() uintptr {
	if os.Getuid() == 0 {
		return unix.CLONE_NEWNS
	}
	return unix.CLONE_NEWNS | unix.CLONE_NEWUSER
}

// shell returns a plan that runs a script in namespaces of its own.
func shell(t *testing.T, script string, mounts ...spawn.Mount) *spawn.Plan {
	t.Helper()
	p := &spawn.Plan{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"},
		Files: []int{0, 1, 1}, Namespaces: namespaces(), Mounts: mounts, Dir: "/",
	}
	probe := *p
	probe.Mounts = nil
	probe.Argv = []string{"sh", "-c", "exit 0"}
	proc, err := spawn.Start(&probe)
	if err != nil {
		testenv.Skip(t, "no mount namespace: %v", err)
	}
	wait(t, proc)
	return p
}

// sh runs the script of a plan and returns what it wrote.
func sh(t *testing.T, p *spawn.Plan) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	p.Files = []int{0, int(w.Fd()), int(w.Fd())}
	proc, err := spawn.Start(p)
	_ = w.Close()
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	wait(t, proc)
	return b.String()
}

func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := testenv.Dir(t)
	for _, n := range names {
		path := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(n, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(n+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func bind(path string) spawn.Mount {
	return spawn.Mount{Op: spawn.MountNew, Source: path, Target: path, Flags: unix.MS_BIND | unix.MS_REC}
}

func readOnly(path string) spawn.Mount {
	return spawn.Mount{Op: spawn.MountAttr, Target: path, Set: unix.MOUNT_ATTR_RDONLY}
}

func TestMountReadOnly(t *testing.T) {
	dir := tree(t, "hooks/pre-commit", "config", "HEAD")
	hooks, config := dir+"/hooks", dir+"/config"
	p := shell(t, `cd "$0" && for f in hooks/new config HEAD; do echo x >> $f && echo $f; done; mv config c2; mv hooks h2; mv "$0" "$0.2"`,
		bind(dir), bind(hooks), readOnly(hooks), bind(config), readOnly(config))
	p.Argv = append(p.Argv, dir)
	out := sh(t, p)
	for _, want := range []string{"hooks/new: Read-only", "config: Read-only", "HEAD\n", "'config'", "'hooks'", "Device or resource busy"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	// Outside nothing is mounted, and nothing but HEAD has changed.
	if err := os.WriteFile(hooks+"/mine", nil, 0o644); err != nil {
		t.Errorf("the caller: %v", err)
	}
	if b, _ := os.ReadFile(config); string(b) != "config\n" {
		t.Errorf("config is now %q", b)
	}
}

// A folder that a new file system hides can be taken first and placed in it.
func TestMountPlace(t *testing.T) {
	dir := tree(t, "work/file", "other")
	p := shell(t, `cat "$0/work/file"; ls "$0"; echo new > "$0/work/new"; echo private > "$0/private"`,
		spawn.Mount{Op: spawn.MountTake, Source: dir + "/work", Slot: 3},
		spawn.Mount{Op: spawn.MountNew, Source: "tmpfs", Target: dir, Type: "tmpfs", Data: "mode=755"},
		spawn.Mount{Op: spawn.MountDir, Target: dir + "/work", Flags: 0o755},
		spawn.Mount{Op: spawn.MountPlace, Target: dir + "/work", Slot: 3})
	p.Argv = append(p.Argv, dir)
	if got, want := sh(t, p), "work/file\nwork\n"; got != want {
		t.Errorf("output %q; want %q", got, want)
	}
	if _, err := os.Stat(dir + "/work/new"); err != nil {
		t.Errorf("a write in the placed folder is lost: %v", err)
	}
	if _, err := os.Stat(dir + "/private"); err == nil {
		t.Error("a write to the new file system is seen outside")
	}
}

// What the host mounts later is seen inside.
func TestMountSlave(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount outside")
	}
	dir := tree(t, "later/", "flag/")
	// A shared mount, as most machines have for /.
	for _, m := range []struct {
		fs    string
		flags uintptr
	}{{"tmpfs", 0}, {"", unix.MS_SHARED}} {
		if err := unix.Mount(m.fs, dir, m.fs, m.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = unix.Unmount(dir+"/later", 0)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(dir+"/later", 0o755); err != nil {
		t.Fatal(err)
	}
	p := shell(t, `echo up; read _; ls "$0/later"; test -e "$0/inside" || echo no`, bind(dir+"/later"))
	p.Argv = append(p.Argv, dir)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Mounts = []spawn.Mount{{Op: spawn.MountDir, Target: dir + "/x", Flags: 0o755}}
	p.Files = []int{int(inR.Fd()), int(w.Fd()), 2}
	proc, err := spawn.Start(p)
	_, _ = w.Close(), inR.Close()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 256)
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir+"/later", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/later/seen", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _ = inW.WriteString("\n")
	_ = inW.Close()
	n, _ := r.Read(buf)
	wait(t, proc)
	_ = r.Close()
	if got := string(buf[:n]); !strings.HasPrefix(got, "seen\n") {
		t.Errorf("inside: %q; want the file of the later mount", got)
	}
}

func TestMountErrors(t *testing.T) {
	dir := tree(t, "a/")
	for _, tt := range []struct {
		name  string
		m     spawn.Mount
		errno syscall.Errno
	}{
		{"missing target", bind(dir + "/gone"), syscall.ENOENT},
		{"not mounted", readOnly(dir + "/a"), syscall.EINVAL},
		{"unknown type", spawn.Mount{Op: spawn.MountNew, Target: dir + "/a", Type: "nofs"}, syscall.ENODEV},
		{"taking nothing", spawn.Mount{Op: spawn.MountTake, Source: dir + "/gone"}, syscall.ENOENT},
		{"placing nothing", spawn.Mount{Op: spawn.MountPlace, Target: dir + "/a", Slot: 5}, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shell(t, "exit 0", tt.m)
			proc, err := spawn.Start(p)
			if err == nil {
				wait(t, proc)
			}
			var e *spawn.Error
			if !errors.As(err, &e) || e.Stage != spawn.StageMount || !errors.Is(err, tt.errno) {
				t.Errorf("Start = %v; want stage %v, %v", err, spawn.StageMount, tt.errno)
			}
		})
	}
}

// TestMountIn mounts in the namespace of a program that runs.
func TestMountIn(t *testing.T) {
	testenv.CheckFDs(t)
	dir := tree(t, "file", "other")
	p := shell(t, `echo up; read -r _; cd "$0"; echo a >file; echo b >other && echo written`)
	p.Argv = append(p.Argv, dir)
	p.Mounts = []spawn.Mount{{Op: spawn.MountNew, Source: dir, Target: dir, Flags: unix.MS_BIND}}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Files = []int{int(inR.Fd()), int(outW.Fd()), int(outW.Fd())}
	proc, err := spawn.Start(p)
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	if n, err := outR.Read(buf); string(buf[:n]) != "up\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	open := func(name string) int {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", proc.Pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	namespace, owner := open("mnt"), -1
	if p.Namespaces&unix.CLONE_NEWUSER != 0 {
		owner = open("user")
	}
	cover := func(path string) []spawn.Mount {
		return []spawn.Mount{
			{Op: spawn.MountTake, Source: path, Flags: unix.AT_SYMLINK_NOFOLLOW, Set: unix.MOUNT_ATTR_RDONLY},
			{Op: spawn.MountPlace, Target: path},
		}
	}
	if err := spawn.MountIn(namespace, owner, cover(dir+"/file")); err != nil {
		t.Errorf("MountIn: %v", err)
	}
	for _, tt := range []struct {
		fd    int
		path  string
		stage spawn.Stage
		errno syscall.Errno
	}{
		{namespace, dir + "/none", spawn.StageMount, syscall.ENOENT},
		{int(outR.Fd()), dir, spawn.StageJoin, syscall.EINVAL},
		{namespace, "a\x00b", spawn.StagePlan, syscall.EINVAL},
	} {
		var e *spawn.Error
		if err := spawn.MountIn(tt.fd, owner, cover(tt.path)); !errors.As(err, &e) || e.Stage != tt.stage || e.Errno != tt.errno {
			t.Errorf("MountIn(%q) = %v; want %v, %v", tt.path, err, tt.stage, tt.errno)
		}
	}
	_ = inW.Close()
	text, err := io.ReadAll(outR)
	_ = outR.Close()
	wait(t, proc)
	if err != nil || !strings.Contains(string(text), "Read-only") || !strings.HasSuffix(string(text), "written\n") {
		t.Errorf("inside: %q, %v; want file refused and other written", text, err)
	}
	if b, err := os.ReadFile(dir + "/file"); err != nil || strings.Contains(string(b), "a") {
		t.Errorf("file is %q, %v", b, err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Errorf("the mount is here too: %v", err)
	}
}
