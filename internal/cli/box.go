package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/launcher"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/spf13/pflag"
)

// box are the options that say what a command may do. Those of the launcher are
// read by its own code.
type box struct {
	worktree  string
	noSandbox bool
	restore   bool
	args      []string // for the launcher
}

// notOurs are options of the launcher that the runner has its own way for, or
// that say nothing about a command.
var notOurs = []string{
	"env", "unsetenv", "chdir", "keep-fd", "new-session", "supervise", "linger", "parent",
	"status-fd", "quiet", "explain", "why", "doctor", "verify", "json", "version",
}

// restoreOption is done here, since it says nothing about what a command may do.
const restoreOption = "restore"

// groupKey is under which a flag says in which section of the help it is.
const groupKey = "group"

func (b *box) flags(f *pflag.FlagSet) {
	for i, g := range launcher.Options() {
		if i == 0 {
			group(f, g.Title, func(f *pflag.FlagSet) {
				f.StringVar(&b.worktree, "worktree", "", "let it write in `DIR`: by default the top of the git worktree that this folder is in, or else this folder")
				f.BoolVar(&b.noSandbox, "no-sandbox", false, "confine nothing; the same as --mode unconfined")
			})
		}
		for _, o := range g.Options {
			if o.Name == restoreOption {
				group(f, g.Title, func(f *pflag.FlagSet) { f.BoolVar(&b.restore, o.Name, false, o.Text) })
				continue
			}
			if slices.Contains(notOurs, o.Name) {
				continue
			}
			// What is left of a command here ends anyway.
			text, _, _ := strings.Cut(o.Text, "; with this, what is left of it ends")
			fl := f.VarPF(&forLauncher{b: b, name: o.Name, takes: o.Value}, o.Name, "", text)
			if o.Value == "" {
				fl.NoOptDefVal = "true"
			}
			fl.Annotations = map[string][]string{groupKey: {g.Title}}
		}
	}
}

// forLauncher is an option that is passed on.
type forLauncher struct {
	b           *box
	name, takes string
}

func (o *forLauncher) String() string { return "" }

func (o *forLauncher) Type() string {
	if o.takes == "" {
		return "bool" // for the help
	}
	return o.takes
}

func (o *forLauncher) Set(v string) error {
	if o.takes != "" {
		o.b.args = append(o.b.args, "--"+o.name+"="+v)
	} else if v != "false" {
		o.b.args = append(o.b.args, "--"+o.name)
	}
	return nil
}

// policy returns what the options say, with the worktree, and the folder to run
// in where nothing else is said: this one, if it is in the worktree.
func (b *box) policy() (p policy.Policy, o launch.Options, dir string, err error) {
	args := b.args
	if b.noSandbox {
		args = append(slices.Clip(args), "--mode=unconfined")
	}
	p, o, err = launcher.Policy(args)
	if err != nil {
		return p, o, "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return p, o, "", &hinted{err, "cd to a folder that exists"}
	}
	tree := b.worktree
	switch {
	case tree == "" && p.Worktree != "":
		tree = string(p.Worktree)
	case tree == "":
		tree = top(here)
	default:
		if tree, err = filepath.Abs(tree); err != nil {
			return p, o, "", err
		}
		if p.Worktree != "" && string(p.Worktree) != tree {
			return p, o, "", &usageError{"--worktree and the policy file name different folders", "leave one of them out"}
		}
	}
	p.Worktree = policy.Path(tree)
	dir = here
	if !within(tree, here) {
		dir = tree
	}
	return p, o, dir, nil
}

// inOptions has an error of the policy speak of options, unless a policy file has
// a part in it. Whoever named no worktree is told how.
func (b *box) inOptions(err error) error {
	if slices.ContainsFunc(b.args, func(a string) bool { return strings.HasPrefix(a, "--policy=") }) {
		return err
	}
	var e *policy.Error
	if errors.As(err, &e) && e.Field == "worktree" && b.worktree == "" {
		err = &hinted{err, "that is this folder: go to a project's, or name one by --worktree, or pass --allow-broad if you mean it"}
	}
	return launcher.InOptions(err)
}

// top returns the top of the git worktree that a folder is in, or else the
// folder.
func top(dir string) string {
	repo, err := policy.FindRepo(dir)
	if err != nil || repo == nil || repo.WorkTree == "" {
		return dir
	}
	return repo.WorkTree
}

// within reports whether a folder is another one or below it, after symbolic
// links.
func within(top, dir string) bool {
	t, err := filepath.EvalSymlinks(top)
	if err != nil {
		return true // whoever uses it will say so
	}
	d, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	return d == t || t == "/" || strings.HasPrefix(d, t+"/")
}
