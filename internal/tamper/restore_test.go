package tamper_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// notRestored are plantings of which something stays.
var notRestored = map[string]string{
	"a list of files that can't be read": "git reset makes a new list",
	"another .git":                       "the folder is gone",
}

func TestRestore(t *testing.T) {
	for _, kind := range kinds {
		w := newWorld(t, kind, true)
		reset := w.keep()
		for _, p := range plantings {
			if p.kind != "" && p.kind != kind {
				continue
			}
			t.Run(kind+"/"+p.name, func(t *testing.T) {
				reset(t)
				if p.before != nil {
					p.before(w)
				}
				s := w.snapshot()
				p.plant(w)
				changes := s.Compare()
				text := ""
				for i, r := range s.Restore(changes) {
					if r.Change != changes[i] {
						t.Errorf("Restore has %v; want %v", r.Change, changes[i])
					}
					if r.Aside != "" {
						if _, err := os.Lstat(string(r.Aside)); err != nil || !strings.Contains(string(r.Aside), "tampered-") {
							t.Errorf("aside: %v", err)
						}
					}
					if r.Err != nil {
						text += r.Err.Error() + "\n"
					}
				}
				if want := notRestored[p.name]; want != "" {
					if !strings.Contains(text, want) {
						t.Errorf("errors: %q; want %q", text, want)
					}
					return
				}
				if left := s.Compare(); text != "" || left != nil {
					t.Errorf("of\n%sthere is left\n%s%s", w.show(changes), text, w.show(left))
				}
				for _, r := range []testenv.Result{w.work.TryGit("status"), w.main.TryGit("worktree", "list")} {
					if r.Code != 0 {
						t.Error(r)
					}
				}
				if _, err := os.Lstat(w.path("B/ran")); err == nil {
					t.Error("what was planted was executed")
				}
			})
		}
	}
}

// Files come back with their mode and owner.
func TestRestoreMode(t *testing.T) {
	w := newWorld(t, "linked", true)
	w.script("C/hooks/pre-push")
	w.chmod("C/hooks/pre-push", 0o741)
	if os.Getuid() == 0 {
		testenv.Ordinary().Own(t, w.path("C/hooks/pre-push"))
	}
	var was, now syscall.Stat_t
	if err := syscall.Lstat(w.path("C/hooks/pre-push"), &was); err != nil {
		t.Fatal(err)
	}
	s := w.snapshot()
	w.write("C/hooks/pre-push", "evil\n")
	s.Restore(s.Compare())
	if err := syscall.Lstat(w.path("C/hooks/pre-push"), &now); err != nil || now.Mode != was.Mode || now.Uid != was.Uid {
		t.Errorf("mode %o, uid %d, %v; want %o, %d", now.Mode, now.Uid, err, was.Mode, was.Uid)
	}
}

// Nothing is written through a link in place of a folder.
func TestRestoreThroughLink(t *testing.T) {
	w := newWorld(t, "main", true)
	w.write("C/info/attributes", "* text\n")
	s := w.snapshot()
	w.write("B/victim/attributes", "victim\n")
	w.remove("C/info")
	w.symlink(w.path("B/victim"), "C/info")
	changes := s.Compare()
	for i := range changes { // the folder's own change is left out
		if strings.HasSuffix(string(changes[i].Path), "/attributes") {
			r := s.Restore(changes[i : i+1])
			if r[0].Err == nil {
				t.Errorf("Restore = %v; want an error", r[0])
			}
		}
	}
	if text, err := os.ReadFile(w.path("B/victim/attributes")); err != nil || string(text) != "victim\n" {
		t.Errorf("the victim: %q, %v", text, err)
	}
	if s.Restore(changes); len(changes) == 0 {
		t.Error("nothing was found")
	}
	if text, err := os.ReadFile(w.path("B/victim/attributes")); err != nil || string(text) != "victim\n" {
		t.Errorf("the victim: %q, %v", text, err)
	}
}
