package bwrap

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestOddNames(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		top := u.Dir(t)
		r := &policy.Resolved{Policy: policy.Policy{Mode: policy.WorkspaceWrite}}
		var ops []op
		for _, name := range []string{
			"a b", "a\nb", "\xff\xfe", "'\"`$(x)\\", "--bind", "\\040", "é", "a\tb", "*", " ", "//deleted", strings.Repeat("n", 255),
		} {
			path := filepath.Join(top, name)
			mkdir(t, path)
			write(t, path+"/hidden", "x")
			write(t, path+"/frozen", "x")
			r.Grants = append(r.Grants, policy.Grant{Path: path, Access: policy.Write, Origin: policy.FromUser})
			r.Protect = append(r.Protect, policy.Protected{Path: path + "/frozen", Kind: policy.Frozen})
			ops = append(ops,
				op{"create", []string{path + "/x"}, "ok"}, op{"write", []string{path + "/frozen"}, "EROFS"},
				op{"size", []string{path + "/hidden"}, "---------- 0"}, op{"create", []string{path + "-"}, "EROFS|ENAMETOOLONG"})
		}
		u.Own(t, top)
		o := Options{Init: true}
		for _, g := range r.Grants {
			o.Hide = append(o.Hide, g.Path+"/hidden")
		}
		newBox(t, u, r, o).try(ops)
	})
}

func TestHide(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		mkdir(t, top+"/out/sub/open")
		mkdir(t, top+"/wt/keys")
		write(t, top+"/wt/keys/id", "secret")
		write(t, top+"/wt/.env", "secret")
		socket := listen(t, "unix", top+"/wt/socket")
		if err := os.Symlink(top+"/out", top+"/link"); err != nil {
			t.Fatal(err)
		}
		u.Own(t, top)
		r.Grants = append(r.Grants, policy.Grant{Path: top + "/out/sub/open", Access: policy.Write, Origin: policy.FromUser})
		missing := []string{top + "/wt/.secret", top + "/wt/no/such", top + "/none"}
		o := Options{Init: true, Hide: append([]string{top + "/link", top + "/wt/keys", top + "/wt/.env"}, missing...)}
		s := need(t, u)
		socketWant := "ok"
		if s.Version.coversAnything() {
			o.Hide = append(o.Hide, socket)
			socketWant = "ECONNREFUSED"
		}
		before := tree(t, top)
		b := newBox(t, u, r, o)
		b.try([]op{
			{"read", []string{top + "/out/file"}, "ENOENT"},
			{"create", []string{top + "/out/x"}, "EROFS"},
			{"list", []string{top + "/wt/keys"}, "ok"},
			{"create", []string{top + "/wt/keys/x"}, "EROFS"},
			{"size", []string{top + "/wt/.env"}, "---------- 0"},
			{"read", []string{top + "/wt/.env"}, "ok"},
			{"write", []string{top + "/wt/.env"}, "EROFS"},
			{"unlink", []string{top + "/wt/.env"}, "EBUSY"},
			{"rename", []string{top + "/wt/.env", top + "/wt/x"}, "EBUSY"},
			{"unix", []string{socket}, socketWant},
			{"read", []string{missing[0]}, "ENOENT"},
			{"list", []string{top + "/out/sub/open"}, "ok"},
			{"create", []string{top + "/out/sub/open/x"}, "ok"},
			{"unlink", []string{top + "/out/sub/open/x"}, "ok"},
			{"umount", []string{top + "/wt/keys"}, "EPERM"},
			{"umount", []string{top + "/wt/.env"}, "EPERM"},
		})
		if after := tree(t, top); after != before {
			t.Errorf("outside was changed to\n%s\nfrom\n%s", after, before)
		}
		if len(b.l.Skipped) != len(missing) {
			t.Errorf("Skipped = %v; want %q", b.l.Skipped, missing)
		}
	})
}

func TestReadList(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		mkdir(t, top+"/shown/sub")
		write(t, top+"/shown/file", "x")
		if err := os.Symlink("shown", top+"/link"); err != nil {
			t.Fatal(err)
		}
		u.Own(t, top)
		r.Policy.Read = []policy.Path{policy.ReadSystem, policy.Path(top + "/link")}
		for _, path := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/nonexistent", "/proc", "/dev/fd", "/dev/stdin", "/etc"} {
			r.Grants = append(r.Grants, policy.Grant{Path: path, Access: policy.Read, Origin: policy.FromSystem, Optional: true})
		}
		r.Grants = append(r.Grants, policy.Grant{Path: top + "/link", Access: policy.Read, Origin: policy.FromUser})
		for _, pid := range []bool{true, false} {
			b := newBox(t, u, r, Options{Init: true})
			b.l.NewPid = pid
			b.try([]op{
				{"read", []string{top + "/shown/file"}, "ok"},
				{"read", []string{top + "/link/file"}, "ok"},
				{"write", []string{top + "/link/file"}, "EROFS"},
				{"append", []string{top + "/wt/file"}, "ok"},
				{"create", []string{top + "/wt/new" + strconv.FormatBool(pid)}, "ok"},
				{"read", []string{top + "/file"}, "ENOENT"},
				{"read", []string{"/var/lib"}, "ENOENT"},
				{"read", []string{"/root"}, "ENOENT"},
				{"create", []string{"/x"}, "EROFS"},
				{"create", []string{top + "/x"}, "EROFS"},
				{"read", []string{"/etc/passwd"}, "ok"},
				{"read", []string{"/dev/stdin"}, "ok"},
				{"write", []string{"/dev/null"}, "ok"},
				{"read", []string{"/proc/self/status"}, "ok"},
			})
			if got := b.sh("echo works"); got != "works\n" {
				t.Errorf("a shell prints %q", got)
			}
		}
	})
}
