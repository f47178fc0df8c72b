package policy

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLocalGitEnv compares the list with the real git's.
func TestLocalGitEnv(t *testing.T) {
	theirs := strings.Fields(git(t, t.TempDir(), "rev-parse", "--local-env-vars"))
	if len(theirs) < 10 {
		t.Fatalf("git rev-parse --local-env-vars = %q", theirs)
	}
	for _, name := range theirs {
		if want := !strings.HasPrefix(name, "GIT_CONFIG_"); slices.Contains(localGitEnv[:], name) != want {
			t.Errorf("localGitEnv has %s: %t; want %t", name, !want, want)
		}
	}
}

func TestCommandEnv(t *testing.T) {
	caller := []string{
		"A=1", "B=2", "GIT_DIR=/x", "A=3", "GIT_INDEX_FILE=i", "junk", "=odd", "EMPTY=",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v", "GIT_CONFIG_PARAMETERS='x=y'",
		"GIT_CONFIG_GLOBAL=/g", "GIT_CONFIG=/c",
	}
	kept := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v", "GIT_CONFIG_PARAMETERS='x=y'", "GIT_CONFIG_GLOBAL=/g"}
	tests := []struct {
		env  Env
		want []string
	}{
		{Env{}, append([]string{"A=3", "B=2", "junk", "=odd", "EMPTY="}, kept...)},
		{Env{KeepGit: true}, slices.Concat([]string{"A=3", "B=2", "GIT_DIR=/x", "GIT_INDEX_FILE=i", "junk", "=odd", "EMPTY="}, kept, []string{"GIT_CONFIG=/c"})},
		{Env{Unset: []string{"A", "EMPTY", "NONE"}}, append([]string{"B=2", "junk", "=odd"}, kept...)},
		{Env{Unset: []string{"A"}, Set: []string{"A=9", "C=1", "C=2"}}, slices.Concat([]string{"B=2", "junk", "=odd", "EMPTY="}, kept, []string{"A=9", "C=2"})},
		{Env{Set: []string{"GIT_DIR=/mine", "B="}}, slices.Concat([]string{"A=3", "B=", "junk", "=odd", "EMPTY="}, kept, []string{"GIT_DIR=/mine"})},
		{Env{Clear: true}, nil},
		{Env{Clear: true, Unset: []string{"X"}, Set: []string{"X=1"}}, []string{"X=1"}},
	}
	for _, test := range tests {
		r, err := Resolve(Policy{Env: test.env}, Options{Environ: caller})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Env, test.want) {
			t.Errorf("Resolve with %+v: %q; want %q", test.env, r.Env, test.want)
		}
	}
	if !slices.Equal(caller[:3], []string{"A=1", "B=2", "GIT_DIR=/x"}) {
		t.Error("Resolve changed the caller's environment")
	}
	if _, err := Resolve(Policy{}, Options{Environ: []string{"A=\x00"}}); err == nil {
		t.Error("Resolve with a NUL in the environment = nil")
	}
}

// TestGitEnvLeak starts the real git with what a hook of another repository
// leaves in the environment.
func TestGitEnvLeak(t *testing.T) {
	root := testDir(t)
	other := newRepo(t, root+"/other")
	git(t, newRepo(t, root+"/repo"), "worktree", "add", "-q", root+"/wt")
	leak := append(gitEnv(), "GIT_DIR="+other+"/.git", "GIT_WORK_TREE="+other, "GIT_INDEX_FILE="+other+"/.git/index",
		"GIT_OBJECT_DIRECTORY="+other+"/.git/objects", "GIT_COMMON_DIR="+other+"/.git", "GIT_PREFIX=x/")
	r, err := Resolve(Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt"), NoCache: true}, Options{Environ: leak})
	if err != nil {
		t.Fatal(err)
	}
	if r.Repo == nil || r.Repo.CommonDir != root+"/repo/.git" {
		t.Errorf("Resolve finds %+v", r.Repo)
	}
	for _, test := range []struct {
		env  []string
		want string
	}{
		{leak, other + "/.git"},
		{r.Env, root + "/repo/.git/worktrees/wt"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", "rev-parse", "--absolute-git-dir")
		cmd.Dir, cmd.Env = root+"/wt", test.env
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != test.want {
			t.Errorf("git works in %s, %v; want %s", got, err, test.want)
		}
	}
}

func TestAddGitConfig(t *testing.T) {
	ours := [][2]string{{"gc.auto", "0"}, {"x.y", "a b"}}
	tests := []struct {
		in   []string
		want []string
		ok   bool
	}{
		{
			nil,
			[]string{"GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0", "GIT_CONFIG_KEY_1=x.y", "GIT_CONFIG_VALUE_1=a b", "GIT_CONFIG_COUNT=2"},
			true,
		},
		{
			[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=secret", "GIT_CONFIG_KEY_1=stale", "GIT_CONFIG_VALUE_1=stale"},
			[]string{
				"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=secret",
				"GIT_CONFIG_KEY_1=gc.auto", "GIT_CONFIG_VALUE_1=0", "GIT_CONFIG_KEY_2=x.y", "GIT_CONFIG_VALUE_2=a b",
			},
			true,
		},
		{[]string{"GIT_CONFIG_COUNT=one"}, []string{"GIT_CONFIG_COUNT=one"}, false},
		{[]string{"GIT_CONFIG_COUNT=-1"}, []string{"GIT_CONFIG_COUNT=-1"}, false},
		{[]string{"GIT_CONFIG_COUNT=99999999999999999999"}, []string{"GIT_CONFIG_COUNT=99999999999999999999"}, false},
	}
	for _, test := range tests {
		e := newEnviron(test.in)
		if ok := addGitConfig(e, ours); ok != test.ok {
			t.Errorf("addGitConfig(%q) = %t; want %t", test.in, ok, test.ok)
		}
		if got := e.entries(); !slices.Equal(got, test.want) {
			t.Errorf("addGitConfig(%q) leaves %q; want %q", test.in, got, test.want)
		}
	}
}
