package landlock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// create compiles grants for this kernel and makes the ruleset.
func create(t *testing.T, grants ...policy.Grant) (*Domain, error) {
	t.Helper()
	rs, err := Compile(Probe(), &policy.Resolved{Policy: policy.Policy{Mode: policy.WorkspaceWrite}, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	d, err := rs.Create()
	if err == nil {
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return d, err
}

func write(path string) policy.Grant { return policy.Grant{Path: path, Access: policy.Write} }

func optional(path string) policy.Grant {
	return policy.Grant{Path: path, Access: policy.Write, Optional: true}
}

func noLinks(path string) policy.Grant {
	return policy.Grant{Path: path, Access: policy.Write, NoSymlinks: true}
}

// TestCreateKinds gives a rule to a file of each kind. None may block, and what
// is no folder gets a file's rights only.
func TestCreateKinds(t *testing.T) {
	needABI(t, 3)
	testenv.CheckFDs(t)
	dir := testenv.Dir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("folder"), 0o755))
	must(os.WriteFile(at("file"), nil, 0o644))
	must(os.WriteFile(at("secret"), nil, 0)) // no right to open it is needed
	must(unix.Mkfifo(at("fifo"), 0o644))
	must(os.Symlink("folder", at("to-folder")))
	must(os.Symlink("file", at("to-file")))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at("socket"))
	must(err)
	defer l.Close()

	folder, file := (changeRights&^makeNode)&Probe().abi().FS, changeRights&fileRights&Probe().abi().FS
	tests := []struct {
		path string
		want FSRights
	}{
		{at("folder"), folder},
		{at("to-folder"), folder},
		{"/", folder},
		{"/proc", folder},
		{at("file"), file},
		{at("secret"), file},
		{at("to-file"), file},
		{at("fifo"), file},
		{at("socket"), file},
		{"/dev/null", file},
		{"/dev/full", file},
		{"/proc/self/status", file},
	}
	if os.Getuid() == 0 {
		// Numbers that no driver has: opening would fail, a rule needs none.
		if err := unix.Mknod(at("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(240, 99))); err == nil {
			tests = append(tests, struct {
				path string
				want FSRights
			}{at("block"), file})
		}
	}
	for _, tt := range tests {
		d, err := create(t, write(tt.path))
		if err != nil {
			t.Errorf("Create(%s): %v", tt.path, err)
			continue
		}
		if len(d.Applied) != 1 || d.Applied[0].Rights != tt.want || d.Applied[0].Grant.Path != tt.path || len(d.Skipped) != 0 {
			t.Errorf("Create(%s): applied %v, skipped %v; want %v", tt.path, d.Applied, d.Skipped, tt.want)
		}
	}
}

func TestCreateMissing(t *testing.T) {
	needABI(t, 1)
	testenv.CheckFDs(t)
	dir := testenv.Dir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("file"), nil, 0o644),
		os.Symlink("loop", at("loop")),
		os.Symlink("nothing", at("dangling")),
		os.Symlink(".", at("link")),
		os.Mkdir(at("real"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	link := noLinks(at("link/real"))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	pipe := "/proc/self/fd/" + strconv.Itoa(int(w.Fd()))
	for _, tt := range []struct {
		grant policy.Grant
		want  syscall.Errno
		text  string
	}{
		{write(at("nothing")), syscall.ENOENT, "no such file"},
		{write(at("dangling")), syscall.ENOENT, "no such file"},
		{write(at("file/below")), syscall.ENOTDIR, "not a directory"},
		{write(at("loop")), syscall.ELOOP, "too many levels"},
		{link, syscall.ELOOP, "a symbolic link in it"},
		{noLinks(at("link")), syscall.ELOOP, "a symbolic link in it"},
		{noLinks(at("nothing")), syscall.ENOENT, "no such file"},
		{write(pipe), syscall.EBADFD, "rules can be given for"},
		{write(at(strings.Repeat("x", 300))), syscall.ENAMETOOLONG, "too long"},
		{write("/" + strings.Repeat("x/", 5000)), syscall.ENAMETOOLONG, "too long"},
		{write(""), syscall.ENOENT, "no such file"},
		{write("/dev/null\x00/null"), syscall.EINVAL, "invalid"},
	} {
		_, err := create(t, write("/dev"), tt.grant)
		var e *RuleError
		if !errors.As(err, &e) || !errors.Is(err, tt.want) || e.Grant != tt.grant {
			t.Errorf("Create(%.60q) = %v; want a RuleError of it with %v", tt.grant.Path, err, tt.want)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, tt.grant.Path) || !strings.Contains(msg, tt.text) {
			t.Errorf("Create(%.60q) = %.200q; want the path and %q in it", tt.grant.Path, msg, tt.text)
		}

		opt := tt.grant
		opt.Optional = true
		d, err := create(t, opt, write("/dev/null"))
		switch tt.want {
		case syscall.ENAMETOOLONG, syscall.EINVAL:
			if !errors.Is(err, tt.want) {
				t.Errorf("Create(optional %.60q) = %v; want %v: nothing that is missing", opt.Path, err, tt.want)
			}
		default:
			if err != nil {
				t.Errorf("Create(optional %.60q) = %v; want nil", opt.Path, err)
			} else if len(d.Skipped) != 1 || d.Skipped[0].Grant != opt || !strings.Contains(d.Skipped[0].Why, tt.text) || len(d.Applied) != 1 {
				t.Errorf("Create(optional %.60q): skipped %v, applied %v; want it skipped: %q", opt.Path, d.Skipped, d.Applied, tt.text)
			}
		}
	}
}

// TestCreateUnreachable is about folders that the user may not search.
func TestCreateUnreachable(t *testing.T) {
	needABI(t, 1)
	if os.Getuid() == 0 {
		// root may search everything; see the run as an ordinary user.
		cmd := testenv.Ordinary().Helper(t, "unreachable", testenv.Ordinary().Dir(t))
		if got := testenv.Run(t, cmd); got.Code != 0 {
			t.Error(got)
		}
		return
	}
	if got := testenv.Run(t, testenv.Helper(t, "unreachable", testenv.Dir(t))); got.Code != 0 {
		t.Error(got)
	}
}

func unreachableMain(args []string) int {
	shut := filepath.Join(args[0], "shut")
	path := filepath.Join(shut, "in")
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(shut, 0)); err != nil {
		fmt.Println(err)
		return 1
	}
	rs := Ruleset{HandledFS: changeRights & ABIs[1].FS, Paths: []PathRule{{Grant: write(path), Rights: changeRights & ABIs[1].FS}}}
	_, err := rs.Create()
	var e *RuleError
	if !errors.As(err, &e) || !errors.Is(err, syscall.EACCES) {
		fmt.Printf("Create = %v; want a RuleError with EACCES\n", err)
		return 1
	}
	rs.Paths[0].Grant.Optional = true
	d, err := rs.Create()
	if err != nil || len(d.Skipped) != 1 || len(d.Applied) != 0 {
		fmt.Printf("Create(optional) = %+v, %v; want it skipped\n", d, err)
		return 1
	}
	if err := errors.Join(d.Close(), os.Chmod(shut, 0o700)); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestCreateBeneath is about grants that another one covers.
func TestCreateBeneath(t *testing.T) {
	needABI(t, 2)
	dir := testenv.Dir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := testenv.Dir(t)
	if err := errors.Join(
		os.MkdirAll(at("a/b"), 0o755), os.MkdirAll(at("ab"), 0o755),
		os.Symlink(outside, at("a/link")),
		os.WriteFile(at("a/file"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	ioctl := noLinks(at("a/b"))
	ioctl.Access |= policy.Ioctl
	missing := noLinks(at("a/missing"))
	for _, tt := range []struct {
		grants  []policy.Grant
		applied int // by rule or by the one above
		errno   syscall.Errno
	}{
		{[]policy.Grant{write(at("a")), noLinks(at("a/b"))}, 2, 0},
		{[]policy.Grant{write(at("a")), noLinks(at("a"))}, 2, 0},
		{[]policy.Grant{write(at("a") + "/"), noLinks(at("a/b"))}, 2, 0},
		{[]policy.Grant{write("/"), noLinks(at("a/b"))}, 2, 0},
		{[]policy.Grant{noLinks(at("a/b")), write(at("a"))}, 2, 0},
		// Covered, so never looked at.
		{[]policy.Grant{write(at("a")), missing}, 2, 0},
		{[]policy.Grant{write(at("a")), noLinks(at("a/link"))}, 2, 0},
		// Not covered.
		{[]policy.Grant{write(at("a")), noLinks(at("ab/missing"))}, 0, syscall.ENOENT},
		{[]policy.Grant{write(at("a")), noLinks(at("a/../missing"))}, 0, syscall.ENOENT},
		{[]policy.Grant{write(at("a")), write(at("a/missing"))}, 0, syscall.ENOENT},
		{[]policy.Grant{{Path: at("a"), Access: policy.Read}, missing}, 0, syscall.ENOENT},
		{[]policy.Grant{optional(at("gone")), noLinks(at("gone/below"))}, 0, syscall.ENOENT},
		{[]policy.Grant{write(at("a/file")), noLinks(at("a/file/below"))}, 0, syscall.ENOTDIR},
	} {
		d, err := create(t, tt.grants...)
		if tt.errno != 0 {
			if !errors.Is(err, tt.errno) {
				t.Errorf("Create(%v) = %v; want %v", tt.grants, err, tt.errno)
			}
			continue
		}
		if err != nil || len(d.Applied) != tt.applied {
			t.Errorf("Create(%v) = %+v, %v; want %d applied", tt.grants, d, err, tt.applied)
		}
	}
	if Probe().ABI >= 5 { // the right for ioctls is missing above
		missing := ioctl
		missing.Path = at("a/missing")
		if _, err := create(t, write(at("a")), missing); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("Create(with more rights) = %v; want %v", err, syscall.ENOENT)
		}
	}
}

// TestBeneathEnforced shows that a rule left out for the one above makes no
// difference.
func TestBeneathEnforced(t *testing.T) {
	needABI(t, 3)
	u := testenv.Self()
	tr := newTree(t, u)
	check(t, u, kernel{abi: Probe().ABI}, job{Grants: []policy.Grant{write(tr.in), noLinks(tr.in + "/sub")}}, []attempt{
		{"open-trunc", []string{tr.in + "/sub/file"}, 0},
		{"rename", []string{tr.in + "/sub/file", tr.in + "/here"}, 0},
		{"open-trunc", []string{tr.out + "/sub/file"}, syscall.EACCES},
	})
}

func TestCreateOtherErrors(t *testing.T) {
	needABI(t, 1)
	testenv.CheckFDs(t)
	if _, err := (Ruleset{HandledFS: 1 << 60}).Create(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Create(unknown right) = %v; want EINVAL", err)
	}
	rs := Ruleset{HandledFS: changeRights & ABIs[1].FS, Paths: []PathRule{{Grant: optional("/dev"), Rights: 1 << 60}}}
	if _, err := rs.Create(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Create(a right that isn't handled) = %v; want EINVAL, though optional", err)
	}
	if Probe().ABI >= 4 {
		rs := Ruleset{HandledNet: 1, Ports: []PortRule{{Port: 1, Rights: 2}}}
		if _, err := rs.Create(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Create(port, a right that isn't handled) = %v; want EINVAL", err)
		}
	}
}

func TestCreateEmpty(t *testing.T) {
	d, err := (Ruleset{}).Create()
	if err != nil || d.FD != -1 {
		t.Fatalf("Create() of nothing = %+v, %v; want FD -1", d, err)
	}
	if err := errors.Join(d.AddFD(1, policy.Write), d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestCreateAtOnce lets many goroutines make rulesets of one value.
func TestCreateAtOnce(t *testing.T) {
	needABI(t, 1)
	testenv.CheckFDs(t)
	rs, err := Compile(Probe(), &policy.Resolved{Grants: []policy.Grant{write("/dev/null"), write(testenv.Dir(t)), optional("/nonexistent")}})
	if err != nil {
		t.Fatal(err)
	}
	before := rs.String()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				d, err := rs.Create()
				if err != nil {
					t.Error(err)
					return
				}
				if len(d.Applied) != 2 || len(d.Skipped) != 1 {
					t.Errorf("applied %v, skipped %v", d.Applied, d.Skipped)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := rs.String(); got != before {
		t.Errorf("the ruleset is now\n%s\nand was\n%s", got, before)
	}
}

func TestCreateCloseOnExec(t *testing.T) {
	needABI(t, 1)
	d, err := create(t)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(d.FD), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags of the ruleset = %#x, %v; want close-on-exec", flags, err)
	}
}
