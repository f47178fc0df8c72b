package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// bashCompletion is what the script for bash is written for.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// Each shell completes commands, options and the names of what runs.
func TestCompletion(t *testing.T) {
	exe := testenv.BuildRunner(t)
	p := &place{testenv.Self().NewRepo(t), t, exe}
	p.must(0, "start", "--name", "server-one", "exec sleep 300")
	defer p.must(0, "kill", "--all")
	path := "PATH=" + filepath.Dir(exe) + ":" + os.Getenv("PATH")
	for _, shell := range []string{"bash", "fish"} {
		t.Run(shell, func(t *testing.T) {
			testenv.NeedTool(t, shell)
			script := `runner completion fish | source; complete -C "$argv"`
			args := []string{"--no-config", "-c", script}
			if shell == "bash" {
				if _, err := os.Stat(bashCompletion); err != nil {
					testenv.Skip(t, "no bash-completion: %v", err)
				}
				script = `. ` + bashCompletion + `; . <(runner completion bash)
					COMP_LINE=$1; COMP_POINT=${#1}; read -ra COMP_WORDS <<<"$1"; [[ $1 != *" " ]] || COMP_WORDS+=("")
					COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
					__start_runner; printf '%s\n' "${COMPREPLY[@]}"`
				args = []string{"--norc", "-c", script, "bash"}
			}
			for typed, want := range map[string]string{
				"runner ki":            "kill",
				"runner run --work":    "--worktree",
				"runner kill ":         "server-one",
				"runner session st":    "start",
				"runner session run -": "--timeout",
				"runner completion f":  "fish",
			} {
				cmd := p.Command(shell, append(args, typed)...)
				cmd.Env = append(cmd.Env, path)
				r := testenv.Run(t, cmd)
				if r.Code != 0 || !strings.Contains(r.Stdout, want) {
					t.Errorf("%q is completed to %v; want %s", typed, r, want)
				}
			}
		})
	}
	t.Run("zsh", func(t *testing.T) {
		testenv.NeedTool(t, "zsh", "tmux")
		s := &screen{&place{p.Repo, t, exe}, filepath.Join(p.Home, "tmux")}
		s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "env", path, "zsh", "-f")
		t.Cleanup(func() { testenv.Run(t, s.command("kill-server")) })
		s.tmux("send-keys", "PS1='ready> '; autoload -U compinit; compinit -u -d "+filepath.Join(p.Home, "dump")+"; source <(runner completion zsh); clear", "Enter")
		s.shows(`(?m)^ready> *$`)
		for typed, want := range map[string]string{"runner res": "runner resolve", "runner kill ser": "runner kill server-one", "runner run --worktr": "runner run --worktree"} {
			s.tmux("send-keys", "-l", typed)
			s.tmux("send-keys", "Tab")
			s.shows(`(?m)^ready> ` + want + ` *$`)
			s.tmux("send-keys", "C-u")
			s.shows(`(?m)^ready> *$`)
		}
	})
}
