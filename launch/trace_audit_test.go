package launch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// auditRequest asks the kernel's audit for something, and returns the answer
// that isn't an acknowledgement, if there is one.
func auditRequest(t *testing.T, kind uint16, payload []byte) (answer []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		testenv.Skip(t, "needs the kernel's audit: %v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	const header = 16
	m := binary.NativeEndian.AppendUint32(nil, uint32(header+len(payload)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(binary.NativeEndian.AppendUint64(m, 1), payload...)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		testenv.Skip(t, "needs the kernel's audit: %v", err)
	}
	buf := make([]byte, 8<<10)
	for acked := false; !acked || kind == unix.AUDIT_GET && answer == nil; {
		n, err := unix.Read(fd, buf)
		if err != nil || n < header+4 {
			t.Fatalf("audit: %d bytes, %v", n, err)
		}
		if binary.NativeEndian.Uint16(buf[4:]) != unix.NLMSG_ERROR {
			answer = bytes.Clone(buf[header:n])
			continue
		}
		if e := int32(binary.NativeEndian.Uint32(buf[header:])); e != 0 {
			testenv.Skip(t, "needs the right to use the kernel's audit: %v", unix.Errno(-e))
		}
		acked = true
	}
	return answer
}

// enableAudit sets whether the machine keeps records.
func enableAudit(t *testing.T, on uint32) {
	t.Helper()
	s := make([]byte, 40) // struct audit_status, as far as all kernels have it
	binary.NativeEndian.PutUint32(s, 1)
	binary.NativeEndian.PutUint32(s[4:], on)
	auditRequest(t, unix.AUDIT_SET, s)
}

// The trace and the kernel's own records of what Landlock refused are about the
// same files, as often.
func TestTraceAudit(t *testing.T) {
	needWitness(t)
	if landlock.Probe().ABI < 7 || os.Geteuid() != 0 {
		return // there are no records, or not for us
	}
	enabled := binary.NativeEndian.Uint32(auditRequest(t, unix.AUDIT_GET, nil)[4:])
	if enabled == 0 {
		if !testenv.Required() {
			t.Log("the machine keeps no records, and nobody asked to have it do so")
			return
		}
		enableAudit(t, 1)
		t.Cleanup(func() { enableAudit(t, 0) })
	}
	// The kernel may lose records where very many come at a time, as from what the
	// tests of other packages are refused.
	var traced, recorded map[string]int
	for range 5 {
		if traced, recorded = auditedTrace(t); maps.Equal(traced, recorded) {
			return
		}
	}
	t.Errorf("traced: %v; recorded by the kernel: %v", traced, recorded)
}

// auditedTrace runs a command that is refused something, and returns how often
// each file was, by the trace and by the kernel's records.
func auditedTrace(t *testing.T) (traced, recorded map[string]int) {
	t.Helper()
	log, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(log) }()
	if err := unix.Bind(log, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		testenv.Skip(t, "needs the right to read audit records: %v", err)
	}
	// Only root may have a buffer of that size, as this test's user is.
	if err := unix.SetsockoptInt(log, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(log, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		t.Fatal(err)
	}

	work, out := places(t)
	for _, dir := range []string{"dir", "dir/empty"} {
		if err := os.Mkdir(filepath.Join(out, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(out+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := prepareWith(t, workspace(work), launch.Options{Backend: launch.BackendLandlock, TraceDenials: true})
	c := s.Command("sh", "-c", `cd "$0"; (: >>file); (: >new); (: >dir/new); mkdir dir/d; rmdir dir/empty; rm -f file; ln -s x l; mkfifo p; mv file dir/file; true`, out)
	c.Dir = work
	if output, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	traced = map[string]int{}
	for _, r := range c.Trace().Refused {
		path := string(r.Path)
		if r.Op != policy.OpWrite { // the record is about the folder
			path = filepath.Dir(path)
		}
		traced[path] += r.Count
	}

	record := regexp.MustCompile(`blockers=fs\S* path="([^"]+)"`)
	recorded = map[string]int{}
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Read(log, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			continue
		}
		if err != nil {
			break // nothing more for a second
		}
		if binary.NativeEndian.Uint16(buf[4:]) != unix.AUDIT_LANDLOCK_ACCESS {
			continue
		}
		if m := record.FindSubmatch(buf[:n]); m != nil && bytes.HasPrefix(m[1], []byte(out)) {
			recorded[string(m[1])]++
			t.Logf("%s", buf[16:n])
		}
	}
	return traced, recorded
}
