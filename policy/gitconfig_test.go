package policy

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// configTexts are files in git's configuration syntax, good and bad.
var configTexts = []string{
	"",
	"[core]\n\tworktree = ../wt\n",
	"[core] worktree = ../wt",
	"[core]worktree=../wt",
	"\ufeff[core]\nworktree = bom\n",
	"[CORE]\nWorkTree = Case\n",
	"[core]\nworktree = a\nworktree = b\n",
	"[core]\nworktree = a\n[other]\nworktree = b\n",
	"[core \"worktree\"]\nworktree = sub\n",
	"[core \"\"]\nworktree = sub\n",
	"[core]\nworktree = \"with space \" ; comment\n",
	"[core]\nworktree = trailing   \t # comment\n",
	"[core]\nworktree = a \"b \" c\n",
	"[core]\nworktree = in  side\n",
	"[core]\nworktree = a\\\nb\n",
	"[core]\nworktree = a \\\n  b\n",
	"[core]\nworktree = a \\\n",
	"[core]\nworktree = \\\"q\\\\\\t\\n\\b\n",
	"[core]\nworktree = \"#;\"\n",
	"[core]\nworktree = \"a\nb\"\n",
	"[core]\nworktree = \\x\n",
	"[core]\nworktree = \"open\n",
	"[core]\nworktree\n",
	"[core]\nworktree=\n",
	"[core]\r\n\tworktree = cr\r\n",
	"[core]\nworktree\r\n",
	"[core]\nworktree = \xff\xfe\n",
	"# comment\n; comment\n[core]\n# worktree = no\nworktree = yes ; worktree = no\n",
	"[include]\npath = /etc/passwd\n[core]\nworktree = own\n",
	"[core.worktree]\nx = y\n",
	"[co re]\nworktree = x\n",
	"[core\nworktree = x\n",
	"[]\nworktree = x\n",
	"[core]\n1worktree = x\n",
	"[core]\nwork_tree = x\n",
	"[core]\nworktree : x\n",
	"[core] ; comment\nworktree = x\n",
	"[ core ]\nworktree = x\n",
	"[core \"a\\\"]b\"]\n[core]\nworktree = x\n",
	"[core \"open]\nworktree = x\n",
	"worktree = x\n",
	"[core]\nworktree",
	"[core]\nworktree = x\\",
	"[core",
	"[",
}

func TestScanConfigAgreesWithGit(t *testing.T) {
	dir := testDir(t)
	for _, text := range configTexts {
		write(t, dir+"/config", text)
		cmd := exec.CommandContext(t.Context(), "git", "config", "-z", "--file", dir+"/config", "--get", "core.worktree")
		cmd.Env = gitEnv()
		out, err := cmd.Output()
		want, good := strings.TrimSuffix(string(out), "\x00"), true
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			good = exit.ExitCode() == 1 // not set
		} else if err != nil {
			t.Fatal(err)
		}
		got, err := scanConfig([]byte(text))
		// A value that is only a name is true for git config, and an error
		// for core.worktree.
		if strings.HasSuffix(strings.TrimSpace(text), "worktree") && good {
			good = false
		}
		if (err == nil) != good || good && got.worktree != want {
			t.Errorf("scanConfig(%q) = %q, %v; git says %q, good %t", text, got.worktree, err, want, good)
		}
	}
}

func TestScanConfigWorktreeConfig(t *testing.T) {
	for value, want := range map[string]bool{
		"worktreeConfig":                         true,
		"worktreeConfig = true":                  true,
		"worktreeConfig = Yes":                   true,
		"worktreeConfig = 1":                     true,
		"worktreeConfig =":                       false,
		"worktreeConfig = off":                   false,
		"worktreeConfig = 0":                     false,
		"unrelated":                              false,
		"worktreeConfig\nworktreeConfig = false": false,
	} {
		text := "[extensions]\n" + value + "\n"
		got, err := scanConfig([]byte(text))
		if err != nil || got.worktreeConfig != want {
			t.Errorf("scanConfig(%q) = worktreeConfig %t, %v; want %t", text, got.worktreeConfig, err, want)
		}
	}
}

func FuzzScanConfig(f *testing.F) {
	for _, text := range configTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := scanConfig(text)
		if err != nil {
			if !errors.Is(err, errConfig) {
				t.Errorf("scanConfig(%q): %v is no errConfig", text, err)
			}
			return
		}
		quoted := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(got.worktree)
		again, err := scanConfig([]byte("[core]\n\tworktree = \"" + quoted + "\"\n"))
		if err != nil || again.worktree != got.worktree {
			t.Errorf("scanConfig of what git would write for %q = %q, %v", got.worktree, again.worktree, err)
		}
	})
}

func FuzzParseGitFile(f *testing.F) {
	for _, text := range []string{
		"", "gitdir: ", "gitdir: x", "gitdir: /a/b\n", "gitdir: a\r\n\r\n", "gitdir:x", "gitdir: a\nb\n",
		"gitdir: \x00", "Gitdir: x", " gitdir: x",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path, err := parseGitFile(text)
		if err != nil {
			if path != "" {
				t.Errorf("parseGitFile(%q) = %q and an error", text, path)
			}
			return
		}
		if path == "" || strings.ContainsRune(path, 0) || strings.HasSuffix(path, "\n") || strings.HasSuffix(path, "\r") {
			t.Errorf("parseGitFile(%q) = %q", text, path)
		}
		if again, err := parseGitFile([]byte("gitdir: " + path + "\n")); err != nil || again != path {
			t.Errorf("parseGitFile of what git would write for %q = %q, %v", path, again, err)
		}
	})
}
