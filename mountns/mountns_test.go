package mountns_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

func steps(p mountns.Plan) (out []string) {
	for _, m := range p.Mounts {
		out = append(out, m.String())
	}
	return out
}

func check(t *testing.T, got mountns.Plan, want ...string) {
	t.Helper()
	if s := steps(got); !slices.Equal(s, want) {
		t.Errorf("Compile =\n\t%s\nwant\n\t%s", strings.Join(s, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestCompileProtect(t *testing.T) {
	check(t, mountns.Compile(&policy.Resolved{}))
	check(t, mountns.Compile(&policy.Resolved{Protect: []policy.Protected{
		{Path: "/r/.git", Kind: policy.Pinned},
		{Path: "/r/.git/commondir", Kind: policy.Unborn},
		{Path: "/r/.git/config", Kind: policy.Frozen},
		{Path: "/r/.git/modules/x/config", Kind: policy.Compared},
		{Path: "/r/.git/worktrees", Kind: policy.Frozen},
		{Path: "/r/.git/worktrees/w", Kind: policy.Reopened},
		{Path: "/r/.git/worktrees/w/gitdir", Kind: policy.Frozen},
	}}),
		"bind /r/.git", "bind /r/.git/config", "bind /r/.git/worktrees", "bind /r/.git/worktrees/w", "bind /r/.git/worktrees/w/gitdir",
		"attributes +0x1 -0x0 /r/.git/config", "attributes +0x1 -0x0 /r/.git/worktrees", "attributes +0x1 -0x0 /r/.git/worktrees/w/gitdir")
	// Names that nothing can be mounted over need no namespace by themselves.
	check(t, mountns.Compile(&policy.Resolved{Protect: []policy.Protected{{Path: "/r/.git/commondir", Kind: policy.Unborn}}}))
}

// What is made read-only as a whole must not take with it what is reopened.
func TestCompileRecursion(t *testing.T) {
	p := mountns.Compile(&policy.Resolved{Protect: []policy.Protected{
		{Path: "/r/hooks", Kind: policy.Frozen},
		{Path: "/r/trees", Kind: policy.Frozen},
		{Path: "/r/trees/own", Kind: policy.Reopened},
	}})
	for _, m := range p.Mounts {
		if m.Op == spawn.MountAttr && (m.Flags != 0) != (m.Target == "/r/hooks") {
			t.Errorf("%s has flags %#x", m, m.Flags)
		}
	}
}

func TestCompileHide(t *testing.T) {
	check(t, mountns.Compile(&policy.Resolved{Hide: []policy.Hidden{{Path: "/s", Folder: true}, {Path: "/f"}}}),
		"mount tmpfs /s", "bind /dev/null /f", "attributes +0x1 -0x0 /f")
}

// 200 other worktrees cost no mount.
func TestCompileManyWorktrees(t *testing.T) {
	repo := testenv.Self().NewRepo(t)
	wt := repo.WorktreeBeside()
	count := func() int {
		r, err := policy.Resolve(policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(wt.Dir), NoCache: true},
			policy.Options{Environ: testenv.GitEnv(repo.Home), MountLayer: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(mountns.Compile(r).Mounts)
	}
	few := count()
	for i := range 200 {
		dir := filepath.Join(repo.Dir, ".git", "worktrees", fmt.Sprint("other", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"commondir": "../..\n", "gitdir": "/gone/.git\n", "HEAD": "ref: refs/heads/x\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if many := count(); few == 0 || many != few {
		t.Errorf("%d mounts with 200 other worktrees; want %d as with none", many, few)
	}
}

func TestUnsupported(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{os.ErrPermission, false},
		{&spawn.Error{Stage: spawn.StageClone, Errno: syscall.EPERM}, true},
		{&spawn.Error{Stage: spawn.StageClone, Errno: syscall.ENOSPC}, true},
		{&spawn.Error{Stage: spawn.StageClone, Errno: syscall.EAGAIN}, false}, // too many processes
		{&spawn.Error{Stage: spawn.StageIDMap, Errno: syscall.EACCES}, true},
		{&spawn.Error{Stage: spawn.StageMount, Errno: syscall.EPERM}, true},
		{&spawn.Error{Stage: spawn.StageMount, Errno: syscall.ENOENT}, false}, // a path that went away
		{&spawn.Error{Stage: spawn.StageExec, Errno: syscall.EPERM}, false},
	} {
		if got := mountns.Unsupported(tt.err); got != tt.want {
			t.Errorf("Unsupported(%v) = %v; want %v", tt.err, got, tt.want)
		}
	}
}

func TestReason(t *testing.T) {
	for _, tt := range []struct {
		err        *spawn.Error
		want, mend string
	}{
		{&spawn.Error{Stage: spawn.StageClone, Errno: syscall.ENOSPC}, "max_user_namespaces", "sysctl"},
		{&spawn.Error{Stage: spawn.StageMount, Errno: syscall.ENOSYS}, "5.12", "newer kernel"},
		{&spawn.Error{Stage: spawn.StageClone, Errno: syscall.EINVAL}, "without user or mount namespaces", ""},
	} {
		missing := mountns.Reason(tt.err)
		if !strings.Contains(missing.Why, tt.want) || !strings.Contains(missing.Mend, tt.mend) || !errors.Is(missing, tt.err.Errno) {
			t.Errorf("Reason(%v) = %q, %q; want %q and %q in it", tt.err, missing.Why, missing.Mend, tt.want, tt.mend)
		}
		f := policy.Feature{Promise: policy.PromiseProtect, State: policy.Absent, Why: "x", Mend: "y"}
		f = mountns.Feature(f, &policy.Resolved{}, false, missing)
		if !strings.HasSuffix(f.Why, missing.Why) || tt.mend != "" && f.Mend != missing.Mend || f.Mend == "" {
			t.Errorf("Feature for %v = %+v", tt.err, f)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

func TestWatchNothing(t *testing.T) {
	if w := mountns.NewWatch(&policy.Resolved{Protect: []policy.Protected{{Path: "/r/.git", Kind: policy.Pinned}}}); w != nil {
		t.Error("NewWatch watches although nothing is covered")
	}
	testenv.CheckFDs(t)
	w := mountns.NewWatch(&policy.Resolved{Protect: []policy.Protected{{Path: "/r/.git/config", Kind: policy.Frozen}}})
	remove, err := w.Add(1<<30, -1)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Add of no process = %v; want %v", err, os.ErrNotExist)
	}
	remove()
	// Nothing may ever be mounted in this process's own namespace.
	if remove, err = w.Add(os.Getpid(), -1); err == nil {
		t.Error("Add of a process without mounts of its own is no error")
	}
	remove()
}
