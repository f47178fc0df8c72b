package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/test/attack"
)

// arena is where a launcher is tried. What runs inside gets it as JSON.
type arena struct {
	Base   string // all of it
	Tree   string // the worktree, which is granted
	Repo   string // the repository's common folder
	GitDir string // the worktree's part of it
	Main   string // the main working tree
	Out    string // not granted
	Home   string
	Self   string // this program, in the worktree
	Other  bystander

	stop func() (lastWords, error)
}

// newArena makes one beneath dir.
func newArena(ctx context.Context, dir string) (a *arena, err error) {
	base, err := os.MkdirTemp(dir, "cf-") // short: a socket's name has 107 bytes
	if err != nil {
		return nil, err
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(base, name) }
	a = &arena{
		Base: base, Tree: at("tree"), Repo: at("main/.git"), GitDir: at("main/.git/worktrees/tree"),
		Main: at("main"), Out: at("out"), Home: at("home"), Self: at("tree/.bin/conformance"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	for _, d := range []string{a.Main, a.Home, at("cache"), a.Out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return a, err
		}
	}
	if err := a.repository(ctx); err != nil {
		return a, err
	}
	if err := os.Mkdir(a.in(), 0o755); err != nil {
		return a, err
	}
	for _, name := range []string{"leaked", "by-path", "by-abstract"} {
		if err := os.WriteFile(filepath.Join(a.Out, name), []byte("whole\n"), 0o644); err != nil {
			return a, err
		}
	}
	if err := a.copySelf(); err != nil {
		return a, err
	}
	return a, a.startBystander(ctx)
}

// prepareAttacks makes what the attacks on files are tried on: thousands of files,
// so that it is left out where there are none.
func (a *arena) prepareAttacks() error {
	return errors.Join(attack.Prepare(a.Out), attack.Prepare(a.in()))
}

// in is a folder in the tree that git doesn't know.
func (a *arena) in() string { return filepath.Join(a.Tree, "in") }

// close ends the bystander and removes everything.
func (a *arena) close() error {
	var err error
	if a.stop != nil {
		_, err = a.stop()
	}
	_ = filepath.WalkDir(a.Base, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(a.Base))
}

// environ is the environment that commands get: a home of their own, and a git
// that has no configuration but the repository's.
func (a *arena) environ() []string {
	env := []string{
		"HOME=" + a.Home, "XDG_CACHE_HOME=" + a.Base + "/cache", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
		"LC_ALL=C", "PATH=" + os.Getenv("PATH"),
	}
	for _, name := range []string{"USER", "LOGNAME", "TMPDIR", "TERM"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// git runs git outside.
func (a *arena) git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, a.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// repository makes a repository with a linked worktree, two more branches, and
// itself as the remote.
func (a *arena) repository(ctx context.Context) error {
	for _, args := range [][]string{
		{"init", "--quiet", "--template="},
		{"commit", "--quiet", "--allow-empty", "-m", "first"},
		{"worktree", "add", "--quiet", "-b", "work", a.Tree},
	} {
		if err := a.git(ctx, a.Main, args...); err != nil {
			return err
		}
	}
	at, err := os.ReadFile(a.Repo + "/refs/heads/work")
	if err != nil {
		return err
	}
	for _, dir := range []string{"/hooks", "/info"} {
		if err := os.MkdirAll(a.Repo+dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(a.Repo+"/refs/heads/other", at, 0o644),
		os.WriteFile(a.Repo+"/refs/heads/gone", at, 0o644),
		os.WriteFile(a.Repo+"/hooks/post-checkout", []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(a.Repo+"/info/exclude", []byte("/.bin/\n/in/\n"), 0o644),
		appendTo("[remote \"origin\"]\n\turl = ../main\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n")(a, a.Repo+"/config"),
	)
}

// copySelf puts this program where every sandbox shows it.
func (a *arena) copySelf() error {
	from, err := os.Open(selfPath())
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(filepath.Dir(a.Self), 0o755); err != nil {
		return err
	}
	to, err := os.OpenFile(a.Self, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// selfPath is this program's file.
func selfPath() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	path, err := exec.LookPath(os.Args[0]) // no /proc is mounted
	if err != nil {
		return os.Args[0]
	}
	return path
}

// contents describes what is in a folder, each file and folder in it by itself.
func contents(dir string) (map[string]string, error) {
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var b strings.Builder
		err := filepath.WalkDir(filepath.Join(dir, e.Name()), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintln(&b, path, "shut")
				return nil //nolint:nilerr // it is told
			}
			fmt.Fprintln(&b, path, e.Type(), readAll(path, e.Type()))
			return nil
		})
		if err != nil {
			return nil, err
		}
		all[e.Name()] = b.String()
	}
	return all, nil
}

// readAll returns what is in a file, or where a link leads.
func readAll(path string, kind fs.FileMode) string {
	switch {
	case kind.IsRegular():
		b, err := os.ReadFile(path)
		if err != nil {
			return "unreadable"
		}
		return string(b)
	case kind&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path) // that it is one is told
		return to
	}
	return ""
}

// state describes a file or folder, "" if there is none.
func state(path string) string {
	st, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	if !st.IsDir() {
		return st.Mode().String() + readAll(path, st.Mode().Type())
	}
	all, err := contents(path)
	return fmt.Sprint(st.Mode(), all, err)
}
