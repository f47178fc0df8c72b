package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// inGit runs a shell line in the worktree.
func inGit(line string) func(a *arena) error {
	return func(a *arena) error {
		cmd := exec.Command("/bin/sh", "-ec", line)
		cmd.Dir = a.Tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}
}

// gitControls are what is done in a worktree; each stands on those before.
var gitControls = []insideCheck{
	{check: check{"control", "git-status", true}, run: inGit("git status --short")},
	{check: check{"control", "git-commit", true}, run: inGit("echo 1 >f1 && git add f1 && git commit -qm one")},
	{check: check{"control", "git-amend", true}, run: inGit("echo 2 >f1 && git commit -qam two --amend")},
	{check: check{"control", "git-branch", true}, run: inGit("git branch mine && git switch -q mine && git switch -q work")},
	{check: check{"control", "git-tag", true}, run: inGit("git tag -am tag v1 && git describe")},
	{check: check{"control", "git-stash", true}, run: inGit("echo 3 >f1 && git stash -q && git stash pop -q && git checkout -q f1")},
	{check: check{"control", "git-merge", true}, run: inGit("git switch -q mine && echo 4 >f2 && git add f2 && git commit -qm side && git switch -q work && git merge -q --no-ff -m merge mine")},
	{check: check{"control", "git-rebase", true}, run: inGit("git switch -q -c topic HEAD~1 && echo 5 >f3 && git add f3 && git commit -qm topic && git rebase -q work && git switch -q work")},
	{check: check{"control", "git-fetch", true}, run: inGit("git fetch -q origin && git rev-parse -q --verify origin/other")},
	{check: check{"control", "git-delete-branch", true}, run: inGit("git branch -qD gone")},
	{check: check{"control", "git-pack-refs", true}, run: inGit("git pack-refs --all")},
	{check: check{"control", "git-gc", true}, run: inGit("git gc -q")},
}

// plant is a refusal: run changes what git outside executes or follows, which
// path describes.
func plant(name string, path func(a *arena) string, run func(a *arena, path string) error) insideCheck {
	return insideCheck{
		check: check{"git", name, false},
		run:   func(a *arena) error { return run(a, path(a)) },
		state: func(a *arena) string { return state(path(a)) },
	}
}

func inRepo(name string) func(a *arena) string {
	return func(a *arena) string { return a.Repo + "/" + name }
}

func inGitDir(name string) func(a *arena) string {
	return func(a *arena) string { return a.GitDir + "/" + name }
}

func inTree(name string) func(a *arena) string {
	return func(a *arena) string { return a.Tree + "/" + name }
}

// appendTo adds a text to a file, which is made.
func appendTo(text string) func(a *arena, path string) error {
	return func(_ *arena, path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o755)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
}

// replace moves a new file over one.
func replace(text string) func(a *arena, path string) error {
	return func(a *arena, path string) error {
		own := a.Tree + "/in/replacement"
		if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(own, path)
	}
}

// swap replaces a folder by a link to one of its own.
func swap(a *arena, path string) error {
	own := a.Tree + "/in/swapped"
	if err := errors.Join(os.MkdirAll(own, 0o755), os.Rename(path, path+".old")); err != nil {
		return err
	}
	return os.Symlink(own, path)
}

// gitChecks plant something. What others would stand on is changed last.
var gitChecks = []insideCheck{
	plant("new-hook", inRepo("hooks/post-commit"), appendTo("#!/bin/sh\n")),
	plant("hook", inRepo("hooks/post-checkout"), appendTo("false\n")),
	plant("hook-replaced", inRepo("hooks/post-checkout"), replace("#!/bin/sh\nfalse\n")),
	plant("config", inRepo("config"), appendTo("[core]\n\tpager = false\n")),
	plant("config-by-git", inRepo("config"), func(a *arena, _ string) error {
		return inGit("git config core.pager true")(a)
	}),
	plant("config-replaced", inRepo("config"), replace("[core]\n\trepositoryformatversion = 0\n")),
	plant("attributes", inRepo("info/attributes"), appendTo("* filter=x\n")),
	plant("worktree-config", inGitDir("config.worktree"), appendTo("[core]\n\tpager = false\n")),
	plant("commondir", inGitDir("commondir"), appendTo("x")),
	plant("gitdir", inGitDir("gitdir"), appendTo("x")),
	plant("repository-commondir", inRepo("commondir"), appendTo("x")),
	plant("pointer", inTree(".git"), replace("gitdir: /nonexistent\n")),
	plant("hooks-swapped", inRepo("hooks"), swap),
	plant("info-swapped", inRepo("info"), swap),
	plant("other-worktree", inRepo("worktrees/planted"), func(_ *arena, path string) error {
		return os.Mkdir(path, 0o755)
	}),
	{
		check: check{"git", "repository-swapped", false},
		run:   func(a *arena) error { return os.Rename(a.Repo, a.Repo+".old") },
		state: func(a *arena) string {
			_, err := os.Stat(a.Repo)
			return fmt.Sprint(err)
		},
	},
}
