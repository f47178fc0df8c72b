package policy

import (
	"errors"
	"syscall"
)

// commonData are the folders of a repository that hold data only: nothing in
// them is executed or followed. The last three are there only where they are
// used.
var commonData = [...]string{"objects", "refs", "logs", "reftable", "lfs", "rr-cache"}

// Places in commonData.
const (
	dataObjects = 0
	dataRefs    = 1
	dataLogs    = 2
	dataRerere  = 5
)

// grantGit opens what git needs to commit in the worktree. env is the
// command's environment.
func (r *resolver) grantGit(env *environ) {
	repo := r.out.Repo
	if repo == nil {
		return
	}
	if !repo.Trusted {
		if repo.GitDir == "" || !r.p.covers(repo.GitDir) || !r.p.covers(repo.CommonDir) {
			r.out.Notes = append(r.out.Notes, *repo.Problem)
		}
		return
	}
	if beneath(repo.GitDir, r.out.Worktree) && beneath(repo.CommonDir, r.out.Worktree) {
		return
	}
	if repo.Kind == RepoBare {
		r.note("git-partial", "the folder lies in the repository "+display(repo.GitDir)+", which is not granted",
			"name the repository itself, or grant it with --rw")
		return
	}
	if r.o.MountLayer {
		r.grantGitFolder(repo.CommonDir)
		if !beneath(repo.GitDir, repo.CommonDir) {
			r.grantGitFolder(repo.GitDir)
		}
		return
	}
	if repo.Kind == RepoLinked {
		r.grantGitFolder(repo.GitDir)
	} else {
		r.note("git-partial", "git can't commit here: its lock files lie in "+display(repo.GitDir)+
			", which can't be granted without its hooks and configuration",
			"a mount layer, or --rw "+display(repo.GitDir)+" if you trust the command with its hooks")
	}
	if !repo.data[dataLogs] {
		r.makeLogs(repo)
	}
	for i, name := range commonData {
		if repo.data[i] {
			r.grantGitFolder(repo.CommonDir + "/" + name)
		}
	}
	r.quietGit(env, repo)
}

func (r *resolver) grantGitFolder(path string) {
	r.grant(Grant{Path: path, Access: Read | Write, Origin: FromGit, NoSymlinks: true})
}

// makeLogs makes the folder of the reflogs, as git itself would on the first
// commit: its parent can't be granted.
func (r *resolver) makeLogs(repo *Repo) {
	path := repo.CommonDir + "/logs"
	if !r.o.DryRun {
		if err := syscall.Mkdir(path, 0o777); err != nil && !errors.Is(err, syscall.EEXIST) {
			r.note("git-partial", "git can't commit here: "+display(path)+" can't be made: "+err.Error(), "")
			return
		}
	}
	repo.data[dataLogs] = true
	r.note("git-logs", "the empty folder "+display(path)+" is made, without which git can't commit here", "")
}

// quietGit turns off what git starts by itself after a commit and can't do
// here, since the lock files lie in the common folder's root.
func (r *resolver) quietGit(env *environ, repo *Repo) {
	settings := [][2]string{{"gc.auto", "0"}, {"maintenance.auto", "false"}}
	if !repo.data[dataRerere] {
		// With rerere.enabled git would make that folder, and fail.
		settings = append(settings, [2]string{"rerere.enabled", "false"})
	}
	if !addGitConfig(env, settings) {
		r.note("git-config", "GIT_CONFIG_COUNT="+display(env.get("GIT_CONFIG_COUNT"))+" is no number: gc.auto=0 was not added",
			"unset it")
	}
}
