package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// bench is the place that one user's measurements happen in.
type bench struct {
	options
	surroundings
	as   string
	repo string // a repository
	tree string // a linked worktree beside it
}

// measure runs all sections, or the one asked for, as this process's user.
func measure(o options) (all []section, err error) {
	dir, err := os.MkdirTemp("/var/tmp", "shofer-bench-") // /tmp is writable inside
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()

	b := &bench{options: o, as: "root", surroundings: surroundings{home: filepath.Join(dir, "home"), null: null}}
	if uid := os.Getuid(); uid != 0 {
		b.as = "uid " + strconv.Itoa(uid)
	}
	b.repo, b.tree = filepath.Join(dir, "repo"), filepath.Join(dir, "tree")
	b.dir = b.tree
	if err := b.prepare(); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name string
		f    func() (section, error)
	}{
		{"start", b.start},
		{"go", b.fromGo},
		{"limits", b.limits},
		{"rules", b.rules},
		{"status", b.status},
		{"grep", b.grep},
		{"drain", b.drain},
		{"search", b.search},
		{"pages", b.pages},
		{"handover", b.starts},
		{"run", b.runs},
		{"parallel", b.parallel},
		{"host", b.hosts},
		{"program", b.program},
		{"stream", b.stream("seq", "seq 20000000")}, // 160 MiB
		{"stream", b.stream("zeros", "head -c 256M /dev/zero")},
		{"end", b.endings},
		{"trace", b.traces},
	} {
		if o.only != "" && o.only != s.name {
			continue
		}
		got, err := s.f()
		if err != nil {
			return nil, err
		}
		all = append(all, got)
	}
	return all, nil
}

// prepare makes a repository with a linked worktree of 20,000 files in 400
// folders.
func (b *bench) prepare() error {
	for _, dir := range []string{b.home, b.repo} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for i := range 400 {
		dir := filepath.Join(b.repo, fmt.Sprintf("d%02d/e%02d", i/20, i%20))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for j := range 50 {
			var text []byte
			for k := range 30 {
				text = fmt.Appendf(text, "line %d of file %d in folder %d, to be searched\n", k, j, i)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.txt", j)), text, 0o644); err != nil {
				return err
			}
		}
	}
	in := b.surroundings
	in.dir = b.repo
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"config", "gc.auto", "0"}, // nothing tidies up meanwhile
		{"config", "maintenance.auto", "false"},
		{"add", "--all"},
		{"commit", "--quiet", "--message=files"},
		{"worktree", "add", "--quiet", "-b", "tree", b.tree},
	} {
		git, err := exec.LookPath("git")
		if err != nil {
			return err
		}
		if err := in.command(append([]string{git}, args...)...)(); err != nil {
			return err
		}
	}
	return nil
}

// start compares ways to start a program that does nothing.
func (b *bench) start() (section, error) {
	s := section{Title: "start of /bin/true", As: b.as, Rounds: b.rounds, Against: []string{"bare", "no-op Go exec", "bubblewrap"}}
	const what = "/bin/true"
	cs := []contender{
		{"bare", b.command(what)},
		{"no-op Go exec", b.command(b.noop, what)},
	}
	optional := func(name string, argv ...string) {
		path, err := exec.LookPath(argv[0])
		if err == nil {
			argv[0] = path
			err = b.quiet().command(argv...)()
		}
		if err != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("without %s: it doesn't work here (%v)", name, err))
			return
		}
		cs = append(cs, contender{name, b.command(argv...)})
	}
	optional("setpriv --landlock-access", "setpriv", "--no-new-privs", "--landlock-access", "fs:write",
		"--landlock-rule", "path-beneath:write:"+b.tree, "--", what)
	optional("bubblewrap", "bwrap", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev",
		"--bind", "/tmp", "/tmp", "--bind", b.tree, b.tree, "--", what)
	cs = append(
		cs,
		contender{"launcher --no-protect", b.command(b.launcher, "--no-protect", b.tree, "--", what)},
		contender{"launcher, linked worktree", b.command(b.launcher, b.tree, "--", what)},
	)
	got, err := interleave(b.rounds, cs)
	s.rows(got)
	return s, err
}

// quiet is where programs may complain unheard.
func (b *bench) quiet() quiet { return quiet{b.surroundings} }

type quiet struct{ surroundings }

func (q quiet) command(argv ...string) func() error {
	return func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = q.dir, q.env()
		return cmd.Run()
	}
}

// fromGo compares ways in which a Go program starts a child.
func (b *bench) fromGo() (section, error) {
	s := section{Title: "start of /bin/true by a Go program", As: b.as, Rounds: b.rounds, Against: []string{"os.StartProcess", "os/exec"}}
	const what = "/bin/true"
	p := policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(b.tree), NoProtect: true}
	o := launch.Options{Environ: b.env()}
	sandbox, err := launch.Prepare(p, o)
	if err != nil {
		return s, err
	}
	defer func() { _ = sandbox.Close() }()
	p.NoProtect = false // which takes mounts, in a linked worktree
	covered, err := launch.Prepare(p, o)
	if err != nil {
		return s, err
	}
	defer func() { _ = covered.Close() }()
	p.NoProtect = true
	got, err := interleave(b.rounds, []contender{
		{"os.StartProcess", b.command(what)},
		{"os/exec", func() error {
			cmd := exec.Command(what)
			cmd.Env = b.env()
			return cmd.Run()
		}},
		{"launch.Cmd", func() error { return sandbox.Command(what).Run() }},
		{"launch.Cmd, linked worktree", func() error { return covered.Command(what).Run() }},
		{"launch.Prepare and Cmd", func() error {
			sandbox, err := launch.Prepare(p, o)
			if err != nil {
				return err
			}
			return errors.Join(sandbox.Command(what).Run(), sandbox.Close())
		}},
	})
	s.rows(got)
	return s, err
}

// rules compares policies with one and with 10,000 write rules.
func (b *bench) rules() (section, error) {
	const many = 10_000
	s := section{Title: "start of /bin/true by a policy's number of write rules", As: b.as, Rounds: b.heavy, Against: []string{"1 rule"}}
	base := filepath.Join(filepath.Dir(b.repo), "rules")
	paths := make([]string, many)
	for i := range paths {
		paths[i] = filepath.Join(base, fmt.Sprintf("%02d/%04d", i/100, i))
		if err := os.MkdirAll(paths[i], 0o755); err != nil {
			return s, err
		}
	}
	policyFile := func(name string, write []string) (string, error) {
		text, err := json.Marshal(map[string]any{"mode": "workspace-write", "write": write})
		if err != nil {
			return "", err
		}
		path := filepath.Join(filepath.Dir(b.repo), name)
		return path, os.WriteFile(path, text, 0o644)
	}
	one, err1 := policyFile("one.json", paths[:1])
	all, err2 := policyFile("many.json", paths)
	if err := errors.Join(err1, err2); err != nil {
		return s, err
	}
	got, err := interleave(b.heavy, []contender{
		{"1 rule", b.command(b.launcher, "--no-protect", "--policy", one, b.tree, "--", "/bin/true")},
		{"10,000 rules", b.command(b.launcher, "--no-protect", "--policy", all, b.tree, "--", "/bin/true")},
	})
	s.rows(got)
	return s, err
}

func (b *bench) status() (section, error) {
	return b.load("git status, 20,000 files", "git", "status", "--porcelain")
}

func (b *bench) grep() (section, error) {
	return b.load("grep -r, 20,000 files", "grep", "-rc", "file 49 in folder 399", ".")
}

// load compares a program inside with the same program outside.
func (b *bench) load(title string, argv ...string) (section, error) {
	s := section{Title: title, As: b.as, Rounds: b.heavy, Against: []string{"outside"}}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return s, err
	}
	argv[0] = path
	got, err := interleave(b.heavy, []contender{
		{"outside", b.command(argv...)},
		{"inside", b.command(append([]string{b.launcher, b.tree, "--"}, argv...)...)},
	})
	s.rows(got)
	return s, err
}
