package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GitEnv returns the environment for git that depends on nothing of this
// machine's user: no system configuration, no prompt, a fixed identity, English
// messages, and the given home folder. Of this process's environment it keeps
// only PATH and TMPDIR.
func GitEnv(home string) []string {
	env := []string{
		"HOME=" + home,
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Author", "GIT_AUTHOR_EMAIL=author@example.com",
		"GIT_COMMITTER_NAME=Committer", "GIT_COMMITTER_EMAIL=committer@example.com",
	}
	if tmp, ok := os.LookupEnv("TMPDIR"); ok {
		env = append(env, "TMPDIR="+tmp)
	}
	return env
}

// Repo is a real git repository, or one of its working trees.
type Repo struct {
	// Dir is the folder of the working tree.
	Dir string
	// Home is the HOME that git is given. Its .gitconfig can be written to.
	Home string

	user User
	t    testing.TB
}

// NewRepo makes a repository, owned by u, in a new folder called repo with
// nothing else beside it. It has one commit, of README and sub/file, on the
// branch main. It is removed when t ends. t is skipped where there is no git.
func (u User) NewRepo(t testing.TB) *Repo {
	t.Helper()
	return u.NewRepoAt(t, filepath.Join(u.Dir(t), "repo"))
}

// NewRepoAt is like [User.NewRepo], in a folder that is made. The caller
// removes it.
func (u User) NewRepoAt(t testing.TB, dir string) *Repo {
	t.Helper()
	u.NeedTool(t, "git")
	r := &Repo{Dir: dir, Home: u.Dir(t), user: u, t: t}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	u.Own(t, dir)
	r.WriteHome(".gitconfig", "[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
	r.Git("init", "--quiet")
	// For commands that run with another environment than ours.
	r.Git("config", "user.name", "Author")
	r.Git("config", "user.email", "author@example.com")
	r.Write("README", "read me\n")
	r.Write("sub/file", "one\n")
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--message", "first")
	return r
}

// Clone makes a plain clone of r in dir, with r as its remote origin.
func (r *Repo) Clone(dir string) *Repo {
	r.t.Helper()
	r.Git("clone", "--quiet", "--", r.Dir, dir)
	c := r.at(dir)
	c.Git("config", "user.name", "Author")
	c.Git("config", "user.email", "author@example.com")
	return c
}

// Worktree adds a linked working tree in dir, on a new branch that is called
// like dir's last element.
func (r *Repo) Worktree(dir string) *Repo {
	r.t.Helper()
	r.Git("worktree", "add", "--quiet", "-b", filepath.Base(dir), "--", dir)
	return r.at(dir)
}

// WorktreeBeside adds a linked working tree called beside, next to r's folder.
func (r *Repo) WorktreeBeside() *Repo {
	r.t.Helper()
	return r.Worktree(filepath.Join(filepath.Dir(r.Dir), "beside"))
}

// WorktreeBelow adds a linked working tree called trees/below, in r's folder.
func (r *Repo) WorktreeBelow() *Repo {
	r.t.Helper()
	return r.Worktree(filepath.Join(r.Dir, "trees", "below"))
}

func (r *Repo) at(dir string) *Repo {
	c := *r
	c.Dir = dir
	return &c
}

// Command returns a command, as [Command] does, that runs in r's folder, as
// r's owner, with the environment of [GitEnv].
func (r *Repo) Command(name string, args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := Command(r.t, name, args...)
	cookie := cmd.Env[len(cmd.Env)-1]
	cmd.Env = nil
	r.user.Apply(cmd)
	cmd.Env = append(GitEnv(r.Home), cookie)
	cmd.Dir = r.Dir
	return cmd
}

// Git runs git in r's folder, fails the test unless it exits with 0, and returns
// its stdout without the last line end.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	return strings.TrimSuffix(Output(r.t, r.Command("git", args...)), "\n")
}

// TryGit runs git in r's folder and returns how it ended.
func (r *Repo) TryGit(args ...string) Result {
	r.t.Helper()
	return Run(r.t, r.Command("git", args...))
}

// Write writes a file of r's working tree, and the folders above it.
func (r *Repo) Write(name, content string) {
	r.t.Helper()
	r.write(r.Dir, name, content)
}

// WriteHome writes a file of r's home folder.
func (r *Repo) WriteHome(name, content string) {
	r.t.Helper()
	r.write(r.Home, name, content)
}

func (r *Repo) write(base, name, content string) {
	r.t.Helper()
	root, err := os.OpenRoot(base)
	if err != nil {
		r.t.Fatal(err)
	}
	defer root.Close()
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := root.WriteFile(name, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	for p := name; p != "."; p = filepath.Dir(p) {
		if r.user != Self() {
			if err := root.Lchown(p, r.user.UID, r.user.GID); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}
