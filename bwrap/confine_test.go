package bwrap

import (
	"path/filepath"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestConfined tries every way to change a file, in a grant and outside.
func TestConfined(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, tt := range []struct {
			name string
			init bool
			pid  bool
		}{{"init", true, true}, {"bwrap's own init", false, true}, {"no pid namespace", false, false}} {
			t.Run(tt.name, func(t *testing.T) {
				r, top := wt(t, u)
				b := newBox(t, u, r, Options{Init: tt.init})
				b.l.NewPid = tt.pid
				in, out, name := top+"/wt/", top+"/out/", filepath.Base(top)
				before := tree(t, top+"/out") + read(t, top+"/out/file")
				ops := []op{
					{"read", []string{out + "file"}, "ok"},
					{"read", []string{in + "file"}, "ok"},
				}
				for _, what := range []string{
					"write", "readwrite", "append", "trunc", "truncate", "chmod", "chown", "utime", "setxattr", "unlink",
				} {
					ops = append(ops, op{what, []string{out + "file"}, "EROFS"}, op{what, []string{in + "file"}, "ok"})
				}
				for _, what := range []string{"create", "mkfifo", "mkdir"} {
					ops = append(ops, op{what, []string{out + what}, "EROFS"}, op{what, []string{in + what}, "ok"})
				}
				ops = append(ops,
					op{"tmpfile", []string{out}, "EROFS"}, op{"tmpfile", []string{in}, "ok"},
					op{"rmdir", []string{top + "/out"}, "EROFS"}, op{"rmdir", []string{in + "mkdir"}, "ok"},
					op{"symlink", []string{"x", out + "link"}, "EROFS"}, op{"symlink", []string{"x", in + "link"}, "ok"},
					op{"rename", []string{in + "create", out + "x"}, "EXDEV|EROFS"}, op{"rename", []string{in + "create", in + "x"}, "ok"},
					op{"rename", []string{out + "file", in + "y"}, "EXDEV|EROFS"},
					op{"exchange", []string{in + "x", out + "file"}, "EXDEV|EROFS"}, op{"exchange", []string{in + "x", in + "link"}, "ok"},
					op{"link", []string{out + "file", in + "hard"}, "EXDEV|EROFS"}, op{"link", []string{in + "x", in + "hard"}, "ok"},
					op{"rename", []string{top + "/wt", top + "/moved"}, "EROFS|EBUSY"},
					op{"write", []string{"/proc/sys/kernel/core_pattern"}, "EROFS|EACCES"},
					op{"write", []string{"/proc/self/oom_score_adj"}, "EROFS"},
					op{"create", []string{"/" + name}, "EROFS"}, op{"create", []string{"/tmp/" + name}, "EROFS"},
					op{"create", []string{"/dev/" + name}, "EROFS"}, op{"create", []string{"/dev/shm/" + name}, "EROFS"},
				)
				b.try(ops)
				if after := tree(t, top+"/out") + read(t, top+"/out/file"); after != before {
					t.Errorf("outside was changed to\n%s\nfrom\n%s", after, before)
				}
			})
		}
	})
}
