package testenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// otherID is the ordinary user that tests of root also run as. It needs no
// entry in /etc/passwd.
const otherID = 1000

// User is whom a test's command runs as. The zero value is root.
type User struct{ UID, GID int }

// Self returns the user of this process.
func Self() User { return User{os.Getuid(), os.Getgid()} }

// Ordinary returns a user without privileges: uid 1000 when this process is
// root, else the user of this process.
func Ordinary() User {
	if os.Getuid() == 0 {
		return User{otherID, otherID}
	}
	return Self()
}

// EachUser runs f as a subtest for each user that this process can start
// commands as: root and uid 1000 when it is root, else only itself.
func EachUser(t *testing.T, f func(t *testing.T, u User)) {
	t.Helper()
	users := []User{Self()}
	if o := Ordinary(); o != users[0] {
		users = append(users, o)
	}
	for _, u := range users {
		t.Run(u.String(), func(t *testing.T) { f(t, u) })
	}
}

// String returns "root" or "uidN".
func (u User) String() string {
	if u.UID == 0 {
		return "root"
	}
	return fmt.Sprintf("uid%d", u.UID)
}

// Apply makes cmd run as u, with no supplementary groups, and with HOME, USER
// and LOGNAME to match when u isn't the user of this process. HOME is then
// "/nonexistent": set your own after it where it matters. It also drops
// XDG_RUNTIME_DIR and other places that belong to this process's user.
func (u User) Apply(cmd *exec.Cmd) {
	if u == Self() {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	env := cmd.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = nil
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "HOME", "USER", "LOGNAME", "MAIL", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOENV":
			continue
		}
		if strings.HasPrefix(name, "XDG_") {
			continue
		}
		cmd.Env = append(cmd.Env, kv)
	}
	cmd.Env = append(cmd.Env, "HOME=/nonexistent", "USER="+u.String(), "LOGNAME="+u.String())
}

// Command is like the function [Command], run by u.
func (u User) Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := Command(t, name, args...)
	u.Apply(cmd)
	return cmd
}

// Dir returns a new folder that belongs to u, with mode 0755 and a short name
// that every user can reach, and removes it when t ends. Unlike [testing.T]'s
// TempDir it lies outside /tmp and $TMPDIR, which a confined command may write
// to by default: what lies in it is outside unless it is granted.
func (u User) Dir(t testing.TB) string {
	t.Helper()
	base, err := outsideTemp()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "shofer-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	u.Own(t, dir)
	// Tests compare paths; what /var/tmp may be a link to isn't their subject.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Dir returns a new folder of this process's user: see [User.Dir].
func Dir(t testing.TB) string {
	t.Helper()
	return Self().Dir(t)
}

// Own gives path, and everything beneath it, to u. It does nothing when u is
// the user of this process.
func (u User) Own(t testing.TB, path string) {
	t.Helper()
	if u == Self() {
		return
	}
	err := filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, u.UID, u.GID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outsideTemp returns a folder for temporary files that lies neither in /tmp
// nor in $TMPDIR.
func outsideTemp() (string, error) {
	bases := []string{"/var/tmp"}
	if cache, err := os.UserCacheDir(); err == nil {
		bases = append(bases, cache)
	}
	for _, base := range bases {
		resolved, err := filepath.EvalSymlinks(base)
		if err != nil || within(resolved, "/tmp") || within(resolved, os.TempDir()) {
			continue
		}
		if syscall.Access(resolved, 2|1) == nil {
			return base, nil
		}
	}
	return "", fmt.Errorf("none of %q is writable and outside /tmp and $TMPDIR", bases)
}

func within(path, dir string) bool {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// removeAll is [os.RemoveAll] that also removes folders without write
// permission, such as a module cache.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error { // RemoveAll reports what stays
		if err == nil && e.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// selfCopy is a copy of this test's binary that every user may execute. The
// original lies in a folder of go test's that only one user can enter.
var selfCopy = sync.OnceValues(func() (string, error) {
	exe, err := os.Executable()
	if err != nil { // no /proc is mounted
		exe, err = filepath.Abs(os.Args[0])
	}
	if err != nil || os.Getuid() != 0 {
		return exe, err
	}
	dir, err := sharedDir()
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "test")
	return to, copyFile(to, exe)
})

// copyFile copies from to a new file that everybody may execute.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	// A child that another test is just starting has our descriptors until its
	// exec, and while one of them can write to it a program isn't executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
