package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseRunRefuses(t *testing.T) {
	t.Setenv("VMRUN_CACHE", t.TempDir())
	for _, tt := range []struct{ args, want string }{
		{"", "the command is missing"},
		{"-kernel 6.1", "the command is missing"},
		{"-nope -- true", "not defined: -nope"},
		{"-init sysv -- true", "-init sysv is none of"},
		{"-as session -- true", "-as session needs -init systemd"},
		{"-as userunit -- true", "-as userunit needs -init systemd"},
		{"-init systemd -delegate -- true", "-delegate needs -init direct"},
		{"-init systemd -cgroup v1 -- true", "-cgroup needs -init direct"},
		{"-cgroup v1 -delegate -- true", "-delegate needs -cgroup v2"},
		{"-suite ../x -- true", "not the name of a release"},
		{"-out /a -- true", "GUEST:DIR"},
		{"-env A -- true", "NAME=VALUE"},
		{"-in /nonexistent -- true", "no such file"},
		{"-in /dev/null -- true", "not a folder"},
	} {
		_, err := parseRun(strings.Fields(tt.args))
		var u *usageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseRun(%s) = %v; want a usage error with %q", tt.args, err, tt.want)
		}
	}
}

func TestParseRunDefaults(t *testing.T) {
	t.Setenv("VMRUN_CACHE", "/cache")
	o, err := parseRun([]string{"-init", "systemd", "-accel", "tcg", "-x", "--", "a.test", "-test.v"})
	if err != nil {
		t.Fatal(err)
	}
	if o.bootFor.String() != "1m0s" || o.timeout.String() != "10m0s" || o.cpu != "max" || o.cache.dir != "/cache" ||
		!slices.Equal(o.argv, []string{"a.test", "-test.v"}) {
		t.Errorf("options = %+v", o)
	}
}

func TestFindKernel(t *testing.T) {
	for _, tt := range []struct {
		name, is, isNot string
	}{
		{"5.10", "linux-image-5.10.0-46-cloud-amd64", "linux-image-5.10.0-46-cloud-amd64-dbg"},
		{"6.1", "linux-image-6.1.0-57-cloud-amd64", "linux-image-6.12.1+deb12-cloud-amd64"},
		{"6.12", "linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.1.0-57-cloud-amd64"},
		{"6.18", "linux-image-6.18.15+deb13-cloud-amd64", "linux-image-6.18.15+deb13-amd64"},
		{"6.1x", "", ""},
		{"new", "linux-image-7.3.4+deb13-cloud-amd64", "linux-image-7.3.4+deb13-cloud-amd64-unsigned"},
		{"6.16", "linux-image-6.16.12+deb13-cloud-amd64", "linux-image-6.17.12+deb13-cloud-amd64"},
		{"../6.1", "", ""},
	} {
		k, err := findKernel(tt.name)
		if tt.is == "" {
			if err == nil {
				t.Errorf("findKernel(%q) = %v; want an error", tt.name, k.packages)
			}
			continue
		}
		if err != nil {
			t.Errorf("findKernel(%q): %v", tt.name, err)
		} else if !k.packages.MatchString(tt.is) || k.packages.MatchString(tt.isNot) {
			t.Errorf("findKernel(%q) = %v; want one that matches %q and not %q", tt.name, k.packages, tt.is, tt.isNot)
		}
	}
}

func TestArchivesFill(t *testing.T) {
	const targets = `Other|trixie|http://other.example/
Debian|bookworm-security|http://security.example/debian-security
Debian|bookworm|http://main.example/debian
Debian|bookworm-updates|http://second.example/debian

broken
`
	var a archives
	a.fill(targets)
	if want := (archives{"http://main.example/debian", "http://security.example/debian-security"}); a != want {
		t.Errorf("fill = %v; want %v", a, want)
	}
	if a.of("bookworm-security") != a.security || a.of("trixie-backports") != a.main {
		t.Errorf("of(bookworm-security) = %s, of(trixie-backports) = %s", a.of("bookworm-security"), a.of("trixie-backports"))
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := &frameWriter{w: &b}
	long := strings.Repeat("0123456789", framePiece/5)
	if _, err := io.WriteString(w.stream(frameTar, 7), long); err != nil {
		t.Fatal(err)
	}
	if err := w.send(frameExit, nil); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for {
		typ, data, err := readFrame(&b)
		if err != nil {
			t.Fatal(err)
		}
		if typ == frameExit {
			break
		}
		if typ != frameTar || data[0] != 7 {
			t.Fatalf("readFrame = %c, %d…", typ, data[0])
		}
		got.Write(data[1:])
	}
	if got.String() != long {
		t.Errorf("%d bytes came through; want %d", got.Len(), len(long))
	}
	if _, _, err := readFrame(&b); !errors.Is(err, io.EOF) {
		t.Errorf("readFrame at the end = %v; want EOF", err)
	}
	huge := binary.BigEndian.AppendUint32([]byte{byte(frameStdout)}, frameMax+1)
	if _, _, err := readFrame(bytes.NewReader(huge)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("readFrame of a huge frame = %v; want an error before reading it", err)
	}
}

func TestTarRoundTrip(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	write(t, filepath.Join(from, "a/b/file"), "content")
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "a/link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(addTree(w, from, "/vm/in"), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := untar(bytes.NewReader(b.Bytes()), to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "vm/in/a/b/file")); err != nil || string(got) != "content" {
		t.Errorf("file = %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "vm/in/a/link")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link was unpacked: %v", err)
	}
}

// A guest can't write outside of the folder it is asked for.
func TestUntarStaysInside(t *testing.T) {
	for _, name := range []string{"../evil", "a/../../evil", "link/evil"} {
		dir := t.TempDir()
		to := filepath.Join(dir, "to")
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(to, "link")); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := untar(&b, to); err == nil {
			t.Errorf("untar of %q = nil; want an error", name)
		}
		if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
			t.Errorf("untar of %q wrote outside", name)
		}
	}
}

func TestUnpackPayload(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "bin/tool"), "x")
	if err := os.Chmod(filepath.Join(from, "bin/tool"), 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bin/tool", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "disk")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(addTree(w, from, "/vm/in"), w.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, disk, b.String())
	if err := unpackPayload(disk, root, false); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(root, "vm/in/link"))
	if err != nil || fi.Mode() != 0o751 {
		t.Errorf("the link leads to %v, %v; want mode 0751", fi, err)
	}
}

func TestCpio(t *testing.T) {
	var c cpio
	c.add("a", 0o100644, 0, 0, []byte("xyz"))
	b := c.bytes()
	if len(b)%512 != 0 || !bytes.HasPrefix(b, []byte("070701")) || !bytes.Contains(b, []byte("TRAILER!!!\x00")) {
		t.Fatalf("cpio = %q", b)
	}
	// The name ends at 112, a multiple of 4; so the data begins there.
	if !bytes.HasPrefix(b[112:], []byte("xyz\x00070701")) {
		t.Errorf("data of the first file = %q", b[112:124])
	}
}

func TestKernelPayload(t *testing.T) {
	image := make([]byte, 4096)
	copy(image[bootMagic:], "HdrS")
	binary.LittleEndian.PutUint16(image[bootVersion:], 0x20f)
	image[bootSetupSects] = 1
	binary.LittleEndian.PutUint32(image[bootPayloadOffset:], 100)
	binary.LittleEndian.PutUint32(image[bootPayloadLength:], 5)
	copy(image[2*512+100:], "hello")
	if got, err := kernelPayload(image); err != nil || string(got) != "hello" {
		t.Errorf("kernelPayload = %q, %v; want hello", got, err)
	}
	binary.LittleEndian.PutUint32(image[bootPayloadLength:], 1<<20)
	if _, err := kernelPayload(image); err == nil {
		t.Error("kernelPayload of a cut image = nil; want an error")
	}
	if _, err := kernelPayload(image[:100]); err == nil {
		t.Error("kernelPayload of 100 bytes = nil; want an error")
	}
}

func TestNeedTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := needTools("mke2fs", "xz")
	var h *hintError
	if !errors.As(err, &h) || !strings.HasSuffix(h.hint, "install --no-install-recommends e2fsprogs xz-utils") {
		t.Errorf("needTools = %v; want a hint with the packages", err)
	}
}

func TestSessionKeepsDollars(t *testing.T) {
	j := job{As: asSession, Argv: []string{"sh", "-c", "echo $HOME"}}
	if got := j.systemdRun([]string{"A=$B"}); !slices.Contains(got, "echo $$HOME") || !slices.Contains(got, "A=$B") {
		t.Errorf("systemdRun = %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
