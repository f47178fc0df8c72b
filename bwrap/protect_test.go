package bwrap

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestProtected(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r, top := wt(t, u)
		git := top + "/wt/.git"
		mkdir(t, git+"/hooks/deep")
		mkdir(t, git+"/trees/own")
		write(t, git+"/config", "x")
		write(t, git+"/trees/own/gitdir", "x")
		u.Own(t, top)
		for path, kind := range map[string]policy.ProtectKind{
			"": policy.Pinned, "/hooks": policy.Frozen, "/config": policy.Frozen, "/trees": policy.Frozen,
			"/trees/own": policy.Reopened, "/trees/own/gitdir": policy.Frozen, "/commondir": policy.Unborn, "/modules": policy.Compared,
		} {
			r.Protect = append(r.Protect, policy.Protected{Path: git + path, Kind: kind})
		}
		newBox(t, u, r, Options{Init: true}).try([]op{
			{"create", []string{git + "/hooks/pre-commit"}, "EROFS"},
			{"create", []string{git + "/hooks/deep/x"}, "EROFS"},
			{"rename", []string{git + "/hooks", git + "/h"}, "EBUSY"},
			{"rename", []string{git, top + "/wt/g"}, "EBUSY"},
			{"trunc", []string{git + "/config"}, "EROFS"},
			{"unlink", []string{git + "/config"}, "EBUSY"},
			{"chmod", []string{git + "/config"}, "EROFS"},
			{"create", []string{git + "/config.lock"}, "ok"},
			{"rename", []string{git + "/config.lock", git + "/config"}, "EBUSY"},
			{"create", []string{git + "/trees/x"}, "EROFS"},
			{"create", []string{git + "/trees/own/HEAD"}, "ok"},
			{"write", []string{git + "/trees/own/gitdir"}, "EROFS"},
			{"create", []string{git + "/commondir"}, "ok"}, // nothing can hold that
			{"umount", []string{git + "/hooks"}, "EPERM"},
			{"remount", []string{git + "/hooks"}, "EPERM"},
		})
	})
}

// TestGit commits in a real linked worktree, whose protection package policy
// works out.
func TestGit(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		repo := u.NewRepo(t)
		tree := repo.WorktreeBeside()
		r, err := policy.Resolve(
			policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(tree.Dir), NoCache: true},
			policy.Options{Environ: testenv.GitEnv(repo.Home), MountLayer: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		u.Own(t, repo.Dir) // what was made for it just now
		b := newBox(t, u, r, Options{Init: true, Dir: tree.Dir})
		env := "exec env " + strings.Join(quoted(testenv.GitEnv(repo.Home)), " ") + " "
		for _, tt := range []struct {
			git  string
			code int
		}{
			{"commit --quiet --allow-empty --message inside", 0},
			{"switch --quiet -c other", 0},
			{"branch -D beside", 0},
			{"stash", 0},
			{"gc --quiet", 0},
			{"pack-refs --all", 0},
			{"tag v1", 0},
			{"tag -d v1", 0},
			{"config user.name evil", 4},
			{"branch -m other third", 128},
		} {
			got := b.run("/bin/sh", "-c", env+"git "+tt.git)
			if got.Code != tt.code {
				t.Errorf("git %s: %v; want exit %d", tt.git, got, tt.code)
			}
		}
		for _, plant := range []string{
			"echo x >" + repo.Dir + "/.git/hooks/pre-commit", "echo x >" + repo.Dir + "/.git/config", "rm " + tree.Dir + "/.git", "mv " + repo.Dir + "/.git/hooks /tmp",
			"echo x >" + repo.Dir + "/file",
		} {
			if got := b.run("/bin/sh", "-c", plant); got.Code == 0 {
				t.Errorf("%s succeeded", plant)
			}
		}
		if got := tree.Git("log", "-1", "--format=%s"); got != "inside" {
			t.Errorf("the last commit is %q", got)
		}
		if got := tree.Git("config", "user.name"); got != "Author" {
			t.Errorf("user.name is %q", got)
		}
		if got := tree.Git("status", "--porcelain"); got != "" {
			t.Errorf("git status says %q", got)
		}
	})
}

func quoted(env []string) []string {
	out := make([]string, len(env))
	for i, kv := range env {
		out[i] = "'" + kv + "'"
	}
	return out
}
