package bwrap

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestCheck(t *testing.T) {
	top := testenv.Dir(t)
	mkdir(t, top+"/a\xff/b")
	r := &policy.Resolved{Grants: []policy.Grant{
		{Path: top + "/a\xff/b", Access: policy.Write},
		{Path: top + "/none", Access: policy.Write, Optional: true},
		{Path: "/dev/null", Access: policy.Write | policy.Ioctl, Optional: true},
	}}
	l, err := Look(userSupport, r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := l.Identities()
	if len(ids) != 1 || string(ids[0].Path) != top+"/a\xff/b" {
		t.Fatalf("Identities = %+v; want that of the grant", ids)
	}
	if err := Check(ids); err != nil {
		t.Errorf("Check = %v", err)
	}
	if err := os.Rename(top+"/a\xff", top+"/moved"); err != nil {
		t.Fatal(err)
	}
	var swapped *SwappedError
	if err := Check(ids); !errors.As(err, &swapped) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Check of a path that went away = %v", err)
	}
	symlink(t, "moved", top+"/a\xff")
	if err := Check(ids); err != nil {
		t.Errorf("Check by another way to the same folder = %v", err)
	}
	mkdir(t, top+"/moved/c")
	if err := os.Rename(top+"/moved/b", top+"/moved/old"); err != nil {
		t.Fatal(err)
	}
	symlink(t, "c", top+"/a\xff/b")
	if err := Check(ids); !errors.As(err, &swapped) || swapped.Err != nil {
		t.Errorf("Check of another folder = %v", err)
	}
}

// TestSwapped puts something else in the place of a grant between the look and
// the start, as a command that ran before could.
func TestSwapped(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		b := newBox(t, u, r, Options{Init: true})
		if got := b.sh("echo fine"); got != "fine\n" {
			t.Fatalf("before: %q", got)
		}
		if err := os.Rename(top+"/wt", top+"/moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("out", top+"/wt"); err != nil {
			t.Fatal(err)
		}
		if got := b.run("/bin/sh", "-c", "echo x >"+top+"/wt/planted"); got.Code == 0 {
			t.Errorf("a grant that was replaced by a link: %v", got)
		}
		if err := os.Remove(top + "/wt"); err != nil {
			t.Fatal(err)
		}
		if got := b.run("/bin/true"); got.Code == 0 || b.status == "" || strings.Contains(b.status, "exit-code") {
			t.Errorf("a grant that went away: %v, status %q; want bwrap to fail", got, b.status)
		}
		mkdir(t, top+"/wt")
		if got := b.run("/bin/true"); got.Code != 99 || !strings.Contains(got.Stderr, "was replaced") {
			t.Errorf("a grant that was replaced by another folder: %v; want the inner stage to refuse", got)
		}
		if _, err := os.Lstat(top + "/out/planted"); err == nil {
			t.Error("it was written to outside")
		}
	})
}
