package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// launcher is what confines. The zero value confines nothing.
type launcher struct {
	name  string
	words []string // with {tree} and the like
}

// parseLauncher takes a command apart.
func parseLauncher(text string) (launcher, error) {
	words, err := split(text)
	if err == nil && len(words) == 0 {
		err = errors.New("no command")
	}
	return launcher{text, words}, err
}

// split takes a text apart as a shell does, without expanding anything.
func split(text string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	in, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q ends within quotes", text)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// killDelay bounds the wait for what a killed launcher leaves.
const killDelay = time.Second

// command is one that l confines, in the worktree.
func (l launcher) command(ctx context.Context, a *arena, args ...string) *exec.Cmd {
	r := strings.NewReplacer("{tree}", a.Tree, "{repo}", a.Repo, "{gitdir}", a.GitDir, "{base}", a.Base)
	var line []string
	for _, w := range l.words {
		line = append(line, r.Replace(w))
	}
	line = append(line, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = a.Tree, append(a.environ(), "PWD="+a.Tree), killDelay
	return cmd
}

// peers are other launchers, with the options that make the most of them for a
// worktree: its repository's folder is granted whole, since none of them knows
// git.
var peers = []struct{ name, command string }{
	{"bwrap", "bwrap --ro-bind / / --dev /dev --proc /proc --bind /tmp /tmp --bind {tree} {tree} --bind {repo} {repo} " +
		"--unshare-user-try --unshare-pid --unshare-ipc --die-with-parent --"},
	{"landrun", "landrun --rox / --rw /tmp,/dev,{tree},{repo} --unrestricted-network --env PATH --env HOME --env LC_ALL --env CONFORMANCE_ODD --"},
	{"firejail", "firejail --quiet --noprofile --keep-var-tmp --read-only=/ --read-write={tree} --read-write={repo} --read-write=/tmp --ipc-namespace --"},
	{"nsjail", "nsjail -Mo -Q --keep_env --disable_clone_newnet --rlimit_as max --time_limit 0 --cwd {tree} -R / -B /dev -B /tmp -B {tree} -B {repo} --"},
	{"systemd-run", "systemd-run --quiet --pipe --wait --collect --same-dir -p ProtectSystem=strict -p ReadWritePaths={tree} -p ReadWritePaths={repo} -p NoNewPrivileges=yes --"},
}

// ours are this project's, with each backend and with all that can be asked
// for.
var ours = []struct{ name, options string }{
	{"shofer-sandbox", ""},
	{"shofer-sandbox (landlock)", "--backend landlock"},
	{"shofer-sandbox (landlock+mountns)", "--backend landlock+mountns"},
	{"shofer-sandbox (bwrap)", "--backend bwrap"},
	{"shofer-sandbox (supervised)", "--supervise"},
	{"shofer-sandbox (supervised bwrap)", "--supervise --backend bwrap"},
}

// knownLaunchers are those that are installed.
func knownLaunchers(own string) (all []launcher) {
	if path, err := filepath.Abs(own); err == nil && exists(path) {
		for _, o := range ours {
			options, _ := split(o.options) // they are written above
			all = append(all, launcher{o.name, append(append([]string{path}, options...), "{tree}", "--")})
		}
	}
	for _, p := range peers {
		words, _ := split(p.command) // likewise
		if _, err := exec.LookPath(words[0]); err == nil {
			all = append(all, launcher{p.name, words})
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
